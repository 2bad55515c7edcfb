"""A share partition under members, locks that end, refused writes and restarts, beside a naive model.

The model has an entry for each offset, and does everything record by record. The log has batches, gaps of compaction,
aborted transactions, and loses its beginning. What is written down is kept by `combined`, beside a naive copy of it.
"""

import random
from dataclasses import dataclass
from itertools import pairwise

from pylog.coordinator.share.runs import StateChange
from pylog.coordinator.share.share_partition import Acknowledgement, Acquired, Limits, SharePartition, Wanted
from pylog.coordinator.share.states import AcknowledgeType, RecordState, StoredBatch, combined
from pylog.errors import InvalidRecordState, InvalidRequest, ProtocolError, UnknownServer

FREE, HELD = RecordState.AVAILABLE, RecordState.ACQUIRED
ACCEPTED, GONE = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
MEMBERS = ("ann", "ben", "cem")
TARGETS = {0: GONE, 1: ACCEPTED, 2: FREE, 3: GONE}


@dataclass(slots=True)
class Entry:
    """A record as the model has it."""

    state: RecordState = FREE
    deliveries: int = 0
    member: str = ""
    due_ms: int = 0
    change: StateChange | None = None
    target: RecordState = FREE

    @property
    def is_free(self) -> bool:
        return self.state is FREE

    @property
    def is_final(self) -> bool:
        return (self.state if self.change is None else self.target) in (ACCEPTED, GONE)


