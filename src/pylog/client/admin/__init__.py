"""Administration: what a client asks of a cluster and changes in it. (Kafka: Admin.)

admin          `Admin`, which has all of the others
topics         topics, configs, records, offsets, log directories
groups         groups, their members, committed offsets
transactions   transactions, producers, what hangs
users          users and their passwords
"""
