"""Offset and time index: Kafka's bytes, floor look-ups, and what a damaged file is worth."""

import os
import struct
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.errors import StorageError
from pylog.files import DiskFiles, Files, MemoryFiles
from pylog.files.index_file import IndexColumn
from pylog.index import UNWRITTEN_MAX, OffsetIndex, TimeIndex
from pylog.storage.pending_syncs import sync_new

T0 = 1_700_000_000_000


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Files, str]]:
    """A `Files` and a path in it at which there is nothing."""
    if request.param == "disk":
        yield DiskFiles(), str(tmp_path / "index")
    else:
        yield MemoryFiles(), "index"


def offsets(place: tuple[Files, str], base: int = 100, *, active: bool = True, max_bytes: int = 80) -> OffsetIndex:
    return OffsetIndex(*place, base, max_bytes, active=active)


def times(place: tuple[Files, str], base: int = 100, *, active: bool = True, max_bytes: int = 120) -> TimeIndex:
    return TimeIndex(*place, base, max_bytes, active=active)


def content(place: tuple[Files, str], index: OffsetIndex | TimeIndex | None = None) -> bytes:
    """What the file has, with what an active `index` has not written yet."""
    if index is not None:
        sync_new(index.to_sync())
    return place[0].read_file(place[1])


def test_offset_entries_are_kafkas_bytes(place: tuple[Files, str]) -> None:
    index = offsets(place)
    assert content(place) == b""
    assert index.add(102, 1)
    assert index.add(5000, 4207)
    assert content(place, index) == bytes.fromhex("0000000200000001 000013240000106f")
    assert list(index) == [(102, 1), (5000, 4207)]
    assert index.last == (5000, 4207)


def test_time_entries_are_kafkas_bytes(place: tuple[Files, str]) -> None:
    index = times(place)
    assert index.maybe_add(T0 + 5, 102)
    assert content(place, index) == bytes.fromhex("0000018bcfe5680500000002")
    assert list(index) == [(T0 + 5, 102)]


@pytest.mark.parametrize("sealed", [False, True])
def test_offset_lookup_is_a_floor(place: tuple[Files, str], sealed: bool) -> None:
    index = offsets(place)
    assert index.lookup(10**9) == (100, 0)
    for offset, position in ((110, 50), (120, 90), (130, 200)):
        index.add(offset, position)
    if sealed:
        index.seal()
    found = [index.lookup(offset) for offset in (0, 109, 110, 119, 120, 131, 2**63)]
    assert found == [(100, 0), (100, 0), (110, 50), (110, 50), (120, 90), (130, 200), (130, 200)]
    assert [index.lookup(999, log_size=size) for size in (201, 200, 91, 90, 50, 0)] == [
        (130, 200), (120, 90), (120, 90), (110, 50), (100, 0), (100, 0),
    ]  # fmt: skip
    assert index.lookup(110, log_size=201) == (110, 50)
    assert [index.last_upto(position) for position in (0, 49, 50, 51, 10**9)] == [0, 0, 50, 50, 200]
    assert (index.entries, index.last, index.entry(1)) == (3, (130, 200), (120, 90))
    with pytest.raises(IndexError):
        index.entry(3)


def test_an_iteration_has_the_entries_of_its_beginning(place: tuple[Files, str]) -> None:
    """Another thread may cut it, or be in the middle of adding to it: the second column is filled first."""
    index = offsets(place)
    for offset, position in ((110, 50), (120, 90), (130, 200)):
        index.add(offset, position)
    entries = iter(index)
    assert next(entries) == (110, 50)
    index.truncate(120)
    assert list(entries) == [(120, 90), (130, 200)] and list(index) == [(110, 50)]
    index.rows.seconds.append(300)  # type: ignore[attr-defined]
    assert (index.last, list(index)) == ((110, 50), [(110, 50)])


@pytest.mark.parametrize("sealed", [False, True])
def test_time_lookup_is_a_floor(place: tuple[Files, str], sealed: bool) -> None:
    index = times(place)
    assert index.lookup(T0) == (-1, 100)
    for timestamp, offset in ((10, 105), (20, 105), (30, 111)):
        assert index.maybe_add(timestamp, offset)
    if sealed:
        index.seal()
    assert [index.lookup(t) for t in (-1, 9, 10, 25, 99)] == [(-1, 100), (-1, 100), (10, 105), (20, 105), (30, 111)]
    assert [index.lookup(99, upto=end) for end in (112, 111, 106, 105)] == [
        (30, 111), (20, 105), (20, 105), (-1, 100),
    ]  # fmt: skip


