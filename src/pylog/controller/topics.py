"""Topics made, grown and deleted, and the log directories in which their partitions lie.

(Kafka: ReplicationControlManager, StripedReplicaPlacer)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from pylog.config import DynamicBrokerConfig, TopicConfig
from pylog.controller.partitions import PartitionControl
from pylog.controller.roles import Follow
from pylog.errors import InconsistentTopicId, InvalidPartitions, InvalidRequest, InvalidTopic, TopicAlreadyExists
from pylog.protocol.messages import INTERNAL_TOPICS, NODE_DEFAULT, NewPartitions, NewTopic
from pylog.protocol.metadata_changes import add_partitions, create_topic, move_replica, remove_topic
from pylog.protocol.metadata_image import UNASSIGNED_DIRECTORY, MetadataImage
from pylog.protocol.topic_names import validate_topic_name
from pylog.record import TopicPartition

MAX_PARTITIONS = 10_000


class TopicControl:
    """Decides about topics. `directories` are the ids of this node's log directories that can take partitions."""

    def __init__(
        self, node_id: int, configs: DynamicBrokerConfig, image: Callable[[], MetadataImage],
        partitions: PartitionControl,
    ) -> None:  # fmt: skip
        self._node_id = node_id
        self._configs = configs
        self._image = image
        self._partitions = partitions

    def create(self, new: NewTopic, topic_id: UUID, directories: Sequence[UUID]) -> list[bytes]:
        """The records that make a topic, which this node leads.

        Raises InvalidTopic, TopicAlreadyExists, InvalidConfig, InvalidPartitions.
        """
        image = self._image()
        validate_topic_name(new.name, image.namesakes(new.name))
        if new.name in image.topics:
            raise TopicAlreadyExists(f"topic {new.name!r} exists already")
        config = TopicConfig.canonical(new.config)
        count = self._configs.current.num_partitions if new.partitions == NODE_DEFAULT else new.partitions
        if not 1 <= count <= MAX_PARTITIONS:
            raise InvalidPartitions(
                f"{count} partitions: a topic has 1 to {MAX_PARTITIONS}, or -1 for num.partitions of the node"
            )
        followers, isr = self._followers_of_new(new.name)
        replicas = self._replicas(range(count), directories, followers=followers)
        return create_topic(new.name, topic_id, replicas, leader=self._node_id, config=config, isr=isr)

    def _followers_of_new(self, name: str) -> tuple[list[int], list[int] | None]:
        """The followers of a topic that is made, and the replicas that are in sync with it; None: all.

        A topic that is made again has those that it had. One of coordinators has the followers of all topics, and they
        count once they have caught up: those that have never come do not stop groups and transactions.
        """
        if name in INTERNAL_TOPICS:
            return sorted(self._partitions.counted()), [self._node_id]
        _, before = self._image().replicated_before.get(name, (None, None))
        if before is None or before.leader != self._node_id:
            return [], None
        return [node for node in before.replicas if node != self._node_id], None

    def grow(self, new: NewPartitions, directories: Sequence[UUID]) -> list[bytes]:
        """The records that add partitions to a topic, up to a total, which this node leads.

        Raises UnknownTopicOrPartition, InvalidPartitions, InvalidTopic (an internal one).
        """
        image, own = self._image().topic(new.topic), self._node_id
        check_not_internal(new.topic, "get more partitions: groups and transactions are found in them by a hash")
        if not len(image.partitions) < new.total <= MAX_PARTITIONS:
            raise InvalidPartitions(
                f"topic {new.topic!r} has {len(image.partitions)} partitions: it can get more, up to "
                f"{MAX_PARTITIONS} in all, not {new.total}"
            )
        led = [state for state in image.partitions.values() if state.leader == own]
        known = {node for state in led for node in state.replicas}
        missing = [number for number in range(new.total) if number not in image.partitions]
        replicas = self._replicas(missing, directories, followers=sorted(known - {own}))
        # Another node may have led the topic, and made partitions that are not here: an epoch of this node's alone
        # tells them apart.
        epoch = max((state.leader_epoch for state in led), default=0)
        return add_partitions(image.id, replicas, leader=own, epoch=epoch)

    def learn(self, wanted: Follow, directories: Sequence[UUID]) -> list[bytes]:
        """The records by which this node has a topic, with all of its partitions, that it is to follow.

        Raises InvalidTopic, InconsistentTopicId (the name is another topic's), InvalidRequest (it is to follow itself).
        """
        validate_topic_name(wanted.topic)
        if wanted.leader == self._node_id:
            raise InvalidRequest(f"node {self._node_id} cannot follow itself: open one of the two with another node_id")
        image = self._image().topics.get(wanted.topic)
        if image is None:
            replicas = self._replicas(range(wanted.partitions), directories, leader=wanted.leader)
            return create_topic(wanted.topic, wanted.topic_id, replicas, leader=wanted.leader, config=wanted.config)
        if image.id != wanted.topic_id:
            raise InconsistentTopicId(
                f"topic {wanted.topic!r} has id {image.id} here and {wanted.topic_id} there: delete one of them"
            )
        missing = [number for number in range(wanted.partitions) if number not in image.partitions]
        return add_partitions(
            image.id, self._replicas(missing, directories, leader=wanted.leader), leader=wanted.leader
        )

    def delete(self, name: str) -> list[bytes]:
        """The records that end a topic. Raises UnknownTopicOrPartition, InvalidTopic (internal topics stay)."""
        image = self._image().topic(name)
        check_not_internal(name, "be deleted")
        return remove_topic(image.id)

    def move(self, key: TopicPartition, directory: UUID) -> list[bytes]:
        """The records by which the replica of this node lies in another of its log directories."""
        image = self._image().topic(key.topic)
        state = image.partitions[key.partition]
        directories = [directory if node == self._node_id else state.directory_of(node) for node in state.replicas]
        return move_replica(image.id, key.partition, directories)

    def _replicas(
        self, numbers: Iterable[int], directories: Sequence[UUID], leader: int | None = None,
        followers: Iterable[int] = (),
    ) -> dict[int, list[tuple[int, UUID]]]:  # fmt: skip
        """The replicas of new partitions: this node's, that of a `leader` elsewhere, and those of `followers`."""
        wanted = list(numbers)
        before = [] if leader is None else [(leader, UNASSIGNED_DIRECTORY)]
        behind = [(node, UNASSIGNED_DIRECTORY) for node in followers]
        places = placed(len(wanted), directories, self._image().replicas_in)
        return {
            number: [*before, (self._node_id, place), *behind] for number, place in zip(wanted, places, strict=True)
        }


def placed(count: int, directories: Sequence[UUID], taken: Mapping[UUID, int]) -> list[UUID]:
    """Log directories for so many new partitions, each the one with the fewest; `taken`: how many each has by now."""
    load = {directory: taken.get(directory, 0) for directory in directories}
    chosen = []
    for _ in range(count):
        place = min(load, key=lambda directory: load[directory])
        load[place] += 1
        chosen.append(place)
    return chosen


def check_not_internal(topic: str, what: str) -> None:
    """Raise InvalidTopic for a topic of coordinators, which cannot `what`."""
    if topic in INTERNAL_TOPICS:
        raise InvalidTopic(f"{topic!r} is internal and cannot {what}")
