"""A node of the log: it answers the messages of clients and followers, and does what is due in the background.

broker                  the entry: `Broker.handle(message, session)`
produce                 an append on its way through the node; group_commit has many of them share one sync
reads                   what consumers and followers are answered
guarantees              how an append becomes durable and visible, at once or later (lazy_syncs)
purgatory               answers that wait, as delayed_operations; fetch reads a Fetch part by part
replica_manager/        the partitions of the node, and the role it has for each
follower_fetcher        copies the partitions that the node follows from their leader
coordinator_router      messages for group and transaction coordinators
coordinators            the coordinators of the node; a coordinator_host runs one of them over its log
hanging_transactions    what a crash left of transactions, ended at the open
housekeeping            retention, compaction (log_cleaner), checkpoints, the scrubber, and the flush_scheduler
describe                what is said of topics; create_topics and delete_topics change them
describe_configs        what is said of configs; alter_configs changes them
descriptions            what is answered from the list of topics alone
read_only_broker        the same entry where another process owns the log, over read_only_catalogue,
                        read_only_purgatory and read_only_coordinators
"""
