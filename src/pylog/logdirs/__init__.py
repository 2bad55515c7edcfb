"""The log directories of a node: identity, metadata log, damage. Read them in this order:

log_directory         one directory: its lock, its identity, its checkpoints, its marker of a clean shutdown
log_directories       all of a node, and which of them a partition lies in
foreign               whether a directory belongs to something else, asked before anything is made in it
metadata_log          the topics and their configs, as records in `__cluster_metadata-0`
metadata_snapshots    snapshots of it, in Kafka's format
damage                the search for damage in every byte of a partition
repair                the removal of damaged parts
"""
