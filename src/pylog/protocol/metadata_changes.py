"""The records of each change of the metadata log, and the records that say all of an image.

Pure: nothing is appended here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from pylog.protocol.acls import AclBinding
from pylog.protocol.messages.configs import ConfigResource, ResourceType
from pylog.protocol.messages.quotas import QuotaEntity
from pylog.protocol.metadata_image import MetadataImage, PartitionImage, encode_record
from pylog.protocol.sasl.credentials import ScramCredential, ScramMechanism

NO_NODE = -1

EPOCH_MAX = (1 << 31) - 1
"""The last leader epoch that there is, of a partition and of the metadata log."""


def create_topic(
    name: str, topic_id: UUID, replicas: Mapping[int, Sequence[tuple[int, UUID]]], *, leader: int,
    config: Mapping[str, str] | None = None, isr: Sequence[int] | None = None,
) -> list[bytes]:  # fmt: skip
    """A topic with its partitions: `replicas` by partition number, each led by `leader`, and those of `isr` in sync
    (None: all).

    A replica is a node and its log directory there; `config` holds overrides by Kafka's names.
    """
    made = [encode_record("TopicRecord", {"name": name, "topicId": topic_id})]
    made += change_config(ConfigResource(ResourceType.TOPIC, name), config or {})
    return made + add_partitions(topic_id, replicas, leader=leader, isr=isr)


def add_partitions(
    topic_id: UUID, replicas: Mapping[int, Sequence[tuple[int, UUID]]], *, leader: int,
    isr: Sequence[int] | None = None, epoch: int = 0,
) -> list[bytes]:  # fmt: skip
    """More partitions of a topic, led in `epoch`: see `create_topic`."""
    made = []
    for number, members in replicas.items():
        nodes = [node for node, _ in members]
        value = {
            "partitionId": number, "topicId": topic_id, "replicas": nodes, "isr": nodes if isr is None else list(isr),
            "leader": leader,
            "leaderEpoch": epoch, "partitionEpoch": 0, "directories": [directory for _, directory in members],
        }  # fmt: skip
        made.append(encode_record("PartitionRecord", value))
    return made


def change_config(
    resource: ConfigResource, changes: Mapping[str, str | None] | Mapping[str, str]
) -> list[bytes]:  # fmt: skip
    """Configs set on a topic, a broker or a group; None removes one."""
    made = []
    for key, text in changes.items():
        value = {"resourceType": resource.type, "resourceName": resource.name, "name": key, "value": text}
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
    """The leadership of `leader` from now on, in a new leader epoch: replay raises it by one."""
    value = {"partitionId": partition, "topicId": topic_id, "leader": leader}
    return [encode_record("PartitionChangeRecord", value)]


def assign_leader(
    topic_id: UUID, partition: int, state: PartitionImage, *, leader: int, epoch: int, replicas: Sequence[int],
    isr: Sequence[int] | None = None,
) -> list[bytes]:  # fmt: skip
    """The leadership of `leader` in a given epoch, with these replicas, and those of `isr` in sync (None: all).

    A PartitionRecord in place of the one before: a PartitionChangeRecord cannot name the epoch. Replicas keep the
    directories that they have. (Kafka: ReplicationControlManager.replay)
    """
    directories = [state.directory_of(node) for node in replicas]
    changed = replace(
        state, leader=leader, leader_epoch=epoch, partition_epoch=state.partition_epoch + 1, replicas=list(replicas),
        isr=list(replicas if isr is None else isr), directories=directories,
    )  # fmt: skip
    return [_partition_record(topic_id, partition, changed)]


def change_isr(topic_id: UUID, partition: int, isr: Sequence[int]) -> list[bytes]:
    """The record that sets the ISR of a partition. (Kafka: AlterPartition)"""
    value = {"partitionId": partition, "topicId": topic_id, "isr": list(isr)}
    return [encode_record("PartitionChangeRecord", value)]


def allocate_producer_ids(node_id: int, epoch: int, next_producer_id: int) -> list[bytes]:
    """The producer ids up to `next_producer_id`, given to a node (Kafka: ProducerIdControlManager)."""
    value = {"brokerId": node_id, "brokerEpoch": epoch, "nextProducerId": next_producer_id}
    return [encode_record("ProducerIdsRecord", value)]


def set_user(name: str, credential: ScramCredential) -> list[bytes]:
    """The credential of a user, in place of the one that it has for that mechanism (Kafka: ScramControlManager)."""
    value = {
        "name": name, "mechanism": credential.mechanism.value, "salt": credential.salt,
        "storedKey": credential.stored_key, "serverKey": credential.server_key, "iterations": credential.iterations,
    }  # fmt: skip
    return [encode_record("UserScramCredentialRecord", value)]


def remove_user(name: str, mechanism: ScramMechanism) -> list[bytes]:
    """The end of a user's credential for one mechanism."""
    return [encode_record("RemoveUserScramCredentialRecord", {"name": name, "mechanism": mechanism.value})]


