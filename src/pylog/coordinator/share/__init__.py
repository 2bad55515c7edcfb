"""Share groups (KIP-932) without their members: which records are out to whom, and what is written down of that.

states            the states of records, and batches of them as they are written down
runs              the records of a share partition that are in flight: neighbours in one state are one run
share_partition   a share partition: records are acquired, acknowledged, released
coordinator       the share coordinator: the states of share partitions in one partition of `__share_group_state`
records           its records as Kafka's bytes
"""
