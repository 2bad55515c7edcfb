"""A partition under a workload: what was done to it, and what has to be there after a crash.

    Run        a partition in a log directory, and the versions that its log went through
    recover    open what a crash left, as the owner does, and look at all of it
    judge      whether a version that may be there is what was found

A version is the whole log at one moment: its records, all that were ever written and not cut, and where it starts and
ends. `("try", n)` is noted before version n is written, `("done", n)` when it cannot be lost by a kill any more and
`("kept", n)` when not even by a power cut. So after a crash the log is a prefix of one of the versions from the last
that was kept to the last one that was tried, and at least as long as the shortest of those up to it.
`("start", n)` is noted when a start was acknowledged: in every flush mode the log starts there or later from then on,
whatever stops it, until a follower is about to cut it below that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from pylog.broker.log_cleaner import clean
from pylog.commitlog.producer_replay import ProducerReplay
from pylog.commitlog.segments import base_offsets
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.files import Files
from pylog.kernel import Record
from pylog.logdirs.damage import find_damage, look
from pylog.logdirs.log_directory import LogDirectory
from pylog.logdirs.repair import repair
from pylog.partition import Partition
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.producer_state import ProducerEntry, Producers
from pylog.storage.transaction_index import AbortedTxn
from tests.support.crash import CrashFiles

from .engine import CLOCK, NOW, SeededFiles

TOPIC_ID = UUID(int=7)
SMALL = {"segment.bytes": "400", "index.interval.bytes": "100", "segment.index.bytes": "120"}
PATH = "log/t-0"
READ_BYTES = 1 << 20

Row = tuple[int, int, int, bytes | None]
"""Offset, leader epoch, timestamp, value."""


class Version(NamedTuple):
    """A log at one moment. `records` are also those below `start`, as long as they were not cut off the end."""

    start: int = 0
    records: tuple[Row, ...] = ()
    end: int = 0
    cleaned: bool = False
    """The one before it, compacted: until it is complete, more of that may be there."""


NEW = Version()


class Found(NamedTuple):
    """What was there after a crash."""

    start: int
    records: tuple[Row, ...]
    end: int
    fault: str = ""
    """What was wrong with it, whatever had been promised."""


class Place:
    """A log directory with one partition, opened as `Topic` does it."""

    def __init__(self, files: Files, config: TopicConfig, damaged: frozenset[int] = frozenset()) -> None:
        self.files = files
        self.config = config
        self.damaged = damaged
        self.directory = LogDirectory(files, "log", 1)
        entry = self.directory.entry(TOPIC_ID, 0)
        known = self.directory.checkpoints
        self.partition = Partition(files, PATH, "t", 0, config, entry, checkpoints=known, topic_id=TOPIC_ID)
        checkpoint = self.directory.checkpoint("t", 0, entry)
        if files.stat(PATH) is None or not (base_offsets(files, PATH) or checkpoint.durable_offset):
            self.partition.create(TOPIC_ID, NOW, start_offset=checkpoint.start_offset)
        else:
            self.partition.open(checkpoint, NOW)
        self.directory.note_opened(TopicPartition("t", 0))
        if not self.partition.opened_clean:
            # As a node does before it takes its role: what was found may be promised again.
            self.partition.sync()

    def rows(self) -> Iterator[Row]:
        """Every record, read from the start on; what is damaged is stepped over."""
        offset, end = self.partition.start_offset, self.partition.next_offset
        while offset < end:
            try:
                piece = self.partition.read(offset, 1 if self.damaged else READ_BYTES, upto=end)
                batches = list(split(piece.data, check_crc=True)) if piece is not None else []
            except CorruptBatch:
                if offset not in self.damaged:
                    raise
                offset += 1
                continue
            if piece is None:
                return
            for batch in batches:
                for record in batch.records("t", 0, offset):
                    yield record.offset, batch.leader_epoch, record.timestamp, record.value
                offset = batch.next_offset

    def append(self, value: bytes, epoch: int) -> None:
        """One record, durable."""
        batch = encode([Record(value, b"key", NOW)], now_ms=NOW)
        self.partition.append(batch, epoch=epoch, now_ms=NOW)
        self.partition.sync()

    def close(self) -> None:
        """A clean close, as a node does it."""
        self.partition.close()
        self.directory.note_closed(self.partition)
        self.directory.write_checkpoints([self.partition])
        self.directory.close(clean=True)


class Run:
    """A workload as it goes: each method does something to the partition and says what may be there afterwards."""

    def __init__(
        self, files: CrashFiles, config: Mapping[str, str] = SMALL, *, flush: str = "sync",
        version: Version = NEW, damaged: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.files = files
        self.config = TopicConfig.loaded(config)
        self.flush = flush
        self.damaged = damaged
        self.place = Place(files, self.config, damaged)
        self.versions = [version]
        self.is_open = True
        self.epoch = 0
        self.number = 0
        self._start = self._kept = 0
        files.note(("run", self))
        files.note(("kept", 0))

    @property
    def partition(self) -> Partition:
        return self.place.partition

    @property
    def version(self) -> Version:
        return self.versions[-1]

    def change(self, version: Version, how: Callable[[], object]) -> None:
        """Do something that turns the log into `version`."""
        self.versions.append(version)
        number = len(self.versions) - 1
        self.files.note(("try", number))
        how()
        self.files.note(("done", number))

    def varied(self, size: int) -> int:
        """What a campaign makes of the size of a record."""
        return self.files.varied(size) if isinstance(self.files, SeededFiles) else size

    def append(self, count: int = 1, size: int = 20, *, key: bytes | None = None, **options: object) -> None:
        """One batch, acknowledged as the flush mode has it."""
        records = []
        for _ in range(count):
            self.number += 1
            value = b"%d:" % self.number + b"v" * self.varied(size)
            records.append(Record(value, key=key, timestamp=NOW + self.number))
        batch = encode(records, now_ms=NOW, **options)  # type: ignore[arg-type]
        self.write(batch)
        self.acknowledge()

    def write(self, batch: Batch, origin: Origin = Origin.CLIENT) -> None:
        """Any batch, not acknowledged yet."""
        base = self.version.end
        rows = tuple(
            (base + at, self.epoch, record.timestamp, record.value) for at, record in enumerate(batch.records("t", 0))
        )
        start, records, end, _ = self.version
        self.change(
            Version(start, records + rows, end + len(rows)),
            lambda: self.partition.append(batch, epoch=self.epoch, now_ms=NOW, origin=origin),
        )

    def acknowledge(self) -> None:
        """What a broker does before it answers."""
        if self.flush == "sync" or (self.flush == "interval" and self.number % 3 == 0):
            self.sync()
        self._note_durable()
        self.partition.advance_high_watermark(self.partition.next_offset)

    def sync(self) -> None:
        """Make everything durable."""
        self.partition.sync()
        self._keep(len(self.versions) - 1)

    def _note_durable(self) -> None:
        """What lies below the durable offset is kept, whatever the flush mode: a roll has synced it."""
        durable = self.partition.durable_offset
        numbers = reversed(range(self._kept, len(self.versions)))
        self._keep(next((at for at in numbers if self.versions[at].end <= durable), self._kept))

    def _keep(self, number: int) -> None:
        """A version that no power cut takes away any more."""
        self._kept = number
        self.files.note(("kept", number))

    def checkpoint(self) -> None:
        """What a node does every minute."""
        self.place.directory.write_checkpoints([self.partition])

    def opened(self, files: Files) -> Place:
        """Open what a crash left in `files`."""
        return Place(files, self.config, self.damaged)

    def recovered(self, files: Files) -> Found:
        """What is found after a crash that left `files`."""
        return recover(files, self.config, self.damaged)

    def judged(self, found: Found, notes: tuple[object, ...], *, power: bool) -> str:
        """What is wrong with that; "" when nothing is."""
        return judge(found, self.versions, notes, power=power)

    def crashed(
        self, tree: Mapping[str, bytes | None], version: Version, *, damaged: frozenset[int] = frozenset()
    ) -> "Run":
        """The same after a crash that left `tree` of it, which is `version`; the records `damaged` cannot be read."""
        run = Run(CrashFiles(CLOCK, tree), flush=self.flush, version=version, damaged=damaged)
        run.number, run.epoch = self.number, self.epoch
        return run

    def lead(self) -> None:
        """A new leader epoch."""
        self.epoch += 1
        self.partition.begin_epoch(self.epoch)

    def truncate(self, offset: int) -> None:
        """Cut the end off, as a follower does that has gone another way."""
        self._may_start_at(offset)
        records = tuple(row for row in self.version.records if row[0] < offset)
        self.change(
            Version(min(self.version.start, offset), records, offset), lambda: self.partition.truncate(offset, NOW)
        )

    def delete_records(self, offset: int) -> None:
        """Let the log begin at `offset`."""

        def deleted() -> None:
            self.partition.delete_records(offset)
            self.place.directory.keep_starts([self.partition])

        self.change(self.version._replace(start=offset, cleaned=False), deleted)
        self._start = offset
        self.files.note(("start", offset))

    def _may_start_at(self, offset: int) -> None:
        """The log is about to be cut at `offset`: of a start above that nothing is promised any more."""
        if offset < self._start:
            self._start = offset
            self.files.note(("start", offset))

    def follow(self, *batches: Batch) -> None:
        """Bytes of a leader, several batches in one write."""
        rows = tuple(
            (record.offset, batch.leader_epoch, record.timestamp, record.value)
            for batch in batches for record in batch.records("t", 0)
        )  # fmt: skip
        start, records, _, _ = self.version
        data = b"".join(bytes(batch.data) for batch in batches)
        self.epoch = batches[-1].leader_epoch
        self.change(
            Version(start, records + rows, batches[-1].next_offset),
            lambda: self.partition.append_follower(data, epoch=self.epoch, now_ms=NOW),
        )
        self.acknowledge()

    def end_transaction(self, producer_id: int, *, abort: bool) -> None:
        """A coordinator's marker."""
        self.number += 1
        record = Record((0).to_bytes(6, "big"), (0 if abort else 1).to_bytes(4, "big"), NOW + self.number)
        self.write(
            encode([record], now_ms=NOW, producer_id=producer_id, producer_epoch=0, transactional=True, control=True),
            Origin.COORDINATOR,
        )
        self.acknowledge()

    def retain(self, now_ms: int = NOW) -> None:
        """Retention; how far it goes is its own matter."""
        self.change(
            self.version._replace(start=self.version.end, cleaned=False), lambda: self.partition.apply_retention(now_ms)
        )
        self.versions[-1] = self.version._replace(start=self.partition.start_offset)

    def truncate_fully(self, offset: int) -> None:
        """Start anew somewhere else, as a follower does that is too far behind."""
        self._may_start_at(offset)
        self.versions.append(Version())
        self.files.note(("try", len(self.versions) - 1))
        self.change(Version(offset, (), offset), lambda: self.partition.truncate_fully(offset, NOW))

    def compact(self) -> None:
        """Clean the log; what each swap of segments leaves is a version. What it leaves at all is its own matter."""
        swap = self.partition.sealed.replace

        def noted(old: Sequence[Segment], new: Segment, now_ms: int, *, until: Segment) -> bool:
            kept = {record.offset for batch in _batches(new) for record in batch.records("t", 0)}
            end = next(end for segment, end in self.partition.segments if segment is old[-1])
            rows = [row for row in self.version.records if not old[0].base_offset <= row[0] < end or row[0] in kept]
            swapped = [False]
            self.change(
                self.version._replace(records=tuple(rows), cleaned=True),
                lambda: swapped.append(swap(old, new, now_ms, until=until)),
            )
            return swapped[-1]

        self.partition.sealed.replace = noted  # type: ignore[method-assign]
        clean(self.partition, checkpoint=None, now_ms=NOW, buffer_bytes=1 << 20)
        del self.partition.sealed.replace

    def repair(self) -> None:
        """Give up what cannot be read, and write anew what cannot be believed."""
        findings = find_damage(self.partition)
        assert findings.damages and findings.indexes
        self.change(self.version, lambda: repair(self.partition, findings, "log-repaired/now/t-0", NOW))

    def scrub(self) -> None:
        """Read what is sealed, and note that it was read."""
        for segment, _ in self.partition.segments[:-1]:
            found = look(self.partition, segment)
            assert not found.findings
            self.partition.sealed.note_read(segment, found.log, NOW)

    def reopen(self) -> None:
        """A clean stop, and a start."""
        self.is_open = False
        self.place.close()
        self._keep(len(self.versions) - 1)
        self.open()

    def open(self) -> None:
        """Open what is there."""
        self.place = Place(self.files, self.config, self.damaged)
        self.is_open = True


