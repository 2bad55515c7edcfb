"""Giving up what cannot be read: the damaged parts of a partition's files are found, shown, and taken out.

    1  find_damage   what is quarantined, and what a look at every byte finds besides
    2  keep          the files of the segment as they are, in a folder beside the log directory
    3  rewrite       the batches that are left, into a `.cleaned`, each with its offsets and its epoch
    4  forget        the segment's entries in `pylog-damages`, and before them its offset index
    5  replace       the partition swaps it in, as it does for compaction

What was in the damaged parts is a gap in the offsets then, as compaction leaves them, and reading steps over it.

Invariants: only the very parts that `find_damage` gave are left out, and a rewrite that meets anything else that cannot
be read ends with CorruptBatch and changes nothing; the copy is durable before anything is changed. A crash leaves the
old segment or the new one: between 4 and 5 the old one has no index, so the next open reads it anew and quarantines
what it finds. A list of damages is never believed of a file that it does not speak of.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from pylog.checkpoint import read_damages, write_damages
from pylog.directories import copy_files
from pylog.errors import CorruptBatch
from pylog.files import Files, join
from pylog.index import AbortedTxn
from pylog.kernel import BatchSpan, walk
from pylog.logfile import WINDOW_BYTES, Damage, Fault, LogFile
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.recovery import Quarantined, aborted_in
from pylog.segment import Segment
from pylog.segment_files import CLEANED, SUFFIXES, file_name
from pylog.sequence import Snapshots, snapshot_offsets

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with the files of some partitions, and what a repair does about it."""

    damages: tuple[Quarantined, ...] = ()
    """What cannot be read: a repair drops it."""
    indexes: tuple[tuple[TopicPartition, str], ...] = ()
    """The `.log` files with indexes that cannot be believed, which costs time alone: a repair writes them anew."""

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.damages + other.damages, self.indexes + other.indexes)

    @property
    def keys(self) -> list[TopicPartition]:
        """The partitions that something is wrong with, sorted."""
        damaged = {TopicPartition(damage.topic, damage.partition) for damage in self.damages}
        return sorted(damaged | {key for key, _ in self.indexes})


# --- finding ----------------------------------------------------------------------------------------------------------


def find_damage(partition: Partition) -> Findings:
    """Read every byte of a partition's `.log` files; gives what cannot be read, in order. Nothing is changed.

    All of it was promised: what was not, opening has cut. Raises StorageError (the disk).
    """
    key = TopicPartition(partition.topic, partition.number)
    damages: list[Quarantined] = []
    indexes: list[tuple[TopicPartition, str]] = []
    segments, epoch = partition.segments, NO_EPOCH
    for segment, end in segments:
        search = _Search(segment, end, epoch, is_active=segment is segments[-1][0])
        found, epoch = search.run()
        damages += [
            Quarantined(*key, segment.path, part.position, part.end - part.position, part.offset, part.next_offset, why)
            for part, why in sorted(found.items())
        ]
        if not found and not _has_good_indexes(segment):
            indexes.append((key, segment.path))
    return Findings(tuple(damages), tuple(indexes))


def _has_good_indexes(segment: Segment) -> bool:
    if not segment.is_as_sealed():
        return False
    return all(index.sanity() is None for index in (segment.offsets, segment.times, segment.aborted))


def _is_told(damage: Damage, others: Iterable[Damage]) -> bool:
    """Whether a damage of no bytes says nothing that another does not say."""
    return damage.end == damage.position and any(
        other.end > other.position and other.offset <= damage.offset and damage.next_offset <= other.next_offset
        for other in others
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch in its place: behind it comes `end`; before it were `expected`, the lowest offset it may have, and
    `before`, the leader epoch up to there.
    """

    span: BatchSpan
    position: int
    expected: int
    before: int

    @property
    def end(self) -> int:
        return self.position + self.span.size


class _Search:
    """Looks for everything in a segment that cannot be read. What it finds is stepped over by its own `LogFile` alone.

    `epoch` is the leader epoch up to the segment.
    """

    def __init__(self, segment: Segment, end: int, epoch: int, *, is_active: bool) -> None:
        self._end = end
        self._epoch = epoch
        self._is_active = is_active
        # Reads the seal, which says how long the file should be.
        segment.is_as_sealed()
        self._log = LogFile(segment.files, segment.path, segment.base_offset, damages=segment.log.damages)
        if not any(damage.end == damage.position for damage in segment.log.damages):
            self._log.sealed_size = segment.log.sealed_size

    def run(self) -> tuple[dict[Damage, str], int]:
        """The damaged parts with their reasons, and the leader epoch up to the end of the segment."""
        log = self._log
        try:
            found = {damage: self._reason(damage) for damage in log.damages}
            while (fault := self._first_fault()) is not None:
                position, following = log.resume_after(fault) or (log.size(), self._end)
                damage = Damage(fault.position, position, fault.offset, max(fault.offset, min(following, self._end)))
                found[damage] = fault.reason
                log.damages = tuple(sorted((*log.damages, damage)))
                if damage.end == damage.position:
                    log.sealed_size = 0
            return {damage: why for damage, why in found.items() if not _is_told(damage, found)}, self._epoch
        finally:
            log.close()

    def _reason(self, damage: Damage) -> str:
        """Why an earlier opening has quarantined a part: the list of damages does not say."""
        if damage.end == damage.position:
            return "the file was cut or replaced"
        data = self._log.file.read(damage.position, min(WINDOW_BYTES, damage.end - damage.position))
        return walk(data, check_crc=True)[2] or "it does not follow from what lies before it"

    def _first_fault(self) -> Fault | None:
        log, epoch = self._log, NO_EPOCH
        expected, last = log.base_offset, None
        for window in log.scan(check_crc=True):
            for span in window.spans:
                if self._is_active and expected >= self._end:
                    # Appended meanwhile.
                    return None
                position = window.position + span.position
                stepped = [part.next_offset for part in log.damages if part.end <= position]
                before = self._epoch if epoch == NO_EPOCH else epoch
                batch = _Batch(span, position, max(expected, *stepped, log.base_offset), before)
                fault = self._fault(batch, last, epoch)
                if fault is not None:
                    return fault
                expected, epoch, last = span.last_offset + 1, span.leader_epoch, batch
            if window.fault is not None:
                if self._is_active and expected >= self._end:
                    return None
                return self._blamed(window.fault, last, last is not None and last.span.base_offset > last.expected)
        self._epoch = max(self._epoch, epoch)
        return None

    def _fault(self, batch: _Batch, last: _Batch | None, epoch: int) -> Fault | None:
        """What is wrong with the header of a batch whose CRC is right, which does not cover all of it."""
        span, path = batch.span, self._log.path
        if span.last_offset >= self._end:
            reason = f"a batch header says offsets {span.base_offset} to {span.last_offset}, beyond {self._end - 1}"
            return Fault(path, batch.position, batch.expected, reason)
        if span.leader_epoch < epoch:
            reason = f"batch headers say leader epoch {epoch} and then {span.leader_epoch}"
            odd = last is not None and last.before < epoch and span.leader_epoch >= last.before
            return self._blamed(Fault(path, batch.position, batch.expected, reason), last, odd)
        return None

    def _blamed(self, fault: Fault, last: _Batch | None, odd: bool) -> Fault:
        """Of two neighbours that contradict each other the first, where it is the `odd` one and the second is whole."""
        if last is None or not odd or last.end != fault.position:
            return fault
        other = Fault(fault.path, last.position, last.expected, fault.reason)
        resumed = self._log.resume_after(other)
        return other if resumed is not None and resumed[0] == fault.position else fault


# --- repairing --------------------------------------------------------------------------------------------------------


def copies_folder(files: Files, log_dir: str, now_ms: int, keep_in: str | None = None) -> str:
    """A new folder for the copies of this moment, not made yet: `<log_dir>-repaired/<UTC time>`, or in `keep_in`.

    Beside the log directory, not in it: Kafka refuses to start on a directory that is no partition.
    Raises ValueError for a place in the log directory.
    """
    root = keep_in if keep_in is not None else f"{log_dir.rstrip('/')}-repaired"
    if f"{root.rstrip('/')}/".startswith(f"{log_dir.rstrip('/')}/"):
        raise ValueError(f"{root} lies in the log directory, where only partitions may be: choose another place")
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    folder, number = join(root, moment), 1
    while files.stat(folder) is not None:
        number += 1
        folder = join(root, f"{moment}-{number}")
    return folder


def repair(partition: Partition, findings: Findings, folder: str, now_ms: int) -> None:
    """Drop what was found of a partition, and write its indexes anew; the files as they were go into `folder`.

    A segment that is gone meanwhile is passed over. Raises CorruptBatch when there is damage that was not found before
    (nothing is changed then), DiskFull, DurabilityUnknown (the partition is latched), PartitionFailed.
    """
    key = TopicPartition(partition.topic, partition.number)
    mine = [damage for damage in findings.damages if (damage.topic, damage.partition) == key]
    worn = [path for owner, path in findings.indexes if owner == key]
    for path in sorted({damage.path for damage in mine} | set(worn)):
        found = _sealed(partition, path, now_ms)
        if found is None:
            continue
        old, following = found
        damages = sorted(
            Damage(one.position, one.position + one.bytes_lost, one.offset, one.next_offset)
            for one in mine if one.path == path
        )  # fmt: skip
        if damages:
            _keep(old, damages, folder)
        new = _rewritten(old, damages, _aborted(partition, old))
        try:
            _forget(old)
        except BaseException:
            new.remove()
            raise
        partition.replace_segments([old], new, now_ms, until=following)


def _sealed(partition: Partition, path: str, now_ms: int) -> tuple[Segment, Segment] | None:
    """The segment at `path` and the one behind it; where it is the active one, a new one is begun."""
    if partition.segments[-1][0].path == path:
        partition.roll(now_ms)
    segments = [segment for segment, _ in partition.segments]
    for old, following in pairwise(segments):
        if old.path == path:
            return old, following
    return None


def _keep(segment: Segment, damages: Sequence[Damage], folder: str) -> None:
    """Copy the files of a segment, durably, and say beside them what is dropped of them."""
    files, base = segment.files, segment.base_offset
    files.make_dir(folder)
    copy_files(files, segment.directory, folder, [file_name(base, kind) for kind in SUFFIXES])
    write_damages(files, folder, read_damages(files, folder) | {base: [(*damage,) for damage in damages]})
    files.sync_dir(folder)


def _aborted(partition: Partition, segment: Segment) -> list[AbortedTxn]:
    """The transactions that end aborted in a segment: those whose markers are damaged are in its index alone."""
    with suppress(CorruptBatch):
        if segment.aborted.sanity() is None:
            return list(segment.aborted)
    snapshots = Snapshots(partition.files, partition.directory, snapshot_offsets(partition.files, partition.directory))
    segments = [one for one, _ in partition.segments]
    return aborted_in(snapshots, segments, segment, f"{partition.topic}-{partition.number}")


def _rewritten(segment: Segment, damages: Iterable[Damage], aborted: Iterable[AbortedTxn]) -> Segment:
    """The batches of a segment without its damaged parts, as `.cleaned`, synced.

    Aborted transactions whose markers are dropped stay aborted. Nothing is left behind where it raises.
    """
    files = segment.files
    log = LogFile(files, segment.path, segment.base_offset, damages=tuple(damages))
    new = Segment(
        files, segment.directory, segment.base_offset, segment.config, active=True, create=True, suffix=CLEANED
    )
    try:
        for window in log.scan(check_crc=True):
            if window.fault is not None:
                path, position, offset, reason = window.fault
                raise CorruptBatch(
                    f"{reason}; it was not among what was found before, so nothing was dropped: look again",
                    path=path, position=position, offset=offset,
                )  # fmt: skip
            if window.spans:
                first, last = window.spans[0], window.spans[-1]
                new.append(memoryview(window.data)[first.position : last.position + last.size], window.spans)
        for txn in aborted:
            new.aborted.append(txn)
        new.seal()
        new.sync()
        # The age of a segment without timestamps, by which retention goes.
        files.set_modified(new.path, segment.modified_ms() * 1_000_000)
    except BaseException:
        new.remove()
        raise
    finally:
        log.close()
    return new


def _forget(segment: Segment) -> None:
    """Let the list of damages say nothing of a segment any more, before a new file can be in its place.

    Without its index the old one is read anew by the next open, if a crash keeps it.
    """
    files, directory, base = segment.files, segment.directory, segment.base_offset
    damages = read_damages(files, directory)
    if damages.pop(base, None) is None:
        return
    index = join(directory, file_name(base, ".index"))
    if files.stat(index) is not None:
        files.remove(index)
        files.sync_dir(directory)
    write_damages(files, directory, damages)
