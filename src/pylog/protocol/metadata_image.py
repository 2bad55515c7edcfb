"""The records of the metadata log `__cluster_metadata-0` as values, and the image that their replay gives.

A record's value is a frame around a message of Kafka's metadata schemas (Kafka: MetadataRecordSerde, KIP-746):

    uvarint frame version (1)    uvarint api key    uvarint record version    message

A topic is a TopicRecord, a ConfigRecord per override and a PartitionRecord per partition. A broker and a group have
ConfigRecords, too. A PartitionChangeRecord changes the fields that it names. Each one raises the partition epoch by
one; one that names a leader raises the leader epoch, too (Kafka: PartitionRegistration.merge). Records between a
BeginTransactionRecord and its end count only once that end is there (KIP-868). Records of what has no meaning here are
only kept, in any version: a Kafka that takes the directory over needs them.

Invariants: no I/O here; the image is a function of the records applied, in their order; a `PartitionImage` never
changes, it is replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from uuid import UUID

from pylog.config.options import INT_MAX
from pylog.errors import CorruptBatch, StorageError, UnknownTopicId, UnsupportedFormat
from pylog.protocol.acls import AclBinding, AclOperation, AclPermissionType, AclResourceType, Acls, PatternType
from pylog.protocol.messages.configs import ConfigResource, ResourceType
from pylog.protocol.messages.quotas import QuotaEntity, quota_entity
from pylog.protocol.messages.records import NO_ID
from pylog.protocol.persistent_map import PersistentMap
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism
from pylog.protocol.schema import Struct, message, names, read_uvarint, uvarint
from pylog.protocol.topic_names import flat_name, is_topic_name, unknown_topic

METADATA_TOPIC_ID = UUID(int=1)
UNASSIGNED_DIRECTORY = UUID(int=0)
"""The directory of a replica that has none yet (Kafka: DirectoryId.UNASSIGNED)."""

FRAME_VERSION = 1
PARTITION_MAX = 99_999
"""The last partition that a topic can have: the name of its folder has no more digits (`storage/partition_dirs`)."""
NOTHING_SET: Mapping[str, str] = {}
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
FEATURES = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The features that a new cluster of Kafka 4.3 has, and their levels; metadata.version 30 is 4.3-IV0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The state of one partition. `leader` is a node id, or -1; `directories` goes with `replicas`."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: list[int]
    isr: list[int]
    directories: list[UUID] = field(default_factory=list)
    others: Struct = field(default_factory=dict)
    """The other fields of its record, which mean nothing here."""

    def directory_of(self, node: int) -> UUID:
        """The log directory of a replica; UNASSIGNED_DIRECTORY for another node, and where the record names none."""
        return dict(zip(self.replicas, self.directories, strict=False)).get(node, UNASSIGNED_DIRECTORY)


@dataclass(slots=True)
class TopicImage:
    """One topic: its partitions by number, and its config overrides as Kafka's names and texts."""

    name: str
    id: UUID
    partitions: PersistentMap[int, PartitionImage] = field(default_factory=PersistentMap)
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeImage:
    """One registered node: `incarnation` is new at each start, `directories` are the ids of its log directories."""

    id: int
    incarnation: UUID
    epoch: int
    directories: tuple[UUID, ...] = ()
    records: tuple[bytes, ...] = ()
    """Its registration and the changes of it since, as in the log."""


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """One record. `name` is that of its schema, or None where this version cannot read it (`value` is empty then)."""

    name: str | None
    version: int
    value: Struct
    data: bytes = field(default=b"", compare=False)
    """Its bytes, as in the log."""


