"""Transaction index: Kafka's bytes, what a fetch collects, and what a damaged file or a full disk is worth."""

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.errors import DiskFull, StorageError
from pylog.files import DiskFiles, File, Files, MemoryFiles
from pylog.storage.pending_syncs import sync_new
from pylog.storage.transaction_index import AbortedTxn, TransactionIndex

FIRST = AbortedTxn(73, 975, 983, 984)
SECOND = AbortedTxn(74, 984, 990, 985)
THIRD = AbortedTxn(75, 985, 1000, 1001)
FIRST_BYTES = bytes.fromhex("0000 0000000000000049 00000000000003cf 00000000000003d7 00000000000003d8")


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Files, str]]:
    """A `Files` and a path in it at which there is nothing."""
    if request.param == "disk":
        yield DiskFiles(), str(tmp_path / "00000000000000000970.txnindex")
    else:
        yield MemoryFiles(), "00000000000000000970.txnindex"


def transactions(place: tuple[Files, str], base: int = 970) -> TransactionIndex:
    return TransactionIndex(*place, base)


def filled(place: tuple[Files, str]) -> TransactionIndex:
    index = transactions(place)
    for txn in (FIRST, SECOND, THIRD):
        index.append(txn)
    return index


def content(place: tuple[Files, str]) -> bytes:
    return place[0].read_file(place[1])


def test_entries_are_kafkas_bytes(place: tuple[Files, str]) -> None:
    index = transactions(place)
    index.append(FIRST)
    assert content(place) == FIRST_BYTES
    index.append(SECOND)
    sync_new(index.to_sync())
    index.close()
    again = transactions(place)
    assert list(again) == [FIRST, SECOND] and again.entries == 2 and again.sanity() is None
    again.append(THIRD)
    assert len(content(place)) == 3 * 34


def test_there_is_no_file_before_the_first_abort(place: tuple[Files, str]) -> None:
    index = transactions(place)
    assert not index.exists and index.entries == 0 and index.collect(0, 10**9) == ([], False)
    index.truncate(0)
    index.reset()
    sync_new(index.to_sync())
    index.close()
    assert place[0].stat(place[1]) is None
    index.append(FIRST)
    assert index.exists and transactions(place).exists


@pytest.mark.parametrize("last", [990, 989, 969])
def test_markers_only_go_forward(place: tuple[Files, str], last: int) -> None:
    index = transactions(place)
    index.append(SECOND)
    before = content(place)
    with pytest.raises(StorageError, match=rf"txnindex, entry 1: a marker at offset {last} does not follow 990"):
        index.append(AbortedTxn(1, 10, last, last + 1))
    assert content(place) == before and list(index) == [SECOND]


def test_a_marker_lies_in_its_segment(place: tuple[Files, str]) -> None:
    with pytest.raises(StorageError, match="does not follow 969"):
        transactions(place).append(AbortedTxn(1, 10, 969, 970))
    transactions(place).append(AbortedTxn(1, 10, 970, 971))


@pytest.mark.parametrize(
    ("start", "upto", "found", "complete"),
    [
        (0, 975, [], True),
        (0, 976, [FIRST], True),
        (0, 984, [FIRST], True),
        (975, 985, [FIRST, SECOND], True),
        (984, 985, [SECOND], True),
        (975, 986, [FIRST, SECOND, THIRD], True),
        (983, 1001, [FIRST, SECOND, THIRD], True),
        (984, 1002, [SECOND, THIRD], False),
        (1000, 2000, [THIRD], False),
        (1001, 2000, [], False),
    ],
)
def test_collecting_stops_where_nothing_later_can_matter(
    place: tuple[Files, str], start: int, upto: int, found: list[AbortedTxn], complete: bool
) -> None:
    assert filled(place).collect(start, upto) == (found, complete)


