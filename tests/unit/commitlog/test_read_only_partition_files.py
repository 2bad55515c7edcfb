"""A reader beside files that are being renamed, or that nobody has published anything of."""

from collections.abc import Callable
from uuid import UUID

import pytest

from pylog.commitlog.read_only_partition import LIST_ATTEMPTS, ReadOnlyPartition
from pylog.errors import LogNotFound
from pylog.files import File, MemoryFiles
from pylog.partition import Partition
from pylog.protocol.batch import split
from pylog.storage.producer_state import snapshot_offsets
from pylog.storage.published import Published
from pylog.storage.segment_files import SUFFIXES, file_name
from support.partition_log import DIRECTORY, NOW, Log, ReadOnlyFiles

TOPIC_ID = UUID(int=7)


def attached(log: Log, files: ReadOnlyFiles | None = None) -> ReadOnlyPartition:
    """A reader that finds nothing published."""
    seen = files if files is not None else ReadOnlyFiles(log.files)
    return ReadOnlyPartition(seen, DIRECTORY, "t", 0, log.config, find_entry=lambda: None)  # type: ignore[arg-type]


def values(partition: ReadOnlyPartition, start: int = 0) -> list[str]:
    found, offset = [], start
    while (piece := partition.read(offset, 1, upto=partition.high_watermark)) is not None:
        for batch in split(piece.data, check_crc=True):
            found += [(record.value or b"").decode() for record in batch.records("t", 0)]
        offset = piece.next_offset
    return found


# --- nothing published ------------------------------------------------------------------------------------------------


def test_files_alone_say_where_a_log_ends_and_which_transaction_is_open() -> None:
    log = Log()
    log.fill(30)
    log.in_transaction("open", producer_id=5, sequence=0)
    log.append("behind")
    reader = attached(log)
    assert (reader.next_offset, reader.high_watermark, reader.last_stable_offset) == (32, 32, 30)
    assert len(values(reader)) == 32


@pytest.mark.parametrize("damaged", [1, 2, 100])
def test_a_damaged_snapshot_gives_way_to_an_older_one_and_the_log(damaged: int) -> None:
    log = Log()
    log.in_transaction("open", producer_id=5, sequence=0)
    log.fill(60)
    offsets = snapshot_offsets(log.files, DIRECTORY)
    assert len(offsets) >= 2
    for offset in offsets[-damaged:]:
        log.files.replace_file(f"{DIRECTORY}/{offset:020d}.snapshot", b"\xff" * 20)
    assert attached(log).last_stable_offset == 0


def test_a_snapshot_behind_the_end_is_ignored() -> None:
    log = Log()
    log.in_transaction("open", producer_id=5, sequence=0)
    log.fill(60)
    newest = snapshot_offsets(log.files, DIRECTORY)[-1]
    snapshot = log.files.read_file(f"{DIRECTORY}/{newest:020d}.snapshot")
    log.files.replace_file(f"{DIRECTORY}/{99:020d}.snapshot", snapshot)
    assert attached(log).last_stable_offset == 0


def test_a_folder_without_a_segment_is_an_empty_log() -> None:
    log = Log()
    log.files.remove_dir(DIRECTORY)
    log.files.make_dir(DIRECTORY)
    reader = attached(log)
    assert (reader.start_offset, reader.next_offset, reader.segments) == (0, 0, [])
    assert reader.read(0, 1, upto=0) is None


# --- in the middle of a replacement -----------------------------------------------------------------------------------


def swapping(log: Log, count: int) -> dict[str, str]:
    """Put a replacement of the first `count` segments beside them, as compaction does before it renames anything.

    Gives the renames that are still to come, old names first.
    """
    bases = [segment.base_offset for segment, _ in log.partition.segments][:count]
    joined = b"".join(log.files.read_file(f"{DIRECTORY}/{file_name(base, '.log')}") for base in bases)
    log.files.replace_file(f"{DIRECTORY}/{file_name(0, '.log.swap')}", joined)
    for kind in (".index.swap", ".timeindex.swap"):
        log.files.replace_file(f"{DIRECTORY}/{file_name(0, kind)}", b"")
    names = log.files.list_dir(DIRECTORY)
    old = [file_name(base, kind) for base in bases for kind in SUFFIXES if file_name(base, kind) in names]
    new = [file_name(0, kind) for kind in (".log", ".index", ".timeindex")]
    return {name: name + ".deleted" for name in old} | {name + ".swap": name for name in new}


