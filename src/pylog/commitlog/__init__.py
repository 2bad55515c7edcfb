"""The parts of a partition's log: segments in order, and everything that is done to them.

segments                 the segments of one partition, found by offset
local_log                them on the disk: rolled, cut, dropped, replaced; deleted_segments go later
append                   how records get in
partition_state          one writer at a time, what may be seen, what is durable, and the latch after an error
partition_reader         how they are read; read_only_partition does it beside an owner in another process
recovery                 what an open does after a crash, with crash_cleanup and producer_replay
retention, compaction/   what goes, and what is written anew
integrity                every invariant, checked
"""
