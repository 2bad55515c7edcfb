"""Snapshots of producers: Kafka's bytes, what a reload brings back, which files stay.

The numbers in the names of tests are Kafka's issues.
"""

import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c

from pylog.errors import CorruptBatch, DiskFull, OutOfOrderSequence
from pylog.files import File, MemoryFiles
from pylog.protocol.batch import Marker
from pylog.storage.producer_state import (
    BatchMetadata,
    Producers,
    Snapshots,
    snapshot_name,
    snapshot_offsets,
)
from support.producer_log import DAY, DIRECTORY, T0, Log, data, marker


def test_a_snapshot_is_kafkas_bytes() -> None:
    producers = Producers("t-0")
    assert producers.encode() == bytes.fromhex("000148674bc700000000")
    batches = [
        (marker(973, producer_id=73, epoch=13, coordinator_epoch=347), Marker(False, 347)),
        (data(975, producer_id=73, epoch=13, sequence=34, count=5, txn=True), None),
        (data(980, producer_id=73, epoch=13, sequence=39, count=3, txn=True, timestamp=T0 + 5), None),
    ]
    producers.replay(batches)
    assert producers.encode() == bytes.fromhex(
        "0001f219674800000001 0000000000000049 000d 00000029 00000000000003d6 00000002 0000018bcfe56805 0000015b"
        "00000000000003cf"
    )


def test_a_producer_known_by_its_marker_alone() -> None:
    log = Log()
    log.end(epoch=2, coordinator_epoch=4)
    assert log.producers.encode()[10:] == struct.pack(">qhiqiqiq", 7, 2, -1, -1, 0, T0, 4, -1)
    log.snapshot()
    again = Log()
    again.files = log.files
    again.reload(1)
    assert again.entry() == log.entry()
    with pytest.raises(OutOfOrderSequence):
        again.data(epoch=2, sequence=1)


def test_producers_stand_in_the_order_of_javas_hash_map() -> None:
    log = Log()
    ids = [16, 1, 2**32, 17, -(2**63) & 0x7FFF, 33, *range(100, 120)]
    for producer_id in ids:
        log.data(producer_id=producer_id)
    found = [fields[0] for fields in struct.iter_unpack(">qhiqiqiq", log.producers.encode()[10:])]

    def bucket(value: int) -> int:
        folded = (value ^ value >> 32) & 0xFFFFFFFF
        return (folded ^ folded >> 16) % 64

    assert found == sorted(dict.fromkeys(ids), key=bucket)


def test_a_reload_keeps_one_batch_of_the_window_and_the_open_transactions() -> None:
    log = Log()
    log.data(sequence=0, count=2)
    log.data(sequence=2, txn=True)
    log.snapshot()
    log.data(sequence=3, txn=True)
    log.reload(3)
    assert log.entry().batches == (BatchMetadata(2, 2, 2, 2, T0),)
    assert log.producers.first_unstable_offset == 2
    assert log.data(sequence=2, txn=True).duplicate is not None
    with pytest.raises(OutOfOrderSequence):
        log.data(sequence=0, count=2, txn=True)


@pytest.mark.parametrize("end", [2, 3, 4])
def test_kafka_12153_a_truncation_moves_the_unstable_offset(end: int) -> None:
    log = Log()
    log.data(producer_id=1, txn=True)
    log.data(producer_id=2, txn=True)
    log.snapshot()
    log.end(producer_id=1)
    log.data(producer_id=3, txn=True)
    log.producers.advance(4)
    log.reload(end)
    log.producers.advance(end)
    assert log.producers.first_unstable_offset == (0 if end == 2 else 1)


def test_kafka_14497_after_a_reopen_an_open_transaction_is_still_open() -> None:
    log = Log()
    log.data(producer_id=1, txn=True)
    log.data(producer_id=2, sequence=4)
    log.snapshot()
    again = Log()
    again.files = log.files
    again.reload(2, now_ms=T0 + 90 * DAY)
    again.producers.advance(2)
    assert again.producers.first_unstable_offset == 0
    assert set(again.producers.entries()) == {1}  # The other one has expired.


def test_no_snapshot_where_nothing_happened_since_the_last() -> None:
    log = Log()
    log.snapshot()
    assert log.names() == []
    log.data()
    log.snapshot()
    log.snapshot()
    assert log.names() == [snapshot_name(1)]


def test_a_snapshot_takes_the_place_of_a_file_that_a_crash_left() -> None:
    log = Log()
    log.data()
    path = f"{DIRECTORY}/{snapshot_name(1)}"
    log.files.replace_file(path, bytes(1000))
    log.snapshot()
    assert log.files.read_file(path) == log.producers.encode()


def test_a_log_that_starts_at_its_end_needs_no_snapshot() -> None:
    log = Log()
    log.data(producer_id=-1)
    log.producers.start_at(1)
    log.snapshot()
    assert log.names() == []
    log.data()
    log.snapshot()
    log.producers.start_at(2)
    log.data(sequence=1)
    log.snapshot()
    assert log.names() == [snapshot_name(2), snapshot_name(3)]


