"""The search for damage in every byte of a partition: what cannot be read, and what was changed.

A batch's own CRC leaves out the batch's place in the log. Its neighbours contradict a wrong place, and so does the seal
of its segment, once the scrubber has read the segment (`segment_checksum`). Only the search steps over what it finds:
nothing is changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pylog.commitlog.recovery import Quarantined
from pylog.errors import CorruptBatch
from pylog.kernel import crc32c, walk
from pylog.kernel.format import NO_EPOCH
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.damage_search import DamageSearch
from pylog.storage.file_ranges import DamagedRange, Fault, Window
from pylog.storage.log_file import WINDOW_BYTES, LogFile
from pylog.storage.segment_checksum import NOT_YET, Mark


@dataclass(frozen=True, slots=True)
class Findings:
    """The damage in the files of some partitions, and what a repair does about it."""

    damages: tuple[Quarantined, ...] = ()
    """The parts that cannot be read: a repair drops them."""
    indexes: tuple[tuple[TopicPartition, str], ...] = ()
    """The `.log` files with indexes that cannot be believed, which costs time alone: a repair writes them again."""
    changed: tuple[tuple[TopicPartition, str], ...] = ()
    """The `.log` files of good batches that are not what they were: an offset or a leader epoch has changed.

    It is not known which, so a repair leaves them; a replica or a backup has them as they were.
    """

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.damages + other.damages, self.indexes + other.indexes, self.changed + other.changed)

    def __bool__(self) -> bool:
        return bool(self.damages or self.indexes or self.changed)

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions of which a repair changes something, sorted."""
        damaged = {TopicPartition(damage.topic, damage.partition) for damage in self.damages}
        return sorted(damaged | {key for key, _ in self.indexes})


class Look(NamedTuple):
    """The result of reading a segment."""

    findings: Findings = Findings()
    log: Mark = Mark(0, 0)
    """The checksum of all of its bytes, where nothing was found."""


def find_damage(partition: Partition) -> Findings:
    """Read every byte of a partition's `.log` files; return what cannot be read, in order. Nothing is changed.

    All of the bytes were promised: opening has cut the others. Raises StorageError (the disk).
    """
    return sum((look(partition, segment).findings for segment, _ in partition.segments), Findings())


def look(partition: Partition, segment: Segment, on_read: Callable[[int], object] = lambda _: None) -> Look:
    """Read every byte of one segment; a segment that is not part of the log any more has no findings.

    `on_read` is called with the number of bytes read now. Raises StorageError (the disk), and what `on_read` raises.
    """
    pauses = [on_read]

    def attempt() -> Look:
        # The second pass holds the lock, so no append can come between.
        return _looked(partition, segment, pauses.pop() if pauses else lambda _: None)

    return partition.sealed.looked(attempt, lambda seen: not seen.findings)


def _looked(partition: Partition, segment: Segment, on_read: Callable[[int], object]) -> Look:
    end = partition.sealed.end_of(segment)
    if end is None:
        return Look()
    is_active = not partition.sealed.has(segment)
    # The indexes of a sealed segment are read by files of their own: opened by the segment, all would stay in memory.
    files = segment if is_active else _reopened(segment)
    try:
        return _searched(partition, files, end, on_read, is_active=is_active)
    finally:
        if files is not segment:
            files.close()


def _reopened(segment: Segment) -> Segment:
    return Segment(
        segment.files, segment.directory, segment.base_offset, segment.config, active=False,
        damages=segment.log.damages, identity=segment.on_disk.identity,
    )  # fmt: skip


