"""The files of a log directory, one kind in each file here. Nothing here knows what a partition is.

log_file, file_ranges, file_region    a `.log` file, and parts of it
segment_files                         the files of one segment together
segment_reader, segment_end           how they are read, and where the log in them ends
segment_checksum                      what they were when they were sealed; segment_list, which there were
transaction_index                     `.txnindex`: aborted transactions
producer_state/                       `.snapshot`: sequence numbers and open transactions of producers
leader_epochs                         `leader-epoch-checkpoint`: which epoch wrote which offsets
checkpoint, checkpoints               small text files, and those of offsets
partition_dirs                        the names of partition folders
published                             what other processes may see
pending_syncs                         what a sync has to bring to the disk besides batches, and the one road there
validator                             what is checked and stamped in a batch before it is written
"""
