"""The answers of a node to the readers of the partitions that it leads: consumers and followers.

An error of a partition is in its part of the answer. (Kafka: ReplicaManager.)
"""

from collections.abc import Callable
from functools import partial

from pylog.broker.fetch import read_parts
from pylog.broker.replica_manager import ReplicaManager
from pylog.errors import OffsetOutOfRange
from pylog.partition import Partition
from pylog.protocol.isolation import isolation_of
from pylog.protocol.messages import (
    CONSUMER,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    Session,
)
from pylog.protocol.messages.records import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from pylog.record import TopicPartition
from pylog.replica import Leader, bounds_part
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed


class ReadCounts:
    """Counts of the reads of one topic since the node was opened."""

    __slots__ = ("bytes_out", "bytes_replicated", "failures", "fetches")

    def __init__(self) -> None:
        self.fetches = self.failures = 0
        self.bytes_out = 0
        """Given to consumers."""
        self.bytes_replicated = 0
        """Given to followers."""


class Reads:
    """The reads of one node. `release` hears of a partition whose follower has come further, `show` of a leader whose
    ISR has become larger.
    """

    def __init__(
        self, node: ReplicaManager, clock: Clock, release: Callable[[Partition], object],
        show: Callable[[Leader], object],
    ) -> None:  # fmt: skip
        self._node = node
        self._clock = clock
        self._release = release
        self._show = show
        self.counts: dict[str, ReadCounts] = {}
        """By topic."""

    def given(self, message: Fetch, fetched: Fetched) -> Fetched:
        """Count an answer, and give it."""
        for part in fetched.parts:
            counts = self._counts_of(part.topic)
            if counts is None:
                continue
            counts.fetches += 1
            if part.error is not None:
                counts.failures += 1
                continue
            # Before it is added: no other thread may come in between.
            size = part.size
            if message.replica_id == CONSUMER:
                counts.bytes_out += size
            else:
                counts.bytes_replicated += size
        return fetched

    def given_to_share(self, topic: str, size: int) -> None:
        """Count the records of a partition that a member of a share group gets."""
        counts = self._counts_of(topic)
        if counts is not None:
            counts.fetches += 1
            counts.bytes_out += size

    def _counts_of(self, topic: str) -> ReadCounts | None:
        counts = self.counts.get(topic)
        if counts is None and topic in self._node.image.topics:
            counts = self.counts.setdefault(topic, ReadCounts())
        return counts

    def fetch(self, message: Fetch, again: bool) -> Fetched:
        """Read what there is now. A fetch of a follower tells how far it has come, unless it is read `again`."""
        tells = message.replica_id != CONSUMER and not again
        fetched = read_parts(message, partial(self._read_part, message, tells))
        if tells:
            self._expand_isr(message, fetched)
        return fetched

    def _expand_isr(self, message: Fetch, fetched: Fetched) -> None:
        """Take a follower into the ISR where it has caught up."""
        node, caught_up = message.replica_id, list[Leader]()
        for asked, part in zip(message.parts, fetched.parts, strict=False):
            role = self._node.roles.held(asked.topic, asked.partition)
            if not isinstance(role, Leader) or node in role.isr:
                continue
            if part.error is None and part.diverging is None and role.expand_isr(node):
                caught_up.append(role)
        if caught_up:
            keys = [TopicPartition(role.partition.topic, role.partition.number) for role in caught_up]
            self._node.roles.note_in_sync(node, keys)
        for role in caught_up:
            # There may have been too few before.
            self._show(role)

    def _read_part(self, message: Fetch, tells: bool, asked: FetchPart, max_bytes: int) -> FetchedPart:
        self._node.topics.metadata_log.image.check_id(asked.topic, asked.topic_id)
        leader = self._node.roles.leader(asked.topic, asked.partition)
        if tells and leader.knows(message.replica_id, asked):
            self._node.roles.register(message.replica_id, asked.directory_id)
        try:
            part = leader.fetch(
                asked, replica_id=message.replica_id, max_bytes=max_bytes, isolation=message.isolation,
                as_extent=message.as_extents, now_ms=self._clock.tick_ms(),
            )  # fmt: skip
            if tells:
                self._release(leader.partition)
        except OffsetOutOfRange as error:
            # With the start of the log: a follower that is behind it begins again there.
            part = bounds_part(leader.partition, asked)
            part.error = error
        return part

    def list_offsets(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        """The answer to a ListOffsets with what there is now."""
        isolation = isolation_of(message.isolation_level) if message.replica_id == CONSUMER else None
        leader = self._node.roles.leader
        return message.answered(lambda key, asked: leader(*key).list_offset(asked, isolation))

    def epoch_ends(
        self, message: OffsetForLeaderEpochRequest, session: Session
    ) -> Future[OffsetForLeaderEpochResponse]:  # fmt: skip
        """Answer an OffsetForLeaderEpoch."""
        leader = self._node.roles.leader
        return completed(message.answered(lambda key, asked: leader(*key).epoch_end(asked)))
