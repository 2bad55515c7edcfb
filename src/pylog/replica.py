"""The two roles a node can have for a partition, as objects over its `Partition`.

A `Leader` takes appends, answers fetches and knows how far each follower has come; the high watermark is what all
replicas in sync have (`replication.in_sync`). A `Follower` says what it wants next and takes what it gets, byte for
byte. A log without followers is a leader with an empty set of them, through the same code.

    follower                              leader
    Fetch(offset = my end, my last epoch) ->  notes: the follower has everything below `offset`, unless it knows no
                                              high watermark; advances the high watermark; may take it into the ISR
              <- bytes, high watermark, or diverging = (epoch, end): our logs part there
    appends, or truncates and asks again

Neither knows threads, sockets, clocks or files: a simulation drives these very classes.
(Kafka: cluster/Partition, AbstractFetcherThread; KIP-101, KIP-279, KIP-595.)
"""

from collections.abc import Callable
from uuid import UUID

from pylog.commitlog.partition_reader import ReadablePartition
from pylog.commitlog.plain_rules import Duty
from pylog.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    LogDiverged,
    OffsetOutOfRange,
    PylogError,
    UnknownLeaderEpoch,
)
from pylog.kernel import walk
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch, Origin, split
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import (
    CONSUMER,
    EARLIEST,
    INTERNAL_TOPICS,
    LATEST,
    MAX_TIMESTAMP,
    NO_EPOCH,
    NO_HIGH_WATERMARK,
    NO_ID,
    FetchedPart,
    FetchPart,
)
from pylog.protocol.messages.records import EpochEnd, ListedOffset, ListOffsetsPartition, OffsetForLeaderPartition
from pylog.replication.in_sync import InSync
from pylog.runtime.signals import WholeLock
from pylog.storage.leader_epochs import UNDEFINED
from pylog.storage.producer_state import Verification


