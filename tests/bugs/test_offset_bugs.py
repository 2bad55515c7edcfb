"""Old bugs of offsets, watermarks and readers: reliability 2.1, numbers 8, 9, 12 to 14, 16, 17, 21 to 24."""

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

import pylog
from pylog import errors
from pylog.config import TopicConfig
from pylog.files import DiskFiles, MemoryFiles
from pylog.kernel import Record
from pylog.partition import Checkpoint
from pylog.protocol.batch import Batch, encode, split
from pylog.protocol.isolation import Isolation, VisibleBatches
from pylog.protocol.messages import CONSUMER, FetchPart
from pylog.replica import Leader
from pylog.segment import Segment
from pylog.storage.segment_files import file_name
from pylog.testing import SimClock
from support.partition_log import DAY, NOW, UNCLEAN, InterruptingFiles, Log


def test_kafka_1670_no_segment_grows_beyond_what_an_index_can_point_at(tmp_path: Path) -> None:
    path = tmp_path / file_name(0, ".log")
    path.touch()
    os.truncate(path, 2**31 - 50)
    config = TopicConfig.loaded({"segment.bytes": str(2**31 - 1)})
    segment = Segment(DiskFiles(), str(tmp_path), 0, config, active=True)
    assert segment.takes(49, 1, 0, NOW)
    assert not segment.takes(50, 1, 0, NOW)
    segment.close()


def follower_batch(offset: int, *values: str) -> bytes:
    return bytes(
        encode([Record(v.encode(), b"k", NOW) for v in values], now_ms=NOW, base_offset=offset, leader_epoch=0).data
    )


@pytest.mark.parametrize("step", [2**31 - 1, 2**31, 2**31 + 1, 2**40])
def test_kafka_5413_offsets_that_do_not_fit_into_an_index_begin_a_segment(step: int) -> None:
    log = Log(index_interval_bytes=0)
    log.append("a")
    # The base offset still fits for the first of these steps, the last one does not.
    log.partition.append_follower(follower_batch(step - 1, "b", "c"), epoch=0, now_ms=NOW)
    log.partition.append_follower(follower_batch(step + 1, "d"), epoch=0, now_ms=NOW)
    for unclean in (False, True):
        if unclean:
            log.reopen()
        ends = [(segment.base_offset, end) for segment, end in log.partition.segments]
        assert all(end - 1 - base < 2**31 or base == 0 for base, end in ends)
        assert len(ends) == (1 if step + 1 < 2**31 else 2)
        assert log.values() == ["a", "b", "c", "d"] and log.values(step + 1) == ["d"]
        log.partition.check()


def test_kafka_6264_offsets_up_to_the_largest_are_stored() -> None:
    log = Log()
    last = 2**63 - 2
    log.partition.append_follower(follower_batch(last - 1, "a", "b"), epoch=0, now_ms=NOW)
    for _ in range(2):
        assert log.partition.next_offset == last + 1
        assert log.values() == log.values(last - 1) == ["a", "b"]
        log.partition.check()
        log.reopen(Checkpoint(clean=False, recovery_point=last + 1, durable_offset=last + 1))


def test_kafka_9156_first_appends_of_many_threads_make_one_segment_and_index() -> None:
    log = Log()
    values = log.fill(60)
    for _ in range(20):
        log.partition.close()
        log.reopen(Checkpoint(durable_offset=log.partition.next_offset))
        barrier = threading.Barrier(8)
        got: list[tuple[list[int], int]] = []

        def read(number: int, barrier: threading.Barrier = barrier, got: list[tuple[list[int], int]] = got) -> None:
            barrier.wait()
            piece = log.partition.read(number, 1, upto=60)
            found = log.partition.offset_for_time(NOW, upto=60)
            assert piece is not None and found is not None
            got.append(([id(segment) for segment, _ in log.partition.segments], piece.next_offset - 1 - number))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(20, 28)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 8 and all(one == got[0] for one in got)
        values.append(f"{len(values)} {'y' * 100}")
        log.append(values[-1])
        assert log.values() == values
        log.partition.check()


def test_kafka_9835_a_read_never_passes_its_limit_while_the_log_grows() -> None:
    for at in range(1, 12):
        files = InterruptingFiles(MemoryFiles())
        log = Log(files, replicated=False)  # type: ignore[arg-type]
        log.fill(5, size=50)
        log.partition.advance_high_watermark(3)
        files.begin(at, ("size", "read"), lambda log=log: log.fill(3, size=50))
        piece = log.partition.read(1, 1 << 20, upto=log.partition.high_watermark)
        assert piece is not None and piece.next_offset == 3
        assert [batch.base_offset for batch in split(piece.data)] == [1, 2]


