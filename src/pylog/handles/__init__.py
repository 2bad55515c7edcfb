"""The objects that a user holds, and that `log.py` is made of.

client_half        the half of a log that needs no node: producers, consumers, the admin
open_log           the part of a log that outlives its handle: clients that have not delivered, the node, the transport
connected_log      `pylog.connect`: the client half over a transport to a cluster elsewhere
views              `TopicView`, `PartitionView`, `SegmentInfo`: the log's nouns, to read and to append
table_sinks        `append_table`: the topic of a node, or a producer, that takes the batches of a table
left_out           damaged records that a reader leaves out
following          `Following`: the copy of a leader's topics on this node
topic_facts        sizes, ends and segments of topics for the command and the page
open_transactions  the transactions that are open, for the command and the page
"""
