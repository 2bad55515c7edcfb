"""Every metric there is, by the object that counts it. docs/metrics.md is written from this table.

Names that begin with `kafka` are Kafka's, except the lag of groups: a Kafka broker has none, so it bears the name that
kafka_exporter made usual. Those that begin with `pylog` have no counterpart in Kafka.
"""

from pylog.metrics.metric import Metric, MetricKind

COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

# --- the topics of a node ---------------------------------------------------------------------------------------------

_TOPIC = "kafka.server:type=BrokerTopicMetrics"

MESSAGES_IN = Metric(
    _TOPIC, "MessagesInPerSec", COUNTER, "Records appended, markers of transactions among them.", ("topic",)
)
BYTES_IN = Metric(
    _TOPIC, "BytesInPerSec", COUNTER, "Bytes of the batches appended, as they lie in the log.", ("topic",)
)
BYTES_OUT = Metric(_TOPIC, "BytesOutPerSec", COUNTER, "Bytes of the batches given to consumers.", ("topic",))
PRODUCE_REQUESTS = Metric(
    _TOPIC, "TotalProduceRequestsPerSec", COUNTER,
    "Appends, successful or not. A request for several partitions has one for each.", ("topic",),
)  # fmt: skip
FAILED_PRODUCE_REQUESTS = Metric(
    _TOPIC, "FailedProduceRequestsPerSec", COUNTER, "Appends that were refused, or failed.", ("topic",)
)
FETCH_REQUESTS = Metric(
    _TOPIC, "TotalFetchRequestsPerSec", COUNTER,
    "Answers to fetches. One for several partitions counts for each.", ("topic",),
)  # fmt: skip
FAILED_FETCH_REQUESTS = Metric(
    _TOPIC, "FailedFetchRequestsPerSec", COUNTER, "Answers to fetches that were errors.", ("topic",)
)
REPLICATION_BYTES_IN = Metric(
    _TOPIC, "ReplicationBytesInPerSec", COUNTER, "Bytes of the batches that came from a leader.", ("topic",)
)
REPLICATION_BYTES_OUT = Metric(
    _TOPIC, "ReplicationBytesOutPerSec", COUNTER, "Bytes of the batches given to followers.", ("topic",)
)

# --- the logs of a node -----------------------------------------------------------------------------------------------

_LOG = "kafka.log:type=Log"
_PARTITION = "kafka.cluster:type=Partition"
_CLEANER = "kafka.log:type=LogCleaner"

LOG_SIZE = Metric(_LOG, "Size", GAUGE, "Bytes of the `.log` files of a partition.", ("topic", "partition"))
NUM_LOG_SEGMENTS = Metric(_LOG, "NumLogSegments", GAUGE, "Segments of a partition.", ("topic", "partition"))
LOG_START_OFFSET = Metric(_LOG, "LogStartOffset", GAUGE, "The first offset of a partition.", ("topic", "partition"))
LOG_END_OFFSET = Metric(
    _LOG, "LogEndOffset", GAUGE, "The offset that the next record of a partition gets.", ("topic", "partition")
)
LAST_STABLE_OFFSET_LAG = Metric(
    _PARTITION, "LastStableOffsetLag", GAUGE,
    "Offsets below the high watermark that read_committed consumers do not see, as a transaction is open.",
    ("topic", "partition"),
)  # fmt: skip
REPLICAS_COUNT = Metric(_PARTITION, "ReplicasCount", GAUGE, "The leader and its followers.", ("topic", "partition"))
IN_SYNC_REPLICAS_COUNT = Metric(
    _PARTITION, "InSyncReplicasCount", GAUGE,
    "The replicas in the ISR: the leader, and the followers that count for acks=all.", ("topic", "partition"),
)  # fmt: skip
LOG_FLUSHES = Metric(
    "kafka.log:type=LogFlushStats", "LogFlushRateAndTimeMs", HISTOGRAM,
    "How long syncs took that made appends durable.",
)  # fmt: skip
OFFLINE_LOG_DIRECTORIES = Metric(
    "kafka.log:type=LogManager", "OfflineLogDirectoryCount", GAUGE, "Log directories that have failed."
)
UNCLEANABLE_PARTITIONS = Metric(
    "kafka.log:type=LogCleanerManager", "uncleanable-partitions-count", GAUGE,
    "Partitions whose compaction has failed, and is not tried again before the next open.",
)  # fmt: skip
CLEAN_SECONDS = Metric(_CLEANER, "max-clean-time-secs", GAUGE, "How long the last compaction of a partition took.")
RECOPY_PERCENT = Metric(
    _CLEANER,
    "cleaner-recopy-percent",
    GAUGE,
    "The bytes that the last compaction kept, in percent of those that it read.",
)
BUFFER_UTILIZATION_PERCENT = Metric(
    _CLEANER, "max-buffer-utilization-percent", GAUGE, "How full the key map of the last compaction became, in percent."
)
CLEAN_TIMES = Metric("pylog.log:type=LogCleaner", "CleanTimeMs", HISTOGRAM, "How long compactions of partitions took.")