def damaged(good: bytes) -> Sequence[bytes]:
    def sealed(version: int, body: bytes) -> bytes:
        return struct.pack(">hI", version, crc32c(body)) + body

    return [
        b"",
        good[:9],
        good[:-1],
        good + b"\0",
        *(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))),
        sealed(0, good[6:]),
        sealed(2, good[6:]),
        sealed(1, good[6:-1]),
        sealed(1, good[6:] + bytes(46)),
        sealed(1, struct.pack(">i", -1)),
    ]


def test_a_damaged_snapshot_is_refused_and_changes_nothing() -> None:
    log = Log()
    log.data(txn=True)
    good = log.producers.encode()
    for bad in damaged(good):
        with pytest.raises(CorruptBatch, match="a producer snapshot cannot be read"):
            log.producers.load(bad, 5, T0)
        assert log.producers.encode() == good


def test_a_damaged_snapshot_is_removed_and_the_next_older_one_taken() -> None:
    log = Log()
    for sequence in range(4):
        log.data(sequence=sequence)
        log.snapshot()
    good = log.files.read_file(f"{DIRECTORY}/{snapshot_name(3)}")
    log.files.replace_file(f"{DIRECTORY}/{snapshot_name(3)}", good[:-1])
    restored = Producers("t-0")
    assert log.snapshots.restore(restored, 0, 3, T0) == 2
    assert restored.entries()[7].last_sequence == 1
    assert log.names() == [snapshot_name(1), snapshot_name(2)]
    for name in log.names():
        log.files.replace_file(f"{DIRECTORY}/{name}", b"")
    assert log.snapshots.restore(restored, 0, 3, T0) == 0
    assert (restored.entries(), log.names()) == ({}, [])


def test_snapshots_outside_of_the_log_go() -> None:
    log = Log()
    for sequence in range(6):
        log.data(sequence=sequence)
        log.snapshot()
    assert log.snapshots.restore(log.producers, 2, 5, T0) == 5
    assert snapshot_offsets(log.files, DIRECTORY) == [3, 4, 5]
    before = log.entry()
    assert log.snapshots.restore(log.producers, 3, 5, T0, reached=5) == 5
    assert snapshot_offsets(log.files, DIRECTORY) == [4, 5]
    assert (log.entry(), log.producers.snapshot_offset) == (before, 5)


def test_all_snapshots_go_of_a_log_that_starts_behind_its_end() -> None:
    log = Log()
    for sequence in range(3):
        log.data(sequence=sequence)
        log.snapshot()
    snapshots = log.snapshots
    snapshots.restore(Producers("t-0"), 3, 1, T0)
    assert list(snapshots.offsets) == snapshot_offsets(log.files, DIRECTORY) == []


@pytest.mark.parametrize(
    ("bases", "kept"),
    [
        ([0, 2, 4], [2, 4, 6]),
        ([0, 2, 6], [2, 6]),
        ([0, 7], []),
        ([0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        ([], [6]),
    ],
)
def test_strays_go_but_for_the_one_of_a_clean_stop(bases: list[int], kept: list[int]) -> None:
    log = Log()
    for sequence in range(6):
        log.data(sequence=sequence)
        log.snapshot()
    log.snapshots.drop_strays(bases)
    assert snapshot_offsets(log.files, DIRECTORY) == kept


def test_only_whole_names_are_snapshots() -> None:
    files = MemoryFiles()
    files.make_dir(DIRECTORY)
    for name in ("5.snapshot", f"{5:020d}.snapshot.deleted", f"{'x' * 20}.snapshot", f"{3:020d}.snapshot", ".snapshot"):
        files.replace_file(f"{DIRECTORY}/{name}", b"")
    assert snapshot_offsets(files, DIRECTORY) == [3]


class FullFiles(MemoryFiles):
    """Files on a disk without room: they can be made, and nothing can be written."""

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        file = super().open(path, create=create, kept=kept)
        return FullFile(file)


class FullFile:
    def __init__(self, file: File) -> None:
        self.truncate, self.close = file.truncate, file.close

    def write(self, position: int, *buffers: bytes) -> None:
        raise DiskFull("no room")


def test_a_full_disk_leaves_no_half_snapshot() -> None:
    log = Log()
    log.data()
    full = FullFiles()
    full.make_dir(DIRECTORY)
    with pytest.raises(DiskFull):
        Snapshots(full, DIRECTORY).take(log.producers, 1)
    assert full.list_dir(DIRECTORY) == []
    log.snapshot()
    assert log.names() == [snapshot_name(1)]


def test_clearing_forgets_everything() -> None:
    log = Log()
    log.data(txn=True)
    log.data(producer_id=8, txn=True)
    log.end()
    log.producers.clear()
    assert (log.producers.entries(), log.producers.first_unstable_offset) == ({}, None)
    assert log.producers.snapshot_offset == 0
