"""Producers against a model written from the rules: every history is answered alike, and the log alone gives the state.

The model keeps no state between steps but the log, and reads it from the start (or from the last snapshot, where a
reload has narrowed the window of duplicates): slow, and short enough to be compared with the rules by eye.
"""

from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    ProtocolError,
    TransactionCoordinatorFenced,
)
from pylog.protocol.batch import Batch, Origin
from pylog.storage.producer_state import Producers, snapshot_offsets
from support.producer_log import DAY, DIRECTORY, MAX_SEQUENCE, T0, Log, data, marker

PRODUCERS = [1, 2, 17]


@dataclass
class Seen:
    """What the log says of one producer."""

    epoch: int = -1
    coordinator: int = -1
    timestamp: int = -1
    open_since: int | None = None
    window: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def next_sequence(self) -> int:
        return (self.window[-1][1] + 1) % (MAX_SEQUENCE + 1) if self.window else 0

    def take(self, batch: Batch) -> None:
        if batch.producer_epoch != self.epoch:
            self.epoch, self.window = batch.producer_epoch, []
        self.timestamp = batch.max_timestamp
        end = batch.marker()
        if end is not None:
            self.coordinator, self.open_since = end.coordinator_epoch, None
            return
        if batch.is_transactional and self.open_since is None:
            self.open_since = batch.base_offset
        last = (batch.base_sequence + batch.count - 1) % (MAX_SEQUENCE + 1)
        found = (batch.base_sequence, last, batch.base_offset, batch.last_offset, batch.max_timestamp)
        self.window = [*self.window, found][-5:]

    def refusal(self, batch: Batch) -> type[ProtocolError] | None:
        if batch.producer_epoch < self.epoch:
            return InvalidProducerEpoch
        end = batch.marker()
        if end is not None:
            return TransactionCoordinatorFenced if end.coordinator_epoch < self.coordinator else None
        expected = self.next_sequence() if batch.producer_epoch == self.epoch else 0
        if self.epoch >= 0 and batch.base_sequence != expected:
            return OutOfOrderSequence
        return InvalidTxnState if self.open_since is not None and not batch.is_transactional else None

    def reloaded(self) -> "Seen":
        """What a snapshot keeps: one batch, with the one timestamp that there is."""
        return replace(self, window=[(*self.window[-1][:4], self.timestamp)] if self.window else [])

    def as_entry(self) -> tuple:
        return self.epoch, self.coordinator, self.timestamp, self.open_since, tuple(self.window)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.known: dict[int, Seen] = {}
        self.snapshots: dict[int, dict[int, Seen]] = {}
        self.ended: dict[int, int] = {}  # first offset of a completed transaction -> its marker
        self.closed: dict[int, int] = {}  # those of them that are known to be completed
        self.high_watermark = 0
        self.now_ms = T0

    @property
    def end(self) -> int:
        return self.log.end_offset

    def seen(self, producer_id: int) -> Seen:
        return self.known.get(producer_id, Seen())

    # --- appending -----------------------------------------------------------------------------------------------

    @rule(
        producer_id=st.sampled_from(PRODUCERS), bump=st.sampled_from([0, 0, 0, 0, 1, -1]),
        shift=st.sampled_from([0, 0, 0, 0, 1, -1, -3, 5]), count=st.integers(1, 3),
        txn=st.sampled_from([None, True, False]),
    )  # fmt: skip
    def send(self, producer_id: int, bump: int, shift: int, count: int, txn: bool | None) -> None:
        """Mostly the batch that comes next; sometimes another epoch or sequence, or a switch of being transactional."""
        seen = self.seen(producer_id)
        epoch = max(seen.epoch, 0) + bump
        sequence = (seen.next_sequence() if epoch == seen.epoch else 0) + shift
        in_txn = seen.open_since is not None if txn is None else txn
        self.append(
            data(
                self.end, producer_id=producer_id, epoch=max(epoch, 0), sequence=sequence % (MAX_SEQUENCE + 1),
                count=count, txn=in_txn, timestamp=self.now_ms,
            )
        )  # fmt: skip

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def begin_near_the_wrap(self, producer_id: int) -> None:
        sequence = MAX_SEQUENCE - 2
        self.append(data(self.end, producer_id=producer_id, sequence=sequence, count=2, timestamp=self.now_ms))

    @precondition(lambda self: any(seen.window for seen in self.known.values()))
    @rule(choice=st.data())
    def retry(self, choice: st.DataObject) -> None:
        producer_id = choice.draw(st.sampled_from([i for i, seen in self.known.items() if seen.window]))
        seen = self.known[producer_id]
        known = choice.draw(st.sampled_from(seen.window))
        again = data(
            self.end, producer_id=producer_id, epoch=seen.epoch, sequence=known[0], count=known[3] - known[2] + 1,
            txn=seen.open_since is not None,
        )  # fmt: skip
        before = self.log.producers.encode()
        duplicates = [batch for batch in seen.window if batch[:2] == known[:2]]
        assert self.log.plan(again).duplicate in duplicates
        assert self.log.producers.encode() == before

    @rule(
        producer_id=st.sampled_from(PRODUCERS), bump=st.sampled_from([0, 0, 0, 1, -1]), abort=st.booleans(),
        coordinator=st.sampled_from([0, 0, 0, 1, -1]),
    )  # fmt: skip
    def end_transaction(self, producer_id: int, bump: int, abort: bool, coordinator: int) -> None:
        seen = self.seen(producer_id)
        self.append(
            marker(
                self.end, producer_id=producer_id, epoch=max(seen.epoch + bump, 0), abort=abort,
                coordinator_epoch=max(seen.coordinator + coordinator, 0), timestamp=self.now_ms,
            ),
            Origin.COORDINATOR,
        )  # fmt: skip

    def append(self, batch: Batch, origin: Origin = Origin.CLIENT) -> None:
        seen = self.seen(batch.producer_id)
        aborted = list(self.log.aborted)
        try:
            plan = self.log.append(batch, origin=origin)
        except ProtocolError as error:
            assert type(error) is seen.refusal(batch)
            return
        if plan.duplicate is not None:
            assert tuple(plan.duplicate) in seen.window and plan.duplicate.first_sequence == batch.base_sequence
            return
        assert seen.refusal(batch) is None
        end = batch.marker()
        if end is not None and seen.open_since is not None:
            self.closed[seen.open_since] = self.ended[seen.open_since] = batch.base_offset
            others = [
                s.open_since for i, s in self.known.items() if i != batch.producer_id and s.open_since is not None
            ]
            if end.is_abort:
                stable = min((first for first in others if first is not None), default=batch.next_offset)
                aborted.append((batch.producer_id, seen.open_since, batch.base_offset, stable))
        assert self.log.aborted == aborted
        self.known.setdefault(batch.producer_id, seen).take(batch)

    # --- time, watermarks, reloads -------------------------------------------------------------------------------

    @rule(share=st.floats(0, 1))
    def advance(self, share: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * share)
        self.log.producers.advance(self.high_watermark)

    @rule(step_ms=st.sampled_from([-15 * DAY, 1, DAY // 2, DAY, 2 * DAY]))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @rule()
    def expire(self) -> None:
        gone = {i for i, seen in self.known.items() if self.is_expired(seen)}
        assert set(self.log.producers.expire(self.now_ms)) == gone
        for producer_id in gone:
            del self.known[producer_id]

    def is_expired(self, seen: Seen) -> bool:
        return seen.open_since is None and self.now_ms - seen.timestamp >= DAY

    @rule()
    def snapshot(self) -> None:
        if self.end > max(self.snapshots, default=0):
            self.snapshots[self.end] = {i: seen.reloaded() for i, seen in self.known.items()}
        self.log.snapshot()
        assert snapshot_offsets(self.log.files, DIRECTORY) == sorted(self.snapshots)

    @rule(choice=st.data(), damage=st.booleans())
    def truncate_or_reopen(self, choice: st.DataObject, damage: bool) -> None:
        """The log is cut at a batch, or opened again as it is; the newest snapshot may be damaged."""
        boundaries = [0, *(batch.next_offset for batch in self.log.batches)]
        end = choice.draw(st.sampled_from(boundaries))
        self.snapshots = {offset: state for offset, state in self.snapshots.items() if offset <= end}
        if damage and self.snapshots:
            newest = max(self.snapshots)
            self.log.files.replace_file(f"{DIRECTORY}/{newest:020d}.snapshot", b"\0" * 20)
            del self.snapshots[newest]
        if not damage and end == self.end:
            return  # Nothing is cut, and the state in memory is good: it stays.
        aborted = [txn for txn in self.log.aborted if txn.last_offset < end]
        self.log.producers = Producers("t-0")
        self.log.aborted = []
        self.log.reload(end, now_ms=self.now_ms)
        begin = max(self.snapshots, default=0)
        state = {i: s for i, s in self.snapshots.get(begin, {}).items() if not self.is_expired(s)}
        self.known = {i: replace(seen) for i, seen in state.items()}
        for batch in self.log.batches:
            if batch.base_offset >= begin:
                self.known.setdefault(batch.producer_id, Seen()).take(batch)
        assert self.log.aborted == [txn for txn in aborted if txn.last_offset >= begin]
        self.log.aborted = aborted
        self.high_watermark = min(self.high_watermark, end)
        self.log.producers.advance(self.high_watermark)
        # A snapshot does not say which transactions were decided above the high watermark (as Kafka's does not).
        self.ended = {first: last for first, last in self.ended.items() if last < end}
        self.closed = {first: last for first, last in self.ended.items() if begin <= last}

    # --- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def the_entries_are_the_models(self) -> None:
        assert {i: tuple(entry) for i, entry in self.log.producers.entries().items()} == {
            i: seen.as_entry() for i, seen in self.known.items()
        }

    @invariant()
    def the_unstable_offset_is_the_first_that_is_not_decided_for_all(self) -> None:
        unstable = [seen.open_since for seen in self.known.values() if seen.open_since is not None]
        unstable += [first for first, last in self.closed.items() if last >= self.high_watermark]
        assert self.log.producers.first_unstable_offset == min(unstable, default=None)

    @invariant()
    def replaying_the_log_gives_the_state(self) -> None:
        replayed = Producers("t-0")
        replayed.replay([(batch, batch.marker()) for batch in self.log.batches])
        whole = replayed.entries()
        for producer_id, entry in self.log.producers.entries().items():
            if self.known[producer_id].window:
                assert whole[producer_id].batches[-1][:4] == entry.batches[-1][:4]
            assert whole[producer_id][:1] == entry[:1] and whole[producer_id][2:4] == entry[2:4]


TestHistories = Histories.TestCase
