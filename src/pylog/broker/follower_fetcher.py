"""The fetches by which a node copies the partitions that it follows from one leader (Kafka's ReplicaFetcherThread).

    send      one Fetch names all of them; the leader answers it at once, or when there is more
    apply     the answer, part by part; the next Fetch is the acknowledgement

Both happen in a worker's thread, which the completed answer wakes. A partition whose answer is an error rests for a
while and does not hold up the others.
"""

import logging
from collections.abc import Callable

from pylog.config import NodeConfig
from pylog.errors import PylogError, RequestTimedOut
from pylog.protocol.messages import Fetch, Fetched, FetchedPart, Session
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import WholeLock
from pylog.runtime.worker import Worker
from pylog.transport import Transport

logger = logging.getLogger("pylog")

ANSWER_MS_SPARE = 30_000
"""How much longer than it was asked to a leader may take."""


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
        self._closed = False
        self._asked: dict[TopicPartition, Follower] = {}
        """The followers that the Fetch in flight names."""
        self._in_flight: Future[Fetched] | None = None
        self._due_ms = 0
        """When the next Fetch goes out; while one is in flight, when it is given up."""
        self._worker = Worker(f"pylog-fetcher-{node_id}-{leader}", clock, self._due, self._work)

    def follow(self, key: TopicPartition, follower: Follower) -> None:
        """Fetch this partition from now on."""
        with self._lock:
            self._followers[key] = follower
            self._resting.pop(key, None)
        self._worker.wake()

    def unfollow(self, key: TopicPartition) -> None:
        """Fetch this partition no longer; an answer in hand has been applied, or never will be."""
        with self._lock:
            self._followers.pop(key, None)

    def close(self) -> None:
        """Stop, and wait until the answer in hand has been applied; one that comes later is not."""
        self._closed = True
        self._worker.close()

    # --- in the worker's thread --------------------------------------------------------------------------------------

    def _due(self) -> int | None:
        in_flight = self._in_flight
        if in_flight is not None and in_flight.done():
            return 0
        return self._due_ms if in_flight is not None or self._followers else None

    def _work(self) -> None:
        """Apply the answer, and send the next Fetch."""
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None and not self._applied(in_flight):
            self._due_ms = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms
            return
        if not self._closed:
            self._send()

    def _send(self) -> None:
        now = self._clock.tick_ms()
        with self._lock:
            asked = self._asked = {
                key: follower
                for key, follower in self._followers.items()
                # What a failed partition holds is in doubt, and a fetch would claim that it is safe.
                if self._resting.get(key, now) <= now and not follower.partition.failed
            }
        if not asked:
            self._due_ms = now + self._config.replica_fetch_backoff_ms
            return
        wait_ms = self._config.replica_fetch_wait_max_ms
        parts = [follower.next_fetch(self._config.replica_fetch_max_bytes) for follower in asked.values()]
        fetch = Fetch(parts, replica_id=self._node_id, max_wait_ms=wait_ms)
        self._due_ms = now + wait_ms + ANSWER_MS_SPARE
        try:
            future = self._transport.send(self.leader, fetch, Session(client_id=f"replica-{self._node_id}"))
        except PylogError as error:
            future = failed(error)
        self._in_flight = future
        if not future.done():
            future.add_done_callback(self._answered)

    def _answered(self, future: Future[Fetched]) -> None:
        # In the thread that brings the answer.
        if future is self._in_flight:
            self._worker.wake_by(0)

    def _applied(self, answer: Future[Fetched]) -> bool:
        """Apply an answer; False where there is none."""
        late = RequestTimedOut("it has not answered in time")
        error = answer.exception() if answer.done() else late
        if isinstance(error, PylogError):
            logger.warning("node %d cannot fetch from node %d: %s", self._node_id, self.leader, error)
            return False
        for part in answer.result().parts:
            if self._closed:
                break
            self._apply(TopicPartition(part.topic, part.partition), part)
        return True

    def _apply(self, key: TopicPartition, part: FetchedPart) -> None:
        with self._lock:
            follower = self._followers.get(key)
            if follower is None or follower is not self._asked.get(key):
                # The role has changed since the Fetch: its answer may not touch the log any more.
                return
            before = follower.partition.next_offset
            try:
                try:
                    follower.apply(part, self._clock.wall_ms())
                finally:
                    # Also when the disk was full half-way: the next Fetch will claim what there is.
                    if follower.partition.next_offset != before:
                        self._changed(follower)
            except PylogError as error:
                logger.warning("%s-%d cannot follow node %d: %s", *key, self.leader, error)
                self._resting[key] = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms
