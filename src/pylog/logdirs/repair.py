"""The repair of a partition: its damaged parts are found, shown, and taken out.

    1  find_damage   (damage) the quarantined parts, and what a look at every byte finds besides
    2  keep          the files of the segment as they are, in a folder beside the log directory
    3  rewrite       the batches that are left, into a `.cleaned`, each with its offsets and its epoch
    4  forget        the segment's entries in `pylog-damages`, and before them its offset index
    5  replace       the partition swaps it in, as it does for compaction

The damaged parts leave a gap in the offsets, as compaction does, and reading steps over it.

Invariants: a repair leaves out only the very parts that `find_damage` gave. A rewrite that meets anything else that
cannot be read ends with CorruptBatch and changes nothing. The copy is durable before anything is changed. A crash
leaves the old segment or the new one: between 4 and 5 the old one has no index, so the next open reads it again and
quarantines what it finds. A list of damages is believed only of the file that it names.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise

from pylog.commitlog.producer_replay import aborted_in
from pylog.commitlog.recovery import Quarantined
from pylog.errors import CorruptBatch
from pylog.files import Files, join
from pylog.logdirs.damage import Findings, look
from pylog.logdirs.log_directories import copy_files
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.checkpoint import read_damages, write_damages
from pylog.storage.file_ranges import DamagedRange
from pylog.storage.log_file import LogFile
from pylog.storage.pending_syncs import sync_new
from pylog.storage.producer_state import Snapshots, snapshot_offsets
from pylog.storage.segment_files import CLEANED, SUFFIXES, file_name
from pylog.storage.transaction_index import AbortedTxn


def copies_folder(files: Files, log_dir: str, now_ms: int, keep_in: str | None = None) -> str:
    """A new folder for the copies of this moment, not made yet: `<log_dir>-repaired/<UTC time>`, or in `keep_in`.

    Beside the log directory, not in it: Kafka refuses to start on a directory that is no partition. Raises ValueError
    for a place in the log directory.
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
    """Drop the findings in a partition, and write its indexes again; the files as they were go into `folder`.

    A finding that is gone meanwhile, or was repaired since, is passed over. Raises CorruptBatch when there is damage
    that was not found before (nothing is changed then), DiskFull, DurabilityUnknown (the partition is latched),
    PartitionFailed.
    """
    key = TopicPartition(partition.topic, partition.number)
    mine = [damage for damage in findings.damages if (damage.topic, damage.partition) == key]
    worn = [path for owner, path in findings.indexes if owner == key]
    for path in sorted({damage.path for damage in mine} | set(worn)):
        there = next((segment for segment, _ in partition.segments if segment.path == path), None)
        now = look(partition, there).findings if there is not None else Findings()
        still = {_part(one) for one in now.damages}
        damages = sorted(still & {_part(one) for one in mine if one.path == path})
        found = _sealed(partition, path, now_ms) if damages or (path in worn and now.indexes) else None
        if found is None:
            continue
        old, following = found
        if damages:
            _keep(old, damages, folder)
        new = _rewritten(old, following.base_offset, damages, _aborted(partition, old))
        try:
            _forget(old)
        except BaseException:
            new.remove()
            raise
        partition.sealed.replace([old], new, now_ms, until=following)


def _part(one: Quarantined) -> DamagedRange:
    return DamagedRange(one.position, one.position + one.bytes_lost, one.offset, one.next_offset)


def _sealed(partition: Partition, path: str, now_ms: int) -> tuple[Segment, Segment] | None:
    """The segment at `path` and the one behind it; where it is the active one, a new one is begun."""
    if partition.segments[-1][0].path == path:
        partition.roll(now_ms)
    segments = [segment for segment, _ in partition.segments]
    for old, following in pairwise(segments):
        if old.path == path:
            return old, following
    return None


def _keep(segment: Segment, damages: Sequence[DamagedRange], folder: str) -> None:
    """Copy the files of a segment, durably, and write beside them which parts are dropped."""
    files, base = segment.files, segment.base_offset
    files.make_dir(folder)
    copy_files(files, segment.directory, folder, [file_name(base, kind) for kind in SUFFIXES])
    write_damages(files, folder, read_damages(files, folder) | {base: [(*damage,) for damage in damages]})
    files.sync_dir(folder)


def _aborted(partition: Partition, segment: Segment) -> list[AbortedTxn]:
    """The transactions that end aborted in a segment: those whose markers are damaged are in its index alone.

    The index of another partition does not count.
    """
    try:
        segment.on_disk.refuse_anothers()
    except CorruptBatch:
        return []
    with suppress(CorruptBatch):
        if segment.aborted.sanity() is None:
            return list(segment.aborted)
    snapshots = Snapshots(partition.files, partition.directory, snapshot_offsets(partition.files, partition.directory))
    segments = [one for one, _ in partition.segments]
    return aborted_in(snapshots, segments, segment, f"{partition.topic}-{partition.number}")


def _rewritten(segment: Segment, end: int, damages: Iterable[DamagedRange], aborted: Iterable[AbortedTxn]) -> Segment:
    """The batches of a segment without its damaged parts, as `.cleaned`, synced.

    Aborted transactions whose markers are dropped stay aborted. Nothing is left behind where it raises.
    """
    files = segment.files
    log = LogFile(files, segment.path, segment.base_offset, damages=tuple(damages))
    new = Segment(
        files, segment.directory, segment.base_offset, segment.config, active=True, create=True, suffix=CLEANED,
        identity=segment.on_disk.identity,
    )  # fmt: skip
    try:
        for window in log.scan(check_crc=True):
            if window.fault is not None:
                path, position, offset, reason = window.fault
                raise CorruptBatch(
                    f"{reason}; it was not found before, so nothing was dropped: look again",
                    path=path, position=position, offset=offset,
                )  # fmt: skip
            if window.spans:
                first, last = window.spans[0], window.spans[-1]
                new.append(memoryview(window.data)[first.position : last.position + last.size], window.spans)
        for txn in aborted:
            new.aborted.append(txn)
        new.seal(end)
        sync_new(new.on_disk.to_sync(whole=True))
        # Retention takes this time for the age of a segment without timestamps.
        files.set_modified(new.path, segment.modified_ms() * 1_000_000)
    except BaseException:
        new.remove()
        raise
    finally:
        log.close()
    return new


def _forget(segment: Segment) -> None:
    """Remove a segment from the list of damages, before a new file can be in its place.

    If a crash keeps the old segment, the next open reads it again, because its index is gone.
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