# --- a node -----------------------------------------------------------------------------------------------------------

_REPLICAS = "kafka.server:type=ReplicaManager"
_GROUPS = "kafka.server:type=group-coordinator-metrics"
_GROUP_LAG = "kafka:type=consumergroup"

PARTITION_COUNT = Metric(_REPLICAS, "PartitionCount", GAUGE, "Partitions that are open in this node.")
LEADER_COUNT = Metric(_REPLICAS, "LeaderCount", GAUGE, "Partitions that this node leads.")
UNDER_REPLICATED = Metric(
    _REPLICAS,
    "UnderReplicatedPartitions",
    GAUGE,
    "Partitions that this node leads and that have a follower which is not in the ISR.",
)
UNDER_MIN_ISR = Metric(
    _REPLICAS,
    "UnderMinIsrPartitionCount",
    GAUGE,
    "Partitions that this node leads and that have fewer replicas in the ISR than min.insync.replicas.",
)
FOLLOWER_LAG = Metric(
    "kafka.server:type=FetcherLagMetrics", "ConsumerLag", GAUGE,
    "How many offsets a copy here is behind the high watermark that its leader has named.", ("topic", "partition"),
)  # fmt: skip
PURGATORY_SIZE = Metric(
    "kafka.server:type=DelayedOperationPurgatory", "PurgatorySize", GAUGE,
    "Requests that wait: a Produce for followers, a Fetch or a ShareFetch for records.", ("delayedOperation",),
)  # fmt: skip
GROUP_COUNT = Metric(
    _GROUPS, "group-count", GAUGE, "Groups, by their protocol: classic, consumer or share.", ("protocol",)
)
SHARE_GROUP_COUNT = Metric(_GROUPS, "share-group-count", GAUGE, "Share groups.", ("state",))
CONSUMER_GROUP_COUNT = Metric(_GROUPS, "consumer-group-count", GAUGE, "Groups of the consumer protocol.", ("state",))
CLASSIC_REBALANCES = Metric(
    _GROUPS,
    "group-completed-rebalance-count",
    COUNTER,
    "Rebalances that groups of the classic protocol have completed.",
)
CONSUMER_REBALANCES = Metric(
    _GROUPS, "consumer-group-rebalance-count", COUNTER, "New epochs of groups of the consumer protocol."
)
OFFSET_COMMITS = Metric(_GROUPS, "offset-commit-count", COUNTER, "Offsets that groups have committed.")
GROUP_OFFSET = Metric(
    _GROUP_LAG, "current_offset", GAUGE, "The offset that a group has committed.",
    ("consumergroup", "topic", "partition"),
)  # fmt: skip
GROUP_LAG = Metric(
    _GROUP_LAG, "lag", GAUGE, "How many offsets a group is behind the high watermark with what it has committed.",
    ("consumergroup", "topic", "partition"),
)  # fmt: skip

# --- the share groups of a node ---------------------------------------------------------------------------------------

_SHARE = "kafka.server:type=SharePartitionMetrics"
_OUR_SHARE = "pylog.server:type=SharePartitionMetrics"
_SHARE_SESSIONS = "kafka.server:type=ShareSessionCache"
_OF_SHARE = ("group", "topic", "partition")