def _batches(segment: Segment) -> Iterator[Batch]:
    for window in segment.scan(check_crc=True):
        yield from (Batch.parse(window.data, span.position) for span in window.spans)


def recover(files: Files, config: TopicConfig, damaged: frozenset[int] = frozenset()) -> Found:
    """Open what a crash left, look at everything, append a record, close, open again."""
    place = Place(files, config, damaged)
    partition = place.partition
    rows = tuple(place.rows())
    start, end = partition.start_offset, partition.next_offset
    found = Found(start, rows, end, _fault(place, rows))
    if found.fault:
        return found
    place.append(b"after the crash", max(partition.epochs.latest, 0))
    place.close()
    again = Place(files, config, damaged)
    wanted = [*rows, (end, max(partition.epochs.latest, 0), NOW, b"after the crash")]
    if list(again.rows()) != wanted:
        return found._replace(fault="after one more append and a clean close the log is not what it was")
    if not damaged:
        again.partition.check()
    return found


def _fault(place: Place, rows: tuple[Row, ...]) -> str:
    """What can be wrong with a log that was just recovered, whatever is in it."""
    partition = place.partition
    if any(not {*range(one.offset, one.next_offset)} <= place.damaged for one in partition.quarantined):
        return f"a crash was taken for damage: {partition.quarantined}"
    if partition.durable_offset > partition.next_offset or partition.high_watermark > partition.next_offset:
        return f"an offset lies behind the end of {partition!r}"
    if place.damaged:
        # What is damaged contradicts it in many ways; `recover` has read the rest.
        return ""
    partition.check()
    if findings := find_damage(partition):
        return f"the seals say what is not so: {findings}"
    end = partition.next_offset
    for offset, _, timestamp, _ in rows:
        piece = partition.read(offset, 1, upto=end)
        first = next(iter(split(piece.data)), None) if piece is not None else None
        if first is None or not first.base_offset <= offset < first.next_offset:
            return f"the index leads to {first!r} for offset {offset}"
        known = partition.offset_for_time(timestamp, upto=end)
        newer = next(row for row in rows if row[2] >= timestamp)
        if known is None or known.offset != newer[0]:
            return f"the time index gives {known} for {timestamp}, a scan gives {newer[0]}"
    fault = _producers_fault(partition)
    if fault:
        return fault
    epochs = partition.epochs.entries
    for offset, epoch, _, _ in rows:
        # What lies below the first entry was given up; after a crash it may still be there.
        assigned = [one for one, first_offset in epochs if first_offset <= offset] or [one for one, _ in epochs[:1]]
        if not assigned or assigned[-1] != epoch:
            return f"offset {offset} was written in epoch {epoch}, the epochs say {epochs}"
    return ""