def renamed(log: Log, renames: dict[str, str]) -> None:
    for source, target in renames.items():
        log.files.rename(f"{DIRECTORY}/{source}", f"{DIRECTORY}/{target}")


def test_every_moment_of_a_replacement_reads_the_same() -> None:
    log = Log()
    wanted = log.fill(40)
    steps = list(swapping(log, 2).items())
    assert len(steps) > 8
    for source, target in [*steps, ("", "")]:
        assert values(attached(log)) == wanted
        if source:
            renamed(log, {source: target})


def test_a_replacement_may_get_its_name_in_every_moment_of_a_look() -> None:
    fired = 0
    while True:
        log = Log()
        wanted = log.fill(40)
        steps = list(swapping(log, 2).items())
        renamed(log, dict(steps[:-3]))
        last = dict(steps[-3:])
        files = ReadOnlyFiles(log.files)
        files.begin(fired + 1, ("list_dir", "stat", "size", "read"), lambda log=log, last=last: renamed(log, last))
        reader = attached(log, files)
        if files.calls <= fired:
            break
        fired += 1
        # Nothing was published, so what was looked at before is not looked at again by itself.
        reader.close()
        assert (reader.next_offset, values(attached(log))) == (40, wanted)
    assert fired > 20


class Restless(ReadOnlyFiles):
    """Files in which a replacement is always listed, and gone when it is opened."""

    listed = 0

    def list_dir(self, path: str) -> list[str]:
        self.listed += 1
        return self.inner.list_dir(path)

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        if path.endswith(".swap"):
            raise LogNotFound(f"{path} is gone")
        return super().open(path, create=create, kept=kept)


def test_a_folder_that_never_holds_still_is_an_error_in_the_end() -> None:
    log = Log()
    log.fill(40)
    renamed(log, dict(list(swapping(log, 2).items())[:-3]))
    files = Restless(log.files)
    with pytest.raises(LogNotFound, match=r"\.swap is gone"):
        attached(log, files)
    assert files.listed == LIST_ATTEMPTS


# --- between two looks ------------------------------------------------------------------------------------------------


def owned(log: Log) -> tuple[Partition, ReadOnlyPartition]:
    """An owner that publishes, and a reader of what it does."""
    published = Published(log.files, "log/.pylog-published", writable=True)
    log.partition = Partition(log.files, DIRECTORY, "t", 0, log.config, published.entry(TOPIC_ID, 0))
    log.partition.create(TOPIC_ID, NOW)
    theirs = Published(ReadOnlyFiles(log.files), "log/.pylog-published", writable=False)  # type: ignore[arg-type]
    reader = ReadOnlyPartition(
        ReadOnlyFiles(log.files), DIRECTORY, "t", 0, log.config, find_entry=lambda: theirs.find(TOPIC_ID, 0)  # type: ignore[arg-type]
    )  # fmt: skip
    return log.partition, reader


def rolled(log: Log) -> None:
    log.partition.roll(NOW)
    log.append("new")


def cut(log: Log) -> None:
    log.partition.truncate(20, NOW)
    log.append("new")


@pytest.mark.parametrize("change", [rolled, cut])
def test_changes_of_the_owner_are_seen_at_the_next_look(change: Callable[[Log], None]) -> None:
    log = Log(MemoryFiles())
    log.files.remove_dir(DIRECTORY)
    partition, reader = owned(log)
    log.fill(30)
    reader.refresh()
    assert values(reader) == log.values()
    change(log)
    reader.refresh()
    assert values(reader) == log.values()
    assert [segment.base_offset for segment, _ in reader.segments] == [
        segment.base_offset for segment, _ in partition.segments
    ]
    reader.close()