class Leader:
    """The leader of a partition for one leader epoch; None as long as it was only read, for an append takes one.

    `told_epoch`: the epoch that the metadata names for it until then.
    `followers` are in sync from the beginning, those of `joining` once they have caught up.
    `visible_when_durable`: the leader's own copy counts for the high watermark only as far as it was synced, so what a
    reader has seen survives a power cut (`flush="sync"`).
    """

    def __init__(
        self, partition: Partition, *, epoch: int | None, followers: frozenset[int], visible_when_durable: bool,
        told_epoch: int = NO_EPOCH, joining: frozenset[int] = frozenset(), now_ms: int,
    ) -> None:  # fmt: skip
        self.partition = partition
        self.epoch = epoch
        self._told_epoch = told_epoch
        self.visible_when_durable = visible_when_durable
        self.has_followers = bool(followers or joining)
        """Whether the high watermark may have to wait for others."""
        self.has_ended = False
        """True once the node has another role for the partition, or none."""
        self._in_sync = InSync(followers, joining, now_ms)
        self._term_start = partition.next_offset
        # Held while the high watermark moves: a follower that joins meanwhile could lack what is shown.
        self._lock = WholeLock()
        self._take_duty()

    def _take_duty(self) -> None:
        """Tell the partition what this role owes for an append."""
        partition = self.partition
        partition.take_duty(
            Duty(
                has_followers=self.has_followers, syncs=self.visible_when_durable,
                is_internal=partition.topic in INTERNAL_TOPICS, has_epoch=self.epoch is not None,
            )
        )  # fmt: skip

    def begin(self, epoch: int) -> None:
        """Append in this epoch from now on."""
        self.epoch = epoch
        self._take_duty()

    def set_followers(self, followers: frozenset[int], joining: frozenset[int], now_ms: int) -> None:
        """Let these followers be in sync from now on, and those of `joining` once they have caught up."""
        with self._lock:
            self._in_sync.place(followers, joining, now_ms)
            self.has_followers = bool(followers or joining)
            self._take_duty()

    def lead_on(self, epoch: int, followers: frozenset[int], joining: frozenset[int], now_ms: int) -> None:
        """Lead on in a later epoch, with these followers.

        The role does not end by that: what was appended, and the answers that wait, stay owed.
        """
        # The followers first: nothing of the new epoch may be shown without them.
        self.set_followers(followers, joining, now_ms)
        self._term_start = self.partition.next_offset
        self.begin(epoch)

    def knows(self, node: int, part: FetchPart) -> bool:
        """Whether a node is a follower, in sync or not, and asks in this epoch."""
        return node in self._in_sync.followers and part.current_leader_epoch in (NO_EPOCH, self.epoch)

    # --- the ISR ----------------------------------------------------------------------------------------------------

    @property
    def isr(self) -> frozenset[int]:
        """The followers that are in sync."""
        return self._in_sync.members

    @property
    def followers(self) -> frozenset[int]:
        """All followers."""
        return self._in_sync.followers

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than `min.insync.replicas`, as far as there are so many at all.

        Appends with acks=all are refused, and nothing more becomes visible. (Kafka: Partition.isUnderMinIsr)
        """
        return self.has_followers and self._in_sync.is_under(self.partition.config.min_insync_replicas)

    def expand_isr(self, node: int) -> bool:
        """Take a follower into the ISR that has all that is visible, and all that was there when this term began.

        Gives whether it was taken in. (Kafka: Partition.maybeExpandIsr; KAFKA-7128)
        """
        with self._lock:
            return self._in_sync.join(node, max(self.partition.high_watermark, self._term_start))

    def lagging(self, now_ms: int, lag_ms: int) -> frozenset[int]:
        """The followers that are to leave the ISR: they have not caught up for `lag_ms`.

        They stay in it until `shrink_isr`. (Kafka: Partition.maybeShrinkIsr)
        """
        with self._lock:
            return self._in_sync.lagging(self.partition.next_offset, now_ms, lag_ms)

    def shrink_isr(self, nodes: frozenset[int]) -> None:
        """Wait no more for followers that have left the ISR, which is written down."""
        with self._lock:
            self._in_sync.leave(nodes)

    def append(
        self, batch: Batch, now_ms: int, *, origin: Origin = Origin.CLIENT, transaction_version: int = -1,
        guard: Verification | None = None, wall_ms: Callable[[], int] | None = None,
    ) -> Appended:  # fmt: skip
        """Append a batch in this leader's epoch, a client's unless told otherwise. It becomes visible with `advance`.

        Raises what `Partition.append` raises.
        """
        assert self.epoch is not None, "the node takes an epoch before it appends"
        return self.partition.append(
            batch, epoch=self.epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version, guard=guard,
            wall_ms=wall_ms,
        )  # fmt: skip

    def advance(self) -> bool:
        """Recompute the high watermark: what every replica in sync has, unless these are too few. Gives whether it
        moved.
        """
        partition, state = self.partition, self.partition.state
        own_end = state.durable_offset if self.visible_when_durable else state.next_offset
        if not self.has_followers:
            return partition.advance_high_watermark(own_end)
        with self._lock:
            return not self.is_under_min_isr and partition.advance_high_watermark(self._in_sync.reached(own_end))

    def fetch(
        self, part: FetchPart, *, replica_id: int, max_bytes: int, isolation: Isolation = Isolation.READ_UNCOMMITTED,
        as_extent: bool = False, now_ms: int,
    ) -> FetchedPart:  # fmt: skip
        """Answer a fetch: consumers see what their isolation says, followers up to the end; the offset of a follower
        with a high watermark is noted.

        Raises: FencedLeaderEpoch, UnknownLeaderEpoch (the asker believes in another epoch), OffsetOutOfRange,
        CorruptBatch.
        """
        if part.current_leader_epoch != NO_EPOCH:
            self._check_epoch(part.current_leader_epoch)
        follower = replica_id != CONSUMER
        diverging = self._diverging(part)
        if diverging == UNDEFINED and not follower:
            # Its position may be as good as any; outside the log it is not.
            diverging = None
        if diverging is not None:
            return self._answer(part, diverging=diverging)
        if follower and self._is_claim(part):
            with self._lock:
                self._in_sync.fetched(replica_id, part.offset, self.partition.next_offset, now_ms)
            self.advance()
        seen = None if follower else isolation
        return read_part(self.partition, part, isolation=seen, max_bytes=max_bytes, as_extent=as_extent)

    def _is_claim(self, part: FetchPart) -> bool:
        return part.offset <= self.partition.next_offset and part.high_watermark != NO_HIGH_WATERMARK

    def waits_for(self, offset: int) -> list[int]:
        """The followers in sync that have not said that they have everything below `offset`."""
        return self._in_sync.missing(offset)

    def list_offset(self, part: ListOffsetsPartition, isolation: Isolation | None) -> ListedOffset:
        """Answer one part of a ListOffsets, with the leader epoch of what lies there.

        Raises: FencedLeaderEpoch, UnknownLeaderEpoch, CorruptBatch.
        """
        if part.current_leader_epoch != NO_EPOCH:
            self._check_epoch(part.current_leader_epoch)
        answer = list_offset(self.partition, part, isolation)
        if part.timestamp == LATEST:
            answer.leader_epoch = self._latest_epoch
        elif part.timestamp == EARLIEST:
            is_empty = answer.offset == self.partition.next_offset
            answer.leader_epoch = self._latest_epoch if is_empty else self.partition.epochs.at(answer.offset)
        return answer

    def epoch_end(self, part: OffsetForLeaderPartition) -> EpochEnd:
        """Where a leader epoch ends in the log. Raises FencedLeaderEpoch, UnknownLeaderEpoch."""
        if part.current_leader_epoch != NO_EPOCH:
            self._check_epoch(part.current_leader_epoch)
        epochs, end = self.partition.epochs, self.partition.next_offset
        if part.leader_epoch == self._latest_epoch or (
            not epochs.entries and NO_EPOCH < part.leader_epoch < self.present_epoch
        ):
            # Nothing may have been written in it yet.
            return EpochEnd(partition=part.partition, leader_epoch=part.leader_epoch, end_offset=end)
        epoch, end = epochs.end_offset_for(part.leader_epoch, end)
        return EpochEnd(partition=part.partition, leader_epoch=epoch, end_offset=end)

    @property
    def present_epoch(self) -> int:
        """The epoch of this leader that clients are told."""
        return self._told_epoch if self.epoch is None else self.epoch

    @property
    def _latest_epoch(self) -> int:
        """The epoch at the end of the log, in which nothing may have been written."""
        return max(self.partition.epochs.latest, self.present_epoch)

    def _check_epoch(self, believed: int) -> None:
        # A log that came from elsewhere, and was only read, may know a later epoch than the metadata.
        latest = self._latest_epoch if self.epoch is None else self.epoch
        if self.present_epoch <= believed <= latest:
            return
        name = f"{self.partition.topic}-{self.partition.number}"
        if believed < self.present_epoch:
            raise FencedLeaderEpoch(f"{name}: epoch {believed} is over, the leader is in epoch {self.present_epoch}")
        raise UnknownLeaderEpoch(f"{name}: epoch {believed} is newer than the leader's {latest}")

    def _diverging(self, part: FetchPart) -> tuple[int, int] | None:
        """Where what the asker has parts from this log, if its last epoch says that it does."""
        if part.last_fetched_epoch == NO_EPOCH:
            return None
        epoch, end = self.partition.epochs.end_offset_for(part.last_fetched_epoch, self.partition.next_offset)
        if (epoch, end) == UNDEFINED or epoch < part.last_fetched_epoch or end < part.offset:
            return epoch, end
        return None

    def _answer(self, part: FetchPart, *, diverging: tuple[int, int]) -> FetchedPart:
        answer = bounds_part(self.partition, part)
        answer.diverging = diverging
        return answer


def told_isr(leader: Leader) -> str:
    """The replicas that an append with acks=all lacks, for the error that tells it."""
    away = ", ".join(map(str, sorted(leader.followers - leader.isr)))
    return (
        f"{1 + len(leader.isr)} of {1 + len(leader.followers)} replicas are in sync, and min.insync.replicas is "
        f"{leader.partition.config.min_insync_replicas}; not in sync: node {away}"
    )


def bounds_part(partition: ReadablePartition, part: FetchPart) -> FetchedPart:
    """An answer without data: the partition's offsets."""
    return FetchedPart(
        part.topic,
        part.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.start_offset,
    )


