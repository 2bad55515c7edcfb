"""Administration: what a client asks of a cluster and changes in it. (Kafka: Admin.)

admin          `Admin`, which has all of the others
topics         topics, records, offsets, log directories
configs        configs of topics, nodes and groups
groups         groups of every type, and their members
offsets        what groups have committed, and how far behind they are
share_offsets  the progress of share groups
offset_moves   where a group goes when its offsets are reset
transactions   transactions, producers, what hangs
users          users and their passwords
acls           who may do what
quotas         how much clients may send, receive and ask
"""
