"""The language of clients and nodes, and the bytes on disk: messages, batches, and Kafka's schemas.

    messages/           requests and answers, as values
    batch               a record batch: its header, its bytes, its records
    codecs, compression the codecs of a batch
    isolation           the batches that `read_committed` leaves out
    partitioner         the partition of a key
    assignor/           the partitions of each member of a group
    error_codes         errors as Kafka's codes and texts
    schema/             Kafka's schemas, and the codec that is generated from them
    metadata_image      the records of the metadata log, and the image they give
    persistent_map      a mapping whose successor is cheap
    topic_names         the names that a topic may have
    metadata_changes    the records of each change
    operations          what a client may do with a topic, a group and the cluster
    wire/               requests and responses as bytes
    sasl/               how a client proves its name to a server

Read `messages/` and `batch` first; each of the others stands by itself.
"""
