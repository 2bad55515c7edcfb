"""The check of all directories of a log, file by file, without opening it as a log.

    log dir   meta.properties, checkpoints        do they parse; does any promise more than the log holds
      topic-0   partition.metadata, leader-epoch-checkpoint, segments in order,
                files of no segment                see `pylog.inspect.partitions`

Nothing is locked, changed or repaired, so it runs beside an owner, and on a copy or a read-only disk. An owner's
published offsets are read before the log is. So an append meanwhile does not look like damage, and every promised
record must be there.

Invariants: whatever the bytes are, the answer is `Problem`s; the last value is always `Totals`; a sound directory that
Kafka or pylog closed gives no problem that is not `harmless`.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from uuid import UUID

from pylog.errors import LogNotFound, PylogError, StorageError, UnknownTopicOrPartition
from pylog.files import Files, join
from pylog.inspect.partitions import LEFT_BEHIND, RESTORE, Events, Promises, Tally, check_partition
from pylog.inspect.texts import problem_of, text_problems
from pylog.inspect.values import Checked, Problem, Totals
from pylog.logdirs.foreign import require_directory, require_log
from pylog.logdirs.log_directory import PUBLISHED, SOCKET, STAGED
from pylog.record import TopicPartition
from pylog.storage.checkpoint import read_offsets
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from pylog.storage.partition_dirs import folder_name, is_set_aside, partition_folders, partition_of
from pylog.storage.published import Published

__all__ = ["log_bytes", "verify"]

TEXT_FILES = ("meta.properties", RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, "cleaner-offset-checkpoint")
NOT_PARTITIONS = "it is not a partition folder, and is skipped"

Chosen = dict[str, list[TopicPartition]]
"""The partitions to check of each directory."""


def verify(files: Files, *log_dirs: str, topic: str | None = None) -> Iterator[Problem | Checked | Totals]:
    """Check everything in the directories of a log, or the partitions of `topic` alone.

    Gives problems as they are found, then one `Totals`. A `Checked` reports that a piece of a file is done, for showing
    progress (`log_bytes` is their sum). Files that vanish while this runs (an owner's retention) are passed over.
    Raises: LogNotFound (no directory, or not one of a log), UnknownTopicOrPartition (`topic` has no folder),
    StorageError (a directory cannot be listed).
    """
    tally = Tally()
    for event in _everything(files, _chosen(files, log_dirs, topic), tally, whole=topic is None):
        tally.count(event)
        yield event
    yield Totals(
        tally.partitions, tally.segments, tally.batches, tally.records, tally.size, tally.index_entries,
        tally.problems, tally.notes,
    )  # fmt: skip


def log_bytes(files: Files, *log_dirs: str, topic: str | None = None) -> int:
    """The bytes of all `.log` files that `verify` will read. Raises as `verify` does."""
    total = 0
    for log_dir, partitions in _chosen(files, log_dirs, topic).items():
        for partition in partitions:
            # A folder that is gone, or cannot be listed, is told by the check.
            with suppress(StorageError, LogNotFound):
                folder = join(log_dir, folder_name(*partition))
                logs = [join(folder, name) for name in files.list_dir(folder) if name.endswith(".log")]
                total += sum(stat.size for path in logs if (stat := files.stat(path)) is not None)
    return total


def _chosen(files: Files, log_dirs: Iterable[str], topic: str | None) -> Chosen:
    found: Chosen = {}
    for log_dir in log_dirs:
        require_directory(files, log_dir)
        found[log_dir] = partition_folders(files, log_dir, internal=True)
        require_log(files, log_dir)
    if topic is None:
        return found
    chosen = {log_dir: [one for one in all_of if one.topic == topic] for log_dir, all_of in found.items()}
    if not any(chosen.values()):
        known = ", ".join(sorted({one.topic for one in chain(*found.values())})) or "none"
        raise UnknownTopicOrPartition(
            f"{', '.join(log_dirs)}: topic {topic!r} has no partition here; there are: {known}"
        )
    return chosen


def _everything(files: Files, chosen: Chosen, tally: Tally, *, whole: bool) -> Events:
    ids: dict[str, tuple[UUID, str]] = {}
    homes: dict[TopicPartition, str] = {}
    for log_dir, partitions in chosen.items():
        yield from _directory(files, log_dir, partitions, tally, ids, whole=whole)
        for key in partitions:
            other = join(homes.setdefault(key, log_dir), folder_name(*key))
            folder = join(log_dir, folder_name(*key))
            # A folder that an owner moves meanwhile is seen in both places.
            if other != folder and None not in (files.stat(other), files.stat(folder)):
                advice = "`pylog topic dirs` says which one the log uses: move the other one away"
                yield Problem(folder, None, None, f"the partition lies in {other}, too", advice)


def _directory(
    files: Files, log_dir: str, partitions: list[TopicPartition], tally: Tally, ids: dict[str, tuple[UUID, str]], *,
    whole: bool,
) -> Events:  # fmt: skip
    promises = Promises()
    if whole:
        yield from _root(files, log_dir)
    yield from _read_promises(files, log_dir, promises)
    try:
        for partition in partitions:
            try:
                yield from check_partition(files, log_dir, partition, promises, tally, ids)
            except LogNotFound:
                # The topic was deleted meanwhile.
                continue
            except StorageError as error:
                # The folder cannot be listed; the others are checked all the same.
                yield problem_of(join(log_dir, folder_name(*partition)), error)
        if whole and promises.published is not None:
            yield from _lost_folders(files, log_dir, partitions)
    finally:
        if promises.published is not None:
            promises.published.close()


# --- the directory itself -------------------------------------------------------------------------------------------


def _root(files: Files, log_dir: str) -> Events:
    for name in sorted(set(files.list_dir(log_dir)) - {SOCKET, STAGED}):
        path = join(log_dir, name)
        stat = files.stat(path)
        is_folder = stat is not None and stat.is_dir
        if is_set_aside(name) if is_folder else LEFT_BEHIND.fullmatch(name):
            yield Problem(path, None, None, "it was left behind or waits for removal", NOT_PARTITIONS, harmless=True)
        elif is_folder and partition_of(name) is None:
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
            folder = join(log_dir, folder_name(*key))
            if offset > 0 and key not in there and files.stat(folder) is None:
                what = f"{RECOVERY_POINTS} says that it had everything below offset {offset}, and it is missing"
                yield Problem(folder, None, 0, what, RESTORE)