SHARE_FETCH_REQUESTS = Metric(
    _TOPIC, "TotalShareFetchRequestsPerSec", COUNTER, "ShareFetches of sessions with partitions of a topic.", ("topic",)
)
FAILED_SHARE_FETCH_REQUESTS = Metric(
    _TOPIC, "FailedShareFetchRequestsPerSec", COUNTER, "ShareFetches with an error for a topic.", ("topic",)
)
SHARE_ACKNOWLEDGE_REQUESTS = Metric(
    _TOPIC, "TotalShareAcknowledgementRequestsPerSec", COUNTER,
    "ShareAcknowledges for a topic. Acknowledgements in a ShareFetch are not among them.", ("topic",),
)  # fmt: skip
FAILED_SHARE_ACKNOWLEDGE_REQUESTS = Metric(
    _TOPIC, "FailedShareAcknowledgementRequestsPerSec", COUNTER, "ShareAcknowledges with an error for a topic.",
    ("topic",),
)  # fmt: skip
RECORD_ACKNOWLEDGEMENTS = Metric(
    "kafka.server:type=ShareGroupMetrics", "RecordAcknowledgementsPerSec", COUNTER,
    "Records that members of share groups have acknowledged: Accept, Release, Reject, Renew.", ("ackType",),
)  # fmt: skip
SHARE_SESSIONS = Metric(_SHARE_SESSIONS, "ShareSessionsCount", GAUGE, "Share sessions that are open.")
SHARE_SESSION_PARTITIONS = Metric(_SHARE_SESSIONS, "SharePartitionsCount", GAUGE, "Partitions in all share sessions.")
ACQUISITION_LOCK_TIMEOUTS = Metric(
    _SHARE, "AcquisitionLockTimeoutPerSec", COUNTER, "Records that came free as their locks had ended.", _OF_SHARE
)
IN_FLIGHT_MESSAGES = Metric(
    _SHARE, "InFlightMessageCount", GAUGE, "Offsets from the first record that is not done to the last delivered.",
    _OF_SHARE,
)  # fmt: skip
IN_FLIGHT_BATCHES = Metric(
    _SHARE, "InFlightBatchCount", GAUGE, "Runs of neighbours among them that are in one state.", _OF_SHARE
)
ACQUIRED_MESSAGES = Metric(_OUR_SHARE, "AcquiredMessageCount", GAUGE, "Records that members have now.", _OF_SHARE)
DELIVERED_MESSAGES = Metric(
    _OUR_SHARE, "DeliveredMessageCount", GAUGE, "Records that are not done, by how often they were delivered.",
    (*_OF_SHARE, "deliveries"),
)  # fmt: skip
OLDEST_LOCK = Metric(
    _OUR_SHARE, "OldestLockMs", GAUGE, "How long ago the oldest lock has begun, or was renewed; 0: none is held.",
    _OF_SHARE,
)  # fmt: skip

# --- a server ---------------------------------------------------------------------------------------------------------

_REQUESTS = "kafka.network:type=RequestMetrics"
_SOCKETS = "kafka.server:type=socket-server-metrics"

REQUESTS = Metric(_REQUESTS, "RequestsPerSec", COUNTER, "Requests that were answered, by API key.", ("request",))
REQUEST_TIMES = Metric(
    _REQUESTS, "TotalTimeMs", HISTOGRAM, "From a request that was read to its answer, waits included.", ("request",)
)
REQUEST_QUEUE_SIZE = Metric(
    "kafka.network:type=RequestChannel", "RequestQueueSize", GAUGE, "Requests that wait for a thread, or are in one."
)
CONNECTION_COUNT = Metric(_SOCKETS, "connection-count", GAUGE, "Connections that are open.")
CONNECTIONS = Metric(_SOCKETS, "connection-creation-total", COUNTER, "Connections that were accepted.")
SERVER_BYTES_IN = Metric(_SOCKETS, "incoming-byte-total", COUNTER, "Bytes of requests.")
SERVER_BYTES_OUT = Metric(_SOCKETS, "outgoing-byte-total", COUNTER, "Bytes of answers.")

# --- producers --------------------------------------------------------------------------------------------------------

_PRODUCER = "kafka.producer:type=producer-metrics"
_PRODUCER_TOPIC = "kafka.producer:type=producer-topic-metrics"

RECORDS_SENT = Metric(_PRODUCER_TOPIC, "record-send-total", COUNTER, "Records sent.", ("client-id", "topic"))
BYTES_SENT = Metric(
    _PRODUCER_TOPIC, "byte-total", COUNTER, "Bytes of the batches sent, compressed.", ("client-id", "topic")
)
RECORD_ERRORS = Metric(
    _PRODUCER_TOPIC, "record-error-total", COUNTER, "Records that could not be delivered.", ("client-id", "topic")
)
RECORD_RETRIES = Metric(_PRODUCER_TOPIC, "record-retry-total", COUNTER, "Records sent again.", ("client-id", "topic"))
BATCHES_SENT = Metric(
    "pylog.producer:type=producer-topic-metrics", "batch-send-total", COUNTER,
    "Batches sent. The bytes sent divided by this number are the mean size of a batch.", ("client-id", "topic"),
)  # fmt: skip
BUFFER_TOTAL = Metric(_PRODUCER, "buffer-total-bytes", GAUGE, "The `buffer_memory` of a producer.", ("client-id",))
BUFFER_AVAILABLE = Metric(
    _PRODUCER,
    "buffer-available-bytes",
    GAUGE,
    "Bytes of `buffer_memory` that are free: no unanswered record uses them.",
    ("client-id",),
)
REQUESTS_IN_FLIGHT = Metric(_PRODUCER, "requests-in-flight", GAUGE, "Batches that wait for an answer.", ("client-id",))

