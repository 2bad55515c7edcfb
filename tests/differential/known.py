"""Differences that are meant: where, and why. docs/compatibility.md repeats the reasons."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from differential.requests import Asked
from pylog.config import GroupConfig
from pylog.config.dynamic import broker_kinds
from support.raw_client import Body

NONE = "NONE"
LOGGER, CLIENT_METRICS = 8, 16
NO_CONFIGS = "Loggers and client metrics have no configs."
CLUSTER_WIDE = (
    "A config of the node that is given with the value of its default counts as a default, and min.insync.replicas is "
    "one of the node (in Kafka, with KIP-966, of the cluster)."
)
DOUBLES = "What a request names twice is done and answered twice; Kafka takes some of it once, as it is named last."


class Known(NamedTuple):
    """A difference that is meant. `message` and `place` are patterns; `when` looks at the request and both values."""

    message: str
    place: str
    reason: str
    when: Callable[[Asked, Any, Any], bool] = lambda asked, pylog, kafka: True

    def explains(self, asked: Asked, place: str, pylog: Any, kafka: Any) -> bool:
        return (
            re.fullmatch(self.message, asked.message) is not None
            and re.fullmatch(self.place, place) is not None
            and self.when(asked, pylog, kafka)
        )


def _kafka_fails(asked: Asked, pylog: Any, kafka: Any) -> bool:
    return kafka in ("waits", "disconnected", "UNKNOWN_SERVER_ERROR") and pylog != "disconnected"


def _both_refuse(asked: Asked, pylog: Any, kafka: Any) -> bool:
    return NONE not in (pylog, kafka)


def _of_other_kinds(asked: Asked, pylog: Any, kafka: Any) -> bool:
    return any(resource["resourceType"] in (LOGGER, CLIENT_METRICS) for resource in asked.body["resources"])


def _of_unknown_configs(asked: Asked, pylog: Any, kafka: Any) -> bool:
    every = {4: broker_kinds(), 32: GroupConfig.kinds()}
    return any(
        config["name"] not in every[resource["resourceType"]]
        for resource in asked.body["resources"]
        if resource["resourceType"] in every
        for config in resource["configs"]
    )


ERROR = r".*[eE]rrorCode"
KNOWN: list[Known] = [
    Known(
        ".*", ".*",
        "Kafka fails itself at requests without sense: it tells UNKNOWN_SERVER_ERROR, ends the connection, or never "
        "answers (Produce with other acks than -1, 0 and 1). pylog answers with an error of the request.",
        _kafka_fails,
    ),
    Known("ApiVersions", r"\.(apiKeys|supportedFeatures|finalizedFeatures.*)(\[\].*)?", "pylog serves fewer keys."),
    Known(
        "(Alter|IncrementalAlter|Describe)Configs", r"\.(results|responses)(\[\].*)?",
        NO_CONFIGS, _of_other_kinds,
    ),
    Known("ListConfigResources", r"\.configResources(\[\].*)?", NO_CONFIGS),
    Known(
        "(Alter|IncrementalAlter)Configs", r"\.responses\[\]\.errorCode",
        "A config that pylog does not have cannot be set on a broker or a group: INVALID_REQUEST for a broker, "
        "INVALID_CONFIG for a group. Kafka has those of streams groups, and keeps any for a broker.",
        _of_unknown_configs,
    ),
    Known(
        ".*", r".*\.configs\.[a-z.]*\.(configSource|synonyms|readOnly)(\[\].*)?",
        CLUSTER_WIDE,
    ),
    Known(
        "DescribeConfigs", r"\.results\[\]\.configs", CLUSTER_WIDE,
        lambda asked, pylog, kafka: {**pylog, "min.insync.replicas": None}.keys() == kafka.keys(),
    ),
    Known(
        "ConsumerGroup.*", r".*\.(memberEpoch|groupEpoch|assignmentEpoch)",
        "The epoch of a group of the consumer protocol begins with 1; Kafka's first one is 2.",
    ),
    Known(
        "DescribeLogDirs", r"\.results\[\]\.topics(\[\].*)?",
        "A partition has no folder before its first record.",
        lambda asked, pylog, kafka: len(pylog) < len(kafka),
    ),
    Known(
        "AlterClientQuotas", ".*", "Quotas of changes of topics are refused.",
    ),
    Known(
        "UpdateFeatures", ".*", "The levels of features do not change.",
    ),
    Known(
        "Fetch", r"\.responses(\[\].*)?",
        "A partition behind the limit of bytes of a Fetch is not looked at: what is wrong with it comes with the next "
        "one.",
        lambda asked, pylog, kafka: pylog in (NONE, [], None, -1) and asked.body.get("maxBytes", 1 << 31) < 1 << 20,
    ),
    Known(
        "Fetch", ERROR,
        "A log has no leader epoch before its first record: a Fetch that names one is OFFSET_OUT_OF_RANGE there, and "
        "no divergence.",
        lambda asked, pylog, kafka: (pylog, kafka) == ("OFFSET_OUT_OF_RANGE", NONE),
    ),
    Known(
        "Metadata", r"\.topics",
        "A Metadata with ids of topics and names of others is answered for both; Kafka answers for the ids alone.",
        lambda asked, pylog, kafka: len({_is_by_id(topic) for topic in asked.body["topics"] or ()}) > 1,
    ),
    Known(
        "Fetch|ListOffsets", ".*",
        "A Fetch or a ListOffsets of a replica is answered for any id of it; Kafka answers its own brokers alone.",
        lambda asked, pylog, kafka: _replica_id(asked) >= 0,
    ),
    Known(
        "Fetch", ".*",
        "A Fetch by the replica id -3 is a consumer's; Kafka takes it for a replica of its own, and reads to the end.",
        lambda asked, pylog, kafka: _replica_id(asked) == -3,
    ),
    Known(
        "OffsetForLeaderEpoch", r".*\.(leaderEpoch|endOffset)",
        "OffsetForLeaderEpoch of an epoch below -1 finds no end; Kafka tells 0.",
    ),
    Known(
        "DescribeTopicPartitions", r"\.(nextCursor|topics.*)",
        "A page of DescribeTopicPartitions that begins at the largest number is empty; in Kafka the number overflows.",
        lambda asked, pylog, kafka: (asked.body["cursor"] or {}).get("partitionIndex", 0) >= 1 << 30,
    ),
    Known(
        "Produce", ERROR,
        "Bytes behind the batch of a partition are INVALID_RECORD; Kafka leaves less than a header out.",
        lambda asked, pylog, kafka: (pylog, kafka) == ("INVALID_RECORD", NONE) and _has_bytes(asked),
    ),
    Known(
        "InitProducerId", ERROR,
        "An InitProducerId with another epoch than that of the producer aborts no transaction: it is PRODUCER_FENCED.",
        lambda asked, pylog, kafka: pylog == "PRODUCER_FENCED",
    ),
    Known(
        "JoinGroup", ERROR, "A rebalance timeout below 0 is INVALID_REQUEST.",
        lambda asked, pylog, kafka: asked.body.get("rebalanceTimeoutMs", 0) < 0 and pylog == "INVALID_REQUEST",
    ),
    Known(
        "JoinGroup", r"\.protocolName", "A JoinGroup tells the protocol '' by its name; Kafka tells none.",
        lambda asked, pylog, kafka: (pylog, kafka) == ("", None),
    ),
    Known(
        "JoinGroup", r"\.memberId", "A JoinGroup that is refused has the member id that it was asked with.",
    ),
    Known(
        "(Offset|TxnOffset)Commit", ERROR,
        "Of a partition that is committed twice in one request the first error is told.",
        lambda asked, pylog, kafka: pylog == "OFFSET_METADATA_TOO_LARGE" and kafka == NONE,
    ),
    Known(
        "(JoinGroup|SyncGroup|LeaveGroup|ConsumerGroupHeartbeat|OffsetCommit|TxnOffsetCommit|Produce|CreatePartitions|"
        "AlterReplicaLogDirs|DescribeProducers|AddPartitionsToTxn|CreateTopics|AlterConfigs|IncrementalAlterConfigs|Fetch)",
        ERROR,
        "Of several faults of one request another one may be told first.",
        _both_refuse,
    ),
]  # fmt: skip


def _is_by_id(topic: Body) -> bool:
    return topic.get("topicId", UUID(int=0)) != UUID(int=0)


def _has_bytes(asked: Asked) -> bool:
    parts = [part for topic in asked.body["topicData"] for part in topic["partitionData"]]
    return any(isinstance(part["records"], bytes) for part in parts)


def _replica_id(asked: Asked) -> int:
    state = asked.body.get("replicaState") or {}
    return int(asked.body.get("replicaId", state.get("replicaId", -1)))
