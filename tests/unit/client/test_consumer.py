"""A consumer among damage, pauses, ends and transactions."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, TopicPartition, errors
from pylog.protocol.batch import encode
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import Fetch, FetchPart, ProduceRequest, Session
from pylog.storage.validator import Origin
from support.producer_log import marker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    # Transactions are written here without a coordinator.
    with pylog.open(":memory:", config={"transaction.partition.verification.enable": False}) as opened:
        topic = opened.create_topic("t", partitions=2)
        for partition in topic:
            for start in range(0, 30, 10):
                partition.append([Record(b"%d" % i) for i in range(start, start + 10)])
        yield opened


def test_damage_costs_no_record_before_it(tmp_path: Path) -> None:
    """All good records of all partitions come first, then the error, again and again, until someone seeks past it."""
    with pylog.open(tmp_path) as log:
        topic = log.create_topic("t", partitions=2)
        for partition in topic:
            for i in range(4):
                partition.append([Record(b"%d" % i, timestamp=1)])
        path, batch = Path(topic[1].segments[0].path), topic[1].size // 4
    data = bytearray(path.read_bytes())
    data[2 * batch + 65] ^= 1
    path.write_bytes(data)
    with pylog.open(tmp_path) as log, log.consumer("t", auto_offset_reset="earliest") as consumer:
        seen: list[tuple[int, int]] = []
        for _ in range(20):
            try:
                seen += [(record.partition, record.offset) for record in consumer.poll(50)]
            except errors.CorruptBatch as error:
                assert (error.path, error.position, error.offset) == (str(path), 2 * batch, 2)
        assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
        assert consumer.position(T1) == 2
        consumer.seek(T1, 3)
        assert [(record.partition, record.offset) for record in consumer.poll(50)] == [(1, 3)]
        view = log.topic("t")[1].records()
        assert [next(view).offset, next(view).offset] == [0, 1]
        with pytest.raises(errors.CorruptBatch) as caught:
            next(view)
        assert caught.value.offset == 2


def test_nothing_is_given_when_everything_is_paused(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.pause(T0, T1)
        assert consumer.paused() == {T0, T1}
        assert consumer.poll(20) == []
        consumer.resume(T0, T1)
        assert len(consumer.poll(60_000)) == 60


def test_partitions_are_paused_one_by_one_or_as_a_list(log: pylog.Log) -> None:
    with log.consumer("t") as consumer:
        consumer.pause([T0, T1])
        assert consumer.paused() == {T0, T1}
        consumer.resume(consumer.assignment() - {T0})
        consumer.resume([], ())
        assert consumer.paused() == {T0}
        consumer.pause((T0, T1))
        consumer.resume((T1,))
        assert consumer.paused() == {T0}
        consumer.resume(("t", 0))  # type: ignore[arg-type]
        assert consumer.paused() == set()
        for strange in ("t", 3, [T0, "t"]):
            with pytest.raises(TypeError, match="is not a partition"):
                consumer.pause(strange)  # type: ignore[arg-type]


def test_a_paused_partition_keeps_fetched_records(log: pylog.Log) -> None:
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        assert len(consumer.poll(60_000, max_records=5)) == 5
        consumer.pause(T0)
        assert consumer.poll(0) == []
        consumer.resume(T0)
        assert [record.offset for record in consumer.poll(0)] == list(range(5, 30))


def test_a_seek_into_a_batch_skips_the_records_before(log: pylog.Log) -> None:
    with log.consumer() as consumer:
        consumer.assign([T0])
        for offset in (0, 9, 10, 15, 29):
            consumer.seek(T0, offset)
            assert [record.offset for record in consumer.poll(60_000)] == list(range(offset, 30))
        consumer.seek(T0, 30)
        assert consumer.poll(0) == [] and consumer.position(T0) == 30


def test_small_fetches_get_there_too(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest", max_partition_fetch_bytes=1, fetch_max_bytes=1) as consumer:
        seen = [(record.partition, record.offset) for _ in range(20) for record in consumer.poll(0)]
    assert sorted(seen) == [(p, o) for p in (0, 1) for o in range(30)]


def test_control_batches_are_stepped_over(log: pylog.Log) -> None:
    partition = log.broker.partition("t", 0)
    marker = encode([Record(b"\0" * 6, b"\0\0\0\1")], now_ms=1, control=True)
    partition.append(marker, epoch=0, now_ms=1, origin=Origin.RAFT_LEADER)
    partition.advance_high_watermark(partition.next_offset)
    log.topic("t")[0].append([Record(b"behind")])
    with log.consumer() as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 29)
        assert [(record.offset, record.value) for record in consumer.poll(60_000)] == [(29, b"29"), (31, b"behind")]
        assert [record.offset for record in log.topic("t")[0].records(29)] == [29, 31]
        consumer.seek(T0, 30)
        assert [record.offset for record in consumer.poll(60_000)] == [31]


def test_a_topic_that_goes_is_an_error(log: pylog.Log) -> None:
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.poll(0)
        log.delete_topic("t")
        with pytest.raises(errors.UnknownTopicOrPartition, match="'t'"):
            consumer.poll(1000)


def test_subscribing_replaces_and_unsubscribing_ends(log: pylog.Log) -> None:
    log.create_topic("u")[0].append([Record(b"u")])
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["u"])
        assert consumer.subscription() == {"u"} and consumer.assignment() == {TopicPartition("u", 0)}
        with pytest.raises(errors.InvalidTopic):
            consumer.subscribe(["no topic"])
        assert [record.value for record in consumer.poll(60_000)] == [b"u"]
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        with pytest.raises(RuntimeError, match="reads nothing"):
            consumer.poll(0)
        assert "t" in consumer.topics()


def test_a_topic_that_is_not_there_yet_is_read_when_it_is_made(
    log: pylog.Log, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 0}
    with log.consumer("t", "new", **config) as both, log.consumer("new", **config) as waiting:
        assert "there is no topic 'new'" in caplog.text
        assert both.subscription() == {"t", "new"} and {key.topic for key in both.assignment()} == {"t"}
        assert waiting.poll(0) == [] and waiting.assignment() == set()
        log.create_topic("new")[0].append([Record(b"first")])
        assert [record.value for record in waiting.poll(60_000)] == [b"first"]
        both.poll(0)
        assert {key.topic for key in both.assignment()} == {"t", "new"}


def test_a_loop_over_a_consumer_that_reads_nothing_ends_with_an_error(log: pylog.Log) -> None:
    """It waited for ever, and never slept."""
    with log.consumer() as consumer, pytest.raises(RuntimeError, match="subscribe to topics, or assign"):
        next(iter(consumer))


def test_misuse_raises_with_advice(log: pylog.Log) -> None:
    with log.consumer("t") as consumer:
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(T0, -1)
        with pytest.raises(ValueError, match="max_records=0"):
            consumer.poll(0, max_records=0)
        with pytest.raises(ValueError, match="timeout_ms is not a number"):
            consumer.poll(float("nan"))
        for wrong in ({"timeout_ms": None}, {"timeout_ms": "1"}, {"max_records": "1"}):
            with pytest.raises(TypeError, match=f"{next(iter(wrong))} is"):
                consumer.poll(**wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not assigned"):
            consumer.pause(TopicPartition("t", 7))
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({T0: -5})
        with pytest.raises(errors.UnknownTopicOrPartition):
            consumer.assign([TopicPartition("t", 7)])
        for topics in (["t", 5], [["t"]], [b"t"]):
            with pytest.raises(TypeError, match=r"topics: .* is no name, but"):
                consumer.subscribe(topics)  # type: ignore[arg-type]
        assert consumer.assignment() == {T0, T1}
    with pytest.raises(TypeError, match=r"one by one, consumer\('a', 'b'\) .* not \['t'\]"):
        log.consumer(["t"])  # type: ignore[arg-type]
    with log.consumer("t", group_id="g") as consumer:
        with pytest.raises(TypeError, match="callback is int"):
            consumer.commit_async(callback=5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="listener is int, and has none of on_partitions_revoked"):
            consumer.subscribe("t", listener=5)
    for use in (lambda: consumer.poll(0), lambda: consumer.seek(T0, 0), lambda: consumer.subscribe("t")):
        with pytest.raises(errors.Closed):
            use()


def test_a_loop_ends_when_its_consumer_is_closed(log: pylog.Log) -> None:
    seen = 0
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        for _ in consumer:
            seen += 1
            if seen == 5:
                consumer.close()
    assert seen == 5


def test_in_a_loop_the_position_is_behind_the_record_in_hand(log: pylog.Log) -> None:
    with log.consumer(auto_offset_reset="earliest", max_poll_records=7) as consumer:
        consumer.assign([T0])
        positions = [(record.offset + 1, consumer.position(T0)) for record in itertools.islice(consumer, 30)]
    assert positions == [(end, end) for end in range(1, 31)]


@pytest.mark.parametrize("at", [0, 6, 7, 12])
def test_records_that_a_loop_has_not_reached_are_read_again(log: pylog.Log, at: int) -> None:
    """A poll, a seek or a pause in the middle of a list that the loop has polled loses nothing and repeats nothing."""
    with log.consumer(auto_offset_reset="earliest", max_poll_records=7, consumer_timeout_ms=0) as consumer:
        consumer.assign([T0])
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset == at:
                consumer.pause(T0)
                assert consumer.position(T0) == at + 1 and consumer.poll(0) == []
                consumer.resume(T0)
                seen += [polled.offset for polled in consumer.poll(0, max_records=2)]
                consumer.seek(T0, at + 4)
        assert seen == [offset for offset in range(30) if offset != at + 3]


def test_loops_over_one_consumer_share_its_records(log: pylog.Log) -> None:
    with log.consumer(auto_offset_reset="earliest", max_poll_records=7, consumer_timeout_ms=0) as consumer:
        consumer.assign([T0])
        one, other = iter(consumer), iter(consumer)
        turns = [next(loop).offset for _ in range(13) for loop in (one, other)]
        assert turns == list(range(26))
        assert [record.offset for record in consumer] == [26, 27, 28, 29]
        assert (next(one, None), next(other, None)) == (None, None)


@pytest.mark.parametrize("offset", [0.5, "1", None])
def test_a_position_is_a_whole_number(log: pylog.Log, offset: Any) -> None:
    with log.consumer("t") as consumer, pytest.raises(TypeError, match="offset is"):
        consumer.seek(T0, offset)


# --- transactions ---------------------------------------------------------------------------------------------------


class Writer:
    """Producers and a coordinator, as far as one partition sees of them."""

    def __init__(self, log: pylog.Log) -> None:
        self.log = log
        self.partition = log.broker.partition("t", 0)
        self.leader = log.broker.node.roles.writer("t", 0)
        self.sequences: dict[int, int] = {}

    def send(self, producer_id: int, *values: bytes, transactional: bool = True) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(values)
        batch = encode(
            [Record(value, timestamp=1) for value in values], now_ms=1, producer_id=producer_id, producer_epoch=0,
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        answer = self.log.broker.handle(ProduceRequest.of("t", 0, batch), Session()).result()
        assert answer.parts[0].error is None

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.partition.append(
            marker(0, producer_id=producer_id, abort=not commit, timestamp=1), epoch=self.leader.epoch or 0, now_ms=1,
            origin=Origin.COORDINATOR,
        )  # fmt: skip
        self.leader.advance()


@pytest.fixture
def mixed(log: pylog.Log) -> Writer:
    """Offsets 0 to 29 plain; 30, 31, 33 of an aborted transaction, 32 and 34 of a committed one; an open one at 39."""
    writer = Writer(log)
    writer.send(1, b"aborted", b"aborted")
    writer.send(2, b"committed")
    writer.send(1, b"aborted")
    writer.send(2, b"committed")
    writer.end(1, commit=False)
    writer.send(3, b"plain", transactional=False)
    writer.end(2, commit=True)
    writer.send(1, b"committed")
    writer.send(4, b"open")
    writer.end(1, commit=True)
    writer.send(3, b"plain", transactional=False)
    return writer


def read_t0(log: pylog.Log, offset: int, **config: Any) -> tuple[list[int], int]:
    with log.consumer(**config) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, offset)
        found: list[int] = []
        for _ in range(60):
            found += [record.offset for record in consumer.poll(0)]
        return found, consumer.position(T0)


UNCOMMITTED = [*range(30, 35), 36, 38, 39, 41]
COMMITTED = [32, 34, 36, 38]


@pytest.mark.parametrize("bytes_max", [1, 100, 1 << 20])
def test_read_committed_ends_at_the_first_open_transaction(log: pylog.Log, mixed: Writer, bytes_max: int) -> None:
    config = {"max_partition_fetch_bytes": bytes_max, "max_poll_records": 1}
    view = log.topic("t")[0]
    assert (view.last_stable_offset, view.high_watermark) == (39, 42)
    for offset in range(30, 42):
        wanted = [one for one in UNCOMMITTED if one >= offset]
        assert read_t0(log, offset, **config) == (wanted, 42)
        assert [record.offset for record in view.records(offset)] == wanted
        if offset <= 39:
            wanted = [one for one in COMMITTED if one >= offset]
            assert read_t0(log, offset, isolation_level="read_committed", **config) == (wanted, 39)
            assert [record.offset for record in view.records(offset, isolation_level="read_committed")] == wanted
            tables = list(view.columns(offset, isolation_level="read_committed"))
            assert [one for table in tables for one in table.column("offset").to_pylist()] == wanted


def test_ends_and_times_go_by_the_isolation_level(log: pylog.Log, mixed: Writer) -> None:
    with log.consumer(isolation_level="read_committed") as committed, log.consumer() as all_of_it:
        assert (committed.end_offsets([T0]), all_of_it.end_offsets([T0])) == ({T0: 39}, {T0: 42})
        assert committed.beginning_offsets([T0]) == all_of_it.beginning_offsets([T0]) == {T0: 0}
        mixed.partition.append(encode([Record(b"x", timestamp=1 << 45)], now_ms=1), epoch=0, now_ms=1 << 45)
        mixed.leader.advance()
        late = {T0: 1 << 44}
        found = all_of_it.offsets_for_times(late)[T0]
        assert found is not None and (found.offset, found.leader_epoch) == (42, 0)
        assert committed.offsets_for_times(late) == {T0: None}
        committed.assign([T0])
        committed.seek_to_end(T0)
        assert committed.position(T0) == 39


def test_a_waiting_fetch_is_answered_when_the_last_stable_offset_moves(log: pylog.Log, mixed: Writer) -> None:
    """And with the aborted transactions of what it gives then (KAFKA-5376)."""
    message = Fetch([FetchPart("t", 0, 39)], max_wait_ms=60_000, isolation=Isolation.READ_COMMITTED)
    answer = log.broker.handle(message, Session())
    mixed.send(3, b"plain", transactional=False)
    assert not answer.done()
    mixed.end(4, commit=False)
    assert not answer.done(), "nobody was told of the marker yet"
    mixed.send(3, b"plain", transactional=False)
    part = answer.result().parts[0]
    assert part.aborted == [(4, 39)] and part.last_stable_offset == 45
    assert read_t0(log, 39, isolation_level="read_committed") == ([41, 42, 44], 45)


def test_only_two_isolation_levels_are_known(log: pylog.Log) -> None:
    with pytest.raises(errors.InvalidConfig, match="read_committed"):
        log.consumer(isolation_level="serializable")
    with pytest.raises(ValueError, match="read_committed"):
        next(log.topic("t")[0].records(isolation_level="serializable"))


@pytest.mark.parametrize("seed", range(5))
def test_random_transactions_read_as_a_model_says(log: pylog.Log, seed: int) -> None:
    chance, writer = random.Random(seed), Writer(log)
    rows: list[tuple[int, int, bool]] = []
    fates: dict[int, list[bool]] = {}
    ended: dict[int, int] = {}
    for _ in range(120):
        producer_id, offset = chance.randrange(1, 5), writer.partition.next_offset
        is_open = len(fates.get(producer_id, [])) > ended.get(producer_id, 0)
        if is_open and chance.random() < 0.3:
            writer.end(producer_id, commit=fates[producer_id][-1])
            ended[producer_id] = ended.get(producer_id, 0) + 1
        else:
            if not is_open:
                fates.setdefault(producer_id, []).append(chance.random() < 0.5)
            rows.append((offset, producer_id, fates[producer_id][-1]))
            writer.send(producer_id, b"v")
        if chance.random() < 0.1:
            writer.partition.roll(1)
    begun = {p: len(f) for p, f in fates.items() if len(f) > ended.get(p, 0)}
    stable = log.topic("t")[0].last_stable_offset
    assert stable == min((first_of(rows, writer, p) for p in begun), default=writer.partition.next_offset)
    wanted = [offset for offset, _, commit in rows if commit and offset < stable]
    for start in (30, *(chance.randrange(30, stable + 1) for _ in range(10))):
        config = {"isolation_level": "read_committed", "max_partition_fetch_bytes": chance.choice([1, 300, 3000])}
        with log.consumer(**config) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, start)
            found: list[int] = []
            while consumer.position(T0) < stable:
                found += [record.offset for record in consumer.poll(0)]
        assert found == [offset for offset in wanted if offset >= start]


def first_of(rows: list[tuple[int, int, bool]], writer: Writer, producer_id: int) -> int:
    """Where the open transaction of a producer begins."""
    first = writer.partition.producers.entries()[producer_id].current_txn_first_offset
    assert first in [offset for offset, of, _ in rows if of == producer_id]
    return first if first is not None else -1
