"""The lead of topics by hand (`Log.lead`), with all that belongs to it.

followers       those of the topic are in sync once they have caught up; at once where a partition is empty. The topics
                of coordinators have the followers of all topics that this node leads
coordinators    where another node has led a topic, its groups and transactions come along with the topic
transactions    what a leader has left open is settled, as after an unclean stop, before anybody is answered
"""

import logging
from collections.abc import Callable, Iterable

from pylog.broker.coordinator_router import CoordinatorRouter
from pylog.broker.replica_manager import ReplicaManager
from pylog.controller.roles import Lead
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import TopicPartition
from pylog.replica import Leader

logger = logging.getLogger("pylog.broker")


class Promotion:
    """Gives one node the lead of topics. `apply` gives it one role, `show` shows what its followers have."""

    def __init__(
        self, replica_manager: ReplicaManager, coordinating: CoordinatorRouter, apply: Callable[[Lead], None],
        show: Callable[[Leader], None],
    ) -> None:  # fmt: skip
        self._node = replica_manager
        self._coordinating = coordinating
        self._apply = apply
        self._show = show

    def along(self, topic: str) -> list[str]:
        """The topics of coordinators that come along where this node takes the lead of a topic.

        Raises UnknownTopicOrPartition.
        """
        if topic in INTERNAL_TOPICS:
            return []
        before = self._leaders(topic) - {self._node.id}
        return [
            name for name in sorted(INTERNAL_TOPICS & self._node.image.topics.keys()) if self._leaders(name) & before
        ]

    def _leaders(self, topic: str) -> set[int]:
        return {state.leader for state in self._node.topics.image_of(topic).partitions.values()}

    def lead(self, topic: str, followers: Iterable[int]) -> dict[int, int]:
        """Lead each partition of a topic in an epoch that was never used; gives the epochs by partition.

        Raises UnknownTopicOrPartition, and what `Roles.lead` raises.
        """
        along, counted = self.along(topic), tuple(sorted(followers))
        before = self._leaders(topic) - {self._node.id}
        every = self._node.topics.controller.partitions.counted(without=topic) | set(counted)
        promoted: dict[TopicPartition, bool] = {}
        with self._coordinating.changing_coordinators():
            # By hand, and again: who comes next with one of these ids is that node.
            self._node.roles.unregister(counted)
            for name in (topic, *along):
                self._node.take_over_producer_ids(name)
            for name in along:
                numbers = [n for n, one in self._node.topics.image_of(name).partitions.items() if one.leader in before]
                self._lead_each(name, numbers, tuple(sorted(every)), promoted)
            numbers = sorted(self._node.topics.image_of(topic).partitions)
            epochs = self._lead_each(topic, numbers, counted, promoted)
            self._expand_empty(topic, numbers, counted)
            if topic not in INTERNAL_TOPICS:
                for name in sorted(INTERNAL_TOPICS & self._node.image.topics.keys()):
                    for leader in self._node.roles.set_followers(name, every, frozenset(counted)):
                        self._show(leader)
            self._coordinating.settle_promoted(promoted)
        return epochs

    def _lead_each(
        self, topic: str, numbers: Iterable[int], followers: tuple[int, ...], promoted: dict[TopicPartition, bool]
    ) -> dict[int, int]:
        epochs = {}
        for number in numbers:
            key = TopicPartition(topic, number)
            state = self._node.topics.image_of(topic).partitions[number]
            if state.leader != self._node.id:
                promoted[key] = self._node.id in state.isr
                if not promoted[key]:
                    logger.warning(
                        "%s-%d: this node takes the lead, and node %d did not have it in the ISR: what was "
                        "acknowledged may be missing", *key, state.leader, extra=key._asdict(),
                    )  # fmt: skip
            epochs[number] = epoch = self._node.roles.unused_epoch(key)
            self._apply(
                Lead(
                    topic=topic, partition=number, leader_epoch=epoch, replicas=(self._node.id, *followers),
                    joining=followers,  # it is not known what they have, nor whether they are the nodes that they were
                )
            )  # fmt: skip
        return epochs

    def _expand_empty(self, topic: str, numbers: Iterable[int], followers: tuple[int, ...]) -> None:
        """Take followers into the ISR at once where there is nothing yet that they could lack."""
        roles, keys = self._node.roles, [TopicPartition(topic, number) for number in numbers]
        for node in followers:
            roles.note_in_sync(node, [key for key in keys if roles.leader(*key).expand_isr(node)])
