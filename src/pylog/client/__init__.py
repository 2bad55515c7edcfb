"""The clients of a log: what a producer, a consumer and an admin do on their side of a transport.

They know messages and nothing of storage, so that they work the same in the log's process, in another one, and over a
network. In the order in which a record passes them:

    producer/             `Producer`: the public face, its transactions, and what sends its batches
    record_append/        the step of `send` for each record, compiled, with its twin in Python
    accumulator           the open batch of each partition, and those that wait to be sent
    in_flight             which batch may go, which number it has, what an answer means: a machine
    lane, in_flight_batch the batches of a partition that are under way, and one of them
    transaction_manager   which call of a transaction is allowed now: a machine
    cluster               which node leads a partition
    partition_batches     the batches of one partition in a range of offsets, for a reader of columns
    consumer/             `Consumer`: fetches, groups, offsets
    admin/                topics, groups and transactions, looked at and changed
"""
