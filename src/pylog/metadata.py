"""The catalogue as values: records of the metadata log `__cluster_metadata-0`, and the image that replaying them gives.

A record's value is a frame around a message of Kafka's metadata schemas (Kafka: MetadataRecordSerde, KIP-746):

    uvarint frame version (1)    uvarint api key    uvarint record version    message

A topic is a TopicRecord, a ConfigRecord per override and a PartitionRecord per partition. A PartitionChangeRecord
changes what it names: each one raises the partition epoch by one, one that names a leader also the leader epoch (Kafka:
PartitionRegistration.merge). Records between a BeginTransactionRecord and its end count only once that end is there
(KIP-868). Records that say nothing about topics or nodes are skipped, whatever version wrote them.

Invariants: no I/O here; the image is a function of the records applied, in their order; a `PartitionImage` never
changes, it is replaced.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from pylog.errors import CorruptBatch, InvalidTopic, UnsupportedFormat
from pylog.schema import message, names, read_uvarint, uvarint

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
UNASSIGNED_DIRECTORY = UUID(int=0)
"""The directory of a replica that has none yet (Kafka: DirectoryId.UNASSIGNED)."""

MAX_TOPIC_NAME = 249
FRAME_VERSION = 1
TOPIC_RESOURCE = 2
NO_LEADER_CHANGE = -2
FEATURES = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The features that a new cluster of Kafka 4.3 has, and their levels; metadata.version 30 is 4.3-IV0."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str, others: Iterable[str] = ()) -> None:
    """Raise InvalidTopic with the reason, unless a topic may be called `name` (Kafka: Topic.validate).

    The name of the metadata log is refused too: its folder is there already; and one that differs from another topic's
    in dots and underscores alone, which are one in the names of metrics (Topic.hasCollision).
    """
    reason = None
    if not name:
        reason = "it is empty"
    elif name in (".", ".."):
        reason = "'.' and '..' are folders"
    elif len(name) > MAX_TOPIC_NAME:
        reason = f"it has {len(name)} characters, {MAX_TOPIC_NAME} are the most"
    elif not _TOPIC_NAME.fullmatch(name):
        reason = "only ASCII letters, digits, '.', '_' and '-' may be in it"
    elif name == METADATA_TOPIC:
        reason = "the metadata log itself is called so"
    elif (other := next((one for one in others if one != name and _flat(one) == _flat(name)), None)) is not None:
        reason = f"'.' and '_' are one in the names of metrics, and there is {other!r} already"
    if reason is not None:
        raise InvalidTopic(f"{name!r} cannot be the name of a topic: {reason}")


def _flat(name: str) -> str:
    return name.replace(".", "_")


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called so."""
    try:
        validate_topic_name(name)
    except InvalidTopic:
        return False
    return True


# --- the image --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The state of one partition. `leader` is a node id, -1 while there is none; `directories` goes with `replicas`."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: list[int]
    isr: list[int]
    directories: list[UUID] = field(default_factory=list)


