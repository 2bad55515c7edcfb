"""Cleaning a partition: what stays, what goes on meanwhile, what happens when it is stopped, disturbed or damaged."""

import errno
from itertools import islice
from uuid import UUID

import pytest

from pylog.broker.log_cleaner import Cleaner, Throttle, clean, dirt
from pylog.commitlog.compaction.offset_map import SLOT_BYTES
from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, DiskFull, StorageError
from pylog.files import MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Origin, encode, split
from pylog.protocol.compression import Codec
from support.sampling import DEEP
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
BUFFER = 1 << 20
BASE = {
    "cleanup.policy": "compact",
    "segment.bytes": "2000",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "0",
}


class Log:
    """A compacted partition in memory and how it is written to, read and opened again."""

    def __init__(self, files=None, **config):
        self.files = files or MemoryFiles()
        self.files.make_dir("root")
        names = {name.replace("_", "."): str(value) for name, value in config.items()}
        self.config = TopicConfig.loaded({**BASE, **names})
        self.partition = self.make()
        self.partition.create(UUID(int=7), NOW)

    def make(self):
        return Partition(self.files, "root/t-0", "t", 0, self.config)

    def append(self, *pairs, now_ms=NOW, origin=Origin.CLIENT, **kwargs):
        """One batch of (key, value) strings; a value of None is a tombstone."""
        records = [Record(None if value is None else value.encode(), key.encode(), now_ms) for key, value in pairs]
        appended = self.partition.append(
            encode(records, now_ms=now_ms, **kwargs), epoch=0, now_ms=now_ms, origin=origin
        )
        self.partition.advance_high_watermark(self.partition.next_offset)
        return appended

    def transaction(self, *pairs, producer_id, sequence, commit):
        self.append(*pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        self.end(producer_id, commit=commit)

    def end(self, producer_id, *, commit):
        marker = encode(
            [Record(bytes(6), bytes([0, 0, 0, commit]), NOW)], now_ms=NOW, producer_id=producer_id, producer_epoch=0,
            transactional=True, control=True,
        )  # fmt: skip
        self.partition.append(marker, epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
        self.partition.advance_high_watermark(self.partition.next_offset)

    def fill(self, rounds=30, keys=10):
        """Several segments in which each key comes again and again; the last one is empty and active."""
        for number in range(rounds):
            self.append(*[(f"k{key}", f"{number}-{key}" + "x" * 20) for key in range(keys)])
        self.roll()

    def roll(self):
        self.partition.roll(NOW)

    def clean(self, checkpoint=None, *, now_ms=NOW, buffer_bytes=BUFFER):
        found = clean(self.partition, checkpoint=checkpoint, now_ms=now_ms, buffer_bytes=buffer_bytes)
        self.partition.check()
        return found

    def reopen(self, *, unclean=False):
        self.partition.close()
        end = self.partition.high_watermark
        self.partition = self.make()
        self.partition.open(Checkpoint(high_watermark=end, clean=not unclean), NOW)

    def batches(self):
        found, start = [], self.partition.start_offset
        while (part := self.partition.read(start, 700, upto=self.partition.next_offset)) is not None:
            found += list(split(part.data, check_crc=True))
            start = found[-1].next_offset
        return found

    def records(self):
        return [record for batch in self.batches() if not batch.is_control for record in batch.records("t", 0)]

    def table(self):
        """The newest value of each key."""
        return {record.key.decode(): record.value and record.value.decode() for record in self.records()}

    def names(self):
        return self.files.list_dir("root/t-0")

    def contents(self):
        return {name: self.files.read_file(f"root/t-0/{name}") for name in self.names()}

    @property
    def bases(self):
        return [segment.base_offset for segment, _ in self.partition.segments]


def test_the_newest_of_each_key_stays():
    log = Log()
    log.fill()
    before = log.table()
    log.partition.reconfigure(TopicConfig.loaded({**BASE, "segment.bytes": "100000"}))
    found = log.clean()
    assert log.table() == before and len(log.records()) == 10
    assert (found.first_dirty, found.end_offset, found.keys) == (0, 300, 10)
    assert (found.records_read, found.records_kept, found.without_key) == (300, 10, 0)
    assert found.bytes_kept == log.partition.size < found.bytes_read
    assert found.segments_before > found.segments_after == 1
    assert log.bases == [0, 300]


def test_a_clean_log_has_nothing_to_clean():
    log = Log()
    assert log.clean() is None
    log.fill()
    end = log.clean().end_offset
    before = log.contents()
    assert log.clean(end) is None and log.contents() == before
    plan, overdue = dirt(log.partition, checkpoint=end, now_ms=NOW)
    assert (plan.dirty_ratio, overdue) == (0, 0)


def test_records_after_a_cleaning_make_the_log_dirty_again():
    log = Log()
    log.fill()
    end = log.clean().end_offset
    log.append(("k3", None))
    assert dirt(log.partition, checkpoint=end, now_ms=NOW)[0].dirty_ratio == 0
    log.roll()
    assert 0 < dirt(log.partition, checkpoint=end, now_ms=NOW)[0].dirty_ratio < 1
    again = log.clean(end)
    assert (again.first_dirty, again.end_offset, again.keys) == (300, 301, 1)
    assert len(log.records()) == 10 and log.table()["k3"] is None


def test_a_lag_that_is_over_makes_it_overdue():
    log = Log(max_compaction_lag_ms=5000)
    log.append(("a", "1"))
    log.roll()
    assert [dirt(log.partition, checkpoint=None, now_ms=NOW + ms)[1] for ms in (5000, 5001)] == [0, 1]
    young = Log(min_compaction_lag_ms=5000)
    young.fill()
    assert young.clean(now_ms=NOW + 4999) is None
    assert young.clean(now_ms=NOW + 5000).keys == 10


def test_a_map_that_is_too_small_takes_more_passes_and_each_comes_further():
    log = Log()
    log.fill(rounds=6, keys=50)
    before, checkpoint, passes = log.table(), None, 0
    while (found := log.clean(checkpoint, buffer_bytes=12 * SLOT_BYTES)) is not None:
        assert found.end_offset > (checkpoint or 0) and found.keys <= 10
        assert log.table() == before
        checkpoint, passes = found.end_offset, passes + 1
    assert checkpoint == 300 and passes >= 30
    assert len(log.records()) == 50


def test_gaps_in_the_offsets_do_not_hold_a_cleaning_up():
    """KAFKA-8764: a follower of a compacted log has gaps, also where a segment ends."""
    log = Log(segment_bytes=100)
    for base in (0, 100, 1000):
        batch = encode([Record(b"v", b"k", NOW)], now_ms=NOW, base_offset=base, leader_epoch=0)
        log.partition.append_follower(bytes(batch.data), epoch=0, now_ms=NOW)
        log.partition.advance_high_watermark(log.partition.next_offset)
    assert log.bases == [0, 100, 1000]
    found = log.clean(50)
    assert (found.first_dirty, found.end_offset) == (50, 1000)
    assert log.clean(found.end_offset) is None


def test_batches_larger_than_a_window_are_cleaned():
    """KAFKA-6834."""
    log = Log(segment_bytes=10_000_000, max_message_bytes=10_000_000)
    log.append(("large", "x" * 3_000_000), ("small", "1"))
    log.append(("large", "y" * 3_000_000), codec=Codec.GZIP)
    log.append(("small", "2"))
    log.roll()
    assert log.clean().records_kept == 2
    assert log.table() == {"large": "y" * 3_000_000, "small": "2"}


def test_a_segment_of_aborted_data_alone_is_cleaned():
    """KAFKA-6854."""
    log = Log()
    log.append(("a", "1"))
    for number in range(20):
        log.transaction(("a", "aborted"), ("b", "aborted"), producer_id=7, sequence=2 * number, commit=False)
    log.append(("c", "1"))
    log.roll()
    end = log.clean().end_offset
    assert log.table() == {"a": "1", "c": "1"}
    assert len(log.partition.aborted(0, end)) == 20  # for one more pass, as are the markers


def test_open_transactions_hold_cleaning_back():
    log = Log()
    log.fill()
    log.append(("k1", "open"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log.fill()
    assert log.clean().end_offset == log.clean().end_offset <= 300
    log.end(9, commit=True)
    log.roll()
    assert log.clean().end_offset == log.bases[-1] > 600


def test_a_cleaner_says_why_it_has_nothing_to_do():
    def reason(log, checkpoint=None):
        return Cleaner(log.partition, checkpoint=checkpoint, now_ms=NOW, buffer_bytes=BUFFER).idle_reason

    log, late = Log(), Log(min_compaction_lag_ms=60_000)
    assert reason(log) == "it has no records"
    log.append(("k", "open"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    assert reason(log) == "the records from offset 0 on are of a transaction that is open"
    log.end(9, commit=True)
    log.roll()
    assert reason(log) is None
    assert reason(log, log.clean().end_offset) == "nothing was appended since it was cleaned up to offset 2"
    late.append(("k", "v"))
    late.roll()
    assert reason(late) == "its new records are younger than min.compaction.lag.ms=60000"


def test_the_log_does_not_forget_its_next_offset():
    """KAFKA-17076: also not where the last batch was superseded or aborted."""
    log = Log()
    log.append(("a", "1"))
    log.transaction(("a", "2"), producer_id=7, sequence=0, commit=False)
    log.roll()
    end = log.partition.next_offset
    for number in range(4):
        log.partition.producers.expire(NOW + 10**9)
        log.clean(now_ms=NOW + number * 10**9)
        log.reopen(unclean=number % 2 == 1)
        assert log.partition.next_offset == end


@pytest.mark.parametrize("unclean", [False, True])
def test_a_producer_whose_batches_are_gone_can_go_on_and_repeat_itself(unclean):
    """KAFKA-5490."""
    log = Log()
    for sequence in range(8):
        log.append(("a", str(sequence)), producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.append(("a", "last"))
    log.roll()
    assert log.clean().records_kept == 1
    log.reopen(unclean=unclean)
    assert log.append(("a", "7"), producer_id=7, producer_epoch=0, base_sequence=7).duplicate
    assert not log.append(("b", "8"), producer_id=7, producer_epoch=0, base_sequence=8).duplicate
    assert log.table() == {"a": "last", "b": "8"}


def test_appends_and_reads_go_on_meanwhile():
    log = Log()
    log.fill(rounds=60)
    cleaning = Cleaner(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=BUFFER)
    steps, done = 0, 0
    for size in cleaning.steps():
        steps, done = steps + 1, done + size
        log.append((f"new{steps}", "1"), ("k1", f"newest {steps}"))
        assert len(log.table()) == 10 + steps and log.table()["k1"] == f"newest {steps}"
        assert cleaning.progress.bytes_done == done <= cleaning.progress.bytes_total
    log.partition.check()
    assert steps > 20
    assert cleaning.progress.bytes_done == cleaning.progress.bytes_total
    assert cleaning.progress.groups_done == cleaning.progress.groups_total > 1
    assert cleaning.cleaned.records_kept == 10
    assert len(log.records()) == 10 + 2 * steps


def test_a_reader_of_a_segment_that_is_replaced_reads_on():
    log = Log(file_delete_delay_ms=60_000)
    log.fill()
    segment = log.partition.segments[0][0]
    before = bytes(segment.reader.read(0, 1 << 20, upto=300).data)
    log.clean()
    assert segment is not log.partition.segments[0][0]
    assert bytes(segment.reader.read(0, 1 << 20, upto=300).data) == before
    log.partition.purge(NOW + 60_000)
    assert not [name for name in log.names() if name.endswith(".deleted")]


def test_a_cleaner_can_be_stopped_anywhere_and_begun_again():
    before = None
    for steps in range(40):
        log = Log()
        log.fill()
        before = log.table()
        cleaning = Cleaner(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=BUFFER)
        running = cleaning.steps()
        if len(list(islice(running, steps))) < steps:
            break
        running.close()
        assert cleaning.cleaned is None
        assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
        log.partition.check()
        assert log.table() == before
        assert log.clean().keys == 10
        assert len(log.records()) == 10
        assert log.table() == before
    assert 5 < steps < 39


def truncations():
    """Truncate to an offset after a number of steps; and then write what was cut off anew, in sealed segments."""
    steps = (1, 4, 6, 8, 10, 12)
    return [(number, offset) for number in steps for offset in (0, 45, 100, 155, 295) if number < 9 or offset >= 100]


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("steps", "offset"), truncations())
def test_a_log_that_is_truncated_meanwhile_is_as_it_was_truncated(steps, offset, rewritten):
    log = Log()
    log.fill()
    cleaning = Cleaner(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=BUFFER)
    for number, _ in enumerate(cleaning.steps(), 1):
        if number == steps:
            log.partition.truncate(offset, NOW)
            log.partition.purge(NOW)
            if rewritten:
                for key in range(log.partition.next_offset, 300):
                    log.append((f"k{key % 10}", f"new-{key}"))
                log.roll()
            before = log.table()
    log.partition.check()
    assert log.table() == before
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]


def damaged(log, base_offset, position):
    path = f"root/t-0/{base_offset:020d}.log"
    data = bytearray(log.files.read_file(path))
    data[position] ^= 1
    log.files.replace_file(path, bytes(data))
    log.partition = log.make()
    log.partition.open(Checkpoint(high_watermark=300), NOW)
    return path


@pytest.mark.parametrize("position", [70, 1000])
def test_damage_stops_a_cleaning_and_nothing_is_lost(position):
    log = Log()
    log.fill()
    base = log.bases[2]
    log.partition.close()
    path = damaged(log, base, position)
    before = {name: data for name, data in log.contents().items() if name.endswith("log")}
    with pytest.raises(CorruptBatch) as caught:
        clean(log.partition, checkpoint=None, now_ms=NOW, buffer_bytes=BUFFER)
    assert caught.value.path == path and caught.value.position <= position
    assert {name: data for name, data in log.contents().items() if name.endswith("log")} == before
    assert not [name for name in log.names() if name.endswith(".cleaned")]


def test_a_full_disk_at_a_replacement_leaves_no_half_segment() -> None:
    """It cannot be taken back, and memory does not know which files are which then: the next open does."""
    at = 0
    while True:
        at += 1 if DEEP else 3
        files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
        log = Log(files)
        log.fill()
        newest = log.table()
        files.faults.fail_at = len(files.sites) + at
        try:
            log.clean()
        except StorageError as error:
            assert log.partition.failed == ("segments replaced by" in str(error))
            assert log.table() == newest
        files.heal()
        if not files.failed:
            break
        if not log.partition.failed:
            log.append(("new", "after it"))
            newest["new"] = "after it"
            log.roll()
            log.clean()
        assert log.table() == newest
        log.reopen(unclean=True)
        log.partition.check()
        assert log.table() == newest
        log.clean()
        assert log.table() == newest and not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
    assert at > 10


class FullFiles(MemoryFiles):
    """No room for a cleaned segment."""

    def open(self, path, *, create=False, kept=False):
        if create and path.endswith(".timeindex.cleaned"):
            raise DiskFull(f"cannot write {path}")
        return super().open(path, create=create, kept=kept)


def test_a_full_disk_stops_a_cleaning_and_nothing_is_lost():
    log = Log(FullFiles())
    log.fill()
    before = log.table()
    with pytest.raises(DiskFull):
        log.clean()
    assert log.table() == before
    log.append(("k1", "goes on"))
    log.partition.check()


def test_tombstones_go_with_their_time():
    log = Log(delete_retention_ms=1000)
    log.append(("a", "1"), ("b", "1"))
    log.append(("a", None))
    log.append(("c", "1"))
    log.roll()
    assert log.clean(now_ms=NOW).end_offset == 4
    assert log.table() == {"b": "1", "a": None, "c": "1"}
    log.append(("d", "1"))
    log.roll()
    log.clean(4, now_ms=NOW + 1000)
    assert log.table() == {"b": "1", "c": "1", "d": "1"}


def test_a_cleaned_segment_is_as_old_as_the_last_it_was_made_from():
    log = Log()
    log.fill()
    log.partition.reconfigure(TopicConfig.loaded({**BASE, "segment.bytes": "100000"}))
    for number, (segment, _) in enumerate(log.partition.segments):
        log.files.set_modified(segment.path, (1000 + number) * 1_000_000)
    found = log.clean()
    assert log.partition.segments[0][0].modified_ms() == 1000 + found.segments_before - 1


def test_a_buffer_without_room_for_a_key_is_refused():
    log = Log()
    log.fill()
    with pytest.raises(ValueError, match="dedupe"):
        log.clean(buffer_bytes=10)


def test_the_throttle_says_how_long_to_wait():
    throttle = Throttle(1000)
    assert throttle.wait_ms(500, tick_ms=10_000) == 500
    assert throttle.wait_ms(500, tick_ms=10_500) == 500
    assert throttle.wait_ms(500, tick_ms=10_500) == 1000
    assert throttle.wait_ms(100, tick_ms=50_000) == 100
    assert Throttle(float("inf")).wait_ms(10**9, tick_ms=0) == 0