def add_acl(acl_id: UUID, acl: AclBinding) -> list[bytes]:
    """One ACL more (Kafka: AclControlManager)."""
    value = {
        "id": acl_id, "resourceType": acl.resource_type.value, "resourceName": acl.name,
        "patternType": acl.pattern_type.value, "principal": acl.principal, "host": acl.host,
        "operation": acl.operation.value, "permissionType": acl.permission_type.value,
    }  # fmt: skip
    return [encode_record("AccessControlEntryRecord", value)]


def remove_acl(acl_id: UUID) -> list[bytes]:
    """The end of an ACL."""
    return [encode_record("RemoveAccessControlEntryRecord", {"id": acl_id})]


def change_quota(entity: QuotaEntity, key: str, value: float | None) -> list[bytes]:
    """A quota of an entity set; None removes it. (Kafka: ClientQuotaControlManager)"""
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
    told = {"entity": parts, "key": key, "value": 0.0 if value is None else value, "remove": value is None}
    return [encode_record("ClientQuotaRecord", told)]


def abort_transaction(reason: str) -> list[bytes]:
    """The end of a metadata transaction whose records do not count (KIP-868)."""
    return [encode_record("AbortTransactionRecord", {"reason": reason})]


def set_features(levels: Mapping[str, int]) -> list[bytes]:
    """The levels of features; the metadata log of a new cluster begins with them (Kafka: BootstrapMetadata)."""
    return [encode_record("FeatureLevelRecord", {"name": name, "featureLevel": at}) for name, at in levels.items()]


def register_node(node_id: int, *, incarnation: UUID, directories: Sequence[UUID]) -> list[bytes]:
    """A node of the cluster, without endpoints, and therefore fenced.

    A broker of Kafka that takes its place need not wait until the session of an unfenced one has ended.
    """
    value = {
        "brokerId": node_id, "incarnationId": incarnation, "rack": None, "fenced": True, "logDirs": directories
    }  # fmt: skip
    return [encode_record("RegisterBrokerRecord", value)]


def unregister_node(node_id: int, epoch: int) -> list[bytes]:
    """The end of a node's registration. (Kafka: UnregisterBroker)"""
    return [encode_record("UnregisterBrokerRecord", {"brokerId": node_id, "brokerEpoch": epoch})]


def image_records(image: MetadataImage) -> Iterator[bytes]:
    """The content of an image, as records that give it again. (Kafka: MetadataImage.write)

    A removed topic is made and removed: its id stays known, and who had replicas of it.
    """
    yield from set_features(image.features)
    for node in image.nodes.values():
        yield from node.records
    states = dict(image.replicated_before.values())
    names = {topic_id: name for name, (topic_id, _) in image.replicated_before.items()}
    for topic_id, name in {**names, **image.removed}.items():
        yield encode_record("TopicRecord", {"name": name, "topicId": topic_id})
        if topic_id in states:
            yield _partition_record(topic_id, 0, states[topic_id])
        yield from remove_topic(topic_id)
    for topic in image.topics.values():
        yield encode_record("TopicRecord", {"name": topic.name, "topicId": topic.id})
        yield from change_config(ConfigResource(ResourceType.TOPIC, topic.name), topic.config)
        for number, state in topic.partitions.items():
            yield _partition_record(topic.id, number, state)
    for resource, config in image.configs.items():
        yield from change_config(resource, config)
    for (name, _), credential in image.users.items():
        yield from set_user(name, credential)
    for acl_id, acl in image.acls.by_id.items():
        yield from add_acl(acl_id, acl)
    for entity, values in image.quotas.items():
        for key, value in values.items():
            yield from change_quota(entity, key, value)
    if image.next_producer_id:
        yield from allocate_producer_ids(NO_NODE, NO_NODE, image.next_producer_id)
    yield from image.others


def _partition_record(topic_id: UUID, number: int, state: PartitionImage) -> bytes:
    value = {
        "partitionId": number, "topicId": topic_id, "replicas": state.replicas, "isr": state.isr,
        "leader": state.leader, "leaderEpoch": state.leader_epoch, "partitionEpoch": state.partition_epoch,
        "directories": state.directories, **state.others,
    }  # fmt: skip
    return encode_record("PartitionRecord", value)
