"""The leaders of partitions, their epochs, replicas and ISRs. (Kafka: ReplicationControlManager)

Facts of the log of a partition come in with a request: `latest` is the last leader epoch in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pylog.controller.roles import Follow, Lead
from pylog.controller.slots import EPOCH_SLOT, EPOCH_SLOTS, next_slot
from pylog.errors import FencedLeaderEpoch, LogDiverged, NotLeaderOrFollower
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.protocol.metadata_changes import EPOCH_MAX, assign_leader, change_isr, take_leadership
from pylog.protocol.metadata_image import MetadataImage, PartitionImage, TopicImage
from pylog.record import TopicPartition


class PartitionControl:
    """Decides who leads a partition, in which epoch, and with which replicas."""

    def __init__(self, node_id: int, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image

    def _state(self, key: TopicPartition) -> tuple[TopicImage, PartitionImage]:
        topic = self._image().topic(key.topic)
        return topic, topic.partitions[key.partition]

    # --- leaders and epochs ------------------------------------------------------------------------------------------

    def leader_of(self, state: PartitionImage) -> int:
        """The leader of a partition.

        A single replica leads itself, even where it has no leader in the metadata log (as Kafka's controller
        writes when a node stops).
        """
        return self._node_id if list(state.replicas) == [self._node_id] else state.leader

    def epoch_goes_on(self, key: TopicPartition, *, latest: int, is_spent: bool, at_least: int) -> bool:
        """True where this node may append in `latest`, the last epoch of a log.

        After a clean close it may: all records of the epoch are here, so the next one gets an offset that was never
        given in it. It may not in an epoch below `at_least`, where records of the epoch may be missing (`is_spent`), or
        where another node has led since.
        """
        _, state = self._state(key)
        return not is_spent and state.leader == self._node_id and at_least <= latest == state.leader_epoch

    def take_epoch(self, key: TopicPartition, *, latest: int, is_new: bool, at_least: int) -> list[bytes]:
        """The records by which this node leads in an epoch without records, which is `at_least` or a later one.

        `is_new`: no earlier process has led the topic, which has the epoch that it was made with. Raises
        NotLeaderOrFollower where another node leads, FencedLeaderEpoch without an epoch left.
        """
        topic, state = self._state(key)
        if self.leader_of(state) != self._node_id:
            raise NotLeaderOrFollower(
                f"node {self._node_id} follows node {state.leader} for {key.topic}-{key.partition}"
            )
        known = max(latest, at_least - 1)
        if max(known, state.leader_epoch) >= EPOCH_MAX:
            raise _no_epoch_left(key)
        if known > state.leader_epoch:
            # The log came from elsewhere, and has seen more leaders than this metadata log.
            return self._assign(key, self._node_id, known + 1, state.replicas, state.isr)
        if is_new and known < state.leader_epoch:
            return []
        return take_leadership(topic.id, key.partition, self._node_id)

    def end_epochs(self, spent: Mapping[TopicPartition, int | None]) -> list[bytes]:
        """The records that give partitions their next epochs, as those that their logs end with must not go on.

        `spent` has the last epoch of each log, or None where the log was not opened. A partition that has a later epoch
        in the metadata log keeps it.
        """
        records: list[bytes] = []
        for key, latest in spent.items():
            topic = self._image().topics.get(key.topic)
            state = topic.partitions.get(key.partition) if topic is not None else None
            if topic is None or state is None or state.leader != self._node_id:
                continue
            is_last = latest is None or latest == state.leader_epoch
            records += take_leadership(topic.id, key.partition, self._node_id) if is_last else []
        return records

    def unused_epoch(self, key: TopicPartition, latest: int) -> int:
        """A leader epoch for this node that no other node takes by itself (`slots`).

            round 1,000,000     a new one where another node has led: by hand, `Log.lead`
            slot      1,000     of the node, by its id
            step          1     a new one where this node has led before: each open that was not clean

        Raises FencedLeaderEpoch without an epoch left.
        """
        _, state = self._state(key)
        known = max(state.leader_epoch, latest)
        if state.leader == self._node_id:
            return known + 1
        return next_slot(known, self._node_id, EPOCH_SLOTS, EPOCH_SLOT)

    def lead(self, wanted: Lead, latest: int) -> list[bytes]:
        """The records by which this node leads a partition in a given epoch.

        Raises FencedLeaderEpoch when the log has a newer one, or there is no such epoch; LogDiverged when another node
        has led in it.
        """
        key = TopicPartition(wanted.topic, wanted.partition)
        if wanted.leader_epoch < latest:
            raise FencedLeaderEpoch(
                f"{key.topic}-{key.partition}: epoch {wanted.leader_epoch} is over, the log is in epoch {latest}"
            )
        isr = [node for node in wanted.replicas if node not in wanted.joining]
        return self._assign(key, self._node_id, wanted.leader_epoch, wanted.replicas, isr)

    def follow(self, wanted: Follow, latest: int) -> list[bytes]:
        """The records by which this node follows the leader of a partition. Raises FencedLeaderEpoch, LogDiverged."""
        key = TopicPartition(wanted.topic, wanted.partition)
        if wanted.leader_epoch < latest:
            raise FencedLeaderEpoch(
                f"{key.topic}-{key.partition}: node {wanted.leader} leads in epoch {wanted.leader_epoch}, and this "
                f"node has records of epoch {latest}: the leader is an older one. Let it follow this node"
            )
        members = wanted.leader, self._node_id
        isr = members if wanted.counts else members[:1]
        return self._assign(key, wanted.leader, wanted.leader_epoch, members, isr)

    def _assign(
        self, key: TopicPartition, leader: int, epoch: int, replicas: Sequence[int], isr: Sequence[int]
    ) -> list[bytes]:
        """The records of who leads a partition in which epoch, where the image does not have it so already."""
        topic, state = self._state(key)
        if epoch == state.leader_epoch and leader != state.leader and state.leader >= 0:
            raise LogDiverged(
                f"{key.topic}-{key.partition}: node {leader} leads in epoch {epoch}, in which node {state.leader} has "
                "led, too. Keep one of the two logs: delete the topic in the other one, and let it follow again"
            )
        if epoch > EPOCH_MAX:
            raise _no_epoch_left(key)
        known = state.leader, state.leader_epoch, list(state.replicas), list(state.isr)
        if (leader, epoch, list(replicas), list(isr)) == known:
            return []
        return assign_leader(topic.id, key.partition, state, leader=leader, epoch=epoch, replicas=replicas, isr=isr)

    # --- followers and ISRs ------------------------------------------------------------------------------------------

    def counted(self, without: str = "") -> frozenset[int]:
        """The followers of the topics that this node leads; internal topics, and `without`, are left out."""
        found = set[int]()
        for name, topic in self._image().topics.items():
            if name not in INTERNAL_TOPICS and name != without:
                states = topic.partitions.values()
                found.update(*(state.replicas for state in states if state.leader == self._node_id))
        return frozenset(found - {self._node_id})

    def set_followers(self, topic: str, followers: frozenset[int], anew: frozenset[int]) -> list[bytes]:
        """The records that give the partitions of a topic that this node leads these followers.

        Those that are not in the ISR, and those of `anew`, join it once they have caught up. Raises
        UnknownTopicOrPartition.
        """
        image, replicas, records = self._image().topic(topic), [self._node_id, *sorted(followers)], list[bytes]()
        for number, state in image.partitions.items():
            isr = [node for node in replicas if node in state.isr and node not in anew]
            if state.leader == self._node_id and (list(state.replicas), list(state.isr)) != (replicas, isr):
                records += assign_leader(
                    image.id, number, state, leader=state.leader, epoch=state.leader_epoch, replicas=replicas, isr=isr
                )
        return records

    def shrink_isr(self, leaving: Mapping[TopicPartition, frozenset[int]]) -> list[bytes]:
        """The records that take followers out of the ISRs of partitions. (Kafka: AlterPartition)"""
        records: list[bytes] = []
        for key, nodes in leaving.items():
            topic, state = self._state(key)
            records += change_isr(topic.id, key.partition, [node for node in state.isr if node not in nodes])
        return records

    def expand_isr(self, node: int, keys: Iterable[TopicPartition]) -> list[bytes]:
        """The records that take a follower into the ISRs of partitions. (Kafka: AlterPartition)"""
        records: list[bytes] = []
        for key in keys:
            topic, state = self._state(key)
            if node not in state.isr:
                records += change_isr(topic.id, key.partition, [*state.isr, node])
        return records


def _no_epoch_left(key: TopicPartition) -> FencedLeaderEpoch:
    return FencedLeaderEpoch(f"{key.topic}-{key.partition}: there is no leader epoch after {EPOCH_MAX}")
