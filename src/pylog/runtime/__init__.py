"""What runs: time, threads, signals, and answers that are yet to come. It knows nothing of logs.

clock      two ints: wall and tick
future     an answer that will come
signals    blocks that a signal does not strike in the middle
worker     a thread for work that is due at a time
closing    what was dropped open, closed by a thread
"""