def read_part(
    partition: ReadablePartition, part: FetchPart, *, isolation: Isolation | None, max_bytes: int,
    as_extent: bool = False,
) -> FetchedPart:  # fmt: skip
    """Read whole batches for one part of a Fetch, up to where `isolation` sees (None: the end), or find where they lie.

    The bound is the one that the answer names: each is looked at once (KAFKA-9807).
    """
    answer = bounds_part(partition, part)
    size = min(part.max_bytes, max_bytes)
    if isolation is Isolation.READ_COMMITTED:
        upto = answer.last_stable_offset
        found, aborted = partition.read_stable(part.offset, size, upto=upto, as_extent=as_extent)
        answer.aborted = [(txn.producer_id, txn.first_offset) for txn in aborted]
    else:
        upto = partition.next_offset if isolation is None else answer.high_watermark
        found = partition.read(part.offset, size, upto=upto, as_extent=as_extent)
    if found is not None:
        answer.data, answer.extent = found.data, found.extent
        answer.path, answer.position = found.path, found.position
    return answer


def list_offset(
    partition: ReadablePartition, part: ListOffsetsPartition, isolation: Isolation | None = Isolation.READ_UNCOMMITTED
) -> ListedOffset:
    """The start, the end that `isolation` sees (None: that of the log), the newest record, or the first at or after a
    time; -1 where that is not below this end. Markers and aborted records count, as in Kafka. Raises CorruptBatch.
    """
    answer = ListedOffset(partition_index=part.partition_index)
    committed = isolation is Isolation.READ_COMMITTED
    end = partition.last_stable_offset if committed else partition.high_watermark
    if isolation is None:
        end = partition.next_offset
    if part.timestamp == EARLIEST:
        answer.offset = partition.start_offset
    elif part.timestamp == LATEST:
        answer.offset = end
    else:
        newest = part.timestamp == MAX_TIMESTAMP
        found = partition.max_timestamp(end) if newest else partition.offset_for_time(part.timestamp, upto=end)
        if found is not None:
            answer.timestamp, answer.offset, answer.leader_epoch = found
    return answer


