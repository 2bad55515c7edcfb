"""The public face: open, topics, producers, consumers, views; on disk, in memory and read beside the owner."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors


@pytest.fixture(params=["disk", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log" if request.param == "disk" else ":memory:") as opened:
        yield opened


def test_a_record_sent_is_read_with_all_its_fields(log: pylog.Log) -> None:
    log.create_topic("clicks", partitions=6)
    headers = [("trace", b"1"), ("trace", None)]
    with log.producer(acks="all", compression_type="zstd", linger_ms=5) as producer:
        sent = producer.send("clicks", b"value", key=b"user-1", headers=headers, timestamp_ms=1234).result()
    with log.consumer("clicks", auto_offset_reset="earliest") as consumer:
        (record,) = consumer.poll(timeout_ms=60_000)
    assert (record.topic, record.partition, record.offset) == (sent.topic, sent.partition, sent.offset)
    assert (record.key, record.value, record.timestamp, record.timestamp_type) == (b"user-1", b"value", 1234, 0)
    assert record.headers == (("trace", b"1"), ("trace", None))
    assert sent.timestamp == 1234


def test_a_topic_that_may_exist_already_is_given_as_it_is(log: pylog.Log) -> None:
    made = log.create_topic("t", partitions=2, config={"retention.ms": 5}, exist_ok=True)
    again = log.create_topic("t", partitions=3, exist_ok=True)
    assert again.id == made.id and len(again) == 2
    with pytest.raises(pylog.errors.TopicAlreadyExists):
        log.create_topic("t")
    with pytest.raises(pylog.errors.InvalidTopic):
        log.create_topic("a b", exist_ok=True)


def test_a_key_goes_where_a_java_producer_puts_it(log: pylog.Log) -> None:
    log.create_topic("t", partitions=7)
    with log.producer() as producer:
        futures = {key: producer.send("t", b"", key=key.encode()) for key in ("21", "abc", "foobar", "k1")}
    # murmur2 of kafka-format 7.1, sign masked, modulo the partitions.
    masked = {"21": 1173551340, "abc": 479470107, "foobar": 1357151166, "k1": 1684045097}
    assert {key: future.result().partition for key, future in futures.items()} == {k: h % 7 for k, h in masked.items()}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back(log: pylog.Log, codec: str) -> None:
    log.create_topic("t")
    values = [b"value %d" % i * 10 for i in range(500)]
    with log.producer(compression_type=codec, batch_size=4096) as producer:
        for value in values:
            producer.send("t", value)
    assert [record.value for record in log.topic("t")[0].records()] == values
    assert [record.value for record in log.topic("t")[0].records(123, 321)] == values[123:321]


def test_null_and_empty_stay_apart(log: pylog.Log) -> None:
    log.create_topic("t")
    log.topic("t")[0].append([Record(None), Record(b"", b""), Record(b"v", None, 5, [("h", b"")])])
    assert [(r.value, r.key) for r in log.topic("t")[0].records()] == [(None, None), (b"", b""), (b"v", None)]


def test_keyless_records_spread_in_runs(log: pylog.Log) -> None:
    log.create_topic("t", partitions=4)
    with log.producer(batch_size=1000, linger_ms=1000) as producer:
        futures = [producer.send("t", b"x" * 80) for _ in range(400)]
    partitions = [future.result().partition for future in futures]
    assert set(partitions) == {0, 1, 2, 3}
    changes = sum(a != b for a, b in pairwise(partitions))
    assert changes < 60, "a sticky producer changes the partition a batch at a time"


def test_topics_are_listed_described_and_removed(log: pylog.Log) -> None:
    topic = log.create_topic("b", partitions=3, config={"retention.ms": 1000, "segment.bytes": "2000000"})
    log.create_topic("a")
    assert log.topics() == ["a", "b"]
    assert len(topic) == 3 and topic.overrides == {"retention.ms": "1000", "segment.bytes": "2000000"}
    assert (topic.config.retention_ms, topic.config.segment_bytes) == (1000, 2_000_000)
    log.topic("b")[1].append([Record(b"x")])
    log.delete_topic("b")
    assert log.topics() == ["a"]
    with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'b'"):
        log.topic("b")
    again = log.create_topic("b")
    assert again.id != topic.id and again[0].next_offset == 0


def test_topics_and_epochs_survive_a_reopen(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        log.create_topic("t", config={"retention.ms": 86_400_000})[0].append([Record(b"1")])
        topic_id = log.topic("t").id
    for _ in range(2):
        with pylog.open(tmp_path) as log:
            assert log.topic("t").id == topic_id and log.topic("t").overrides == {"retention.ms": "86400000"}
            log.topic("t")[0].append([Record(b"2")])
            assert log.topic("t")[0].leader_epoch == 0, "after a clean close it goes on in its epoch"
    with pylog.open(tmp_path) as log:
        size = sum(f.stat().st_size for f in tmp_path.rglob("*.log"))
        assert [r.value for r in log.topic("t")[0].records()] == [b"1", b"2", b"2"]
    assert sum(f.stat().st_size for f in tmp_path.rglob("*.log")) == size, "reading wrote to the log"


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "x" * 250, "späť", "a b"])
def test_a_bad_topic_name_makes_nothing(tmp_path: Path, name: str) -> None:
    with pylog.open(tmp_path) as log:
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(errors.InvalidTopic):
            log.create_topic(name)
        assert log.topics() == [] and sorted(os.listdir(tmp_path)) == before


def test_bad_topics_are_refused(log: pylog.Log) -> None:
    log.create_topic("t")
    with pytest.raises(errors.TopicAlreadyExists, match="'t'"):
        log.create_topic("t")
    with pytest.raises(errors.InvalidPartitions):
        log.create_topic("u", partitions=0)
    with pytest.raises(errors.InvalidConfig, match=r"retention\.ms"):
        log.create_topic("u", config={"retention.mss": 1})
    with pytest.raises(errors.InvalidConfig, match=r"segment\.bytes"):
        log.create_topic("u", config={"segment.bytes": 1})
    for name, partitions in ((5, 1), ("u", "3"), ("u", 1.5)):
        with pytest.raises(TypeError, match=r"int|str"):
            log.create_topic(name, partitions)  # type: ignore[arg-type]
    assert log.topics() == ["t"]


# --- producing --------------------------------------------------------------------------------------------------------


def test_a_record_that_is_too_large_is_refused(log: pylog.Log) -> None:
    log.create_topic("t", config={"max.message.bytes": 2000})
    with log.producer(max_request_size=10_000) as producer:
        with pytest.raises(errors.RecordTooLarge, match="max_request_size"):
            producer.send("t", b"x" * 10_000)
        future = producer.send("t", b"x" * 3000)
        small = producer.send("t", b"y")
        producer.flush()
        with pytest.raises(errors.RecordTooLarge, match=r"max\.message\.bytes=2000"):
            future.result()
    assert small.result().offset == 0, "the batch that they shared was sent in parts"
    with pytest.raises(errors.RecordTooLarge):
        log.topic("t")[0].append([Record(b"x" * 3000)])
    assert log.topic("t")[0].next_offset == 1


def test_misuse_raises_with_advice(log: pylog.Log) -> None:
    log.create_topic("t")
    with log.producer() as producer:
        with pytest.raises(TypeError, match="value is str"):
            producer.send("t", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="header"):
            producer.send("t", b"v", headers=[(b"h", b"x")])  # type: ignore[list-item]
        with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'nope'"):
            producer.send("nope", b"v")
        with pytest.raises(errors.UnknownTopicOrPartition, match="partition 5"):
            producer.send("t", b"v", partition=5)
    with pytest.raises(errors.Closed):
        producer.send("t", b"v")
    with pytest.raises(errors.InvalidConfig, match="compression"):
        log.producer(compression_typ="zstd")
    with pytest.raises(errors.InvalidConfig, match=r"group\.id"):
        log.consumer("t", group_id="")
    with pytest.raises(IndexError, match="partition 1"):
        log.topic("t")[1]


def test_many_threads_share_a_producer(log: pylog.Log) -> None:
    log.create_topic("t", partitions=2)
    with log.producer(batch_size=2000, buffer_memory=20_000) as producer:

        def work(thread: int) -> None:
            for i in range(500):
                producer.send("t", b"%d:%d" % (thread, i), partition=i % 2)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for partition in log.topic("t"):
        values = [tuple(map(int, r.value.split(b":"))) for r in partition.records() if r.value is not None]
        assert len(values) == 1000
        for thread_number in range(4):
            mine = [i for of, i in values if of == thread_number]
            assert mine == sorted(mine) and len(mine) == 250, "a thread's records changed their order"


def test_log_append_time_is_what_everyone_sees(log: pylog.Log) -> None:
    log.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    appended = log.topic("t")[0].append([Record(b"v", timestamp=5)])
    assert appended.log_append_time is not None and appended.log_append_time > 1_600_000_000_000
    (record,) = log.topic("t")[0].records()
    assert (record.timestamp, record.timestamp_type) == (appended.log_append_time, 1)


def test_a_topic_keeps_its_own_codec(log: pylog.Log) -> None:
    log.create_topic("t", config={"compression.type": "lz4"})
    log.topic("t")[0].append([Record(b"x" * 100)])
    assert log.topic("t")[0].read(0)[22] & 7 == 3
    assert [r.value for r in log.topic("t")[0].records()] == [b"x" * 100]


def test_a_topic_may_ask_for_a_sync_every_few_records(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as log:
        view = log.create_topic("t", config={"flush.messages": 3})[0]
        durable = []
        for _ in range(7):
            view.append([Record(b"x")])
            durable.append(view.durable_offset)
    assert durable == [0, 0, 3, 3, 3, 6, 6]


# --- consuming --------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(log: pylog.Log) -> pylog.Log:
    topic = log.create_topic("t", partitions=2)
    for partition in topic:
        for start in range(0, 100, 10):
            partition.append([Record(b"%d" % i, timestamp=1000 + i * 10) for i in range(start, start + 10)])
    return log


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_positions_move_with_polled_records(filled: pylog.Log) -> None:
    with filled.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert consumer.position(T0) == 0
        assert [r.offset for r in consumer.poll(60_000, max_records=7)] == list(range(7))
        assert consumer.position(T0) == 7
        consumer.seek(T0, 93)
        assert [r.offset for r in consumer.poll(60_000)] == list(range(93, 100))
        assert consumer.poll(0) == []
        consumer.seek_to_beginning(T0)
        assert consumer.poll(60_000, max_records=1)[0].offset == 0
        consumer.seek_to_end()
        assert consumer.position(T0) == 100


def test_a_consumer_finds_the_ends_and_times_of_partitions(filled: pylog.Log) -> None:
    with filled.consumer() as consumer:
        assert consumer.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
        assert consumer.end_offsets([T0, T1]) == {T0: 100, T1: 100}
        found = consumer.offsets_for_times({T0: 1015, T1: 5000})
        assert found[T0] is not None and found[T0][:2] == (2, 1020)
        assert found[T1] is None
        assert consumer.partitions_for_topic("t") == {0, 1}
        with pytest.raises(errors.UnknownTopicOrPartition):
            consumer.end_offsets([TopicPartition("t", 9)])


def test_latest_is_where_a_new_consumer_begins(filled: pylog.Log) -> None:
    with filled.consumer("t") as consumer:
        assert consumer.poll(0) == []
        filled.topic("t")[1].append([Record(b"new")])
        assert [r.value for r in consumer.poll(60_000)] == [b"new"]


def test_a_poll_waits_for_the_first_record(filled: pylog.Log) -> None:
    with filled.consumer("t") as consumer:
        consumer.poll(0)
        timer = threading.Timer(0.05, lambda: filled.topic("t")[0].append([Record(b"late")]))
        timer.start()
        assert [r.value for r in consumer.poll(60_000)] == [b"late"]
        timer.join()


def test_an_offset_outside_the_log_follows_the_reset_policy(filled: pylog.Log) -> None:
    with filled.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 1000)
        assert consumer.poll(60_000, max_records=1)[0].offset == 0
    with filled.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        with pytest.raises(errors.NoOffsetForPartition, match="seek first"):
            consumer.poll(0)
        consumer.seek(T0, 1000)
        with pytest.raises(errors.OffsetOutOfRange, match=r"1000 of t-0 is outside \[0, 100\]"):
            consumer.poll(0)


def test_a_paused_partition_gives_nothing(filled: pylog.Log) -> None:
    with filled.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.pause(T0)
        seen = [r.partition for _ in range(5) for r in consumer.poll(10)]
        assert set(seen) == {1} and len(seen) == 100
        consumer.resume(T0)
        assert {r.partition for r in consumer.poll(60_000)} == {0}


def test_iterating_ends_when_it_is_told_to_and_loses_nothing_when_left(filled: pylog.Log) -> None:
    with filled.consumer("t", auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer:
        first = []
        for record in consumer:
            first.append((record.partition, record.offset))
            if len(first) == 15:
                break
        rest = [(record.partition, record.offset) for record in consumer]
    assert sorted(first + rest) == [(p, o) for p in (0, 1) for o in range(100)]


def test_assigning_again_keeps_positions(filled: pylog.Log) -> None:
    with filled.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        consumer.poll(0, max_records=30)
        consumer.assign([T0, T1])
        assert consumer.position(T0) == 30 and consumer.position(T1) == 0
        with pytest.raises(ValueError, match="t-9 is not assigned"):
            consumer.seek(TopicPartition("t", 9), 0)
    with pytest.raises(errors.Closed):
        consumer.poll(0)


def test_columns_are_the_records(filled: pylog.Log) -> None:
    pytest.importorskip("pyarrow")
    view = filled.topic("t")[0]
    batches = list(view.columns(5, 95, columns=["offset", "value", "partition"], max_rows=20))
    assert batches[0].schema.names == ["offset", "value", "partition"]
    assert all(batch.num_rows <= 20 for batch in batches)
    rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    assert rows == [(r.offset, r.value, 0) for r in view.records(5, 95)]
    with pytest.raises(ValueError, match="no column 'nope'"):
        next(view.columns(columns=["nope"]))
    with pytest.raises(ValueError, match="max_rows is 0"):
        next(view.columns(max_rows=0))


def test_columns_of_a_large_batch_come_in_pieces(log: pylog.Log) -> None:
    """A batch of the log with more records than were asked for at once comes in pieces."""
    pytest.importorskip("pyarrow")
    log.create_topic("t")[0].append([Record(b"%d" % n) for n in range(25)])
    view = log.topic("t")[0]
    batches = list(view.columns(columns=["offset", "value"], max_rows=10))
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    assert [value.as_py() for batch in batches for value in batch.column(1)] == [b"%d" % n for n in range(25)]
    assert [batch.num_rows for batch in view.columns(7, 20, max_rows=10)] == [10, 3]


def test_columns_without_pyarrow_say_what_to_install(filled: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("pylog.kernel.columns", "pylog.kernel.pure.columns", "pylog.kernel.compiled.columns"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match="pip install pyarrow numpy"):
        next(filled.topic("t")[0].columns())


# --- owners and readers -----------------------------------------------------------------------------------------------


def test_a_second_owner_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    with pylog.open(tmp_path), pytest.raises(errors.DirectoryLocked, match=str(os.getpid())) as caught:
        pylog.open(tmp_path, mode="own")
    assert caught.value.pid == os.getpid()
    pylog.open(tmp_path).close()


def test_a_reader_sees_the_records_that_the_owner_publishes(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        assert reader.topics() == [] and reader.mode == "read"
        owner.create_topic("t", config={"segment.bytes": 1 << 20})
        assert reader.topics() == ["t"]
        with reader.consumer("t", auto_offset_reset="earliest") as consumer:
            for i in range(50):
                owner.topic("t")[0].append([Record(b"%d" % i + b"x" * 100_000)])
                (record,) = consumer.poll(60_000)
                assert record.offset == i
        view, own = reader.topic("t")[0], owner.topic("t")[0]
        assert len(own.segments) > 1 and view.segments == own.segments
        assert (view.start_offset, view.next_offset, view.high_watermark) == (0, 50, 50)
        assert view.durable_offset == 50
        owner.delete_topic("t")
        assert reader.topics() == []


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pylog.open(tmp_path, mode="read") as reader:
        for change in (
            lambda: reader.create_topic("u"),
            lambda: reader.delete_topic("t"),
            reader.producer,
            lambda: reader.topic("t")[0].append([Record(b"x")]),
        ):
            with pytest.raises(errors.ReadOnly, match='mode="read"'):
                change()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_log_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(errors.LogNotFound, match="missing"):
        pylog.open(tmp_path / "missing", mode="read")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.StorageError, match="file"):
        pylog.open(tmp_path / "file")
    with pytest.raises(errors.LogNotFound, match="a file, not a log directory"):
        pylog.open(tmp_path / "file", mode="read")
    for bad in ({"mode": "write"}, {"flush": "never"}):
        with pytest.raises(ValueError, match=next(iter(bad.values()))):
            pylog.open(tmp_path / "log", **bad)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidConfig):
        pylog.open(tmp_path / "log", config={"log.segment.bites": 1})


def test_a_directory_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    pylog.open(tmp_path).close()
    properties = tmp_path / "meta.properties"
    properties.write_text(properties.read_text().replace("version=1", "version=9"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(errors.UnsupportedFormat, match="version 9"):
        pylog.open(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_node_id_belongs_to_its_directory(tmp_path: Path) -> None:
    pylog.open(tmp_path, node_id=3).close()
    with pylog.open(tmp_path) as log:
        assert log.node_id == 3
    with pytest.raises(errors.StorageError, match="node 3"):
        pylog.open(tmp_path, node_id=4)


@pytest.mark.parametrize("node_id", [-1, 1 << 31, "x", True])
def test_an_impossible_node_id_makes_nothing(tmp_path: Path, node_id: Any) -> None:
    with pytest.raises(ValueError, match="node_id is"):
        pylog.open(tmp_path / "log", node_id=node_id)
    assert not (tmp_path / "log").exists()


def test_an_empty_path_is_not_the_directory_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path is empty"):
        pylog.open("")
    assert not list(tmp_path.iterdir())


def test_a_closed_log_refuses(tmp_path: Path) -> None:
    log = pylog.open(tmp_path)
    topic = log.create_topic("t")
    log.close()
    log.close()
    for use in (
        lambda: topic[0].append([Record(b"x")]), lambda: topic[0].next_offset, log.topics, log.producer, log.consumer,
        log.flush, lambda: log.create_topic("u"), lambda: log.topic("t"), lambda: log.delete_topic("t"),
    ):  # fmt: skip
        with pytest.raises(errors.Closed):
            use()


def test_a_directory_without_a_metadata_log_is_adopted(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        topic = log.create_topic("t", partitions=2)
        topic[1].append([Record(b"kept")])
        topic[0].append([Record(b"too")])
    for path in (tmp_path / "__cluster_metadata-0").iterdir():
        path.unlink()
    (tmp_path / "__cluster_metadata-0").rmdir()
    with pylog.open(tmp_path) as log:
        assert log.topic("t").id == topic.id
        assert [r.value for p in log.topic("t") for r in p.records()] == [b"too", b"kept"]


def test_a_flipped_bit_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as log:
        topic = log.create_topic("t")
        for i in range(3):
            topic[0].append([Record(b"value %d" % i)])
        path, size = Path(topic[0].segments[0].path), topic[0].size
    data = bytearray(path.read_bytes())
    data[size // 3 + 65] ^= 4
    path.write_bytes(data)
    for mode in ("own", "read"):
        with pylog.open(tmp_path, mode=mode) as log, log.consumer("t", auto_offset_reset="earliest") as consumer:  # type: ignore[arg-type]
            found = []
            with pytest.raises(errors.CorruptBatch, match="pylog verify") as caught:
                while True:
                    found += consumer.poll(1000, max_records=1)
            assert [r.value for r in found] == [b"value 0"]
            assert (caught.value.path, caught.value.position, caught.value.offset) == (str(path), size // 3, 1)
            consumer.seek(T0, 2)
            assert [r.value for r in consumer.poll(60_000)] == [b"value 2"]
            with pytest.raises(errors.CorruptBatch) as of_view:
                list(log.topic("t")[0].records())
            assert of_view.value.next_offset == 2
            for error in (caught.value, of_view.value):
                # The same advice where a recovery knows the damage and where nothing has seen it yet.
                assert "offsets 1 to 1 are damaged and cannot be read; go on at offset 2" in str(error)
                assert "`pylog repair`" in str(error)


def test_records_that_were_read_can_be_appended_again() -> None:
    with pylog.open(":memory:") as log:
        first, second = log.create_topic("a")[0], log.create_topic("b")[0]
        first.append([pylog.Record(b"v", b"k", 5, [("h", b"x")]), pylog.Record(None)])
        second.append(list(first.records()))
        assert [(one.value, one.key, one.timestamp, one.headers) for one in second.records()] == [
            (one.value, one.key, one.timestamp, one.headers) for one in first.records()
        ]
        with pytest.raises(TypeError, match=r"a record is bytes, not pylog\.Record"):
            second.append([b"v"])  # type: ignore[list-item]


def test_nothing_is_imported_in_the_middle_of_work(tmp_path: Path) -> None:
    """Importing a module takes a descriptor; without one a call would raise OSError. So `open` loads all of them."""
    work = """
import sys
import pylog
with pylog.open(sys.argv[1]) as log:
    before = set(sys.modules)
    log.create_topic("t", config={"compression.type": "zstd"})
    for codec in ("none", "gzip", "snappy", "lz4"):
        with log.producer(transactional_id="tx", compression_type=codec) as producer, producer.transaction():
            producer.send("t", b"v", b"k", headers=[("h", b"x")]).result()
            producer.send_offsets({pylog.TopicPartition("t", 0): pylog.OffsetAndMetadata(1, "m")}, "g")
    for protocol in ("classic", "consumer"):
        with log.consumer("t", group_id=protocol, group_protocol=protocol, auto_offset_reset="earliest") as consumer:
            while not consumer.poll(100):
                pass
            consumer.commit()
    log.admin.find_hanging_transactions()
    log.delete_records({pylog.TopicPartition("t", 0): 1})
    log.delete_topic("t")
print(sorted(set(sys.modules) - before))
"""
    ran = subprocess.run([sys.executable, "-c", work, str(tmp_path)], capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr
