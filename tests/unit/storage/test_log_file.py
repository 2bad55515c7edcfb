"""One `.log` file as bytes: where a walk ends, and where it can go on behind damage."""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylog.errors import CorruptBatch, StorageError
from pylog.files import DiskFiles, File, MemoryFiles
from pylog.kernel import Record, pure, read_following
from pylog.protocol.batch import encode
from pylog.storage.file_ranges import DamagedRange, Fault, WantedBatches
from pylog.storage.log_file import RESUMED_MAX, LogFile

NOW = 1_700_000_000_000
PATH = "00000000000000000100.log"


def batch(offset: int, *, records: int = 1, size: int = 10, epoch: int = 0) -> bytes:
    made = encode([Record(b"x" * size, timestamp=NOW)] * records, now_ms=NOW, base_offset=offset, leader_epoch=epoch)
    return bytes(made.data)


def made(*parts: bytes, damages: tuple[DamagedRange, ...] = ()) -> LogFile:
    """A file of base offset 100."""
    log = LogFile(MemoryFiles(), PATH, 100, create=True, damages=damages)
    for part in parts:
        log.append(part)
    return log


def scanned(log: LogFile) -> tuple[list[int], Fault | None]:
    """The base offsets of all batches, and what ended the walk."""
    windows = list(log.scan(check_crc=True))
    return [span.base_offset for window in windows for span in window.spans], windows[-1].fault if windows else None


# --- walking ----------------------------------------------------------------------------------------------------------


def test_a_walk_ends_with_the_first_fault() -> None:
    first, bad = batch(100), bytearray(batch(101))
    bad[-1] ^= 1
    offsets, fault = scanned(made(first, bytes(bad), batch(102)))
    assert offsets == [100]
    assert fault is not None and (fault.path, fault.position, fault.offset) == (PATH, len(first), 101)


def test_a_file_that_is_shorter_than_when_it_was_sealed_was_cut() -> None:
    log = made(batch(100), batch(101))
    assert scanned(log) == ([100, 101], None)
    size = log.size()
    log.sealed_bytes = lambda: size + 50
    offsets, fault = scanned(log)
    assert offsets == [100, 101]
    assert fault == Fault(PATH, log.size(), 102, f"the file was cut: {log.size()} bytes are left of {log.size() + 50}")


def test_a_batch_of_many_windows_is_walked_over() -> None:
    sizes = [10, 3 << 20, 10, 6 << 20, 10]
    assert scanned(made(*[batch(100 + i, size=size) for i, size in enumerate(sizes)])) == (list(range(100, 105)), None)


# --- what follows -----------------------------------------------------------------------------------------------------


def test_a_batch_that_cannot_follow_is_told() -> None:
    first = batch(100, epoch=3)
    for following, words in ((batch(100, epoch=3), "offset 100 with"), (batch(101, epoch=2), "leader epoch 2 follows")):
        log = made(first, following)
        with pytest.raises(CorruptBatch, match=words) as caught:
            log.check_following(len(first), 101, 3)
        assert (caught.value.position, caught.value.offset) == (len(first), 101)
    made(first, batch(105, epoch=4)).check_following(len(first), 101, 3)


@pytest.mark.parametrize("read", [read_following, pure.read_following])
def test_reading_on_ends_where_the_next_batch_may_begin(read: Callable[..., Any]) -> None:
    first, second = batch(100, epoch=3), batch(101, epoch=3)
    size = len(second)
    for third, length, is_found in (
        (batch(102, epoch=3), size + 27, True),
        (batch(102, epoch=3), size + 26, False),  # who reads so little does not see what the next one says
        (batch(101, epoch=3), size + 27, False),
        (batch(102, epoch=2), size + 27, False),
        (b"", 0, True),
    ):
        log = made(first, second, third)
        log.following = (101, len(first), 0)
        found = read(log, 101, size, 103, 103, 103, lambda *_, length=length: length)
        assert (found is not None) == is_found
        assert log.following == ((102, 2 * size, 0) if is_found else (101, size, 0))
        if is_found:
            assert (bytes(found[0]), *found[1:]) == (second, PATH, len(first), 102)


def test_where_no_batch_follows_there_is_nothing_to_tell() -> None:
    first = batch(100, epoch=3)
    for rest in (b"", batch(100)[:20], bytes(100)):
        made(first, rest).check_following(len(first), 101, 3)
    damage = DamagedRange(len(first), len(first) + 10, 101, 102)
    made(first, batch(100), damages=(damage,)).check_following(len(first), 101, 3)


