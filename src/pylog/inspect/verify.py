"""The check of a whole log directory, file by file, without opening it as a log.

    log dir   meta.properties, checkpoints        do they parse; does any promise more than the log holds
      topic-0   partition.metadata, leader-epoch-checkpoint, segments in order,
                files of no segment                see `pylog.inspect.partitions`

Nothing is locked, changed or repaired, so it runs beside an owner, and on a copy or a read-only disk. An owner's
published offsets are read before the log is. So an append meanwhile does not look like damage, and every promised
record must be there.

Invariants: whatever the bytes are, the answer is `Problem`s; the last value is always `Totals`; a sound directory that
Kafka or pylog closed gives no problem that is not `harmless`.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

from pylog.errors import LogNotFound, PylogError, UnknownTopicOrPartition
from pylog.files import Files, join
from pylog.inspect.partitions import LEFT_BEHIND, RESTORE, Events, Promises, Tally, check_partition
from pylog.inspect.texts import problem_of, text_problems
from pylog.inspect.values import Checked, Problem, Totals
from pylog.logdirs.foreign import require_directory, require_log
from pylog.logdirs.log_directory import PUBLISHED, SOCKET, STAGED
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_offsets
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from pylog.storage.published import Published

__all__ = ["log_bytes", "verify"]

PARTITION_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<number>\d{1,10})")
TEXT_FILES = ("meta.properties", RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, "cleaner-offset-checkpoint")
NOT_PARTITIONS = "it is not a partition folder, and is skipped"


def verify(files: Files, log_dir: str, *, topic: str | None = None) -> Iterator[Problem | Checked | Totals]:
    """Check everything in `log_dir`, or the partitions of `topic` alone: problems as they are found, then the totals.

    A `Checked` reports that a piece of a file is done, for showing progress (`log_bytes` is their sum). Files that
    vanish while this runs (an owner's retention) are passed over. Raises: LogNotFound (no directory, or not one of a
    log), UnknownTopicOrPartition (`topic` has no folder), StorageError (the disk).
    """
    require_directory(files, log_dir)
    partitions = _partitions(files, log_dir, topic)
    tally = Tally()
    promises = Promises()
    for event in _everything(files, log_dir, partitions, promises, tally, whole=topic is None):
        tally.count(event)
        yield event
    yield Totals(
        tally.partitions, tally.segments, tally.batches, tally.records, tally.size, tally.index_entries,
        tally.problems, tally.notes,
    )  # fmt: skip


def log_bytes(files: Files, log_dir: str, *, topic: str | None = None) -> int:
    """The bytes of all `.log` files that `verify` will read. Raises as `verify` does."""
    require_directory(files, log_dir)
    total = 0
    for partition in _partitions(files, log_dir, topic):
        folder = join(log_dir, f"{partition.topic}-{partition.partition}")
        for name in files.list_dir(folder):
            stat = files.stat(join(folder, name)) if name.endswith(".log") else None
            total += stat.size if stat is not None else 0
    return total


def _partitions(files: Files, log_dir: str, topic: str | None) -> list[TopicPartition]:
    found = []
    for name in files.list_dir(log_dir):
        match = PARTITION_FOLDER.fullmatch(name)
        stat = files.stat(join(log_dir, name)) if match else None
        if match and stat is not None and stat.is_dir:
            found.append(TopicPartition(match["topic"], int(match["number"])))
    require_log(files, log_dir)
    if topic is None:
        return sorted(found)
    chosen = sorted(partition for partition in found if partition.topic == topic)
    if not chosen:
        known = ", ".join(sorted({partition.topic for partition in found})) or "none"
        raise UnknownTopicOrPartition(f"{log_dir}: topic {topic!r} has no partition here; there are: {known}")
    return chosen


def _everything(
    files: Files, log_dir: str, partitions: list[TopicPartition], promises: Promises, tally: Tally, *, whole: bool
) -> Events:
    if whole:
        yield from _root(files, log_dir)
    yield from _read_promises(files, log_dir, promises)
    ids: dict[str, tuple[UUID, str]] = {}
    try:
        for partition in partitions:
            try:
                yield from check_partition(files, log_dir, partition, promises, tally, ids)
            except LogNotFound:
                # The topic was deleted meanwhile.
                continue
        if whole and promises.published is not None:
            yield from _lost_folders(files, log_dir, partitions)
    finally:
        if promises.published is not None:
            promises.published.close()


# --- the directory itself -------------------------------------------------------------------------------------------


def _root(files: Files, log_dir: str) -> Events:
    for name in sorted(set(files.list_dir(log_dir)) - {SOCKET, STAGED}):
        path = join(log_dir, name)
        if LEFT_BEHIND.fullmatch(name):
            yield Problem(path, None, None, "it was left behind or waits for removal", NOT_PARTITIONS, harmless=True)
            continue
        stat = files.stat(path)
        if stat is not None and stat.is_dir and not PARTITION_FOLDER.fullmatch(name):
            yield Problem(path, None, None, "its name is not TOPIC-PARTITION", NOT_PARTITIONS, harmless=True)
        elif name in TEXT_FILES:
            yield from text_problems(files, path)
    if files.stat(join(log_dir, "meta.properties")) is None:
        what = "it is missing: the directory does not say which node it belongs to"
        yield Problem(join(log_dir, "meta.properties"), None, None, what, "the next open writes one", harmless=True)


def _read_promises(files: Files, log_dir: str, promises: Promises) -> Events:
    for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS):
        try:
            promises.offsets[name] = read_offsets(files, join(log_dir, name))
        except PylogError:
            # Missing, or already a problem of its own.
            promises.offsets[name] = {}
    path = join(log_dir, PUBLISHED)
    if files.stat(path) is None:
        return
    try:
        promises.published = Published(files, path, writable=False)
    except PylogError as error:
        yield problem_of(path, error)


def _lost_folders(files: Files, log_dir: str, partitions: list[TopicPartition]) -> Events:
    """The partitions that pylog's checkpoint names and that have no folder.

    The checkpoint is read again: a deleted topic leaves it first.
    """
    there = set(partitions)
    with suppress(PylogError):
        for key, offset in read_offsets(files, join(log_dir, RECOVERY_POINTS)).items():
            folder = join(log_dir, f"{key.topic}-{key.partition}")
            if offset > 0 and key not in there and files.stat(folder) is None:
                what = f"{RECOVERY_POINTS} says that it had everything below offset {offset}, and it is missing"
                yield Problem(folder, None, 0, what, RESTORE)