def test_offset_entries_rise(place: tuple[Files, str]) -> None:
    index = offsets(place)
    index.add(110, 50)
    for offset, position in ((110, 60), (109, 60), (111, 50), (111, 49), (99, 60), (100 + 2**31, 60), (111, 2**31)):
        with pytest.raises(StorageError, match=r"index, entry 1: offset .* does not follow offset 110 at position 50"):
            index.add(offset, position)
    assert list(index) == [(110, 50)]
    assert index.add(100 + 2**31 - 1, 2**31 - 1)


def test_the_first_batch_has_no_entry(place: tuple[Files, str]) -> None:
    with pytest.raises(StorageError):
        offsets(place).add(105, 0)


def test_time_entries_rise_or_are_left_out(place: tuple[Files, str]) -> None:
    index = times(place)
    assert not index.maybe_add(-1, 100)
    assert index.maybe_add(0, 100)
    assert index.maybe_add(10, 105)
    assert not index.maybe_add(10, 107)
    assert not index.maybe_add(10, 105, force=True)
    for timestamp, offset in ((9, 107), (11, 104), (11, 100 + 2**31)):
        with pytest.raises(StorageError, match=r"does not follow timestamp 10 at offset 105"):
            index.maybe_add(timestamp, offset)
    assert list(index) == [(0, 100), (10, 105)]


def test_a_full_index_takes_no_more(place: tuple[Files, str]) -> None:
    index = offsets(place, max_bytes=31)
    assert index.capacity == 3
    for i in range(1, 4):
        assert not index.is_full
        assert index.add(100 + i, i)
    assert index.is_full
    assert not index.add(200, 200)
    assert index.lookup(300) == (103, 3)


def test_a_time_index_keeps_a_slot_for_the_closing_entry(place: tuple[Files, str]) -> None:
    index = times(place, max_bytes=36)
    assert index.maybe_add(1, 101)
    assert not index.is_full
    assert index.maybe_add(2, 102)
    assert index.is_full
    assert not index.maybe_add(3, 103)
    assert index.maybe_add(3, 103, force=True)
    assert index.entries == 3


def test_many_entries_at_once_are_those_one_by_one(place: tuple[Files, str]) -> None:
    index = offsets(place)
    index.extend(array("q"), array("q"))
    index.extend(array("q", [2, 30]), array("q", [1, 40]))
    assert list(index) == [(102, 1), (130, 40)]
    for columns in ([30], [41]), ([31], [40]), ([31, 2**31], [41, 42]), ([31, 32], [41, 2**31]):
        with pytest.raises(StorageError, match="do not follow offset 130"):
            index.extend(*(array("q", column) for column in columns))
    index.extend(array("q", range(40, 60)), array("q", range(50, 70)))
    assert index.is_full and index.entries == 10 and index.last == (147, 57)
    sync_new(index.to_sync())
    assert list(offsets(place)) == list(index)


def test_many_times_at_once_leave_out_known_ones_and_those_without_room(place: tuple[Files, str]) -> None:
    index = times(place)
    index.extend(array("q", [-1]), array("q", [0]))
    assert index.entries == 0
    index.extend(array("q", [T0, T0 + 5]), array("q", [2, 3]))
    index.extend(array("q", [T0 + 5, T0 + 6]), array("q", [3, 4]))
    assert list(index) == [(T0, 102), (T0 + 5, 103), (T0 + 6, 104)]
    index.extend(array("q", range(T0 + 7, T0 + 20)), array("q", range(5, 18)))
    assert index.is_full and index.entries == 9


@pytest.mark.parametrize("sealed", [False, True])
def test_truncate_drops_entries_at_and_above_the_offset(place: tuple[Files, str], sealed: bool) -> None:
    index = offsets(place)
    for i in range(1, 6):
        index.add(100 + 10 * i, i)
    if sealed:
        index.seal()
    index.truncate(130)
    assert list(index) == [(110, 1), (120, 2)]
    assert len(content(place)) == 16
    index.truncate(1000)
    assert index.add(125, 3)
    sync_new(index.to_sync())
    assert list(offsets(place, active=False)) == [(110, 1), (120, 2), (125, 3)]
    index.truncate(0)
    assert (index.entries, index.last, content(place)) == (0, None, b"")