def _searched(
    partition: Partition, segment: Segment, end: int, on_read: Callable[[int], object], *, is_active: bool
) -> Look:
    key = TopicPartition(partition.topic, partition.number)
    try:
        segment.on_disk.refuse_anothers()
    except CorruptBatch as error:
        lost = Quarantined(*key, segment.path, 0, segment.size, segment.base_offset, end, error.reason)
        return Look(Findings((lost,)))
    epoch = max((epoch for epoch, start in partition.epochs.entries if start < segment.base_offset), default=NO_EPOCH)
    search = _Search(segment, end, epoch, on_read, is_active=is_active)
    found = search.run()
    if not is_active and end > partition.start_offset and (missing := segment.on_disk.lacks_follower(end)) is not None:
        found[DamagedRange(segment.size, segment.size, missing, end)] = "the segment that followed is missing"
    damages = tuple(
        Quarantined(*key, segment.path, part.position, part.end - part.position, part.offset, part.next_offset, why)
        for part, why in sorted(found.items())
    )
    sealed = segment.on_disk.sealed
    is_changed = sealed is not None and sealed.read_ms != NOT_YET and sealed.log != search.log_mark
    where = ((key, segment.path),)
    findings = Findings(
        damages,
        indexes=where if not damages and not _has_good_indexes(segment) else (),
        changed=where if not damages and is_changed else (),
    )
    return Look(findings, search.log_mark)


def _has_good_indexes(segment: Segment) -> bool:
    if not segment.on_disk.is_as_sealed():
        return False
    return all(index.sanity() is None for index in (segment.offsets, segment.times, segment.aborted))


def _is_told(damage: DamagedRange, others: Iterable[DamagedRange]) -> bool:
    """Whether another damage covers a damage of no bytes."""
    return damage.end == damage.position and any(
        other.end > other.position and other.offset <= damage.offset and damage.next_offset <= other.next_offset
        for other in others
    )


class _Search:
    """A search for everything in a segment that cannot be read. Only its own `LogFile` steps over what it finds.

    `epoch` is the leader epoch up to the segment.
    """

    def __init__(
        self, segment: Segment, end: int, epoch: int, on_read: Callable[[int], object], *, is_active: bool
    ) -> None:
        self.log_mark = Mark(0, 0)
        """The checksum of the bytes that the last pass has read."""
        self._end = end
        self._on_read = on_read
        self._is_active = is_active
        self._log = LogFile(segment.files, segment.path, segment.base_offset, damages=segment.log.damages)
        if not any(damage.end == damage.position for damage in segment.log.damages):
            self._log.sealed_bytes = segment.log.sealed_bytes
        self._search = DamageSearch(self._log, end, epoch=epoch, on_window=self._note)

    def run(self) -> dict[DamagedRange, str]:
        """The damaged parts with their reasons."""
        log = self._log
        try:
            found = {damage: self._reason(damage) for damage in log.damages}
            while (fault := self._first_fault()) is not None:
                damage = self._search.damage(fault)
                found[damage] = fault.reason
                log.damages = tuple(sorted((*log.damages, damage)))
                if damage.end == damage.position:
                    log.sealed_bytes = int
            return {damage: why for damage, why in found.items() if not _is_told(damage, found)}
        finally:
            log.close()

    def _note(self, window: Window) -> None:
        if window.spans:
            size, crc = self.log_mark
            read = window.spans[-1].position + window.spans[-1].size
            self.log_mark = Mark(size + read, crc32c(memoryview(window.data)[:read], crc))
            self._on_read(read)

    def _reason(self, damage: DamagedRange) -> str:
        """The reason why an earlier opening has quarantined a part: the list of damages does not say it."""
        if damage.end == damage.position:
            return "the file was cut or replaced"
        data = self._log.file.read(damage.position, min(WINDOW_BYTES, damage.end - damage.position))
        return walk(data, check_crc=True)[2] or "it does not follow from what lies before it"

    def _first_fault(self) -> Fault | None:
        self.log_mark = Mark(0, 0)
        for found in self._search.batches(0, self._log.base_offset):
            expected = found.offset if isinstance(found, Fault) else found.expected
            if self._is_active and expected >= self._end:
                # Appended meanwhile.
                return None
            if isinstance(found, Fault):
                return found
        return None
