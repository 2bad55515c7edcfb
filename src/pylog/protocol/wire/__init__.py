"""Kafka's protocol between bytes and `protocol/messages`, without I/O.

    framing        bytes that come in, cut into frames
    headers        what stands before a request and before its answer
    mapping        what an API key is: a request that becomes a message, an answer that becomes a response
    records        Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords
    topics         Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, DescribeLogDirs
    groups         JoinGroup to OffsetFetch
    group_admin    DescribeGroups, ListGroups, DeleteGroups, ConsumerGroupDescribe
    transactions   InitProducerId to ListTransactions
    table          all of them, by API key

A body is a dict with Kafka's field names (`protocol/schema`), and a message is a value that knows no version. What a
version lacks is not in its body; the encoder refuses a body that says what its version cannot.
"""