@dataclass(slots=True)
class TopicImage:
    """One topic: its partitions by number, and its config overrides as Kafka's names and texts."""

    name: str
    id: UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One registered node: `incarnation` is new at each start, `directories` are the ids of its log directories."""

    id: int
    incarnation: UUID
    epoch: int
    directories: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """One record. `name` is that of its schema, or None where this version cannot read it (`value` is empty then)."""

    name: str | None
    version: int
    value: Mapping[str, Any]


class MetadataImage:
    """What the records applied so far say about topics and nodes.

    Whoever has made one, or a `successor` of one, may `apply` records to it before others see it. What others see stays
    as it is, and has each change as a whole (Kafka: MetadataDelta).
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.nodes: dict[int, NodeImage] = {}
        self.features: dict[str, int] = {}
        """The level of each feature: Kafka reads no log in which it does not find its metadata.version."""
        self._by_id: dict[UUID, TopicImage] = {}
        self.next_producer_id = 0
        """Producer ids from here on were never given to anybody."""
        self.removed: set[UUID] = set()
        """The ids of topics that there were: a folder that bears one of them is left over."""
        self._open_transaction: list[MetadataRecord] | None = None
        self._own: set[UUID] = set()
        """The topics that no other image has."""

    def successor(self) -> "MetadataImage":
        """The image that more records will give. This one stays as it is."""
        image = MetadataImage()
        image.topics, image._by_id = dict(self.topics), dict(self._by_id)
        image.nodes, image.features = dict(self.nodes), dict(self.features)
        image.next_producer_id, image.removed = self.next_producer_id, set(self.removed)
        image._open_transaction = None if self._open_transaction is None else list(self._open_transaction)
        return image

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic with this id, if it is there."""
        return self._by_id.get(topic_id)

    def apply(self, record: MetadataRecord) -> None:
        """Replay one record; types that say nothing about topics or nodes are skipped.

        Raises: CorruptBatch (it speaks of a topic or partition that no earlier record made).
        """
        if record.name in _TRANSACTION_ENDS:
            pending, self._open_transaction = self._open_transaction or [], None
            if record.name == "EndTransactionRecord":
                for earlier in pending:
                    self._replay(earlier)
        elif record.name == "BeginTransactionRecord":
            self._open_transaction = []
        elif self._open_transaction is not None:
            self._open_transaction.append(record)
        else:
            self._replay(record)

    def _replay(self, record: MetadataRecord) -> None:
        replay = _REPLAYS.get(record.name or "")
        if replay is not None:
            replay(self, record.value)

    def _topic(self, value: Mapping[str, Any]) -> TopicImage:
        topic = self._by_id.get(value["topicId"])
        if topic is None:
            raise CorruptBatch(f"a metadata record speaks of topic id {value['topicId']}, which no earlier record made")
        return topic

    def _changing(self, topic: TopicImage) -> TopicImage:
        """The topic, to be changed: a copy, if another image may have it, too."""
        if topic.id in self._own:
            return topic
        own = replace(topic, partitions=dict(topic.partitions), config=dict(topic.config))
        self._own.add(topic.id)
        self._by_id[topic.id] = own
        if self.topics.get(topic.name) is topic:
            self.topics[topic.name] = own
        return own

    def _add_topic(self, value: Mapping[str, Any]) -> None:
        if not is_topic_name(value["name"]):
            # Names become paths.
            raise CorruptBatch(f"a metadata record makes a topic with the impossible name {value['name']!r}")
        topic = TopicImage(value["name"], value["topicId"])
        self._own.add(topic.id)
        self.topics[topic.name] = self._by_id[topic.id] = topic

    def _remove_topic(self, value: Mapping[str, Any]) -> None:
        topic = self._topic(value)
        del self._by_id[topic.id]
        self.removed.add(topic.id)
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]

    def _set_config(self, value: Mapping[str, Any]) -> None:
        if value["resourceType"] != TOPIC_RESOURCE:
            return
        topic = self.topics.get(value["resourceName"])
        if topic is None:
            name = value["resourceName"]
            raise CorruptBatch(f"a metadata record configures topic {name!r}, which no earlier record made")
        topic = self._changing(topic)
        if value["value"] is None:
            topic.config.pop(value["name"], None)
        else:
            topic.config[value["name"]] = value["value"]

    def _add_partition(self, value: Mapping[str, Any]) -> None:
        if value["partitionId"] < 0:
            raise CorruptBatch(f"a metadata record makes a partition with the number {value['partitionId']}")
        self._changing(self._topic(value)).partitions[value["partitionId"]] = PartitionImage(
            leader=value["leader"], leader_epoch=value["leaderEpoch"], partition_epoch=value["partitionEpoch"],
            replicas=value["replicas"], isr=value["isr"], directories=value.get("directories", []),
        )  # fmt: skip

    def _change_partition(self, value: Mapping[str, Any]) -> None:
        topic = self._topic(value)
        number = value["partitionId"]
        before = topic.partitions.get(number)
        if before is None:
            raise CorruptBatch(f"a metadata record changes {topic.name}-{number}, which no earlier record made")
        given = {name: value.get(name) for name in ("replicas", "isr", "directories")}
        changes: dict[str, Any] = {name: change for name, change in given.items() if change is not None}
        if value["leader"] != NO_LEADER_CHANGE:
            changes |= {"leader": value["leader"], "leader_epoch": before.leader_epoch + 1}
        changed = replace(before, partition_epoch=before.partition_epoch + 1, **changes)
        self._changing(topic).partitions[number] = changed

    def _set_feature(self, value: Mapping[str, Any]) -> None:
        self.features[value["name"]] = value["featureLevel"]

    def _allocate_producer_ids(self, value: Mapping[str, Any]) -> None:
        self.next_producer_id = value["nextProducerId"]

    def _register_node(self, value: Mapping[str, Any]) -> None:
        directories = tuple(value.get("logDirs", ()))
        node = NodeImage(value["brokerId"], value["incarnationId"], value["brokerEpoch"], directories)
        self.nodes[node.id] = node

    def _unregister_node(self, value: Mapping[str, Any]) -> None:
        self.nodes.pop(value["brokerId"], None)


_TRANSACTION_ENDS = frozenset({"EndTransactionRecord", "AbortTransactionRecord"})
_REPLAYS: dict[str, Callable[[MetadataImage, Mapping[str, Any]], None]] = {
    "TopicRecord": MetadataImage._add_topic,
    "RemoveTopicRecord": MetadataImage._remove_topic,
    "ConfigRecord": MetadataImage._set_config,
    "PartitionRecord": MetadataImage._add_partition,
    "PartitionChangeRecord": MetadataImage._change_partition,
    "FeatureLevelRecord": MetadataImage._set_feature,
    "RegisterBrokerRecord": MetadataImage._register_node,
    "UnregisterBrokerRecord": MetadataImage._unregister_node,
    "ProducerIdsRecord": MetadataImage._allocate_producer_ids,
}
_USED = _TRANSACTION_ENDS | {"BeginTransactionRecord"} | _REPLAYS.keys()


# --- records as bytes -------------------------------------------------------------------------------------------------


@lru_cache(1)
def _record_names() -> dict[int, str]:
    """Record types by api key. The records of tiered storage count from 0 too, but live in a topic of their own."""
    return {message(name).api_key: name for name in names("metadata") if not name.startswith("Remote")}


def encode_record(name: str, value: Mapping[str, Any], version: int | None = None) -> bytes:
    """The value of a metadata record: `value` by the schema `name`, in the highest version of Kafka 4.3 unless given.

    Raises: KeyError (no such schema), UnsupportedFormat (no such version), ValueError (a value that does not fit).
    """
    schema = message(name)
    chosen = schema.versions.high if version is None else version
    return uvarint(FRAME_VERSION) + uvarint(schema.api_key) + uvarint(chosen) + schema.encode(chosen, value)


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """The record in the value of a record of the metadata log.

    A type that is not known, or a version of an unused type that is not, gives a record without a name.
    Raises: UnsupportedFormat (the frame, or a version of a type that matters here), CorruptBatch.
    """
    frame, position = read_uvarint(value, 0)
    if frame != FRAME_VERSION:
        raise UnsupportedFormat(f"a metadata record has frame version {frame}: only {FRAME_VERSION} is known")
    api_key, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    name = _record_names().get(api_key)
    if name is None:
        return MetadataRecord(None, version, {})
    schema = message(name)
    if version > schema.versions.high and name not in _USED:
        return MetadataRecord(None, version, {})
    decoded, end = schema.decode(version, value, position)
    if end != len(value):
        raise CorruptBatch(f"{len(value) - end} bytes follow a {name} that should end there", position=end)
    return MetadataRecord(name, version, decoded)


# --- changes ----------------------------------------------------------------------------------------------------------


def create_topic(
    name: str, topic_id: UUID, replicas: Mapping[int, Sequence[tuple[int, UUID]]], *, leader: int,
    config: Mapping[str, str] | None = None,
) -> list[bytes]:  # fmt: skip
    """A topic with its partitions, by number the replicas of each, led by `leader`, all replicas in sync.

    A replica is a node and its log directory there; `config` holds overrides by Kafka's names.
    """
    made = [encode_record("TopicRecord", {"name": name, "topicId": topic_id})]
    made += change_config(name, config or {})
    return made + add_partitions(topic_id, replicas, leader=leader)


def add_partitions(topic_id: UUID, replicas: Mapping[int, Sequence[tuple[int, UUID]]], *, leader: int) -> list[bytes]:
    """More partitions of a topic: see `create_topic`."""
    made = []
    for number, members in replicas.items():
        nodes = [node for node, _ in members]
        value = {
            "partitionId": number, "topicId": topic_id, "replicas": nodes, "isr": nodes, "leader": leader,
            "leaderEpoch": 0, "partitionEpoch": 0, "directories": [directory for _, directory in members],
        }  # fmt: skip
        made.append(encode_record("PartitionRecord", value))
    return made


def change_config(name: str, changes: Mapping[str, str | None] | Mapping[str, str]) -> list[bytes]:
    """Overrides of a topic's configs; None takes one away."""
    made = []
    for key, text in changes.items():
        value = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": key, "value": text}
        made.append(encode_record("ConfigRecord", value))
    return made