@pytest.mark.parametrize(("offset", "kept"), [(0, 0), (983, 0), (984, 1), (1000, 2), (1001, 3), (10**6, 3)])
def test_truncating_drops_the_markers_from_an_offset_on(place: tuple[Files, str], offset: int, kept: int) -> None:
    index = filled(place)
    index.truncate(offset)
    assert list(index) == [FIRST, SECOND, THIRD][:kept]
    assert len(content(place)) == 34 * kept
    index.append(AbortedTxn(1, 2000, 2001, 2002))
    assert list(transactions(place)) == list(index)


def test_an_iteration_has_the_entries_of_its_beginning(place: tuple[Files, str]) -> None:
    index = filled(place)
    rows = iter(index)
    assert next(rows) == FIRST
    index.truncate(0)
    assert list(rows) == [SECOND, THIRD]


def test_a_reset_leaves_the_file_to_be_written_over(place: tuple[Files, str]) -> None:
    """A recovery repeats what is there: who reads it in another process goes on seeing it."""
    place[0].replace_file(place[1], FIRST_BYTES + b"\1" * 66)
    index = transactions(place)
    assert index.sanity() is not None and index.exists
    index.reset()
    assert index.sanity() is None and list(index) == [] and content(place).startswith(FIRST_BYTES)
    index.append(FIRST)
    assert content(place).startswith(FIRST_BYTES)
    index.trim()
    assert content(place) == FIRST_BYTES
    index.reset()
    index.close()
    assert content(place) == b""


def packed(*fields: int) -> bytes:
    return struct.pack(">hqqqq", *fields)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (packed(1, 7, 985, 990, 991), "entry 1 has version 1"),
        (packed(-1, 7, 985, 990, 991), "entry 1 has version -1"),
        (packed(0, 7, 985, 983, 991), "entry 1 cannot be"),
        (packed(0, 7, 985, 982, 991), "entry 1 cannot be"),
        (packed(0, 7, 990, 990, 991), "entry 1 cannot be"),
        (packed(0, 7, -1, 990, 991), "entry 1 cannot be"),
        (packed(0, 7, 985, 990, -1), "entry 1 cannot be"),
        (bytes(34), "entry 1 cannot be"),
    ],
)
def test_entries_before_an_impossible_one_are_believed(place: tuple[Files, str], bad: bytes, fault: str) -> None:
    place[0].replace_file(place[1], FIRST_BYTES + bad + packed(0, *THIRD))
    index = transactions(place)
    assert list(index) == [FIRST] and index.sanity() is not None
    assert fault in (index.sanity() or "")


def test_an_entry_from_below_the_segment_cannot_be(place: tuple[Files, str]) -> None:
    place[0].replace_file(place[1], FIRST_BYTES)
    assert list(transactions(place, 983)) == [FIRST]
    index = transactions(place, 984)
    assert index.entries == 0 and "after a marker at offset 983" in (index.sanity() or "")


@pytest.mark.parametrize("left", [1, 2, 33])
def test_a_partial_entry_at_the_end_is_ignored_and_written_over(place: tuple[Files, str], left: int) -> None:
    place[0].replace_file(place[1], FIRST_BYTES + packed(0, *THIRD)[:left])
    index = transactions(place)
    assert list(index) == [FIRST] and index.sanity() is None
    index.append(SECOND)
    assert content(place) == FIRST_BYTES + packed(0, *SECOND)