def test_a_long_index_is_the_same_after_a_seal(place: tuple[Files, str]) -> None:
    index = offsets(place, max_bytes=1600)
    for i in range(1, 201):
        index.add(100 + 10 * i, 7 * i)
    active = list(index)
    index.seal()
    assert (list(index), index.entries, index.last) == (active, 200, (2100, 1400))
    assert [index.lookup(offset) for offset in (100, 110, 1555, 2100, 9999)] == [
        (100, 0), (110, 7), (1550, 1015), (2100, 1400), (2100, 1400),
    ]  # fmt: skip
    assert (index.entry(-200), index.entry(199)) == (active[0], active[-1])
    for beyond in (200, -201):
        with pytest.raises(IndexError):
            index.entry(beyond)
    index.truncate(1555)
    assert list(index) == active[:145]
    assert index.add(1556, 1016)
    sync_new(index.to_sync())
    assert list(offsets(place, active=False)) == [*active[:145], (1556, 1016)]


def test_truncating_times_goes_by_offset(place: tuple[Files, str]) -> None:
    index = times(place)
    for timestamp, offset in ((10, 105), (20, 105), (30, 111)):
        index.maybe_add(timestamp, offset)
    index.truncate(111)
    assert list(index) == [(10, 105), (20, 105)]
    index.truncate(105)
    assert list(index) == []
    assert index.maybe_add(5, 101)


def test_a_cut_does_not_touch_a_mapped_file(tmp_path: Path) -> None:
    # Touching a map behind the end of its file is SIGBUS, so a child process looks.
    program = """
import sys
from pylog.files import DiskFiles
from pylog.index import OffsetIndex
files = DiskFiles()
index = OffsetIndex(files, sys.argv[1], 0, 1 << 20, active=True)
for i in range(1, 20_000):
    index.add(i, i)
index.seal()
mapped = OffsetIndex(files, sys.argv[1], 0, 1 << 20, active=False)
index.truncate(5)
index.reset()
print(mapped.lookup(19_000), mapped.last, index.entries)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "index")], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "(19000, 19000) (19999, 19999) 0\n"), done.stderr


def test_reset_makes_a_sealed_index_active(place: tuple[Files, str]) -> None:
    index = offsets(place)
    index.add(110, 1)
    index.seal()
    index.seal()
    with pytest.raises(StorageError, match="sealed"):
        index.add(120, 2)
    index.reset()
    assert index.lookup(200) == (100, 0)
    assert index.add(101, 7)
    index.close()
    assert list(offsets(place)) == [(101, 7)]


def test_a_missing_file_is_an_empty_index(place: tuple[Files, str]) -> None:
    index = offsets(place, active=False)
    assert not index.exists
    assert index.sanity() == "the file is missing"
    assert (index.entries, index.lookup(500)) == (0, (100, 0))
    index.seal()
    sync_new(index.to_sync())
    index.close()
    assert place[0].stat(place[1]) is None
    index.reset()
    assert index.exists
    assert index.sanity() is None
    assert offsets(place).exists


TAILS = [b"\0", b"\0" * 7, b"\0" * 8, b"\0" * 4096, b"\xff" * 8, bytes.fromhex("0000001400000050")]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("tail", TAILS)
def test_a_senseless_offset_tail_is_not_believed(place: tuple[Files, str], active: bool, tail: bytes) -> None:
    good = bytes.fromhex("0000000a00000032 000000140000005a")
    place[0].replace_file(place[1], good + tail)
    index = offsets(place, active=active)
    assert list(index) == [(110, 50), (120, 90)]
    assert index.sanity() == f"only 2 entries (16 of {16 + len(tail)} bytes) can be believed"
    assert index.lookup(2**62) == (120, 90)
    if active:
        index.add(130, 95)
        assert content(place, index) == good + bytes.fromhex("0000001e0000005f")
    index.close()


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 12, b"\0" * 1200, b"\x7f" * 8 + b"\xff" * 4])
def test_a_senseless_time_tail_is_not_believed(place: tuple[Files, str], active: bool, tail: bytes) -> None:
    good = bytes.fromhex("000000000000000a00000005")
    place[0].replace_file(place[1], good + tail)
    index = times(place, active=active)
    assert list(index) == [(10, 105)]
    assert index.sanity() is not None
    if active:
        index.maybe_add(11, 105)
        assert content(place, index) == good + bytes.fromhex("000000000000000b00000005")


@pytest.mark.parametrize("active", [False, True])
def test_preallocated_space_is_no_entry(place: tuple[Files, str], active: bool) -> None:
    place[0].replace_file(place[1], bytes(2400))
    assert list(times(place, active=active)) == []
    place[0].replace_file(place[1], bytes(2400))
    assert list(offsets(place, active=active)) == []
    place[0].replace_file(place[1], bytes(12))
    assert list(times(place, active=active)) == [(0, 100)]


def test_offsets_at_the_end_of_64_bits_are_found(place: tuple[Files, str]) -> None:
    base = 2**63 - 1000
    index = offsets(place, base)
    index.add(2**63 - 2, 5)
    index.seal()
    assert index.lookup(2**63 - 1) == (2**63 - 2, 5)


def test_a_reader_sees_what_the_owner_adds(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    owner = OffsetIndex(DiskFiles(), path, 0, 8000, active=True)
    for offset in range(1, UNWRITTEN_MAX + 1):
        owner.add(offset, offset * 10)
    reader = OffsetIndex(DiskFiles(read_only=True), path, 0, 8000, active=True)
    assert reader.lookup(99) == (UNWRITTEN_MAX, UNWRITTEN_MAX * 10)
    for offset in range(UNWRITTEN_MAX + 1, 3 * UNWRITTEN_MAX):
        owner.add(offset, offset * 10)
        # Some at a time.
        assert reader.entries == offset // UNWRITTEN_MAX * UNWRITTEN_MAX
    sync_new(owner.to_sync())
    assert reader.last == owner.last
    reader.close()
    absent = OffsetIndex(DiskFiles(read_only=True), str(tmp_path / "absent"), 0, 8000, active=True)
    assert not absent.exists
    assert absent.lookup(5) == (0, 0)


def test_a_reader_sees_that_the_owner_began_the_index_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "index")
    owner = OffsetIndex(DiskFiles(), path, 0, 8000, active=True)
    for offset in (5, 6, 7):
        owner.add(offset, offset * 10)
    sync_new(owner.to_sync())
    # With one descriptor, so that the file is opened again by its name.
    files = DiskFiles(max_open=1, read_only=True)
    reader = OffsetIndex(files, path, 0, 8000, active=True)
    assert reader.lookup(99) == (7, 70)
    owner.truncate(6)
    files.open(path)
    assert reader.lookup(99) == (5, 50)
    owner.add(9, 90)
    sync_new(owner.to_sync())
    assert reader.lookup(99) == (9, 90)


def test_a_full_disk_costs_no_append(tmp_path: Path) -> None:
    program = """
