"""Requests whose answers are large: to a log of many partitions and topics, which the first ones of them make."""

from collections.abc import Iterator

from fairness.attack import PATIENCE_SECONDS, Attack, Strike, one_request
from fairness.connections import request
from support.raw_client import Body
from support.wire_requests import records

WIDE = "wide"


def attacks(partitions: int) -> Iterator[Attack]:
    """In this order: the first makes the partitions, the second the topics, the third the offsets."""
    numbers = range(partitions)
    topics = [f"{WIDE}-{number}" for number in range(partitions // 10)]
    made = [{"name": name, "numPartitions": 1, "replicationFactor": 1} for name in topics]
    wide = {"name": WIDE, "numPartitions": partitions, "replicationFactor": 1}
    yield _attack("CreateTopics 5, many partitions", "CreateTopics", 5, {"topics": [wide], "timeoutMs": 60_000}, True)
    yield _attack("CreateTopics 5, many topics", "CreateTopics", 5, {"topics": made, "timeoutMs": 60_000}, True)
    for version in (1, 12):
        yield _attack(f"Metadata {version}, all", "Metadata", version, {"topics": None})
    yield _attack("DescribeTopicPartitions 0", "DescribeTopicPartitions", 0, {
        "topics": [{"name": WIDE}], "responsePartitionLimit": 2**31 - 1, "cursor": None,
    })  # fmt: skip
    resources = [{"resourceType": 2, "resourceName": name, "configurationKeys": None} for name in topics]
    yield _attack("DescribeConfigs 4, all topics", "DescribeConfigs", 4, {
        "resources": resources, "includeSynonyms": True, "includeDocumentation": True,
    })  # fmt: skip
    for name, version, of_topic in _of_partitions(numbers):
        yield _attack(f"{name} {version}, many partitions", name, version, of_topic, name in STATEFUL)
    yield _attack("OffsetFetch 8, all", "OffsetFetch", 8, {"groups": [{"groupId": "g", "topics": None}]})
    yield _attack("DescribeLogDirs 4, all", "DescribeLogDirs", 4, {"topics": None})
    yield _attack("DescribeCluster 1", "DescribeCluster", 1, {})
    yield _attack("ListGroups 4", "ListGroups", 4, {})
    yield _attack("ListConfigResources 1, all", "ListConfigResources", 1, {"resourceTypes": []})


STATEFUL = {"Produce", "OffsetCommit"}
ALL_BYTES = {"maxBytes": 2**31 - 1, "sessionEpoch": -1}


def _of_partitions(numbers: range) -> Iterator[tuple[str, int, Body]]:
    def parts(name: str, **fields: object) -> list[Body]:
        return [{name: number, **fields} for number in numbers]

    def topic(partitions: list[Body], name: str = "name") -> list[Body]:
        return [{name: WIDE, "partitions": partitions}]

    committed = parts("partitionIndex", committedOffset=1, committedMetadata="")
    yield "OffsetCommit", 8, {"groupId": "g", "topics": topic(committed)}
    data = [{"name": WIDE, "partitionData": parts("index", records=records(b"x"))}]
    yield "Produce", 9, {"acks": -1, "timeoutMs": 30_000, "topicData": data}
    fetched = topic(parts("partition", fetchOffset=0, partitionMaxBytes=2**31 - 1), "topic")
    yield "Fetch", 11, {"maxWaitMs": 0, "minBytes": 1, **ALL_BYTES, "topics": fetched}
    yield "Fetch", 10, {"maxWaitMs": 3000, "minBytes": 2**31 - 1, **ALL_BYTES, "topics": fetched}
    both = [*fetched, {"topic": "victim", "partitions": parts("partition", fetchOffset=0, partitionMaxBytes=9999)[:1]}]
    yield "Fetch", 9, {"maxWaitMs": 3000, "minBytes": 2**31 - 1, **ALL_BYTES, "topics": both}
    yield "ListOffsets", 6, {"replicaId": -1, "topics": topic(parts("partitionIndex", timestamp=-1))}
    yield "OffsetForLeaderEpoch", 4, {"replicaId": -1, "topics": topic(parts("partition", leaderEpoch=0), "topic")}
    yield "DescribeProducers", 0, {"topics": [{"name": WIDE, "partitionIndexes": list(numbers)}]}
    yield "DeleteRecords", 2, {"timeoutMs": 30_000, "topics": topic(parts("partitionIndex", offset=0))}


def _attack(said: str, name: str, version: int, body: Body, leaves_state: bool = False) -> Attack:
    def prepare() -> Strike:
        return one_request(request(name, version, body), PATIENCE_SECONDS if name == "Fetch" else 120)

    return Attack(f"answers: {said}", prepare, leaves_state=leaves_state)
