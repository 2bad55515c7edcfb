"""The parts of a partition's log: segments in order, and everything that is done to them.

segments                 the segments of one partition, found by offset
local_log                them on the disk: rolled, cut, dropped, replaced; deleted_segments go later
durability               the lock, the latch after an error, and syncs
watermarks               what may be seen, and how other processes and the next open learn of it
plain_rules              which appends go the short way, for the kernel, the produce handler and the server
append                   how records get in; roller begins segments, retention makes room
partition_reader         how they are read; read_only_partition does it beside an owner in another process
truncation               what goes at the end
retention, compaction/   what goes at the start, and what is rewritten; sealed_segments puts it in place
opening                  what is in the folder, and what is believed of it
recovery                 what an open does after a crash, with crash_cleanup and producer_replay
integrity                every invariant, checked
"""