def _producers_fault(partition: Partition) -> str:
    """Whether the producers are what the log says of them, whatever a snapshot says."""
    wanted, aborted = Producers("t-0"), list[AbortedTxn]()
    replay = ProducerReplay(wanted)
    for segment, _ in partition.segments:
        for window in segment.scan(check_crc=True):
            aborted += replay.follow(window)
    entries = partition.producers.entries()
    for producer_id, entry in wanted.entries().items():
        known = entries.get(producer_id)
        if known is None or _last(known) != _last(entry):
            return f"producer {producer_id} is {known}, the log says {entry}"
    found = partition.aborted(partition.start_offset, partition.next_offset)
    if [txn[:3] for txn in found] != [txn[:3] for txn in aborted if txn.last_offset >= partition.start_offset]:
        return f"the aborted transactions are {found}, the log says {aborted}"
    return ""


def _last(entry: ProducerEntry) -> tuple[object, ...]:
    return entry.epoch, entry.last_sequence, entry.current_txn_first_offset


def judge(found: Found, versions: list[Version], notes: tuple[object, ...], *, power: bool) -> str:
    """What is wrong with what was found; "" when nothing is."""
    marks = dict[str, int]()
    for note in notes:
        kind, number = note  # type: ignore[misc]
        marks[kind] = number
    safe = marks.get("kept", 0)
    if not power:
        safe = max(safe, marks.get("done", 0))
    last = max(marks.get("try", 0), safe)
    if found.start < marks.get("start", 0):
        return f"the log starts at {found.start}, and all below {marks['start']} was deleted for good"
    given_up = max(version.start for version in versions[: last + 1])
    if found.start > given_up:
        return f"the log starts at {found.start}, and only what lies below {given_up} was given up"
    shortest = versions[safe].end
    for number in range(safe, last + 1):
        # On the way to the next version the log may have any length in between.
        shortest = min([shortest, *(version.end for version in versions[number : min(number + 2, last + 1)])])
        following = versions[number + 1] if number < last else None
        if shortest <= found.end <= versions[number].end and _agrees(found, versions[number], following, given_up):
            return ""
    return (
        f"found [{found.start}, {found.end}) {_short(found.records)}, no prefix of a version from {safe} to {last}: "
        + "; ".join(f"[{one.start}, {one.end}) {_short(one.records)}" for one in versions[safe : last + 1])
    )


def _agrees(found: Found, version: Version, following: Version | None, given_up: int) -> bool:
    """Whether the log is this version up to where it ends; of what is given up, anything may still be there."""
    wanted = [row for row in version.records if found.start <= row[0] < found.end]
    if list(found.records) == wanted:
        return True
    needed = {row for row in wanted if row[0] >= given_up}
    if following is not None and following.cleaned:
        needed &= set(following.records)
    return set(found.records) <= set(wanted) and needed <= set(found.records)


def _short(rows: tuple[Row, ...]) -> str:
    return " ".join(f"{offset}/{epoch}={(value or b'')[:6].decode()}" for offset, epoch, _, value in rows)
