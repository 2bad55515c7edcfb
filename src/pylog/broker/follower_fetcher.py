"""The fetches by which a node copies the partitions that it follows from one leader (Kafka's ReplicaFetcherThread).

    send      one Fetch names all of them; the leader answers it at once, or when there is more
    apply     the answer, part by part; the next Fetch is the acknowledgement
    ahead     where asking acknowledges nothing, the next Fetch goes out before the answer is applied: the leader sends
              on while this node checks and writes. An answer to what the log has not come to is dropped
    ask       where the leader's log starts, if that lies behind what was asked for, and a network does not say so

All happen in a worker's thread, which the completed answer wakes. A partition whose answer is an error rests for a
while and does not hold up the others. One whose log has parted from the leader's for good is followed no longer.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from pylog.config import NodeConfig
from pylog.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    LogDiverged,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PylogError,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from pylog.protocol.messages import (
    CONSUMER,
    EARLIEST,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    Message,
    Session,
)
from pylog.protocol.messages.records import ListOffsetsRequest, ListOffsetsResponse
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, failed
from pylog.runtime.signals import WholeLock
from pylog.runtime.worker import Worker
from pylog.transport import Transport

logger = logging.getLogger("pylog.broker")

ANSWER_MS_SPARE = 30_000
"""How much longer than it was asked to a leader may take."""
LEADER_MOVED = (FencedLeaderEpoch, LeaderNotAvailable, NotLeaderOrFollower, UnknownLeaderEpoch)
"""The errors that end with the role of the moment."""
_Asked = dict[TopicPartition, tuple[Follower, int]]


@dataclass(frozen=True, slots=True)
class LeaderEndPoint:
    """A leader as its followers reach it. `refused` hears of each error. (Kafka: LeaderEndPoint)

    `is_replica`: the leader has this node among the replicas, so it shows it the log to its end, and asking
    acknowledges.
    Otherwise this node asks as a consumer does, and gets what all replicas of the leader have.
    """

    node: int
    transport: Transport
    refused: Callable[[PylogError], None] = lambda _: None
    is_replica: bool = True
    address: tuple[str, int] | None = None
    """Host and port, for clients that ask this node where the leader is."""


class FollowerFetcher:
    """Fetches from `leader` for as long as it follows anything. `changed` is called, before the next Fetch, for each
    partition whose log got longer or shorter: there the node makes durable what it is about to acknowledge. `name` is
    that of the fetcher among those of one leader: each has a connection of its own.
    """

    def __init__(
        self, leader: LeaderEndPoint, node_id: int, directory_id: UUID, clock: Clock, config: NodeConfig,
        changed: Callable[[Follower], None], name: str = "",
    ) -> None:  # fmt: skip
        self._leader = leader
        self._node_id = node_id
        self._directory_id = directory_id
        self._clock = clock
        self._config = config
        self._changed = changed
        self._session = Session(client_id=f"replica-{node_id}{name}")
        self._followers: dict[TopicPartition, Follower] = {}
        self._resting: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        """Those that do not know where the leader's log starts, and have to."""
        self._said = ""
        self._lock = WholeLock()
        self._closed = False
        self._asked: _Asked = {}
        """The followers that the request in flight names, each with where its log ends when the answer is of use."""
        self._in_flight: Future[Fetched | ListOffsetsResponse] | None = None
        self._due_ms = 0
        """When the next Fetch goes out; while one is in flight, when it is given up."""
        self._worker = Worker(f"pylog-fetcher-{node_id}-{leader.node}{name}", clock, self._due, self._work)

    def follow(self, key: TopicPartition, follower: Follower) -> None:
        """Fetch this partition from now on. Raises ThreadsExhausted: it is not fetched then."""
        self._worker.begin()
        with self._lock:
            self._followers[key] = follower
            self._resting.pop(key, None)
            self._lost.discard(key)
        self._worker.wake()

    def unfollow(self, key: TopicPartition) -> None:
        """Fetch this partition no longer; an answer in hand has been applied, or never will be."""
        with self._lock:
            self._followers.pop(key, None)

    def close(self) -> None:
        """Stop, and wait until the answer in hand has been applied; one that comes later is not."""
        self._closed = True
        self._worker.close()
        self._leader.transport.forget(self._session)

    # --- in the worker's thread --------------------------------------------------------------------------------------

    def _due(self) -> int | None:
        in_flight = self._in_flight
        if in_flight is not None and in_flight.done():
            return 0
        return self._due_ms if in_flight is not None or self._followers else None

    def _work(self) -> None:
        """Apply the answer, and send the next Fetch."""
        answer, self._in_flight = self._in_flight, None
        asked = self._asked
        is_ahead = answer is not None and self._read_ahead(answer)
        if answer is not None and not self._applied(answer, asked):
            self._due_ms = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms
        elif not is_ahead and not self._closed:
            self._ask()

    def _wanted(self, now_ms: int) -> dict[TopicPartition, Follower]:
        with self._lock:
            return {
                key: follower
                for key, follower in self._followers.items()
                # What a failed partition holds is in doubt, and a fetch would claim that it is safe.
                if self._resting.get(key, now_ms) <= now_ms and not follower.partition.failed
            }

    def _ask(self) -> None:
        now = self._clock.tick_ms()
        wanted = self._wanted(now)
        lost = {key: follower for key, follower in wanted.items() if key in self._lost}
        self._asked = {key: (follower, follower.partition.next_offset) for key, follower in (lost or wanted).items()}
        if not wanted:
            self._due_ms = now + self._config.replica_fetch_backoff_ms
            return
        max_bytes = self._config.replica_fetch_max_bytes
        self._send(
            _list_starts(lost) if lost else self._fetch([one.next_fetch(max_bytes) for one in wanted.values()]), now
        )

    def _read_ahead(self, answer: Future[Fetched | ListOffsetsResponse]) -> bool:
        """Send the Fetch that follows an answer before that is applied; False where it would acknowledge what is not
        here, and where anything is wrong.
        """
        if self._leader.is_replica or self._closed or not answer.done() or answer.exception() is not None:
            return False
        result, now = answer.result(), self._clock.tick_ms()
        wanted = self._wanted(now)
        if not isinstance(result, Fetched) or len(wanted) != len(result.parts):
            return False
        parts, asked = [], {}
        for part in sorted(result.parts, key=lambda part: part.size > 0):
            key = TopicPartition(part.topic, part.partition)
            follower, end = self._asked[key]
            behind = follower.fetch_behind(part, self._config.replica_fetch_max_bytes)
            if behind is None or wanted.get(key) is not follower or follower.partition.next_offset != end:
                return False
            parts.append(behind)
            asked[key] = follower, behind.offset
        self._asked = asked
        self._send(self._fetch(parts), now)
        return True

    def _send(self, message: Message, now_ms: int) -> None:
        self._due_ms = now_ms + self._config.replica_fetch_wait_max_ms + ANSWER_MS_SPARE
        try:
            future = self._leader.transport.send(self._leader.node, message, self._session)
        except PylogError as error:
            future = failed(error)
        self._in_flight = future
        if not future.done():
            future.add_done_callback(self._answered)

    def _fetch(self, parts: list[FetchPart]) -> Fetch:
        config = self._config
        for part in parts:
            part.directory_id = self._directory_id
        return Fetch(
            parts, replica_id=self._node_id if self._leader.is_replica else CONSUMER,
            max_wait_ms=config.replica_fetch_wait_max_ms, max_bytes=config.replica_fetch_response_max_bytes,
        )  # fmt: skip

    def _answered(self, future: Future[Fetched | ListOffsetsResponse]) -> None:
        # In the thread that brings the answer.
        if future is self._in_flight:
            self._worker.wake_by(0)

    def _applied(self, answer: Future[Fetched | ListOffsetsResponse], asked: _Asked) -> bool:
        """Apply an answer to what was `asked`; False if no answer has come."""
        late = RequestTimedOut("it has not answered in time")
        error = answer.exception() if answer.done() else late
        if isinstance(error, PylogError):
            self._note_failure(error, asked)
            return False
        self._note_answer()
        result = answer.result()
        parts = result.parts if isinstance(result, Fetched) else _beginnings(result)
        for part in parts:
            if self._closed:
                break
            self._apply(TopicPartition(part.topic, part.partition), part, asked)
        return True

    def _apply(self, key: TopicPartition, part: FetchedPart, asked: _Asked) -> None:
        with self._lock:
            follower, end = asked[key]
            if follower is not self._followers.get(key) or follower.partition.next_offset != end:
                # The role has changed since the Fetch, and its answer may not touch the log any more; or the log has
                # not come to where it was read ahead.
                return
            if isinstance(part.error, OffsetOutOfRange) and part.log_start_offset < 0 and key not in self._lost:
                self._lost.add(key)
                return
            self._lost.discard(key)
            before = follower.partition.next_offset
            try:
                try:
                    follower.apply(part, self._clock.wall_ms())
                finally:
                    # Also when the disk was full half-way: the next Fetch will claim what there is.
                    if follower.partition.next_offset != before:
                        self._changed(follower)
            except PylogError as error:
                self._refused(key, follower, error)
            else:
                follower.error = None
                if part.size:
                    # The answer to the next Fetch has room for the others first (Kafka: updateAndMoveToEnd).
                    self._followers[key] = self._followers.pop(key)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _refused(self, key: TopicPartition, follower: Follower, error: PylogError) -> None:
        if str(follower.error) != str(error):
            level = logging.INFO if isinstance(error, LEADER_MOVED) else logging.WARNING
            logger.log(
                level,
                "%s-%d cannot follow node %d: %s",
                *key,
                self._leader.node,
                error,
                extra={**key._asdict(), "leader": self._leader.node},
            )
        follower.error = error
        self._resting[key] = self._clock.tick_ms() + self._config.replica_fetch_backoff_ms
        if isinstance(error, LogDiverged):
            self._followers.pop(key, None)
        self._leader.refused(error)

    def _note_failure(self, error: PylogError, asked: _Asked) -> None:
        """The leader has not answered."""
        if self._said != str(error):
            logger.warning(
                "node %d cannot fetch from node %d: %s",
                self._node_id,
                self._leader.node,
                error,
                extra={"node_id": self._node_id, "leader": self._leader.node},
            )
            self._said = str(error)
        for follower, _ in asked.values():
            follower.error = error
        self._leader.refused(error)

    def _note_answer(self) -> None:
        if self._said:
            logger.info(
                "node %d fetches from node %d again",
                self._node_id,
                self._leader.node,
                extra={"node_id": self._node_id, "leader": self._leader.node},
            )
            self._said = ""


def _list_starts(followers: dict[TopicPartition, Follower]) -> ListOffsetsRequest:
    epochs = {key: follower.epoch for key, follower in followers.items()}
    return ListOffsetsRequest.of(dict.fromkeys(followers, EARLIEST), epochs=epochs)


def _beginnings(listed: ListOffsetsResponse) -> Iterator[FetchedPart]:
    """The answer to a Fetch outside of the leader's log, once the start of that log is known."""
    for topic in listed.topics:
        for part in topic.partitions:
            out = OffsetOutOfRange(
                f"{topic.name}-{part.partition_index}: the leader's log, which starts at offset {part.offset}, ends "
                "before the one here, and does not know the leader epoch of what is here"
            )
            yield FetchedPart(topic.name, part.partition_index, part.error or out, log_start_offset=part.offset)