class MetadataDelta:
    """The topics, partitions and configs that the records of one change have made, changed or removed. (Kafka:
    MetadataDelta)

    The values are in the image after it. Users, ACLs, quotas, nodes and features are looked up there at each use.
    """

    def __init__(self) -> None:
        self.topics_made: set[UUID] = set()
        self.topics_removed: dict[UUID, TopicImage] = {}
        """Topics of the image before, as they were when they were removed."""
        self.partitions: dict[tuple[UUID, int], PartitionImage | None] = {}
        """Partitions made or changed, by topic and number, as they were before; None: made by this change."""
        self.configs: set[ConfigResource] = set()

    def note(self, image: "MetadataImage", name: str, value: Struct) -> None:
        """Take note of a record that is about to be replayed on `image`."""
        if name in ("PartitionRecord", "PartitionChangeRecord"):
            topic = image.with_id(value["topicId"])
            before = None if topic is None else topic.partitions.get(value["partitionId"])
            self.partitions.setdefault((value["topicId"], value["partitionId"]), before)
        elif name == "TopicRecord":
            self.topics_made.add(value["topicId"])
        elif name == "RemoveTopicRecord":
            self._note_removed(image, value["topicId"])
        elif name == "ConfigRecord" and value["resourceType"] in _CONFIGURED:
            self.configs.add(ConfigResource(ResourceType(value["resourceType"]), value["resourceName"]))

    def _note_removed(self, image: "MetadataImage", topic_id: UUID) -> None:
        topic = image.with_id(topic_id)
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]
        if topic_id in self.topics_made:
            self.topics_made.remove(topic_id)
        elif topic is not None:
            self.topics_removed[topic_id] = topic


class MetadataImage:
    """The state of topics and nodes by the records applied so far.

    The maker of an image, or of a `successor`, may `apply` records to it before others see it. An image that others see
    stays the same, and has each change as a whole (Kafka: MetadataDelta).
    """

    def __init__(self) -> None:
        self.topics = PersistentMap[str, TopicImage]()
        self.nodes: dict[int, NodeImage] = {}
        self.features: dict[str, int] = {}
        """The level of each feature: Kafka reads no log in which it does not find its metadata.version."""
        self.users = PersistentMap[tuple[str, ScramMechanism], ScramCredential]()
        """The credentials of users, each for one mechanism."""
        self.acls = Acls()
        """The ACLs; the same object until one of them changes."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        """The quotas of clients; the same object until one of them changes."""
        self.configs = PersistentMap[ConfigResource, dict[str, str]]()
        """The configs set on brokers and groups."""
        self.replicas_in: dict[UUID, int] = {}
        """The number of replicas in each log directory, of all nodes."""
        self._by_id = PersistentMap[UUID, TopicImage]()
        self._namesakes = PersistentMap[str, tuple[str, ...]]()
        self.next_producer_id = 0
        """The first producer id that was never given."""
        self.removed = PersistentMap[UUID, str]()
        """The ids and names of removed topics: a folder with one of these ids is left over."""
        self.replicated_before = PersistentMap[str, tuple[UUID, PartitionImage]]()
        """A partition of each removed topic that had several replicas, by name, until that is made again."""
        self.others: list[bytes] = []
        """Records that mean nothing here, in their order."""
        self._open_transaction: list[MetadataRecord] | None = None
        self._own: set[UUID] = set()
        """The topics that no other image has."""
        self._owns_acls = True
        """Whether no other image has `acls`."""
        self._owns_quotas = True
        """Whether no other image has `quotas`."""
        self._own_configs: set[ConfigResource] = set()
        """The keys of those `configs` that no other image has."""
        self._delta: MetadataDelta | None = None

    def topic(self, name: str) -> TopicImage:
        """The topic of this name. Raises UnknownTopicOrPartition."""
        topic = self.topics.get(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def check_id(self, name: str, topic_id: UUID) -> None:
        """Raise UnknownTopicId where the topic of this name has another id. NO_ID means any."""
        if topic_id is NO_ID:
            return
        topic = self.topics.get(name)
        if topic is not None and topic_id not in (topic.id, NO_ID):
            raise UnknownTopicId(f"topic {name!r} with id {topic_id} was deleted; the present one has id {topic.id}")

    def with_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic of this id; None for one that is unknown or removed."""
        return self._by_id.get(topic_id)

    def namesakes(self, name: str) -> tuple[str, ...]:
        """The topics with dots or underscores whose names differ from `name` in these alone, or not at all."""
        return self._namesakes.get(flat_name(name), ())

    def successor(self, delta: MetadataDelta | None = None) -> "MetadataImage":
        """An image for further records, whose changes are noted in `delta`. This one stays the same.

        Its cost grows with the square root of the number of topics.
        """
        image = MetadataImage()
        image.topics, image._by_id = self.topics.successor(), self._by_id.successor()
        image._namesakes, image.replicas_in = self._namesakes.successor(), dict(self.replicas_in)
        image.nodes, image.features, image.users = dict(self.nodes), dict(self.features), self.users.successor()
        image.configs, image.acls, image._owns_acls = self.configs.successor(), self.acls, False
        image.quotas, image._owns_quotas = self.quotas, False
        image.next_producer_id, image.removed = self.next_producer_id, self.removed.successor()
        image.replicated_before = self.replicated_before.successor()
        image.others, image._delta = list(self.others), delta
        image._open_transaction = None if self._open_transaction is None else list(self._open_transaction)
        return image

    def apply(self, record: MetadataRecord) -> None:
        """Replay one record; a record that says nothing about topics or nodes is only kept.

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

    @property
    def is_whole(self) -> bool:
        """Whether no records wait for the end of a transaction."""
        return self._open_transaction is None

    def _replay(self, record: MetadataRecord) -> None:
        name = record.name or ""
        replay = _REPLAYS.get(name)
        if self._delta is not None:
            self._delta.note(self, name, record.value)
        if replay is not None:
            replay(self, record.value)
        if name in _NODES:
            self._note_of_node(record.value[_NODES[name]], record.data)
        elif name == "ConfigRecord":
            self.others += [] if record.value["resourceType"] in _CONFIGURED else [record.data]
        elif replay is None and name not in _MOMENTARY:
            self.others.append(record.data)

    def _note_of_node(self, node_id: int, data: bytes) -> None:
        node = self.nodes.get(node_id)
        if node is not None:
            self.nodes[node_id] = replace(node, records=(*node.records, data))

    def _topic(self, value: Struct) -> TopicImage:
        topic = self._by_id.get(value["topicId"])
        if topic is None:
            raise CorruptBatch(f"a metadata record speaks of topic id {value['topicId']}, which no earlier record made")
        return topic

    def _changing(self, topic: TopicImage) -> TopicImage:
        """The topic, to be changed: a copy, if another image may have it, too."""
        if topic.id in self._own:
            return topic
        own = replace(topic, partitions=topic.partitions.successor(), config=dict(topic.config))
        self._own.add(topic.id)
        self._by_id[topic.id] = own
        if self.topics.get(topic.name) is topic:
            self.topics[topic.name] = own
        return own

    def _add_topic(self, value: Struct) -> None:
        if not is_topic_name(value["name"]):
            # Names become paths.
            raise CorruptBatch(f"a metadata record makes a topic with the impossible name {value['name']!r}")
        topic = TopicImage(value["name"], value["topicId"])
        self._own.add(topic.id)
        if topic.name not in self.topics and "_" in flat_name(topic.name):
            self._namesakes[flat_name(topic.name)] = (*self.namesakes(topic.name), topic.name)
        self.topics[topic.name] = self._by_id[topic.id] = topic
        self.replicated_before.pop(topic.name, None)

    def _remove_topic(self, value: Struct) -> None:
        topic = self._topic(value)
        del self._by_id[topic.id]
        self.removed[topic.id] = topic.name
        for state in [state for state in topic.partitions.values() if len(state.replicas) > 1][:1]:
            self.replicated_before[topic.name] = topic.id, state
        for state in topic.partitions.values():
            self._count(state, -1)
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]
            others = tuple(name for name in self._namesakes.pop(flat_name(topic.name), ()) if name != topic.name)
            if others:
                self._namesakes[flat_name(topic.name)] = others

    def _put_partition(self, topic: TopicImage, number: int, state: PartitionImage) -> None:
        topic = self._changing(topic)
        before = topic.partitions.get(number)
        if before is not None:
            self._count(before, -1)
        self._count(state, 1)
        topic.partitions[number] = state

    def _count(self, state: PartitionImage, change: int) -> None:
        for directory in state.directories:
            self.replicas_in[directory] = self.replicas_in.get(directory, 0) + change

    def configs_of(self, resource: ConfigResource) -> Mapping[str, str]:
        """The configs set on a broker or a group; the same object until one of them changes."""
        return self.configs.get(resource, NOTHING_SET)

    def _set_config(self, value: Struct) -> None:
        if value["resourceType"] == ResourceType.TOPIC:
            self._set_topic_config(value)
        elif value["resourceType"] in _CONFIGURED:
            self._set_other_config(value)

    def _set_other_config(self, value: Struct) -> None:
        key = ConfigResource(ResourceType(value["resourceType"]), value["resourceName"])
        if key not in self._own_configs:
            self._own_configs.add(key)
            self.configs[key] = dict(self.configs.get(key, NOTHING_SET))
        configs = self.configs[key]
        if value["value"] is None:
            configs.pop(value["name"], None)
        else:
            configs[value["name"]] = value["value"]
        if not configs:
            del self.configs[key]
            self._own_configs.remove(key)

    def _set_topic_config(self, value: Struct) -> None:
        topic = self.topics.get(value["resourceName"])
        if topic is None:
            name = value["resourceName"]
            raise CorruptBatch(f"a metadata record configures topic {name!r}, which no earlier record made")
        topic = self._changing(topic)
        if value["value"] is None:
            topic.config.pop(value["name"], None)
        else:
            topic.config[value["name"]] = value["value"]

    def _add_partition(self, value: Struct) -> None:
        if not 0 <= value["partitionId"] <= PARTITION_MAX:
            raise CorruptBatch(
                f"a metadata record makes partition {value['partitionId']}: a topic has those from 0 to {PARTITION_MAX}"
            )
        state = PartitionImage(
            leader=value["leader"], leader_epoch=value["leaderEpoch"], partition_epoch=value["partitionEpoch"],
            replicas=value["replicas"], isr=value["isr"], directories=value.get("directories", []),
            others=_others({}, value),
        )  # fmt: skip
        self._put_partition(self._topic(value), value["partitionId"], state)

    def _change_partition(self, value: Struct) -> None:
        topic = self._topic(value)
        number = value["partitionId"]
        before = topic.partitions.get(number)
        if before is None:
            raise CorruptBatch(f"a metadata record changes {topic.name}-{number}, which no earlier record made")
        given = {name: value.get(name) for name in ("replicas", "isr", "directories")}
        changes: Struct = {name: change for name, change in given.items() if change is not None}
        if INT_MAX in (before.leader_epoch, before.partition_epoch):
            # A record names no epoch: replay adds one.
            raise CorruptBatch(f"a metadata record changes {topic.name}-{number}, whose epochs are at their end")
        if value["leader"] != NO_LEADER_CHANGE:
            changes |= {"leader": value["leader"], "leader_epoch": before.leader_epoch + 1}
        changes |= {"partition_epoch": before.partition_epoch + 1, "others": _others(before.others, value)}
        self._put_partition(topic, number, replace(before, **changes))

    def _clear_eligible(self, value: Struct) -> None:
        """Record that no replica outside the ISR may lead any more, of one topic, or of all. (TopicDelta.replay)"""
        cleared: Struct = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
        for topic in [topic for name, topic in self.topics.items() if value["topicName"] in ("", name)]:
            for number, state in list(topic.partitions.items()):
                if any(state.others.get(name) for name in cleared):
                    change = {"topicId": topic.id, "partitionId": number, "leader": NO_LEADER_CHANGE, **cleared}
                    self._replay(MetadataRecord("PartitionChangeRecord", 0, change))

    def _set_feature(self, value: Struct) -> None:
        self.features[value["name"]] = value["featureLevel"]

    def _allocate_producer_ids(self, value: Struct) -> None:
        if value["nextProducerId"] < 0:
            raise CorruptBatch(f"a metadata record gives the producer ids from {value['nextProducerId']} on")
        self.next_producer_id = value["nextProducerId"]

    def _add_user(self, value: Struct) -> None:
        mechanism = _mechanism(value)
        self.users[value["name"], mechanism] = ScramCredential(
            mechanism, bytes(value["salt"]), bytes(value["storedKey"]), bytes(value["serverKey"]), value["iterations"]
        )

    def _remove_user(self, value: Struct) -> None:
        if self.users.pop((value["name"], _mechanism(value)), None) is None:
            raise CorruptBatch("a metadata record removes a user's credential that no earlier record made")

    def _changing_acls(self) -> Acls:
        """The ACLs, to be changed: a successor, where another image may have them, too."""
        if not self._owns_acls:
            self.acls, self._owns_acls = self.acls.successor(), True
        return self.acls

    def _add_acl(self, value: Struct) -> None:
        self._changing_acls().add(value["id"], _acl(value))

    def _remove_acl(self, value: Struct) -> None:
        if value["id"] not in self.acls.by_id:
            raise CorruptBatch("a metadata record removes an ACL that no earlier record made")
        self._changing_acls().remove(value["id"])

    def _change_quota(self, value: Struct) -> None:
        if not self._owns_quotas:
            self.quotas, self._owns_quotas = dict(self.quotas), True
        entity = quota_entity({part["entityType"]: part["entityName"] for part in value["entity"]})
        values = {key: bound for key, bound in self.quotas.pop(entity, {}).items() if key != value["key"]}
        if not value["remove"]:
            values[value["key"]] = value["value"]
        if values:
            self.quotas[entity] = values

    def _register_node(self, value: Struct) -> None:
        directories = tuple(value.get("logDirs", ()))
        node = NodeImage(value["brokerId"], value["incarnationId"], value["brokerEpoch"], directories)
        self.nodes[node.id] = node

    def _unregister_node(self, value: Struct) -> None:
        self.nodes.pop(value["brokerId"], None)


def _mechanism(value: Struct) -> ScramMechanism:
    try:
        return ScramMechanism(value["mechanism"])
    except ValueError:
        raise UnsupportedFormat(
            f"a metadata record names SCRAM mechanism {value['mechanism']}: 1 and 2 are known"
        ) from None


def _acl(value: Struct) -> AclBinding:
    try:
        return AclBinding(
            AclResourceType(value["resourceType"]), value["resourceName"], value["principal"],
            AclOperation(value["operation"]), PatternType(value["patternType"]), value["host"],
            AclPermissionType(value["permissionType"]),
        )  # fmt: skip
    except ValueError as error:
        # To pass over one that denies would allow what it denies.
        raise UnsupportedFormat(f"a metadata record has an ACL with a number that is not known: {error}") from None


def _others(before: Struct, value: Struct) -> Struct:
    """The fields of a partition's record that mean nothing here and are not at their default.

    A record leaves out the fields that stay.
    """
    given = {name: value.get(name) for name in _OTHERS}
    changes = {name: change for name, change in given.items() if change is not None and change != NO_RECOVERY_CHANGE}
    return {name: said for name, said in {**before, **changes}.items() if said}


_OTHERS = (
    "removingReplicas", "addingReplicas", "leaderRecoveryState", "eligibleLeaderReplicas", "lastKnownElr"
)  # fmt: skip
_NODES = {
    "RegisterBrokerRecord": "brokerId", "BrokerRegistrationChangeRecord": "brokerId", "FenceBrokerRecord": "id",
    "UnfenceBrokerRecord": "id",
}  # fmt: skip
"""The records of a node, and which of their fields has its id."""
_CONFIGURED = frozenset(ResourceType)
"""The types of resources whose configs mean something here; those of others are only kept."""
_MOMENTARY = frozenset({"NoOpRecord", "ZkMigrationStateRecord"})
"""The records that mean nothing later."""
_TRANSACTION_ENDS = frozenset({"EndTransactionRecord", "AbortTransactionRecord"})
_REPLAYS: dict[str, Callable[[MetadataImage, Struct], None]] = {
    "TopicRecord": MetadataImage._add_topic,
    "RemoveTopicRecord": MetadataImage._remove_topic,
    "ConfigRecord": MetadataImage._set_config,
    "PartitionRecord": MetadataImage._add_partition,
    "PartitionChangeRecord": MetadataImage._change_partition,
    "ClearElrRecord": MetadataImage._clear_eligible,
    "FeatureLevelRecord": MetadataImage._set_feature,
    "RegisterBrokerRecord": MetadataImage._register_node,
    "UnregisterBrokerRecord": MetadataImage._unregister_node,
    "ProducerIdsRecord": MetadataImage._allocate_producer_ids,
    "UserScramCredentialRecord": MetadataImage._add_user,
    "RemoveUserScramCredentialRecord": MetadataImage._remove_user,
    "AccessControlEntryRecord": MetadataImage._add_acl,
    "RemoveAccessControlEntryRecord": MetadataImage._remove_acl,
    "ClientQuotaRecord": MetadataImage._change_quota,
}
_USED = _TRANSACTION_ENDS | {"BeginTransactionRecord"} | _REPLAYS.keys()


# --- records as bytes -------------------------------------------------------------------------------------------------


@lru_cache(1)
def _record_names() -> dict[int, str]:
    """Record types by api key. The records of tiered storage count from 0 too, but live in a topic of their own."""
    return {message(name).api_key: name for name in names("metadata") if not name.startswith("Remote")}


def encode_record(name: str, value: Struct, version: int | None = None) -> bytes:
    """The value of a metadata record: `value` by the schema `name`, in the highest version of Kafka 4.3 unless given.

    Raises: KeyError (no such schema), UnsupportedFormat (no such version), StorageError (a value that does not fit, as
    a number behind the last one).
    """
    schema = message(name)
    chosen = schema.versions.high if version is None else version
    try:
        data = schema.encode(chosen, value)
    except ValueError as error:
        raise StorageError(f"the metadata log cannot have this record: {error}") from error
    return uvarint(FRAME_VERSION) + uvarint(schema.api_key) + uvarint(chosen) + data


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """The record in the value of a record of the metadata log.

    An unknown type, or an unknown version of an unused type, gives a record without a name. Raises: UnsupportedFormat
    (the frame, or a version of a type that matters here), CorruptBatch.
    """
    data = bytes(value)
    frame, position = read_uvarint(data, 0)
    if frame != FRAME_VERSION:
        raise UnsupportedFormat(f"a metadata record has frame version {frame}: only {FRAME_VERSION} is known")
    api_key, position = read_uvarint(data, position)
    version, position = read_uvarint(data, position)
    name = _record_names().get(api_key)
    if name is None:
        return MetadataRecord(None, version, {}, data)
    schema = message(name)
    if version > schema.versions.high and name not in _USED:
        return MetadataRecord(None, version, {}, data)
    decoded, end = schema.decode(version, data, position)
    if end != len(data):
        raise CorruptBatch(f"{len(data) - end} bytes follow a {name} that should end there", position=end)
    return MetadataRecord(name, version, decoded, data)