def move_replica(topic_id: UUID, partition: int, directories: Sequence[UUID]) -> list[bytes]:
    """The log directories of a partition's replicas, in the order of the replicas."""
    value = {"partitionId": partition, "topicId": topic_id, "directories": list(directories)}
    return [encode_record("PartitionChangeRecord", value)]


def remove_topic(topic_id: UUID) -> list[bytes]:
    """The end of a topic, its partitions and its config."""
    return [encode_record("RemoveTopicRecord", {"topicId": topic_id})]


def take_leadership(topic_id: UUID, partition: int, leader: int) -> list[bytes]:
    """`leader` leads the partition from now on, in a new leader epoch: replay raises it by one."""
    value = {"partitionId": partition, "topicId": topic_id, "leader": leader}
    return [encode_record("PartitionChangeRecord", value)]


def allocate_producer_ids(node_id: int, epoch: int, next_producer_id: int) -> list[bytes]:
    """A node has got the producer ids up to `next_producer_id` (Kafka: ProducerIdControlManager)."""
    value = {"brokerId": node_id, "brokerEpoch": epoch, "nextProducerId": next_producer_id}
    return [encode_record("ProducerIdsRecord", value)]


def set_features(levels: Mapping[str, int]) -> list[bytes]:
    """The levels of features; the metadata log of a new cluster begins with them (Kafka: BootstrapMetadata)."""
    return [encode_record("FeatureLevelRecord", {"name": name, "featureLevel": at}) for name, at in levels.items()]


def register_node(node_id: int, *, incarnation: UUID, directories: Sequence[UUID]) -> list[bytes]:
    """A node of the cluster, without endpoints, and therefore fenced: a broker of Kafka that takes its place need not
    wait until the session of an unfenced one has ended.
    """
    value = {
        "brokerId": node_id, "incarnationId": incarnation, "rack": None, "fenced": True, "logDirs": directories
    }  # fmt: skip
    return [encode_record("RegisterBrokerRecord", value)]