class Follower:
    """A follower of a partition for one leader epoch.

    The first Fetch begins with the last batch that is here: where the leader has another one in the same epoch, two
    nodes have led in it, and nothing tells where the logs part. Until that is known, this node has no high watermark,
    and acknowledges nothing. A compacted log is not compared, as cleaning rewrites batches on each node by itself.
    """

    def __init__(self, partition: Partition, *, leader: int, epoch: int, topic_id: UUID = NO_ID) -> None:
        self.partition = partition
        self.leader = leader
        self.epoch = epoch
        self.has_ended = False
        """See `Leader`."""
        partition.take_duty(None)
        self.error: PylogError | None = None
        """The reason why it does not come on, as far as is known."""
        self.leader_high_watermark = -1
        """The high watermark in the leader's last answer, or -1."""
        self._topic_id = topic_id
        self._compares = "compact" not in partition.config.cleanup_policy
        self._last: Batch | None = None
        """The last batch here, with which the Fetch in flight begins."""

    def next_fetch(self, max_bytes: int) -> FetchPart:
        """The next part to fetch from the leader. Asking acknowledges everything below the offset, once the logs were
        compared.
        """
        partition = self.partition
        self._last = self._last_batch() if self._compares else None
        offset = partition.next_offset if self._last is None else self._last.base_offset
        part = self._asking(offset, partition.epochs.latest, max_bytes)
        if self._last is not None:
            part.high_watermark = NO_HIGH_WATERMARK
        return part

    def fetch_behind(self, fetched: FetchedPart, max_bytes: int) -> FetchPart | None:
        """The part to fetch before an answer is taken, as if it were taken. None: it has to be taken first."""
        if self._last is not None or fetched.error is not None or fetched.diverging is not None:
            return None
        # Nothing is checked yet: what a wrong header makes this node ask for is not taken.
        spans, _, _ = walk(fetched.data, check_crc=False)
        if not spans:
            return self._asking(self.partition.next_offset, self.partition.epochs.latest, max_bytes)
        return self._asking(spans[-1].last_offset + 1, spans[-1].leader_epoch, max_bytes)

    def _asking(self, offset: int, last_epoch: int, max_bytes: int) -> FetchPart:
        partition = self.partition
        return FetchPart(
            partition.topic, partition.number, offset, max_bytes, current_leader_epoch=self.epoch,
            last_fetched_epoch=last_epoch, high_watermark=partition.high_watermark, topic_id=self._topic_id,
        )  # fmt: skip

    def apply(self, fetched: FetchedPart, now_ms: int) -> bool:
        """Take the leader's answer: append its bytes unchanged or truncate where it says. Gives whether the log
        changed, or was compared with the leader's.

        Raises: the answer's error, except OffsetOutOfRange below the leader's start, which restarts the log there;
        LogDiverged (the same epoch has other records there); UnknownLeaderEpoch (all that came is of a later leader).
        """
        partition, compared = self.partition, self._last
        self._last = None
        if isinstance(fetched.error, OffsetOutOfRange):
            if fetched.log_start_offset > partition.next_offset:
                # The leader has deleted what comes next: there is nothing between the two logs that could be kept.
                partition.truncate_fully(fetched.log_start_offset, now_ms)
                return True
            if compared is not None and fetched.log_start_offset > compared.base_offset:
                # The leader has deleted what was to be compared.
                self._compares = False
                return True
        if fetched.error is not None:
            raise fetched.error
        if fetched.diverging is not None:
            partition.truncate(self._common_end(*fetched.diverging), now_ms)
            partition.drop_empty_tail()
            return True
        data = fetched.data if compared is None else self._behind(compared, fetched.data)
        self._compares = False
        changed = len(data) > 0 and self._append(data, now_ms)
        self.leader_high_watermark = fetched.high_watermark
        partition.advance_high_watermark(fetched.high_watermark)
        partition.advance_start(min(max(fetched.log_start_offset, 0), partition.high_watermark))
        return changed or compared is not None

    def _append(self, data: memoryview, now_ms: int) -> bool:
        partition = self.partition
        if partition.next_offset == partition.start_offset:
            first = next(split(data), None)
            if first is not None and first.base_offset < partition.next_offset <= first.last_offset:
                # The leader's log starts inside of this batch, and here is nothing yet (KAFKA-6975).
                partition.truncate_fully(first.base_offset, now_ms)
        appended = partition.append_follower(data, epoch=self.epoch, now_ms=now_ms, as_one=False)
        if appended.next_offset == appended.base_offset and next(split(data), None) is not None:
            raise UnknownLeaderEpoch(
                f"{partition.topic}-{partition.number}: what node {self.leader} sends is of a later leader epoch than "
                f"{self.epoch}, in which it is followed"
            )
        return True

    # --- whether the logs are one -----------------------------------------------------------------------------------

    def _last_batch(self) -> Batch | None:
        partition = self.partition
        if partition.next_offset == partition.start_offset:
            return None
        try:
            found = partition.read(partition.next_offset - 1, 1, upto=partition.next_offset)
        except CorruptBatch:
            # What is damaged here says nothing of the leader.
            return None
        last = None if found is None else next(split(found.data), None)
        return last if last is not None and last.base_offset >= partition.start_offset else None

    def _behind(self, own: Batch, data: memoryview) -> memoryview:
        """The leader's bytes behind our last batch. Raises LogDiverged where that is another one there, of the
        same epoch. Where it is of another epoch the next Fetch finds where the logs part.
        """
        if data[: own.size] == own.data:
            return data[own.size :]
        first = next(split(data), None)
        if first is None or first.leader_epoch != own.leader_epoch or first.base_offset > own.last_offset:
            return data[:0]
        partition = self.partition
        raise LogDiverged(
            f"{partition.topic}-{partition.number}: node {self.leader} has other records than this node at offset "
            f"{own.base_offset} in leader epoch {own.leader_epoch}: two nodes have led in it. Keep one of the two "
            "logs: delete the topic in the other one, and let it follow again"
        )

    def _common_end(self, epoch: int, end: int) -> int:
        """Up to where both logs are the same, as far as one answer can tell (KIP-279)."""
        own_epoch, own_end = self.partition.epochs.end_offset_for(epoch, self.partition.next_offset)
        if (epoch, end) == UNDEFINED or (own_epoch, own_end) == UNDEFINED:
            return self.partition.high_watermark
        if own_epoch != epoch:
            return min(own_end, self.partition.next_offset)
        return min(own_end, end, self.partition.next_offset)
