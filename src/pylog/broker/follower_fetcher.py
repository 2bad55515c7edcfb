"""The thread by which a node fetches the partitions it follows from one leader (Kafka's ReplicaFetcherThread).

One Fetch names all of them; the answer is applied part by part, and the next Fetch is the acknowledgement. A partition
whose answer is an error rests for a while and does not hold up the others.
"""

import logging
import threading
from collections.abc import Callable

from pylog.config import NodeConfig
from pylog.errors import PylogError
from pylog.protocol.messages import Fetch, Fetched, FetchedPart, Session
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.transport import Transport

logger = logging.getLogger("pylog")

ANSWER_SECONDS_MAX = 30.0


class FollowerFetcher:
    """Fetches from `leader` for as long as it follows anything. `changed` is called, before the next Fetch, for each
    partition whose log got longer or shorter: there the node makes durable what it is about to acknowledge.
    """

    def __init__(
        self, leader: int, node_id: int, transport: Transport, clock: Clock, config: NodeConfig,
        changed: Callable[[Follower], None],
    ) -> None:  # fmt: skip
        self.leader = leader
        self._node_id = node_id
        self._transport = transport
        self._clock = clock
        self._config = config
        self._changed = changed
        self._followers: dict[TopicPartition, Follower] = {}
        self._resting: dict[TopicPartition, int] = {}
        self._lock = WholeLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, key: TopicPartition, follower: Follower) -> None:
        """Fetch this partition from now on."""
        with self._lock:
            self._followers[key] = follower
            self._resting.pop(key, None)
            if self._thread is None:
                name = f"pylog-fetcher-{self._node_id}-{self.leader}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def unfollow(self, key: TopicPartition) -> None:
        """Fetch this partition no longer; an answer in hand has been applied, or never will be."""
        with self._lock:
            self._followers.pop(key, None)

    def close(self) -> None:
        """Stop, and wait until the answer in hand has been applied."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._round():
                    self._stop.wait(self._config.replica_fetch_backoff_ms / 1000)
            except (PylogError, TimeoutError) as error:
                logger.warning("node %d cannot fetch from node %d: %s", self._node_id, self.leader, error)
                self._stop.wait(self._config.replica_fetch_backoff_ms / 1000)

    def _round(self) -> bool:
        """One Fetch and its answer; whether there was anything to fetch."""
        now = self._clock.tick_ms()
        with self._lock:
            awake = {
                key: follower
                for key, follower in self._followers.items()
                # What a failed partition holds is in doubt, and a fetch would claim that it is safe.
                if self._resting.get(key, now) <= now and not follower.partition.failed
            }
        if not awake:
            return False
        fetch = Fetch(
            [follower.next_fetch(self._config.replica_fetch_max_bytes) for follower in awake.values()],
            replica_id=self._node_id,
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
        )
        session = Session(client_id=f"replica-{self._node_id}")
        fetched: Fetched = self._transport.send(self.leader, fetch, session).result(ANSWER_SECONDS_MAX)
        for part in fetched.parts:
            if self._stop.is_set():
                break
            key = TopicPartition(part.topic, part.partition)
            with self._lock:
                follower = self._followers.get(key)
                if follower is None or follower is not awake.get(key):
                    # The role has changed since the Fetch: its answer may not touch the log any more.
                    continue
                try:
                    self._apply(follower, part)
                except PylogError as error:
                    logger.warning("%s-%d cannot follow node %d: %s", *key, self.leader, error)
                    self._resting[key] = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms
        return True

    def _apply(self, follower: Follower, part: FetchedPart) -> None:
        before = follower.partition.next_offset
        try:
            follower.apply(part, self._clock.wall_ms())
        finally:
            # Also when the disk was full half-way: the next Fetch will claim what there is.
            if follower.partition.next_offset != before:
                self._changed(follower)
