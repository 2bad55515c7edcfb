"""What clients and nodes say to each other, and what lies on the disk: messages, batches, and Kafka's schemas.

messages/           requests and answers, as values
batch               a record batch: its header, its bytes, its records
codecs, compression the codecs of a batch
isolation           what `read_committed` leaves out of a batch
partitioner         which partition a key goes to
assignor/           which member of a group gets which partitions
schema/             Kafka's schemas, and the codec that is generated from them
metadata_image      the records of the metadata log, and the image they give; metadata_changes are what is appended
"""