def test_kafka_9807_a_fetch_of_committed_data_sees_one_moment() -> None:
    for at in range(1, 15):
        files = InterruptingFiles(MemoryFiles())
        log = Log(files)  # type: ignore[arg-type]
        log.append("a")
        log.in_transaction("b", producer_id=5, sequence=0)
        log.append("c")
        leader = Leader(log.partition, epoch=0, followers=frozenset(), visible_when_durable=False, now_ms=0)
        files.begin(at, ("size", "read", "stat"), lambda log=log: (log.end(5, commit=False), log.append("d")))
        answer = leader.fetch(
            FetchPart("t", 0, 0),
            replica_id=CONSUMER,
            max_bytes=1 << 20,
            isolation=Isolation.READ_COMMITTED,
            now_ms=0,
        )
        delivery = VisibleBatches(answer.aborted)
        given = [r.value for b in split(answer.data) if delivery.gives(b) for r in b.records("t", 0)]
        assert given in ([b"a"], [b"a", b"c"], [b"a", b"c", b"d"])
        assert all(batch.next_offset <= answer.last_stable_offset for batch in split(answer.data))


def test_kafka_9196_records_behind_a_roll_at_the_high_watermark_are_hidden() -> None:
    log = Log(replicated=False)
    log.append("a")
    log.partition.advance_high_watermark(1)
    log.partition.roll(NOW)
    leader = Leader(log.partition, epoch=0, followers=frozenset({2}), visible_when_durable=False, now_ms=0)
    for value in ("b", "c"):
        log.append(value)
        for isolation in Isolation:
            answer = leader.fetch(
                FetchPart("t", 0, 0), replica_id=CONSUMER, max_bytes=1 << 20, isolation=isolation, now_ms=0
            )
            assert [batch.next_offset for batch in split(answer.data)] == [1]
            answer = leader.fetch(
                FetchPart("t", 0, 1), replica_id=CONSUMER, max_bytes=1 << 20, isolation=isolation, now_ms=0
            )
            assert len(answer.data) == 0
        log.partition.roll(NOW)
    assert log.partition.max_timestamp(log.partition.high_watermark) is not None
    assert log.partition.offset_for_time(NOW, upto=1) is not None


def test_kafka_6975_a_follower_begins_where_records_were_deleted_inside_a_batch(tmp_path: Path) -> None:
    way = pylog.MemoryTransport()
    with ExitStack() as closing:
        logs = [
            closing.enter_context(
                pylog.open(tmp_path / str(node), node_id=node, transport=way, config={"replica.fetch.backoff.ms": 5})
            )
            for node in (1, 2)
        ]
        topic = logs[0].create_topic("t")
        topic[0].append([Record(b"%d" % i) for i in range(5)])
        topic[0].append([Record(b"5")])
        assert logs[0].delete_records({pylog.TopicPartition("t", 0): 3}) == {pylog.TopicPartition("t", 0): 3}
        logs[1].broker.apply(
            pylog.Follow(topic="t", topic_id=topic.id, partition=0, partitions=1, leader=1, leader_epoch=5)
        )
        logs[0].broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=5, replicas=(1, 2)))
        topic[0].append([Record(b"6")])
        copy = logs[1].broker.partition("t", 0)
        deadline = threading.Event()
        for _ in range(2000):
            if copy.next_offset == 7:
                break
            deadline.wait(0.005)
        assert (copy.start_offset, copy.next_offset) == (3, 7)
        piece = copy.read(3, 1 << 20, upto=7)
        assert piece is not None
        records = [r for batch in split(piece.data) for r in batch.records("t", 0, 3)]
        assert [record.value for record in records] == [b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize("config", [{"retention_bytes": 0}, {"retention_ms": 1}])
def test_kafka_5634_retention_takes_nothing_beyond_a_high_watermark_that_stalls(config: dict[str, int]) -> None:
    log = Log(replicated=False, **config)
    values = log.fill(60)
    assert log.partition.apply_retention(NOW + DAY) == 0
    mark = log.partition.segments[2][0].base_offset + 3
    log.partition.advance_high_watermark(mark)
    assert log.partition.apply_retention(NOW + DAY) == 2
    assert log.partition.start_offset == log.partition.segments[0][0].base_offset <= mark
    assert log.values() == values[log.partition.start_offset :]


@pytest.mark.parametrize("days", [-15, 15])
def test_kafka_8803_a_set_wall_clock_fails_no_append_and_no_deadline(days: int) -> None:
    clock = SimClock(wall_ms=NOW)
    with pylog.open(":memory:", clock=clock) as log:
        partition = log.create_topic("t", config={"message.timestamp.after.max.ms": 20 * DAY})[0]
        partition.append([Record(b"a")])
        clock.jump(days * DAY)
        assert partition.append([Record(b"b")]).base_offset == 1
        producers = log.broker.partition("t", 0)
        assert producers.expire_producers(clock.wall_ms()) == []
        with log.consumer("t", auto_offset_reset="earliest") as consumer:
            # In two segments, if the clock says that weeks lie between them.
            assert [record.value for record in consumer.poll(0) + consumer.poll(0)] == [b"a", b"b"]


def test_kafka_8803_a_transaction_can_end_after_the_clock_was_set_back() -> None:
    log = Log(message_timestamp_after_max_ms=100 * DAY)
    log.partition.append(
        encode(
            [Record(b"a", b"k", NOW + 15 * DAY)], now_ms=NOW, producer_id=5, producer_epoch=0, base_sequence=0,
            transactional=True,
        ),
        epoch=0, now_ms=NOW + 15 * DAY,
    )  # fmt: skip
    log.partition.roll(NOW)
    log.end(5, commit=True)
    assert log.partition.expire_producers(NOW - 15 * DAY) == []
    assert log.partition.last_stable_offset == 2
    assert log.partition.expire_producers(NOW + DAY) == [5]


def test_kafka_5211_a_damaged_record_is_an_error_each_time_and_never_skipped(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        partition = log.create_topic("t")[0]
        for i in range(5):
            partition.append([Record(b"value %d" % i)])
        (path,) = (tmp_path / "t-0").glob("*.log")
        data = bytearray(path.read_bytes())
        data[2 * len(data) // 5 + 65] ^= 1
        path.write_bytes(data)
        with log.consumer("t", auto_offset_reset="earliest") as consumer:
            given = []
            for _ in range(4):
                try:
                    given += [record.value for record in consumer.poll(0)]
                except errors.CorruptBatch as error:
                    assert error.offset == 2
                    assert consumer.position(pylog.TopicPartition("t", 0)) == 2
            assert given == [b"value 0", b"value 1"]
            with pytest.raises(errors.CorruptBatch):
                consumer.poll(0)
            consumer.seek(pylog.TopicPartition("t", 0), 3)
            assert [record.value for record in consumer.poll(0)] == [b"value 3", b"value 4"]


def test_kafka_3047_offsets_of_a_leader_may_leave_gaps_and_never_go_back() -> None:
    log = Log()
    log.append("a", "b")
    log.partition.append_follower(follower_batch(5, "c") + follower_batch(9, "d"), epoch=0, now_ms=NOW)
    before = log.files.read_file(log.partition.segments[0][0].path)
    for data, error in [
        (follower_batch(9, "again"), errors.OffsetOutOfRange),
        (follower_batch(8, "over", "lapping"), errors.OffsetOutOfRange),
        (follower_batch(0, "far back"), errors.OffsetOutOfRange),
        (follower_batch(12, "x", "y") + follower_batch(13, "overlapping"), errors.CorruptBatch),
        (follower_batch(12, "x") + follower_batch(11, "back"), errors.CorruptBatch),
    ]:
        with pytest.raises(error):
            log.partition.append_follower(data, epoch=0, now_ms=NOW)
        assert log.partition.next_offset == 10
        assert log.files.read_file(log.partition.segments[0][0].path) == before
    assert log.values() == ["a", "b", "c", "d"]
    log.partition.check()


def test_redpanda_11542_a_reader_of_a_cut_log_gets_old_or_new_records() -> None:
    for at in range(1, 25):
        files = InterruptingFiles(MemoryFiles())
        log = Log(files, segment_bytes=700)  # type: ignore[arg-type]
        old = log.fill(12, size=50)
        new = [*old[:4], *(f"new {i}" for i in range(3))]

        def cut(log: Log = log, new: list[str] = new) -> None:
            log.partition.truncate(4, NOW)
            for value in new[4:]:
                log.append(value, epoch=1)

        files.begin(at, ("size", "read", "stat"), cut)
        offset, given = 0, list[str]()
        while True:
            try:
                piece, _ = log.partition.read_stable(offset, 200, upto=min(12, log.partition.high_watermark))
            except errors.OffsetOutOfRange:
                break
            if piece is None:
                break
            batches: list[Batch] = list(split(piece.data, check_crc=True))
            given += [str(r.value, "utf-8") for batch in batches for r in batch.records("t", 0) if r.value is not None]
            offset = piece.next_offset
        # Read before the cut, or after it: each record is that of its offset in the one log or in the other.
        for place, value in enumerate(given):
            assert value in (old[place : place + 1] + new[place : place + 1])
        assert log.values() in (old, new)
        log.partition.check()


def test_redpanda_11542_the_end_of_a_cut_is_the_next_offset_of_the_log() -> None:
    log = Log()
    log.append("a")
    log.append("b", "c", "d")
    for checkpoint in (None, UNCLEAN):
        if checkpoint is not None:
            log.reopen(checkpoint)
        log.partition.truncate(2, NOW)
        assert log.partition.next_offset in (1, 2)
        assert log.values() == ["a"]
