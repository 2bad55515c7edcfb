"""Whom a consumer asks about its partitions, and how long it rests where they refuse.

A poll of a member waits for nobody: what is not known of a topic is looked at beside it. Who reads partitions by hand,
or all of a topic, is told at once that it is gone, and so waits for the answer.
"""

from collections.abc import Iterable

from pylog.client.cluster import Cluster
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import (
    COORDINATOR_AWAY,
    FencedLeaderEpoch,
    LeaderNotAvailable,
    LogTruncation,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    PylogError,
    ReplicaNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

QUIET = (
    *COORDINATOR_AWAY,
    NotLeaderOrFollower,
    LeaderNotAvailable,
    LogTruncation,
    ReplicaNotAvailable,
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
    UnknownTopicId,
    OffsetNotAvailable,
    UnstableOffsetCommit,
)
"""What says that the answer is elsewhere, or will be: asked again, after a while."""


class LeaderLookup:
    """The leaders of one consumer's partitions."""

    def __init__(self, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock

    def of(self, keys: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions by the node that leads them; those of which that is not known now rest.

        Raises UnknownTopicOrPartition, unless a group gives partitions and takes them.
        """
        grouped: dict[int, list[TopicPartition]] = {}
        for key in keys:
            node = self._leader(key)
            if node is not None:
                grouped.setdefault(node, []).append(key)
        return grouped

    def _leader(self, key: TopicPartition) -> int | None:
        node = self._cluster.known_leader(key)
        if node is None and self._subscription.is_shared:
            # Its topic is gone, or has become larger.
            self._subscription.is_stale = True
            self._rest(key)
        elif node is None:
            try:
                return self._cluster.leader(key)
            except QUIET:
                self._rest(key)
        return node

    def refused(self, key: TopicPartition, error: PylogError) -> None:
        """A node has answered with an error: ask again after a while, or let the next poll raise it."""
        self._cluster.heard(key, error)
        if isinstance(error, QUIET):
            self._rest(key)
        elif isinstance(error, UnknownTopicOrPartition) and self._subscription.is_shared:
            # Whoever assigns takes it away soon.
            self._subscription.is_stale = True
            self._rest(key)
        else:
            self._subscription.fail(key, error)

    def _rest(self, key: TopicPartition) -> None:
        self._subscription.states[key].retry_ms = self._clock.tick_ms() + self._config.retry_backoff_ms
