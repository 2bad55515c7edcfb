"""What a roll has made durable: it is promised, in every flush mode, and what is missing of it is damage.

With flush="none" a roll synced and sealed a segment, and the durable offset stayed where it was: after a kill one bit
that had flipped in a sealed segment cut all that followed, a sealed segment that had lost its last batch was passed
over, and the next open read the whole log.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pylog
from pylog.errors import CorruptBatch, DiskFull
from pylog.files import File, MemoryFiles
from pylog.partition import Checkpoint
from pylog.segment import Segment
from pylog.storage.segment_checksum import SEAL
from pylog.storage.segment_files import LOG, file_name
from support.partition_log import DIRECTORY, UNCLEAN, Log

TORN = Checkpoint(clean=False, published=True)
"""After a kill, where nothing was promised."""


class NotedFile:
    """A handle whose syncs are noted; everything else is the real one's."""

    def __init__(self, file: File, path: str, noted: list[tuple[str, str]]) -> None:
        self._file = file
        self._path = path
        self._noted = noted

    def sync(self) -> None:
        self._noted.append(("sync", self._path))
        self._file.sync()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class NotedFiles(MemoryFiles):
    """Files that note what is created and what is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, str]] = []

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            self.noted.append(("create", path))
        return NotedFile(super().open(path, create=create), path, self.noted)  # type: ignore[return-value]


def filled(**config: object) -> tuple[Log, list[str]]:
    log = Log(**config)
    return log, log.fill(60)


def sealed(log: Log) -> tuple[Segment, int]:
    """The second of many segments, and where it ends."""
    assert log.partition.segment_count > 4
    return log.partition.segments[1]


def flip(log: Log, segment: Segment) -> None:
    file = log.files.open(segment.path)
    byte = file.read(file.size() // 2, 1)[0]
    file.write(file.size() // 2, bytes([byte ^ 1]))


def lose_last_batch(log: Log, segment: Segment) -> int:
    """Cut a `.log` between two batches; gives where it ends then."""
    spans = [span for window in segment.scan(check_crc=False) for span in window.spans]
    log.files.open(segment.path).truncate(spans[-1].position)
    return spans[-1].base_offset


def readable(log: Log) -> Iterator[int]:
    """The offsets that can be read."""
    for offset in range(log.partition.next_offset):
        try:
            piece = log.partition.read(offset, 1, upto=log.partition.next_offset)
        except CorruptBatch:
            continue
        if piece is not None:
            yield offset


def lost(log: Log) -> list[tuple[int, int]]:
    return [(one.offset, one.next_offset) for one in log.partition.quarantined]


def test_a_roll_promises_what_it_has_synced() -> None:
    log, _ = filled()
    last = log.partition.segments[-1][0].base_offset
    assert log.partition.durable_offset == last > 40
    log.partition.roll(0)
    assert log.partition.durable_offset == 60


def test_a_roll_beside_another_sync_promises_nothing() -> None:
    """Of two syncs of one file the system tells a single one that it has failed."""
    log = Log()
    log.append("a")
    log.partition.state.syncing.acquire()
    log.partition.roll(0)
    assert log.partition.durable_offset == 0
    log.partition.state.syncing.release()
    log.append("b")
    log.partition.roll(0)
    assert log.partition.durable_offset == 2


def test_a_roll_syncs_what_was_never_promised() -> None:
    """After a kill nothing says that the segments there are on the disk, and a roll syncs all of them."""
    files = NotedFiles()
    log = Log(files)
    log.fill(40)
    partition = log.reopen()
    assert partition.durable_offset == 0
    files.noted.clear()
    partition.roll(0)
    assert {("sync", segment.path) for segment, _ in partition.segments[:-1]} <= set(files.noted)
    assert partition.durable_offset == 40


def test_a_segment_has_a_durable_seal_before_another_follows_it() -> None:
    files = NotedFiles()
    log = Log(files)
    log.append("a")
    files.noted.clear()
    log.partition.roll(0)
    seal, follower = f"{DIRECTORY}/{file_name(0, SEAL)}", f"{DIRECTORY}/{file_name(1, LOG)}"
    assert files.noted.index(("sync", seal)) < files.noted.index(("create", follower))


@pytest.mark.parametrize("checkpoint", [UNCLEAN, TORN])
def test_a_bad_batch_before_another_segment_is_no_torn_tail(checkpoint: Checkpoint) -> None:
    log, values = filled()
    segment, end = sealed(log)
    flip(log, segment)
    partition = log.reopen(checkpoint)
    ((offset, following),) = lost(log)
    assert segment.base_offset <= offset < following == offset + 1 <= end
    assert partition.recovered is None and partition.next_offset == len(values)
    assert list(readable(log)) == [at for at in range(len(values)) if at != offset]


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("has_seal", [True, False])
def test_a_hole_between_two_segments_is_told(policy: str, has_seal: bool) -> None:
    log, values = filled(cleanup_policy=policy)
    segment, end = sealed(log)
    cut = lose_last_batch(log, segment)
    if not has_seal:
        log.files.remove(f"{DIRECTORY}/{file_name(segment.base_offset, SEAL)}")
    partition = log.reopen()
    assert partition.recovered is None and partition.next_offset == len(values)
    if policy == "compact" and not has_seal:
        # It may have been cleaned, by Kafka.
        assert not lost(log)
        return
    assert lost(log) == [(cut, end)]
    assert list(readable(log)) == [at for at in range(len(values)) if not cut <= at < end]


@pytest.mark.parametrize("checkpoint", [UNCLEAN, TORN])
def test_a_segment_that_is_gone_is_told(checkpoint: Checkpoint) -> None:
    log, values = filled()
    segment, end = sealed(log)
    for suffix in (LOG, SEAL, ".index", ".timeindex"):
        log.files.remove(f"{DIRECTORY}/{file_name(segment.base_offset, suffix)}")
    partition = log.reopen(checkpoint)
    assert lost(log) == [(segment.base_offset, end)]
    assert partition.next_offset == len(values)
    assert list(readable(log)) == [at for at in range(len(values)) if not segment.base_offset <= at < end]
    partition.sync()
    log.reopen(Checkpoint(clean=False, durable_offset=60, recovery_point=60))
    assert lost(log) == [(segment.base_offset, end)]


def test_a_gap_that_a_follower_has_is_no_hole() -> None:
    log = Log()
    log.fill(5)
    other = Log()
    other.fill(9)
    log.partition.truncate(5, 0)
    batch = other.batches(7)[0]
    log.partition.append_follower(batch.data, epoch=0, now_ms=0)
    log.partition.roll(0)
    log.partition.truncate_fully(20, 0)
    log.append("behind a gap")
    log.partition.roll(0)
    log.reopen()
    assert not lost(log) and log.partition.recovered is None


class CrampedFiles(MemoryFiles):
    """A disk without room for another `.log`, while it `is_full`."""

    is_full = False

    def open(self, path: str, *, create: bool = False) -> File:
        if create and self.is_full and path.endswith(LOG):
            raise DiskFull(f"no room for {path}")
        return super().open(path, create=create)


def test_a_sealed_segment_without_a_follower_takes_appends_again() -> None:
    files = CrampedFiles()
    log = Log(files)
    values = log.fill(5)
    base = log.partition.segments[-1][0].base_offset
    files.is_full = True
    with pytest.raises(DiskFull):
        log.partition.roll(0)
    seal = f"{DIRECTORY}/{file_name(base, SEAL)}"
    assert files.stat(seal) is not None and not log.partition.failed
    log.append("more")
    assert files.stat(seal) is None and log.partition.segment_count == 1
    log.reopen()
    assert log.values() == [*values, "more"] and not lost(log)
    files.is_full = False
    log.partition.roll(0)
    assert log.partition.durable_offset == 6


WRITER = """
import os, sys, pylog
log = pylog.open(sys.argv[1], flush=sys.argv[2], config={"flush.interval.ms": 3_600_000})  # a roll alone syncs
log.create_topic("t", config={"segment.bytes": 1 << 20})
with log.producer() as producer:
    for _ in range(30):
        producer.send("t", os.urandom(300_000)).result()
os._exit(9)
"""


@pytest.mark.parametrize("pure", ["0", "1"])
@pytest.mark.parametrize("flush", ["none", "interval"])
def test_after_a_kill_an_open_reads_the_last_segment_alone(tmp_path: Path, flush: str, pure: str) -> None:
    path = tmp_path / "log"
    environment = os.environ | {"PYLOG_PURE": pure, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.run(
        [sys.executable, "-c", WRITER, str(path), flush], env=environment, check=False, capture_output=True, text=True
    )
    assert writer.returncode == 9, writer.stderr
    logs = sorted((path / "t-0").glob("*.log"))
    assert len(logs) == 10
    data = bytearray(logs[1].read_bytes())
    data[150_000] ^= 1
    logs[1].write_bytes(data)
    with pylog.open(path, mode="read") as log:
        assert log.topic("t")[0].durable_offset == 27
    with pylog.open(path) as log:
        # What recovery reads is judged, so the damage was not read.
        assert log.topic("t")[0].next_offset == 30 and not log.recovered and not log.quarantined
        (damage,) = log.find_damage().damages
        assert damage.path == str(logs[1]) and damage.offset == 3