class World:
    """One share partition and its model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.limits = Limits(self.random.choice((2, 3, 5)), self.random.choice((10, 40, 200)), 1000)
        self.now = 0
        self.log: list[range] = []
        self.log_end = self.log_start = 0
        self.aborted: list[range] = []
        self.stored: list[StoredBatch] = []
        self.stored_start = 0
        self.naive: dict[int, tuple[int, int]] = {}
        self.done: set[int] = set()
        """What was accepted, or will never be delivered, and was written."""
        self.machine = SharePartition(0, 0)
        self.entries: dict[int, Entry] = {}
        self.start = self.end = 0

    def run(self, events: int) -> None:
        for _ in range(events):
            self.event()
            self.check()
        self.heal()

    def event(self) -> None:
        actions = (
            (self.append, 4), (self.acquire, 8), (self.acknowledge, 8), (self.write, 6), (self.pass_time, 3),
            (self.release, 1), (self.restart, 0.3), (self.retain, 0.5), (self.compact, 0.7),
        )  # fmt: skip
        action = self.random.choices([one for one, _ in actions], [weight for _, weight in actions])[0]
        action()

    # --- the log -----------------------------------------------------------------------------------------------------

    def append(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            batch = range(self.log_end, self.log_end + self.random.choice((1, 1, 3, 10)))
            self.log.append(batch)
            self.log_end = batch.stop
            if self.random.random() < 0.1:
                self.aborted.append(batch)

    def compact(self) -> None:
        """Whole batches vanish."""
        if len(self.log) > 2:
            del self.log[self.random.randrange(len(self.log) - 1)]

    def retain(self) -> None:
        if self.log:
            self.log_start = min(self.log_end, max(self.log_start, self.log[0].start) + self.random.randint(1, 15))
            self.log = [batch for batch in self.log if batch.stop > self.log_start]
            self.machine.move_start(self.log_start)
            self.move_start(self.log_start)

    def move_start(self, offset: int) -> None:
        for at in [at for at in self.entries if at < offset]:
            del self.entries[at]
        self.start, self.end = max(self.start, offset), max(self.end, offset)

    # --- members -----------------------------------------------------------------------------------------------------

    def acquire(self) -> None:
        position = self.machine.next_fetch_offset
        read = [batch for batch in self.log if batch.stop > position][: self.random.randint(1, 6)]
        wanted = Wanted(
            self.random.choice((1, 5, 20, 500)), self.random.choice((1, 4, 100)), self.random.random() < 0.4
        )
        member = self.random.choice(MEMBERS)
        self._acquire(member, position, read, wanted)

    def _acquire(self, member: str, position: int, read: list[range], wanted: Wanted) -> list[Acquired]:
        in_flight, before = self.end - self.start, self.end
        aborted = [batch for batch in read if batch in self.aborted]
        given = self.machine.acquire(member, position, read, wanted, self.limits, self.now, aborted)
        if read and (position < before or in_flight < self.limits.record_locks):
            for offset in range(position, min(read[0].start, self.machine.end_offset)):
                self._bury(offset)
            for offset in (offset for batch in aborted for offset in batch if offset < self.machine.end_offset):
                if offset >= before or self.entries.get(offset, Entry(GONE)).is_free:
                    self._bury(offset)
        self._give(member, given)
        self._check_portions(given, read, wanted, before, in_flight)
        if given and given[-1].last_offset >= before:
            self._keep_the_rest(given[-1].last_offset + 1, read)
        self.end = max(self.end, self.machine.end_offset)
        for offset in range(self.start, self.end):
            assert offset in self.entries, f"{offset} was passed over"
        self._move_on()
        return given

    def _keep_the_rest(self, end: int, read: list[range]) -> None:
        """What is in flight ends with a batch: what nobody has of the last one is free."""
        stop = next((batch.stop for batch in read if batch.start < end <= batch.stop), end)
        assert self.machine.end_offset >= stop, f"{end} to {stop} are left out of a batch that is in flight"
        for offset in range(end, stop):
            self.entries.setdefault(offset, Entry())

    def _bury(self, offset: int) -> None:
        if offset < self.start:
            return
        entry = self.entries.setdefault(offset, Entry())
        if entry.is_free:
            entry.state = GONE

    def _give(self, member: str, given: list[Acquired]) -> None:
        last = -1
        for one in given:
            assert last < one.first_offset <= one.last_offset, "ranges are sorted"
            last = one.last_offset
            for offset in range(one.first_offset, one.last_offset + 1):
                entry = self.entries.setdefault(offset, Entry())
                assert entry.is_free, f"{offset} is given to {member}, and is {entry}"
                assert offset not in self.done, f"{offset} is given again"
                assert offset >= self.log_start, f"{offset} is not there any more"
                entry.state, entry.member, entry.due_ms = HELD, member, self.now + self.limits.lock_ms
                entry.deliveries += 1
                assert entry.deliveries == one.delivery_count <= self.limits.delivery_count
                self.end = max(self.end, offset + 1)

    def _check_portions(
        self, given: list[Acquired], read: list[range], wanted: Wanted, before: int, in_flight: int
    ) -> None:
        count = sum(one.last_offset + 1 - one.first_offset for one in given)
        limit = self.limits.delivery_count
        if limit > 2 and any(one.delivery_count == limit for one in given):
            assert count == 1, "a record that is delivered for the last time is alone"
        if not given:
            return
        over = count - wanted.records
        batch = next(len(batch) for batch in read if given[-1].last_offset in batch) if over > 0 else 0
        assert over < (1 if wanted.is_strict else max(batch, 1)), "more than was wanted"
        new = sum(one.last_offset + 1 - max(one.first_offset, before) for one in given if one.last_offset >= before)
        room = max(self.limits.record_locks - in_flight, 0)
        assert new < room + max(map(len, read)) or not new, "too many are in flight"
        for one, after in pairwise(given):
            if one.last_offset + 1 == after.first_offset and one.delivery_count == after.delivery_count:
                size = one.last_offset + 1 - one.first_offset
                assert not wanted.is_strict and size >= wanted.batch_size, "a portion is too small"

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        held = [offset for offset, entry in self.entries.items() if entry.state is HELD and entry.member == member]
        if not held or self.random.random() < 0.1:
            first = max(self.random.randint(self.start - 3, self.end + 3), 0)
        else:
            first = self.random.choice(held)
        last = first
        while last + 1 in held and self.random.random() < 0.9:
            last += 1
        kinds = self.random.choices(
            (0, 1, 2, 3, 4), (1, 8, 3, 2, 1), k=1 if self.random.random() < 0.5 else last + 1 - first
        )
        said = Acknowledgement(first, last, kinds)
        expected = self._expected(member, said)
        try:
            change = self.machine.acknowledge(member, [said], self.limits, self.now)
        except ProtocolError as error:
            assert type(error) is expected, f"{said} of {member}: {error!r}, not {expected}"
            return
        assert expected is None, f"{said} of {member} is no {expected}"
        self._say(said, change)

    def _expected(self, member: str, said: Acknowledgement) -> type[ProtocolError] | None:
        if said.last_offset < self.start:
            return None
        if self.start == self.end:
            return InvalidRecordState
        if said.last_offset >= self.end:
            return InvalidRequest
        for offset in range(max(said.first_offset, self.start), said.last_offset + 1):
            entry = self.entries[offset]
            if entry.state is GONE and not entry.deliveries:
                continue
            if entry.state is not HELD or entry.change is not None or entry.member != member:
                return InvalidRecordState
        return None

    def _say(self, said: Acknowledgement, change: StateChange | None) -> None:
        written: dict[int, StoredBatch] = {}
        for batch in change.batches if change is not None else ():
            written |= dict.fromkeys(range(batch.first_offset, batch.last_offset + 1), batch)
        kinds = list(said.types) * (said.last_offset + 1 - said.first_offset if len(said.types) == 1 else 1)
        for offset, kind in zip(range(said.first_offset, said.last_offset + 1), kinds, strict=True):
            entry = self.entries.get(offset)
            if entry is None or entry.state is not HELD:
                continue
            if kind == AcknowledgeType.RENEW:
                entry.due_ms = self.now + self.limits.lock_ms
                continue
            assert change is not None
            self._begin(entry, TARGETS[kind], change)
            assert written.pop(offset)[2:] == (entry.target, entry.deliveries), f"{offset} is written otherwise"
        assert not written, f"{sorted(written)} are written, and not changed"

    def _begin(self, entry: Entry, target: RecordState, change: StateChange) -> None:
        is_worn = target is FREE and entry.deliveries >= self.limits.delivery_count
        entry.change, entry.target = change, GONE if is_worn else target

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        change = self.machine.release(member, self.limits)
        for entry in self.entries.values():
            if entry.state is HELD and entry.change is None and entry.member == member:
                assert change is not None, "nobody releases it"
                self._begin(entry, FREE, change)

    # --- time, writes, restarts --------------------------------------------------------------------------------------

    def pass_time(self) -> None:
        self.now += self.random.choice((1, 100, 500, 1001))
        due = self.machine.due_ms
        if due is not None and due <= self.now:
            self.machine.expire(self.limits, self.now)
        for entry in self.entries.values():
            if entry.state is HELD and entry.change is None and entry.due_ms <= self.now:
                entry.state = GONE if entry.deliveries >= self.limits.delivery_count else FREE
                entry.member = ""
        self._move_on()

    def write(self, *, is_safe: bool = False) -> None:
        write = self.machine.take_write()
        if write is None:
            return
        changed = {at for one in write.batches for at in range(one.first_offset, one.last_offset + 1)}
        assert changed >= {offset for offset, entry in self.entries.items() if entry.change}, "all of it is written"
        assert (write.start_offset, write.delivery_complete_count) == (
            self.start, sum(entry.is_final for entry in self.entries.values()),
        )  # fmt: skip
        is_refused = not is_safe and self.random.random() < 0.2
        if not is_safe and self.random.random() < 0.3:
            # Meanwhile others go on.
            self.random.choice((self.acknowledge, self.acquire, self.pass_time, self.retain))()
            assert self.machine.take_write() is None, "two writes are under way"
        if not is_refused:
            self._store(write.start_offset, write.batches)
        for change in self.machine.written(UnknownServer("full") if is_refused else None):
            for entry in self.entries.values():
                if entry.change is change:
                    entry.change = None
                    if not is_refused:
                        entry.state, entry.member = entry.target, ""
        self._move_on()

    def _store(self, start: int, batches: list[StoredBatch]) -> None:
        self.stored_start = start
        self.stored = combined(self.stored, batches, start)
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.naive[offset] = max(self.naive.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
                if batch.delivery_state in (ACCEPTED, GONE):
                    self.done.add(offset)
        self.naive = {offset: what for offset, what in self.naive.items() if offset >= start}
        kept = {at: (one[3], one[2]) for one in self.stored for at in range(one.first_offset, one.last_offset + 1)}
        assert kept == self.naive, "what is stored is what was written"
        assert all(
            one.last_offset < two.first_offset and (one.last_offset + 1 < two.first_offset or one[2:] != two[2:])
            for one, two in pairwise(self.stored)
        ), "batches are sorted, and as few as can be"

    def restart(self) -> None:
        self.machine = SharePartition(self.stored_start, 0, self.stored)
        self.start = self.stored_start
        self.end = self.stored[-1].last_offset + 1 if self.stored else self.start
        self.entries = {}
        for offset in range(self.start, self.end):
            count, state = self.naive.get(offset, (0, 0))
            self.entries[offset] = Entry(RecordState(state), count)
        self._move_on()
        self.machine.move_start(self.log_start)
        self.move_start(self.log_start)
        self._move_on()

    # --- what holds --------------------------------------------------------------------------------------------------

    def _move_on(self) -> None:
        while self.start < self.end and self.entries[self.start].change is None and self.entries[self.start].is_final:
            del self.entries[self.start]
            self.start += 1

    def check(self) -> None:
        self._move_on()
        machine = self.machine
        machine.check()
        assert (machine.start_offset, machine.end_offset) == (self.start, self.end), (
            f"{machine} is not [{self.start}, {self.end})"
        )
        assert machine.delivery_complete_count == sum(entry.is_final for entry in self.entries.values())
        free = [offset for offset, entry in self.entries.items() if entry.is_free]
        assert machine.next_fetch_offset == min(free, default=self.end)

    def heal(self) -> None:
        """One member accepts all that it gets: everything is done with."""
        for _ in range(4 * self.log_end + 100):
            self.now += self.limits.lock_ms
            if self.machine.due_ms is not None:
                self.machine.expire(self.limits, self.now)
            self.pass_time()
            self.write(is_safe=True)
            position = self.machine.next_fetch_offset
            given = self._acquire("ann", position, [one for one in self.log if one.stop > position], Wanted(500, 500))
            for one in given:
                said = Acknowledgement(one.first_offset, one.last_offset, [AcknowledgeType.ACCEPT])
                self._say(said, self.machine.acknowledge("ann", [said], self.limits, self.now))
            self.write(is_safe=True)
            self.check()
            if self.start >= max((batch.stop for batch in self.log), default=0):
                return
        raise AssertionError(f"{self.machine} never comes to {self.log_end}")