# --- consumers --------------------------------------------------------------------------------------------------------

_FETCHES = "kafka.consumer:type=consumer-fetch-manager-metrics"
_MEMBER = "kafka.consumer:type=consumer-coordinator-metrics"

RECORDS_CONSUMED = Metric(
    _FETCHES, "records-consumed-total", COUNTER, "Records that polls have given.", ("client-id", "topic")
)
BYTES_CONSUMED = Metric(_FETCHES, "bytes-consumed-total", COUNTER, "Bytes fetched.", ("client-id", "topic"))
FETCHES = Metric(_FETCHES, "fetch-total", COUNTER, "Fetches sent.", ("client-id",))
RECORDS_LAG = Metric(
    _FETCHES, "records-lag", GAUGE, "How many offsets the position is behind the end that the last fetch has named.",
    ("client-id", "topic", "partition"),
)  # fmt: skip
ASSIGNED_PARTITIONS = Metric(_MEMBER, "assigned-partitions", GAUGE, "Partitions that are read.", ("client-id",))
COMMITS = Metric(_MEMBER, "commit-total", COUNTER, "Commits sent.", ("client-id",))
HEARTBEATS = Metric(_MEMBER, "heartbeat-total", COUNTER, "Heartbeats sent.", ("client-id",))
REBALANCES = Metric(_MEMBER, "rebalance-total", COUNTER, "Assignments that the group has given.", ("client-id",))

# --- share consumers --------------------------------------------------------------------------------------------------

_SHARE_CONSUMER = "kafka.consumer:type=consumer-share-fetch-manager-metrics"
_SHARE_MEMBER = "kafka.consumer:type=consumer-share-coordinator-metrics"

SHARE_RECORDS = Metric(
    _SHARE_CONSUMER, "records-consumed-total", COUNTER, "Records that were acquired for a share consumer.",
    ("client-id",),
)  # fmt: skip
SHARE_BYTES = Metric(_SHARE_CONSUMER, "bytes-consumed-total", COUNTER, "Bytes fetched.", ("client-id",))
SHARE_FETCHES = Metric(_SHARE_CONSUMER, "fetch-total", COUNTER, "ShareFetches sent.", ("client-id",))
SHARE_ACKNOWLEDGEMENTS = Metric(
    _SHARE_CONSUMER, "acknowledgements-send-total", COUNTER, "Records of which an acknowledgement was sent.",
    ("client-id",),
)  # fmt: skip
SHARE_ACKNOWLEDGEMENT_ERRORS = Metric(
    _SHARE_CONSUMER, "acknowledgements-error-total", COUNTER, "Records whose acknowledgement was refused.",
    ("client-id",),
)  # fmt: skip
SHARE_FETCH_LATENCY = Metric(
    "pylog.consumer:type=consumer-share-fetch-manager-metrics", "fetch-latency", HISTOGRAM,
    "From a ShareFetch to its answer, its wait for records included.", ("client-id",),
)  # fmt: skip
SHARE_HEARTBEATS = Metric(_SHARE_MEMBER, "heartbeat-total", COUNTER, "Heartbeats sent.", ("client-id",))
SHARE_REBALANCES = Metric(
    _SHARE_MEMBER, "rebalance-total", COUNTER, "Assignments that the group has given.", ("client-id",)
)

# --- the connections of clients ---------------------------------------------------------------------------------------

_NETWORK = "pylog.client:type=network-metrics"

CLIENT_CONNECTION_COUNT = Metric(_NETWORK, "connection-count", GAUGE, "Connections that are open.")
CLIENT_CONNECTIONS = Metric(_NETWORK, "connection-creation-total", COUNTER, "Connections that were begun.")
CLIENT_BYTES_OUT = Metric(_NETWORK, "outgoing-byte-total", COUNTER, "Bytes of requests.")
CLIENT_BYTES_IN = Metric(_NETWORK, "incoming-byte-total", COUNTER, "Bytes received.")
REQUEST_LATENCIES = Metric(
    _NETWORK, "request-latency", HISTOGRAM, "From a request to its answer, the wait for a connection included.",
    ("request",),
)  # fmt: skip

TABLE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