import resource, sys
from pylog.storage.pending_syncs import sync_new
from pylog.errors import DiskFull
from pylog.files import DiskFiles
from pylog.index import OffsetIndex
index = OffsetIndex(DiskFiles(), sys.argv[1], 0, 8000, active=True)
index.add(1, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (8, resource.RLIM_INFINITY))
print(index.add(2, 2), index.add(3, 3), index.lookup(9))
sync_new(index.to_sync())
try:
    index.seal()
except DiskFull as error:
    print("full", index.lookup(9))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
index.add(4, 4)
index.seal()
print(list(index))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "index")], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "True True (3, 3)", "full (3, 3)", "[(1, 1), (2, 2), (3, 3), (4, 4)]"
    ], done.stderr  # fmt: skip


@pytest.mark.parametrize("read_only", [False, True], ids=["owner", "reader"])
@pytest.mark.parametrize("active", [False, True], ids=["sealed", "active"])
def test_an_index_that_its_log_has_no_room_for_is_not_read(tmp_path: Path, active: bool, read_only: bool) -> None:
    path = tmp_path / "index"
    path.touch()
    os.truncate(path, 6 << 30)
    files = DiskFiles(read_only=read_only)
    index = OffsetIndex(files, str(path), 100, 80, active=active, log_size=lambda: 61 * 20)
    assert not index.believed and index.entries == 0 and index.lookup(150) == (100, 0)
    assert "no room for an index of 6442450944 bytes" in (index.sanity() or "")
    assert path.stat().st_size == (0 if active and not read_only else 6 << 30), "an owner begins it anew"


def test_an_index_of_a_config_that_was_larger_is_read_as_far_as_its_log_goes(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"".join(n.to_bytes(4, "big") * 2 for n in range(1, 20)))
    index = OffsetIndex(DiskFiles(), str(path), 100, 80, active=False, log_size=lambda: 61 * 20)
    assert index.entries == 19 and index.lookup(119) == (119, 19)


def test_a_reader_does_not_follow_an_index_that_grows_beyond_its_log(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes((1).to_bytes(4, "big") * 2)
    index = OffsetIndex(DiskFiles(read_only=True), str(path), 100, 80, active=True, log_size=lambda: 61)
    os.truncate(path, 6 << 30)
    assert list(index) == [(101, 1)]


def test_a_column_of_a_file_is_a_sequence() -> None:
    column = IndexColumn(memoryview(struct.pack(">6i", 1, 10, 2, 20, 3, 30)), 3, struct.Struct(">ii"), 1)
    assert (len(column), list(column), column[1:], column[-1]) == (3, [10, 20, 30], [20, 30], 30)
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            column[beyond]
