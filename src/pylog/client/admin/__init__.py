"""Administration: what a client asks of a cluster and changes in it. (Kafka: Admin.)

admin          `Admin`, which has all of the others
topics         topics, records, offsets, log directories
configs        configs of topics, nodes and groups
groups         groups, their members, committed offsets
transactions   transactions, producers, what hangs
users          users and their passwords
"""