def test_a_reader_sees_entries_that_the_owner_adds_and_removes(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000970.txnindex")
    owner = transactions((DiskFiles(), path))
    reader = transactions((DiskFiles(read_only=True), path))
    assert reader.entries == 0 and not reader.exists
    for count, txn in enumerate((FIRST, SECOND, THIRD), 1):
        owner.append(txn)
        assert reader.entries == count and list(reader)[-1] == txn
    assert reader.collect(0, 2000) == ([FIRST, SECOND, THIRD], False)
    owner.truncate(990)
    assert list(reader) == [FIRST]
    owner.append(AbortedTxn(9, 985, 995, 996))
    assert reader.collect(984, 2000) == ([AbortedTxn(9, 985, 995, 996)], False)


class SmallFiles(MemoryFiles):
    """Files on a disk with room for `room` bytes more in each file."""

    room = 0

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        return SmallFile(self, super().open(path, create=create, kept=kept))


class SmallFile:
    def __init__(self, files: SmallFiles, file: File) -> None:
        self._files, self._file = files, file
        self.size, self.truncate, self.sync, self.close = file.size, file.truncate, file.sync, file.close

    def write(self, position: int, *buffers: bytes) -> None:
        if position + sum(map(len, buffers)) > self._files.room:
            raise DiskFull(f"cannot write: {os.strerror(errno.ENOSPC)}")
        self._file.write(position, *buffers)


def test_a_full_disk_keeps_entries_in_memory_until_there_is_room() -> None:
    files = SmallFiles()
    place = (files, "00000000000000000970.txnindex")
    index = transactions(place)
    index.append(FIRST)
    index.append(SECOND)
    sync_new(index.to_sync())
    assert list(index) == [FIRST, SECOND] and index.collect(0, 2000)[0] == [FIRST, SECOND]
    assert content(place) == b"" and index.exists
    files.room = 3 * 34
    index.append(THIRD)
    assert list(transactions(place)) == [FIRST, SECOND, THIRD]


def test_room_is_reserved_before_a_marker_is_written() -> None:
    """Readers in other processes see no entry in it, and what is not used goes."""
    files = SmallFiles()
    files.room = 2 * 34
    place = (files, "00000000000000000970.txnindex")
    index = transactions(place)
    index.reserve(1)
    assert list(transactions(place)) == [] and content(place) == bytes(34)
    index.append(FIRST)
    assert content(place) == FIRST_BYTES
    with pytest.raises(DiskFull):
        index.reserve(2)
    index.reserve(1)
    assert list(transactions(place)) == [FIRST] and index.matches(1, index.checksum()[1])
    index.trim()
    assert content(place) == FIRST_BYTES


def test_an_index_that_lacks_entries_is_not_sealed() -> None:
    files = SmallFiles()
    index = transactions((files, "00000000000000000970.txnindex"))
    index.append(FIRST)
    with pytest.raises(DiskFull):
        index.trim()
    assert list(index) == [FIRST]


@pytest.mark.parametrize("ending", ["trim", "close"])
def test_entries_kept_back_by_a_full_disk_are_written_later(ending: str) -> None:
    files = SmallFiles()
    place = (files, "00000000000000000970.txnindex")
    files.room = 34
    index = transactions(place)
    index.append(FIRST)
    index.append(SECOND)
    assert list(transactions(place)) == [FIRST]
    files.room = 1000
    getattr(index, ending)()
    assert list(transactions(place)) == [FIRST, SECOND]


def test_a_truncation_on_a_full_disk_cuts_entries_in_memory_too() -> None:
    files = SmallFiles()
    place = (files, "00000000000000000970.txnindex")
    files.room = 34
    index = filled(place)
    index.truncate(1000)
    assert list(index) == [FIRST, SECOND] and list(transactions(place)) == [FIRST]
    index.truncate(984)
    assert list(index) == [FIRST] and content(place) == FIRST_BYTES
    index.truncate(0)
    assert list(index) == [] and content(place) == b""


class SyncedMeanwhile(MemoryFiles):
    """Files in which another thread syncs an index at the moment when the index opens its file."""

    index: TransactionIndex | None = None

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        index, self.index = self.index, None
        if index is not None:
            sync_new(index.to_sync())
        return super().open(path, create=create, kept=kept)


def test_a_sync_beside_an_append_writes_nothing_twice() -> None:
    files = SyncedMeanwhile()
    index = TransactionIndex(files, "index", 970)
    files.index = index
    index.append(FIRST)
    assert files.read_file("index") == FIRST_BYTES
    index.append(SECOND)
    assert list(TransactionIndex(files, "index", 970)) == [FIRST, SECOND]


def test_an_index_that_its_log_has_no_room_for_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000970.txnindex"
    path.touch()
    os.truncate(path, 6 << 30)
    with pytest.raises(StorageError, match="has 6442450944 bytes, and such a file has 1092 at most"):
        TransactionIndex(DiskFiles(), str(path), 970, log_size=lambda: 61)
