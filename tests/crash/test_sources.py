"""Each source of what is durable, stale, missing or wrong by itself: the others make up for it.

The table is in docs/design.md ("What says what is there").
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.errors import CorruptBatch, StorageError
from pylog.storage.published import ENTRY_BYTES
from support.log_copies import copy_log

START, END, SEGMENT = 3, 30, 10
KEY = TopicPartition("t", 0)
SOURCES = {
    "slots": ".pylog-published",
    "recovery point": "recovery-point-offset-checkpoint",
    "start": "log-start-offset-checkpoint",
    "high watermark": "replication-offset-checkpoint",
    "cleaner offset": "cleaner-offset-checkpoint",
    "marker": ".kafka_cleanshutdown",
    "seal": "t-0/00000000000000000020.pylog-seal",
    "older seal": "t-0/00000000000000000010.pylog-seal",
    "listing": "t-0/pylog-listing",
    "epochs": "t-0/leader-epoch-checkpoint",
    "snapshot": "t-0/00000000000000000030.snapshot",
}


def fill(log: pylog.Log, upto: int) -> None:
    """Records up to an offset, with a new segment after every ten."""
    view = log.topic("t")[0]
    for number in range(view.next_offset, upto):
        view.append([Record(b"%d" % number)])
        if number % SEGMENT == SEGMENT - 1 and number != END - 1:
            log.broker.partition("t", 0).roll(number)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A log that was closed; as it was when it was closed before; and as a kill left it instead."""
    folder = tmp_path_factory.mktemp("sources")
    now, before, killed = folder / "now", folder / "before", folder / "killed"
    with pylog.open(now) as log:
        log.create_topic("t")
        fill(log, 25)
        log.delete_records({KEY: 1})
        log.broker.node.directories.first.write_cleaner_offset(KEY, 5)
    copy_log(now, before)
    with pylog.open(now) as log:
        fill(log, END)
        log.delete_records({KEY: START})
        log.broker.node.directories.first.write_cleaner_offset(KEY, 20)
        copy_log(now, killed)
    return now, before, killed


def copied(log: Path, target: Path) -> Path:
    """A copy with the times that the files and folders have."""
    copy_log(log, target)
    for path in (log / "t-0", log):
        os.utime(target / path.relative_to(log), ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    return target


def stale(path: Path, before: Path) -> None:
    if before.exists():
        shutil.copy2(before, path)


def missing(path: Path, before: Path) -> None:
    path.unlink(missing_ok=True)


def wrong(path: Path, before: Path) -> None:
    if path.exists():
        data = bytearray(path.read_bytes())
        # Of what is published all slots, and not what says whose they are.
        is_published = path.name == SOURCES["slots"]
        for at in range(1, len(data), 2):
            if not is_published or (at > ENTRY_BYTES and at % ENTRY_BYTES > 32):
                data[at] ^= 0x55
        path.write_bytes(data)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("how", [stale, missing, wrong])
@pytest.mark.parametrize("source", SOURCES)
def test_a_single_source_that_fails_loses_nothing(
    logs: tuple[Path, Path, Path], tmp_path: Path, source: str, how: Callable[[Path, Path], None], is_clean: bool
) -> None:
    path, name = copied(logs[0 if is_clean else 2], tmp_path / "log"), SOURCES[source]
    mtime_ns = path.joinpath("t-0").stat().st_mtime_ns
    how(path / name, logs[1] / name)
    os.utime(path / "t-0", ns=(mtime_ns, mtime_ns))
    with pylog.open(path) as log:
        view = log.topic("t")[0]
        assert (view.start_offset, view.high_watermark, view.next_offset) == (START, END, END)
        assert [record.value for record in view.records()] == [b"%d" % number for number in range(START, END)]
        assert not log.recovered and not log.quarantined
        view.check()
        assert view.append([Record(b"next")]).base_offset == END


def test_a_marker_beside_a_log_that_was_killed_loses_nothing(logs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    path = copied(logs[2], tmp_path / "log")
    shutil.copy2(logs[1] / SOURCES["marker"], path)
    with pylog.open(path) as log:
        view = log.topic("t")[0]
        assert [record.value for record in view.records()] == [b"%d" % number for number in range(START, END)]
        assert not log.recovered and not log.quarantined


@pytest.mark.parametrize("base", [0, 10, 20])
def test_a_lost_segment_in_a_believed_listing_is_missed_at_a_read(
    logs: tuple[Path, Path, Path], tmp_path: Path, base: int
) -> None:
    """A copy that keeps the times of folders, and not all of their files: the one case in which the mtime lies."""
    path = copied(logs[0], tmp_path / "log")
    mtime_ns = (path / "t-0").stat().st_mtime_ns
    (path / "t-0" / f"{base:020d}.log").unlink()
    os.utime(path / "t-0", ns=(mtime_ns, mtime_ns))
    with pylog.open(path) as log, pytest.raises((CorruptBatch, StorageError)):
        list(log.topic("t")[0].records())


def test_a_lost_list_of_damages_is_missed_and_a_wrong_one_refused(
    logs: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    path = copied(logs[2], tmp_path / "log")
    segment, listed = path / "t-0" / f"{20:020d}.log", path / "t-0" / "pylog-damages"
    data = bytearray(segment.read_bytes())
    data[65] ^= 1
    segment.write_bytes(data)
    with pylog.open(path) as log:
        (found,) = log.quarantined
    assert (found.offset, found.next_offset) == (20, 21)
    listed.unlink()
    with pylog.open(path) as log, pytest.raises(CorruptBatch):
        list(log.topic("t")[0].records())
    listed.write_bytes(b"0\n1\nnot a damage\n")
    with pylog.open(path) as log, pytest.raises(StorageError, match="pylog-damages"):
        log.topic("t")[0].next_offset  # noqa: B018
