"""The records of one partition that a share group works on: who has which, and how often each was delivered.

    start                                               end
      | accepted | with m1, until its lock ends | free |        next to be read from the log
      ->  moves on when the first records are accepted or archived

    acquire       records that were read go to a member: the free ones, and new ones behind the end
    acknowledge   a member accepts, releases or rejects what it has, or renews its lock
    release       a member is gone: what it has is free again
    expire        locks have ended: the same
    move_start    the log begins later

A change of states is written down by the share coordinator before it counts: `take_write` gives all that waits for
that, as one write at a time, and `written` ends it. Until then the records stay with the member and nobody acquires
them. A refused write changes nothing. Only the end of a lock counts at once: a restart would free such records, too.

A machine without clock, thread and file. Invariant: a record that was accepted, and written, is never acquired again.
Offsets without a record are in flight with their neighbours: members report them as gaps. (Kafka: SharePartition.)
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from pylog.coordinator.share.runs import NEVER, Run, Runs, StateChange
from pylog.coordinator.share.standing import Standing, standing
from pylog.coordinator.share.states import AcknowledgeType, RecordState, StoredBatch, pruned
from pylog.errors import InvalidRecordState, InvalidRequest, ProtocolError

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
_TARGETS = {
    AcknowledgeType.GAP: ARCHIVED, AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE, AcknowledgeType.REJECT: ARCHIVED,
}  # fmt: skip
_KINDS = {int(kind): kind for kind in AcknowledgeType}
_LOADED = {state.value: state for state in (AVAILABLE, ACKNOWLEDGED, ARCHIVED)}
FEW_DELIVERIES = 2
"""As often a record is delivered at least before it may be the one that its neighbours suffer from."""


class Limits(NamedTuple):
    """The configs of a group that a share partition goes by."""

    delivery_count: int
    """How often a record is delivered at most."""
    record_locks: int
    """How many records may be in flight."""
    lock_ms: int
    may_renew: bool = True
    """Whether a member may hold records longer, by RENEW."""


class Wanted(NamedTuple):
    """The number of records that a member wants, and in which portions."""

    records: int
    """Behind the last one, the rest of its batch comes, too."""
    batch_size: int
    """How many records a range of the answer has at least, where more than that are acquired."""
    is_strict: bool = False
    """Whether `records` is never exceeded (KIP-1206: record_limit)."""


class Acquired(NamedTuple):
    """Records that were acquired; `last_offset` is one of them."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """The word of a member about records: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def parts(self) -> list[tuple[int, int, AcknowledgeType]]:
        """(first, end, type) of neighbours of which the same is said."""
        if len(self.types) == 1:
            return [(self.first_offset, self.last_offset + 1, _KINDS[self.types[0]])]
        found, first = [], self.first_offset
        for kind, same in groupby(self.types):
            end = first + sum(1 for _ in same)
            found.append((first, end, _KINDS[kind]))
            first = end
        return found


class StateWrite(NamedTuple):
    """The states that the share coordinator is to write down now."""

    start_offset: int
    delivery_complete_count: int
    """How many records from there on are acknowledged or archived."""
    batches: list[StoredBatch]


