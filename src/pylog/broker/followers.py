"""The partitions that one node follows: a fetcher for each leader, and each way to it.

The topics of coordinators have one of their own: their many partitions would be named by every fetch for which an
append of another topic waits.
"""

from collections.abc import Callable
from uuid import UUID

from pylog.broker.follower_fetcher import FollowerFetcher, LeaderEndPoint
from pylog.config import NodeConfig
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock


class Followers:
    """The fetchers of one node. (Kafka: ReplicaFetcherManager) `changed`: see `FollowerFetcher`."""

    def __init__(
        self, node_id: int, directory_id: UUID, clock: Clock, config: NodeConfig, changed: Callable[[Follower], None]
    ) -> None:
        self._node_id = node_id
        self._directory_id = directory_id
        self._clock = clock
        self._config = config
        self._changed = changed
        self._fetchers: dict[tuple[LeaderEndPoint, bool], FollowerFetcher] = {}

    def follow(self, key: TopicPartition, follower: Follower, leader: LeaderEndPoint) -> None:
        """Fetch a partition from a leader from now on."""
        is_internal = key.topic in INTERNAL_TOPICS
        fetcher = self._fetchers.get((leader, is_internal))
        if fetcher is None:
            fetcher = FollowerFetcher(
                leader, self._node_id, self._directory_id, self._clock, self._config, self._changed,
                "-coordinators" if is_internal else "",
            )  # fmt: skip
            self._fetchers[leader, is_internal] = fetcher
        fetcher.follow(key, follower)

    def unfollow(self, key: TopicPartition) -> None:
        """Fetch a partition no longer."""
        for fetcher in list(self._fetchers.values()):
            fetcher.unfollow(key)

    def leave(self, leader: LeaderEndPoint) -> None:
        """Fetch nothing from a leader any more, and wait until what it has answered is applied."""
        for is_internal in (False, True):
            fetcher = self._fetchers.pop((leader, is_internal), None)
            if fetcher is not None:
                fetcher.close()

    def closers(self) -> list[Callable[[], None]]:
        """The functions that close each fetcher and each way to a leader."""
        return [fetcher.close for fetcher in self._fetchers.values()]
