"""The listing of a partition's folder: believed as long as no name has changed, and then opening lists nothing."""

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

import pylog
from pylog import Record, TopicPartition
from pylog.broker.log_cleaner import clean
from pylog.errors import CorruptBatch
from pylog.files import DiskFiles, Files, MemoryFiles, join
from pylog.partition import Checkpoint
from pylog.storage.segment_files import file_name
from pylog.storage.segment_list import LISTING, Listing, listed, parse_listing, read_listing, write_listing
from support.partition_log import DIRECTORY, NOW, Log
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

PATH = f"{DIRECTORY}/{LISTING}"


@pytest.fixture(params=["memory", "disk"])
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return MemoryFiles() if request.param == "memory" else DiskFiles()


def closed(files: Files, count: int = 60) -> tuple[Log, Checkpoint]:
    """A log of several segments, an aborted transaction in one of them."""
    log = Log(files)
    log.fill(count // 2)
    log.in_transaction("gone", producer_id=1, sequence=0)
    log.end(1, commit=False)
    log.fill(count // 2)
    log.partition.close()
    end = log.partition.next_offset
    return log, Checkpoint(high_watermark=end, durable_offset=end, recovery_point=end, published=True)


def opened(log: Log, checkpoint: Checkpoint, files: Files) -> list[str]:
    """Open and close the log through `files`; gives the calls that were made."""
    watched = FaultFiles(files)
    log.files = watched
    partition = log.make()
    partition.open(checkpoint, NOW)
    calls = list(watched.sites)
    partition.check()
    partition.close()
    return calls


def lists(calls: list[str]) -> int:
    return sum(call.endswith(" list_dir") for call in calls)


def test_after_a_clean_stop_nothing_is_listed_and_no_sealed_segment_looked_at(files: Files) -> None:
    log, checkpoint = closed(files)
    first = opened(log, checkpoint, files)
    assert lists(first) == 0
    log, checkpoint = closed(MemoryFiles(), 600)
    assert len(opened(log, checkpoint, log.files)) == len(first)


def test_a_listing_names_the_files_of_the_folder(files: Files) -> None:
    log, _ = closed(files)
    found, unchanged = read_listing(files, DIRECTORY)
    assert unchanged and found is not None and found == listed(files.list_dir(DIRECTORY))
    assert found.logs == [segment.base_offset for segment, _ in log.partition.segments]
    assert len(found.transactional) == 1 and found.snapshots[-1] == log.partition.next_offset


def test_a_listing_stays_the_same_without_changes(files: Files) -> None:
    log, checkpoint = closed(files)
    before = files.read_file(PATH)
    assert lists(opened(log, checkpoint, files)) == lists(opened(log, checkpoint, files)) == 0
    assert files.read_file(PATH) == before


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_file_that_is_missing_is_noticed(files: Files, kind: str) -> None:
    log, checkpoint = closed(files)
    found, _ = read_listing(files, DIRECTORY)
    assert found is not None
    lost = join(DIRECTORY, file_name(found.transactional[0], kind))
    files.remove(lost)
    assert not read_listing(files, DIRECTORY)[1]
    assert lists(opened(log, checkpoint, files)) > 0
    assert files.stat(lost) is not None


@pytest.mark.parametrize("places", [[0], [2], [0, 1], [1, 3]])
def test_segments_that_were_lost_are_quarantined(files: Files, places: list[int]) -> None:
    log, checkpoint = closed(files)
    segments = log.partition.segments
    lost = [(segments[place][0].base_offset, segments[place][1]) for place in places]
    for base, _ in lost:
        files.remove(join(DIRECTORY, file_name(base, ".log")))
    for _ in range(2):
        partition = log.reopen(checkpoint)
        assert [(one.offset, one.next_offset) for one in partition.quarantined] == lost
        for base, following in lost:
            for offset in (base, following - 1):
                with pytest.raises(CorruptBatch, match="cannot be read"):
                    partition.read(offset, 1000, upto=partition.next_offset)
        partition.close()


def test_any_other_name_is_noticed(files: Files) -> None:
    closed(files)
    files.open(f"{DIRECTORY}/other", create=True).close()
    assert not read_listing(files, DIRECTORY)[1]


def test_after_an_unclean_stop_it_is_not_believed(files: Files) -> None:
    log, checkpoint = closed(files)
    unclean = Checkpoint(
        high_watermark=checkpoint.high_watermark, durable_offset=checkpoint.durable_offset, clean=False,
        recovery_point=checkpoint.recovery_point,
    )  # fmt: skip
    assert lists(opened(log, unclean, files)) > 0


def test_damage_is_noticed(files: Files) -> None:
    closed(files)
    good = files.read_file(PATH)
    assert parse_listing(good) is not None
    chance = random.Random(1)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << chance.randrange(8)
        assert parse_listing(bytes(bad)) is None
        assert parse_listing(good[:at]) is None


@pytest.mark.parametrize(
    "odd",
    [
        "0.tmp", file_name(0, ".log.deleted"), file_name(0, ".log.swap"), file_name(7, ".log"), file_name(7, ".index"),
        file_name(7, ".txnindex"), file_name(7, ".pylog-seal"), file_name(7, ".snapshot"),
    ],
)  # fmt: skip
def test_a_folder_with_something_to_mend_is_not_put_down(odd: str) -> None:
    log, _ = closed(MemoryFiles())
    log.files.open(f"{DIRECTORY}/{odd}", create=True).close()
    write_listing(log.files, DIRECTORY)
    assert not read_listing(log.files, DIRECTORY)[1]
    log.files.remove(f"{DIRECTORY}/{odd}")
    write_listing(log.files, DIRECTORY)
    assert read_listing(log.files, DIRECTORY)[1]


@pytest.mark.parametrize("way", ["compaction", "retention", "deleted records"])
def test_a_dropped_segment_that_waits_for_deletion_is_not_missed(tmp_path: Path, way: str) -> None:
    # Its close would clean.
    with pylog.open(tmp_path, config={"log.cleaner.enable": False}) as log:
        view = log.create_topic("t", config={"cleanup.policy": "compact,delete"})[0]
        for _ in range(3):
            for number in range(5):
                view.append([Record(b"x", key=b"%d" % number)])
            log.broker.partition("t", 0).roll(NOW)
        view.append([Record(b"last", key=b"last")])
    with pylog.open(tmp_path) as log:
        if way == "compaction":
            log.clean("t")
        elif way == "retention":
            log.alter_config("t", {"retention.bytes": 400})
        else:
            log.delete_records({TopicPartition("t", 0): 12})
        log.apply_retention()
        kept = [record.offset for record in log.topic("t")[0].records()]
        assert len(kept) < 16
    assert not (tmp_path / "t-0" / LISTING).exists()
    with pylog.open(tmp_path) as log:
        assert [record.offset for record in log.topic("t")[0].records()] == kept
        assert log.quarantined == ()


def test_one_of_another_version_says_nothing() -> None:
    log, _ = closed(MemoryFiles())
    good = log.files.read_file(PATH)
    body = good[:8] + struct.pack("=I", 2) + good[12:-4]
    log.files.replace_file(PATH, body + struct.pack("=I", crc32c(body)))
    assert read_listing(log.files, DIRECTORY) == (None, False)


def test_an_empty_folder_is_not_put_down() -> None:
    assert not listed([]).in_order
    files = MemoryFiles()
    files.make_dir(DIRECTORY)
    write_listing(files, DIRECTORY)
    assert files.list_dir(DIRECTORY) == []


def test_no_failure_keeps_a_log_from_closing() -> None:
    log, _ = closed(MemoryFiles())
    log.files.remove(PATH)
    sites = FaultFiles(log.files)
    write_listing(sites, DIRECTORY)
    log.files.remove(PATH)
    for call in range(1, len(sites.sites) + 1):
        failing = FaultFiles(log.files, call)
        write_listing(failing, DIRECTORY)
        assert failing.failed
        found, unchanged = read_listing(log.files, DIRECTORY)
        assert not unchanged or found == listed(log.files.list_dir(DIRECTORY))


@pytest.mark.parametrize("odd", [None, file_name(0, ".log.deleted")])
def test_a_failed_close_removes_the_listing_of_an_earlier_one(odd: str | None) -> None:
    call = 0
    while True:
        call += 1
        log, _ = closed(MemoryFiles())
        # Dropped since then.
        for kind in (".log", ".index", ".timeindex", ".snapshot", ".pylog-seal"):
            if log.files.stat(f"{DIRECTORY}/{file_name(0, kind)}") is not None:
                log.files.remove(f"{DIRECTORY}/{file_name(0, kind)}")
        if odd is not None:
            log.files.open(f"{DIRECTORY}/{odd}", create=True).close()
        failing = FaultFiles(log.files, call)
        write_listing(failing, DIRECTORY)
        found, _ = read_listing(log.files, DIRECTORY)
        assert found is None or found == listed(log.files.list_dir(DIRECTORY))
        if not failing.failed:
            break
    assert call > 2


def test_two_listings_are_the_same_where_the_offsets_are() -> None:
    assert Listing([1], [], [1]) == Listing([1], [], [1]) != Listing([1], [1], [1])


def retained(log: Log) -> None:
    log.partition.reconfigure(Log(retention_bytes=3000).config)
    assert log.partition.apply_retention(NOW) > 0


def compacted(log: Log) -> None:
    before = len(log.partition.segments)
    for _ in range(2):
        # What became small is joined by the next one.
        assert clean(log.partition, checkpoint=0, now_ms=NOW, buffer_bytes=1 << 20) is not None
    assert len(log.partition.segments) < before


def cut(log: Log) -> None:
    log.partition.truncate(8, NOW)
    log.fill(40, size=300)


@pytest.mark.parametrize("change", [retained, compacted, cut])
def test_after_a_power_cut_an_older_one_names_nothing_that_was_taken_away(change: Callable[[Log], None]) -> None:
    """It is not synced. Behind a newer clean stop it made retention and compaction look like a loss."""
    files = CrashFiles()
    log, checkpoint = closed(files)
    log.reopen(checkpoint)
    change(log)
    values, start, end = log.values(), log.partition.start_offset, log.partition.next_offset
    log.partition.close()
    then = replace(checkpoint, start_offset=start, high_watermark=end, durable_offset=end, recovery_point=end)
    chance = random.Random(1)
    for _ in range(40):
        log.files = MemoryFiles(tree=files.power_cut(chance))
        partition = log.reopen(then)
        assert partition.quarantined == () and log.values() == values
        partition.check()
