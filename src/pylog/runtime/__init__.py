"""The parts that run: time, threads, signals, and answers that are yet to come. It knows nothing of logs.

clock      two ints: wall and tick
future     an answer that will come
signals    blocks that a signal does not strike in the middle
forking    steps that no fork comes in between
log_fields the fields of log records about a partition
worker     a thread for work that is due at a time
outgoing   the queue of bytes for one socket: buffers, and regions of files
agenda     the calls that other threads post to a loop of sockets, and those of a time
retries    a call that is made again after an error that may pass
json_lines facts as lines of JSON
closing    what was dropped open, closed by a thread
"""