class SharePartition:
    """The records of one partition and group, from what is written down of them."""

    def __init__(self, start_offset: int, state_epoch: int, batches: Iterable[StoredBatch] = ()) -> None:
        self.state_epoch = state_epoch
        self._runs = Runs(start_offset)
        self._complete = 0
        """How many records are acknowledged or archived, or will be by a change."""
        self._may_have_available = True
        self._due_ms = NEVER
        """No lock ends before."""
        self._waiting: list[StateChange] = []
        self._writing: list[StateChange] = []
        for batch in pruned(batches, start_offset):
            if batch.first_offset > self._runs.end:
                # It was never delivered, or its delivery was not written down.
                self._runs.append(Run(self._runs.end, AVAILABLE), batch.first_offset)
            run = Run(self._runs.end, _LOADED.get(batch.delivery_state, AVAILABLE), batch.delivery_count)
            self._runs.append(run, batch.last_offset + 1)
            self._complete += self._runs.end - run.first if run.is_final else 0
        self._move_on()

    def __repr__(self) -> str:
        return f"<SharePartition [{self.start_offset}, {self.end_offset}) in {len(self._runs)} runs>"

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first record that is not done with."""
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """The first record that was never acquired."""
        return self._runs.end

    @property
    def delivery_complete_count(self) -> int:
        """The number of records between start and end that are done with."""
        return self._complete

    @property
    def next_fetch_offset(self) -> int:
        """Where to read from: the first record that is free, or the end."""
        if self._may_have_available:
            for run in self._runs:
                if run.state is AVAILABLE:
                    return run.first
            self._may_have_available = False
        return self._runs.end

    def can_acquire(self, limits: Limits) -> bool:
        """Whether more may be acquired: not at the end, while too many are in flight."""
        runs = self._runs
        return runs.end - runs.start < limits.record_locks or self.next_fetch_offset < runs.end

    @property
    def due_ms(self) -> int | None:
        """When `expire` may have something to do; None: no lock is held."""
        return None if self._due_ms == NEVER else self._due_ms

    @property
    def is_idle(self) -> bool:
        """Whether all of its state is written down: nobody has records, and no change waits."""
        return not (self._waiting or self._writing) and all(run.state is not ACQUIRED for run in self._runs)

    # --- acquiring ---------------------------------------------------------------------------------------------------

    def acquire(
        self, member: str, position: int, batches: Sequence[range], wanted: Wanted, limits: Limits, now_ms: int,
        aborted: Iterable[range] = (),
    ) -> list[Acquired]:  # fmt: skip
        """Let a member have free records of the batches that were read at `position`, as ranges of offsets.

        Offsets between `position` and the first batch have no records any more, and those of `aborted` are for nobody.
        """
        runs = self._runs
        if not batches or batches[-1].stop <= runs.start:
            return []
        count, end = self._room(position, batches[-1].stop, wanted.records, limits)
        if count <= 0:
            return []
        known = runs.end
        if end > known:
            # As if they were in flight: what is not acquired of them is taken out again.
            runs.append(Run(known, AVAILABLE), end)
            runs.join(known, end)
        for gone in (range(position, batches[0].start), *aborted):
            if gone:
                self._archive(gone)
        taken = self._take(member, position, batches, count, wanted.is_strict, limits, now_ms + limits.lock_ms)
        if end > known:
            self._give_back(known, batches)
        self._move_on()
        return taken if wanted.is_strict else _in_portions(taken, batches, wanted.batch_size)

    def _room(self, position: int, end: int, records: int, limits: Limits) -> tuple[int, int]:
        """The number of records that may be acquired, and up to where."""
        runs = self._runs
        count = min(records, limits.record_locks - (runs.end - runs.start))
        if count > 0 or position >= runs.end:
            return count, end
        # Those that are free again are in flight already.
        return min(records, runs.end - position), min(end, runs.end)

    def _archive(self, gone: range) -> None:
        """Let free records be for nobody."""
        for run, first, end in self._runs.spans(gone.start, gone.stop):
            if run.state is AVAILABLE:
                for part in self._runs.cut_out(first, end):
                    part.state = ARCHIVED
                self._complete += end - first
                self._may_have_available = True

    def _take(
        self, member: str, position: int, batches: Sequence[range], records: int, is_strict: bool, limits: Limits,
        due_ms: int,
    ) -> list[Acquired]:  # fmt: skip
        taken: list[Acquired] = []
        count = rest = 0
        for run, first, end in self._runs.spans(position, batches[-1].stop):
            if run.state is not AVAILABLE:
                continue
            most = _portion(run.deliveries, end - first, limits.delivery_count)
            if (count >= records and first >= rest) or (most is not None and taken):
                break
            stop = min(end, first + (most or end), max(first + records - count, rest))
            if most is None and not is_strict:
                rest = _end_of_batch(batches, stop)
                stop = min(end, rest)
            for part in self._runs.cut_out(first, stop):
                part.state, part.member, part.due_ms = ACQUIRED, member, due_ms
                part.deliveries += 1
                taken.append(Acquired(first, stop - 1, part.deliveries))
            count += stop - first
            self._due_ms = min(self._due_ms, due_ms)
            if most is not None:
                break
        if taken:
            self._runs.join(taken[0].first_offset, taken[-1].last_offset + 1)
        return taken

    def _give_back(self, known: int, batches: Sequence[range]) -> None:
        """Take out of flight what was read and not acquired, behind the end as it was: whole batches."""
        for run, first, free in self._runs.spans(known, self._runs.end):
            if run.state is AVAILABLE and not run.deliveries:
                end = _end_of_batch(batches, first) if first > known else first
                if free < self._runs.end:
                    gone = self._runs.spans(end, self._runs.end)
                    self._complete -= sum(stop - at for done, at, stop in gone if done.is_final)
                self._runs.cut_off(end)
                self._may_have_available |= end > first
                return

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, said: Iterable[Acknowledgement], limits: Limits, now_ms: int
    ) -> StateChange | None:  # fmt: skip
        """Take what a member says of its records; gives what is to be written before it counts. All or nothing.

        The ranges are in order. Raises InvalidRequest (it names records that were never delivered) and
        InvalidRecordState (they are not the member's, or not any more, or named twice).
        """
        parts: list[tuple[int, int, AcknowledgeType]] = []
        for one in said:
            if one.last_offset >= self._runs.start:
                if parts and one.first_offset < parts[-1][1]:
                    raise InvalidRecordState(f"offset {one.first_offset} is acknowledged twice")
                self._check_known(one)
                parts += one.parts()
        for first, end, kind in parts:
            if kind is AcknowledgeType.RENEW and not limits.may_renew:
                raise InvalidRecordState("the group's share.renew.acknowledge.enable is false: no lock is renewed")
            self._check_held(member, first, end)
        change = StateChange()
        for first, end, kind in parts:
            for run, at, stop in self._runs.spans(first, end):
                if run.state is not ACQUIRED:
                    continue
                (part,) = self._runs.cut_out(at, stop)
                if kind is AcknowledgeType.RENEW:
                    part.due_ms = now_ms + limits.lock_ms
                    self._due_ms = min(self._due_ms, part.due_ms)
                else:
                    self._begin(change, part, stop, _TARGETS[kind], limits)
            self._runs.join(first, end)
        return self._noted(change)

    def _check_known(self, one: Acknowledgement) -> None:
        first, last = one.first_offset, one.last_offset
        if not len(self._runs):
            raise InvalidRecordState(f"nothing is in flight, and offsets {first} to {last} are not")
        if max(first, last) >= self._runs.end:
            raise InvalidRequest(f"offsets {first} to {last} are not all below {self._runs.end}, where delivery is")

    def _check_held(self, member: str, first: int, end: int) -> None:
        for run, at, stop in self._runs.spans(first, end):
            if run.state is ARCHIVED and not run.deliveries:
                # There was never a record.
                continue
            if run.state is not ACQUIRED or run.change is not None:
                raise InvalidRecordState(f"offsets {at} to {stop - 1} are not acquired")
            if run.member != member:
                raise InvalidRecordState(f"offsets {at} to {stop - 1} are acquired by another member")

    def release(self, member: str, limits: Limits) -> StateChange | None:
        """Free what a member has acquired; gives what is to be written before it counts."""
        change = StateChange()
        for index, run in enumerate(self._runs):
            if run.state is ACQUIRED and run.member == member and run.change is None:
                self._begin(change, run, self._runs.end_of(index), AVAILABLE, limits)
        return self._noted(change)

    def _begin(self, change: StateChange, run: Run, end: int, target: RecordState, limits: Limits) -> None:
        """Let a run have another state when that is written down."""
        run.change, run.target = change, _freed(run, limits) if target is AVAILABLE else target
        self._complete += end - run.first if run.is_final else 0
        change.add(run, end, run.target)

    def _noted(self, change: StateChange) -> StateChange | None:
        if not change.batches:
            return None
        self._waiting.append(change)
        return change

    # --- time --------------------------------------------------------------------------------------------------------

    def expire(self, limits: Limits, now_ms: int) -> StateChange | None:
        """Free records whose lock has ended; it counts, and is to be written. None where no lock has."""
        if now_ms < self._due_ms:
            return None
        change, due_ms = StateChange(), NEVER
        for index, run in enumerate(self._runs):
            if run.state is not ACQUIRED or run.change is not None:
                continue
            if run.due_ms > now_ms:
                due_ms = min(due_ms, run.due_ms)
                continue
            end = self._runs.end_of(index)
            run.state, run.member, run.due_ms = _freed(run, limits), "", NEVER
            self._complete += end - run.first if run.is_final else 0
            self._may_have_available = True
            change.add(run, end, run.state)
        self._due_ms = due_ms
        if change.batches:
            self._settle(change.batches)
        return self._noted(change)

    # --- writing -----------------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._waiting)

    def take_write(self) -> StateWrite | None:
        """Give what is to be written now; `written` is called when it is. None while a write is under way, or without a
        change.
        """
        if self._writing or not self._waiting:
            return None
        self._writing, self._waiting = self._waiting, []
        batches = [batch for change in self._writing for batch in change.batches]
        return StateWrite(self._runs.start, self._complete, batches)

    def written(self, error: ProtocolError | None = None) -> list[StateChange]:
        """End a write; with an error nothing of it counts. Gives the changes that were in it."""
        done, self._writing = self._writing, []
        for change in done:
            for batch in change.batches:
                for run, first, end in self._runs.spans(batch.first_offset, batch.last_offset + 1):
                    if run.change is change:
                        self._end_change(run, end - first, is_refused=error is not None)
            self._runs.join(change.batches[0].first_offset, change.batches[-1].last_offset + 1)
        self._move_on()
        return done

    def _end_change(self, run: Run, count: int, *, is_refused: bool) -> None:
        was_final = run.is_final
        run.change = None
        if not is_refused:
            run.state, run.member, run.due_ms = run.target, "", NEVER
        run.target = AVAILABLE
        self._complete += count * (run.is_final - was_final)
        self._may_have_available = self._may_have_available or run.state is AVAILABLE
        self._due_ms = min(self._due_ms, run.due_ms)

    def _settle(self, batches: list[StoredBatch]) -> None:
        self._runs.join(batches[0].first_offset, batches[-1].last_offset + 1)
        self._move_on()

    # --- moving on ---------------------------------------------------------------------------------------------------

    def move_start(self, log_start_offset: int) -> None:
        """Forget the records below the start of the log: they are not there any more."""
        if log_start_offset > self._runs.start:
            self._drop_before(log_start_offset)
            self._move_on()

    def _drop_before(self, offset: int) -> None:
        for run, first, end in self._runs.spans(self._runs.start, offset):
            if run.is_final:
                self._complete -= end - first
        self._runs.drop_before(offset)

    def _move_on(self) -> None:
        """Leave behind what is done with at the start."""
        start = self._runs.end
        for run in self._runs:
            if run.change is not None or not run.is_final:
                start = run.first
                break
        if start > self._runs.start:
            self._drop_before(start)

    def standing(self, lock_ms: int, now_ms: int) -> Standing:
        """The standing of its records, of which locks last for `lock_ms`."""
        start, end = self.start_offset, self.end_offset
        return standing(start, end, self._runs.spans(start, end), lock_ms, now_ms)

    def check(self) -> None:
        """Verify the invariants."""
        self._runs.check()
        spans = self._runs.spans(self.start_offset, self.end_offset)
        assert self._complete == sum(end - first for run, first, end in spans if run.is_final), "they are counted"
        held = [run for run, _, _ in spans if run.state is ACQUIRED]
        assert all(run.member and run.due_ms < NEVER for run in held), "what is acquired has a member and a lock"
        assert all(run.due_ms >= self._due_ms for run in held if run.change is None), "no lock ends unseen"
        changes = {id(run.change) for run, _, _ in spans if run.change is not None}
        assert changes <= {id(one) for one in (*self._waiting, *self._writing)}, "each change is written some time"
        assert not spans or spans[0][0].change is not None or not spans[0][0].is_final, "the first is not done with"


def _freed(run: Run, limits: Limits) -> RecordState:
    """The state of records that nobody has any more."""
    return ARCHIVED if run.deliveries >= limits.delivery_count else AVAILABLE


def _portion(deliveries: int, count: int, limit: int) -> int | None:
    """The number of neighbours that were delivered so often and may be delivered together; None: as many as are wanted.

    One of them may be bad: they are halved with each delivery, so that the good ones get through, and each is alone
    when it is delivered for the last time. (Kafka: SharePartition.acquireSubsetBatchRecords.)
    """
    if deliveries < max(FEW_DELIVERIES, (limit + 1) // 2):
        return None
    return 1 if FEW_DELIVERIES < limit == deliveries + 1 else max(1, count // 2)


def _end_of_batch(batches: Sequence[range], end: int) -> int:
    """Where the batch ends that has the last offset below `end`."""
    return next((batch.stop for batch in batches if batch.start < end <= batch.stop), end)


def _in_portions(taken: list[Acquired], batches: Sequence[range], batch_size: int) -> list[Acquired]:
    """The ranges that were acquired, cut into portions of whole batches."""
    portions = []
    for one in taken:
        first = one.first_offset
        for batch in batches:
            if first + batch_size <= batch.start <= one.last_offset:
                portions.append(Acquired(first, batch.start - 1, one.delivery_count))
                first = batch.start
        portions.append(Acquired(first, one.last_offset, one.delivery_count))
    return portions