def test_a_gap_is_for_who_looks_more_closely_or_empty() -> None:
    log = made(batch(100), batch(110))
    assert log.read(WantedBatches(101, 105, 120, 1000, 0), 0, expected=100, window=4096, cuts=0) is None
    with pytest.raises(CorruptBatch, match="the first batch begins at offset 110") as unclear:
        log.read(WantedBatches(101, 111, 120, 1000, 0), 0, expected=100, window=4096, cuts=0)
    assert unclear.value.next_offset is None
    log.following = (101, log.size() // 2, 0)
    for read in (read_following, pure.read_following):
        assert read(log, 101, 1000, 111, 120, 0) is None


def test_a_file_that_was_cut_meanwhile_gives_nothing() -> None:
    log = made(batch(100), batch(101))
    assert bytes(log.between(0, log.size(), 102, 0).data) == batch(100) + batch(101)
    log.truncate(log.size() // 2)
    with pytest.raises(CorruptBatch, match="was cut while it was read"):
        log.between(0, log.size(), 102, 0)


# --- going on behind a fault ------------------------------------------------------------------------------------------


def resumed(rest: bytes) -> tuple[int, int] | None:
    """Where reading goes on behind 30 bytes of rubbish at offset 101, by its distance from them."""
    start = batch(100)
    found = made(start, b"\xff" * 30, rest).resume_after(Fault(PATH, len(start), 101, "rubbish"))
    return None if found is None else (found[0] - len(start) - 30, found[1])


def test_reading_goes_on_with_the_next_whole_batch() -> None:
    assert resumed(batch(105)) == (0, 105)
    assert resumed(b"\x02" * 50 + batch(103) + batch(104)) == (50, 103)
    assert resumed(b"") is None


def test_bytes_that_only_look_like_a_batch_are_passed_over() -> None:
    good = batch(110)
    bad_crc = bytearray(batch(101))
    bad_crc[-1] ^= 1
    before = batch(99)
    beyond = batch(100 + 2**31)
    too_long = bytearray(batch(101))
    too_long[8:12] = (1 << 30).to_bytes(4, "big")
    for lookalike in (bytes(bad_crc), before, beyond, bytes(too_long)):
        assert resumed(lookalike + good) == (len(lookalike), 110)


def test_a_batch_inside_a_value_is_not_what_follows_a_fault() -> None:
    """Where the damaged batch says its own end and a batch begins there."""
    inner = encode([Record(batch(105), timestamp=NOW)], now_ms=NOW, base_offset=101, leader_epoch=0)
    bad = bytearray(inner.data)
    bad[-1] ^= 1
    log = made(batch(100), bytes(bad), batch(102))
    assert log.resume_after(Fault(PATH, len(batch(100)), 101, "rubbish")) == (log.size() - len(batch(102)), 102)


def test_what_follows_a_fault_is_looked_for_once_a_size() -> None:
    log = made(batch(100), b"\xff" * 100)
    fault = Fault(PATH, len(batch(100)), 101, "rubbish")
    assert (log.resume_after(fault), log.resume_after(fault)) == (None, None)
    size = log.append(batch(101))
    assert log.resume_after(fault) == (size, 101)
    log.append(batch(102))
    assert log.resume_after(fault) == (size, 101)


def test_a_file_with_many_faults_remembers_few_searches() -> None:
    log = made(batch(100), b"\xff" * 100, batch(101))
    for offset in range(101, 101 + RESUMED_MAX + 2):
        found = log.resume_after(Fault(PATH, len(batch(100)), offset, "rubbish"))
        assert found == ((len(batch(100)) + 100, 101) if offset == 101 else None)
        assert len(log._resumed) <= RESUMED_MAX


def test_a_magic_byte_right_before_the_end_begins_no_batch() -> None:
    assert resumed(bytes(80) + b"\x02" + bytes(20)) is None
    # The header would be whole, and its records would not.
    assert resumed(bytes(60) + batch(101)[:-1]) is None


def test_a_log_that_is_larger_than_positions_reach_is_refused(tmp_path: Path) -> None:
    path = tmp_path / PATH
    path.write_bytes(batch(100))
    os.truncate(path, 6 << 30)
    # What tests before this one have dropped open is closed now, and not in between.
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(StorageError, match="has 6442450944 bytes, and such a file has 2147483647 at most"):
        LogFile(DiskFiles(), str(path), 100).read(
            WantedBatches(100, 200, 200, 1, 200), 0, expected=100, window=1 << 20, cuts=0
        )
    assert len(os.listdir("/dev/fd")) <= before


class ClosedMeanwhile(LogFile):
    """A file that another thread closes right behind each look at it."""

    @property
    def opened(self) -> File | None:
        found, self._now = self._now, None
        return found

    @opened.setter
    def opened(self, file: File | None) -> None:
        self._now = file


def test_a_file_that_another_thread_closes_still_has_a_size() -> None:
    files = MemoryFiles()
    files.open("log", create=True).write(0, b"0123")
    log = ClosedMeanwhile(files, "log", 0, create=True)
    assert [log.size(), log.size()] == [4, 4]
