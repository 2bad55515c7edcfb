"""The log directories of a node and what they have in common: identity, catalogue, damage.

log_directory         one directory: its lock, its identity, its checkpoints, its marker of a clean shutdown
log_directories       all of a node, and which of them a partition lies in
foreign               a directory that belongs to something else is told apart before anything is made in it
metadata_log          the topics and their configs, as records in `__cluster_metadata-0`
metadata_snapshots    snapshots of it, in Kafka's format
damage                every byte of a partition read, and what is wrong with it
repair                damaged parts are shown and taken out
"""
