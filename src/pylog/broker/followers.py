"""What one node follows: a fetcher for each leader, and each way to it."""

from collections.abc import Callable

from pylog.broker.follower_fetcher import FollowerFetcher, LeaderEndPoint
from pylog.config import NodeConfig
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock


class Followers:
    """The fetchers of one node. (Kafka: ReplicaFetcherManager) `changed`: see `FollowerFetcher`."""

    def __init__(self, node_id: int, clock: Clock, config: NodeConfig, changed: Callable[[Follower], None]) -> None:
        self._node_id = node_id
        self._clock = clock
        self._config = config
        self._changed = changed
        self._fetchers: dict[LeaderEndPoint, FollowerFetcher] = {}

    def follow(self, key: TopicPartition, follower: Follower, leader: LeaderEndPoint) -> None:
        """Fetch a partition from a leader from now on."""
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = FollowerFetcher(leader, self._node_id, self._clock, self._config, self._changed)
            self._fetchers[leader] = fetcher
        fetcher.follow(key, follower)

    def unfollow(self, key: TopicPartition) -> None:
        """Fetch a partition no longer."""
        for fetcher in list(self._fetchers.values()):
            fetcher.unfollow(key)

    def leave(self, leader: LeaderEndPoint) -> None:
        """Fetch nothing from a leader any more, and wait until what it has answered is applied."""
        fetcher = self._fetchers.pop(leader, None)
        if fetcher is not None:
            fetcher.close()

    def closers(self) -> list[Callable[[], None]]:
        """What closes each of them."""
        return [fetcher.close for fetcher in self._fetchers.values()]
