"""Nodes that wait: acknowledgements, parked fetches, roles that change hands, replication between two instances."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.broker import purgatory
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import DiskFiles, File
from pylog.protocol.batch import encode, split
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import ACKS_ALL, Fetch, FetchPart, NewTopic, ProduceRequest, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.testing import SimClock
from support.patience import HANG_SECONDS
from support.produce import together

SESSION = Session()
FAST = {"replica.fetch.backoff.ms": 5, "replica.fetch.wait.max.ms": 100}
NOW = 1_700_000_000_000


class Pair:
    """Two instances on one transport; roles are given by hand."""

    def __init__(self, root: Path, closing: ExitStack, flush: str) -> None:
        self.transport = pylog.MemoryTransport()
        self.root = root
        self.closing = closing
        self.flush = flush
        self.logs: dict[int, pylog.Log] = {}
        for node in (1, 2):
            self.open(node)
        self.epoch = 0
        self.topic = self.logs[1].create_topic("t", config={"segment.bytes": 1 << 20})

    def open(self, node: int) -> pylog.Log:
        log = pylog.open(
            self.root / str(node), node_id=node, transport=self.transport, config=FAST, flush=self.flush  # type: ignore[arg-type]
        )  # fmt: skip
        self.logs[node] = log
        self.closing.callback(log.close)
        return log

    def lead(self, node: int) -> None:
        self.epoch += 1
        self.logs[node].broker.apply(pylog.Lead(topic="t", partition=0, leader_epoch=self.epoch, replicas=(1, 2)))

    def follow(self, node: int, leader: int) -> None:
        self.logs[node].broker.apply(
            pylog.Follow(
                topic="t", topic_id=self.topic.id, partition=0, partitions=1, leader=leader, leader_epoch=self.epoch,
                config=self.topic.overrides,
            )
        )  # fmt: skip

    def roles(self, leader: int) -> None:
        # The follower first, or for a moment there would be two leaders.
        self.epoch += 1
        self.follow(3 - leader, leader)
        self.epoch -= 1
        self.lead(leader)

    def partition(self, node: int) -> Any:
        return self.logs[node].topic("t")[0]

    def values(self, node: int) -> list[bytes | None]:
        return [record.value for record in self.partition(node).records()]

    def same_files(self) -> bool:
        def files(node: int) -> dict[str, bytes]:
            return {path.name: path.read_bytes() for path in (self.root / str(node) / "t-0").glob("*.log")}

        return files(1) == files(2)


@pytest.fixture(params=["sync", "none"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(tmp_path, closing, request.param)


def wait_for(what: Callable[[], bool]) -> None:
    """Until something is so that another thread brings about."""
    deadline = time.monotonic() + HANG_SECONDS
    pause = threading.Event()
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.002)


def produce(log: pylog.Log, *values: bytes, acks: int = ACKS_ALL, timeout_ms: int = 10_000) -> Any:
    batch = encode([Record(value) for value in values], now_ms=1)
    return log.broker.handle(ProduceRequest.of("t", 0, batch, acks=acks, timeout_ms=timeout_ms), SESSION)


# --- replication ------------------------------------------------------------------------------------------------------


def test_a_follower_catches_up_and_acknowledges(pair: Pair) -> None:
    for i in range(60):
        pair.partition(1).append([Record(b"%d " % i + b"x" * 50_000)])
    pair.roles(leader=1)
    futures = [produce(pair.logs[1], b"after %d" % i) for i in range(20)]
    for future in futures:
        assert future.result(HANG_SECONDS).parts[0].error is None
    assert pair.partition(1).high_watermark == 80
    wait_for(lambda: pair.partition(2).high_watermark == 80)
    assert len(pair.partition(1).segments) > 2
    assert pair.same_files()
    assert pair.values(2) == pair.values(1)


def test_acks_all_needs_the_follower_and_acks_1_does_not(pair: Pair) -> None:
    pair.lead(1)
    log = pair.logs[1]
    for acks in (0, 1):
        part = produce(log, b"x", acks=acks).result(HANG_SECONDS).parts[0]
        assert part.error is None
    waiting = produce(log, b"y")
    # Behind it: so it is appended.
    assert produce(log, b"z", acks=1).result(HANG_SECONDS).parts[0].base_offset == 3
    assert not waiting.done()
    assert pair.partition(1).high_watermark == 0 and pair.partition(1).next_offset == 4
    pair.follow(2, leader=1)
    part = waiting.result(HANG_SECONDS).parts[0]
    assert (part.error, part.base_offset, part.next_offset) == (None, 2, 3)


def test_acks_all_times_out_without_the_follower(pair: Pair) -> None:
    pair.lead(1)
    part = produce(pair.logs[1], b"x", timeout_ms=20).result(HANG_SECONDS).parts[0]
    assert isinstance(part.error, errors.RequestTimedOut)
    assert "offset 0 is in the leader's log" in str(part.error)
    assert "followers [2] have not said" in str(part.error)
    with pair.logs[1].producer(request_timeout_ms=20, linger_ms=0, retries=0) as producer:
        error = producer.send("t", b"y").exception(HANG_SECONDS)
    assert isinstance(error, errors.RequestTimedOut)


def test_a_follower_comes_back_after_it_was_away(pair: Pair) -> None:
    pair.roles(leader=1)
    produce(pair.logs[1], b"a").result(HANG_SECONDS)
    pair.logs[2].close()
    produce(pair.logs[1], b"b", acks=1).result(HANG_SECONDS)
    assert pair.partition(1).high_watermark == 1
    again = pair.open(2)
    with pytest.raises(errors.NotLeaderOrFollower, match="follows node 1"):
        again.topic("t")[0].append([Record(b"it is nobody's leader")])
    pair.follow(2, leader=1)
    wait_for(lambda: pair.partition(1).high_watermark == 2)
    assert pair.same_files()


def test_a_leader_comes_back_and_its_follower_goes_on(pair: Pair) -> None:
    pair.roles(leader=1)
    produce(pair.logs[1], b"a").result(HANG_SECONDS)
    pair.logs[1].close()
    pair.open(1)
    pair.roles(leader=1)
    assert produce(pair.logs[1], b"b").result(HANG_SECONDS).parts[0].error is None
    assert pair.values(1) == [b"a", b"b"]
    assert pair.same_files()


def test_a_follower_closes_while_its_leader_keeps_the_answer(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAST, "replica.fetch.wait.max.ms", 60_000)
    pair.logs[2].close()
    pair.open(2)
    pair.roles(leader=1)
    produce(pair.logs[1], b"a").result(HANG_SECONDS)
    wait_for(lambda: pair.partition(2).high_watermark == 1)
    closing = threading.Thread(target=pair.logs[2].close)
    closing.start()
    closing.join(HANG_SECONDS)
    assert not closing.is_alive()


def test_a_change_of_leaders_drops_uncommitted_records(pair: Pair) -> None:
    pair.roles(leader=1)
    produce(pair.logs[1], b"a").result(HANG_SECONDS)
    pair.logs[2].close()
    lost = produce(pair.logs[1], b"never committed")
    pair.open(2)
    pair.roles(leader=2)
    # It was waiting when node 1 lost the lead: it must not be told that offset 1 is safe, now that another has it.
    produced = produce(pair.logs[2], b"b")
    pair.follow(1, leader=2)
    error = lost.result(HANG_SECONDS).parts[0].error
    assert isinstance(error, errors.NotLeaderOrFollower)
    assert produced.result(HANG_SECONDS).parts[0].base_offset == 1
    wait_for(lambda: pair.partition(1).high_watermark == 2)
    assert pair.values(1) == pair.values(2) == [b"a", b"b"]
    assert pair.same_files()
    refused = produce(pair.logs[1], b"x").result(HANG_SECONDS).parts[0].error
    assert isinstance(refused, errors.NotLeaderOrFollower)


def test_clients_of_any_node_find_the_leader(pair: Pair) -> None:
    pair.roles(leader=1)
    with pair.logs[2].producer() as producer:
        assert producer.send("t", b"by way of node 2").result(HANG_SECONDS).offset == 0
    pair.roles(leader=2)
    described = pair.logs[2].broker.handle(MetadataRequest.of(["t"]), SESSION).result(0).topics[0].partitions[0]
    assert (described.leader_id, described.leader_epoch) == (2, 2)
    with pair.logs[1].consumer("t", auto_offset_reset="earliest") as consumer:
        wait_for(lambda: pair.partition(2).high_watermark == 1)
        assert [record.value for record in consumer.poll(60_000)] == [b"by way of node 2"]


def test_a_follower_whose_start_was_deleted_on_the_leader_begins_anew(pair: Pair) -> None:
    pair.logs[1].broker.partition("t", 0).truncate_fully(500, 0)
    pair.roles(leader=1)
    assert produce(pair.logs[1], b"a").result(HANG_SECONDS).parts[0].base_offset == 500
    wait_for(lambda: pair.partition(2).high_watermark == 501)
    assert pair.partition(2).start_offset == 500
    assert pair.same_files()


def test_an_old_epoch_gives_no_role(pair: Pair) -> None:
    pair.epoch = 4
    pair.roles(leader=1)
    produce(pair.logs[1], b"a").result(HANG_SECONDS)
    pair.epoch = 2
    with pytest.raises(errors.FencedLeaderEpoch):
        pair.lead(1)


def test_another_topic_of_the_same_name_is_not_followed(pair: Pair) -> None:
    pair.logs[2].create_topic("t")
    pair.lead(1)
    with pytest.raises(errors.InconsistentTopicId, match="'t'"):
        pair.follow(2, leader=1)


def test_many_writers_and_a_follower_end_up_with_the_same_log(pair: Pair) -> None:
    pair.roles(leader=1)
    acknowledged: list[tuple[int, bytes]] = []

    def work(number: int) -> None:
        for i in range(30):
            value = b"%d:%d" % (number, i)
            part = produce(pair.logs[1], value).result(HANG_SECONDS).parts[0]
            acknowledged.append((part.base_offset, value))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = pair.values(1)
    assert sorted(value for _, value in acknowledged) == sorted(v for v in found if v is not None)
    assert all(found[offset] == value for offset, value in acknowledged)
    assert pair.same_files()


# --- fetches that wait ------------------------------------------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        opened.create_topic("t", partitions=2)
        yield opened


def fetch(log: pylog.Log, offset: int = 0, **options: int) -> Any:
    message = Fetch([FetchPart("t", 0, offset), FetchPart("t", 1, 0)], **options)  # type: ignore[arg-type]
    return log.broker.handle(message, SESSION)


def sizes(fetched: Any) -> list[int]:
    return [len(list(split(part.data))) for part in fetched.parts]


def test_a_fetch_waits_for_a_record_of_any_partition(log: pylog.Log) -> None:
    waiting = fetch(log, max_wait_ms=HANG_SECONDS * 1000)
    assert not waiting.done()
    log.topic("t")[1].append([Record(b"x")])
    assert sizes(waiting.result(0)) == [0, 1], "the append answered it"


def test_a_fetch_waits_for_min_bytes(log: pylog.Log) -> None:
    waiting = fetch(log, max_wait_ms=HANG_SECONDS * 1000, min_bytes=300)
    for _ in range(2):
        log.topic("t")[0].append([Record(b"x" * 50)])
        assert not waiting.done()
    log.topic("t")[0].append([Record(b"x" * 50)])
    assert sizes(waiting.result(0)) == [3, 0]


def test_a_fetch_of_many_partitions_is_answered_by_the_worker(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purgatory, "PARTS_AT_ONCE", 1)
    threads: list[threading.Thread] = []
    waiting = fetch(log, max_wait_ms=HANG_SECONDS * 1000, min_bytes=300)
    waiting.add_done_callback(lambda _: threads.append(threading.current_thread()))
    for _ in range(3):
        log.topic("t")[0].append([Record(b"x" * 50)])
    assert sizes(waiting.result(HANG_SECONDS)) == [3, 0]
    assert threads and threads[0] is not threading.current_thread()


def test_a_fetch_of_many_partitions_that_rests_ends_with_its_client(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(purgatory, "PARTS_AT_ONCE", 1)
    monkeypatch.setattr(purgatory, "PARTS_PER_MS", 1e-9)
    waiting = fetch(log, max_wait_ms=HANG_SECONDS * 1000)
    log.topic("t")[0].append([Record(b"x")])
    assert log.broker._purgatory.sizes == (0, 1, 0) and not waiting.done()
    waiting.abandon()
    assert log.broker._purgatory.sizes == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "asked", "is_given"),
    [
        ({}, FetchPart("t", 0, 1), True),
        ({}, FetchPart("t", 0, 1, last_fetched_epoch=0), True),
        ({"isolation": Isolation.READ_COMMITTED}, FetchPart("t", 0, 1), True),
        ({"replica_id": 7}, FetchPart("t", 0, 1, high_watermark=1), False),
    ],
)
def test_a_waiting_fetch_gets_the_bytes_that_a_read_would_find(
    log: pylog.Log, changes: dict[str, Any], asked: FetchPart, is_given: bool
) -> None:
    log.topic("t")[0].append([Record(b"before")])
    waiting = log.broker.handle(Fetch([asked], max_wait_ms=HANG_SECONDS * 1000, **changes), SESSION)
    assert not waiting.done()
    leader = log.broker.node.roles.writer("t", 0)
    batch = encode([(b"x" * 50, b"key", None, [])], now_ms=7)
    leader.append(batch, 7)
    leader.advance()
    log.broker._purgatory.release(leader.partition, batch)
    (given,) = waiting.result(0).parts
    (read,) = log.broker.handle(Fetch([asked], **changes), SESSION).result(0).parts
    assert (given.path is None) == is_given, "what is at hand need not be read"
    assert replace(given, path=read.path, position=read.position) == read


def test_a_fetcher_of_an_older_epoch_is_answered_from_the_log(log: pylog.Log) -> None:
    log.topic("t")[0].append([Record(b"before")])
    waiting = log.broker.handle(
        Fetch([FetchPart("t", 0, 1, last_fetched_epoch=0)], max_wait_ms=HANG_SECONDS * 1000), SESSION
    )
    partition = log.broker.partition("t", 0)
    partition.begin_epoch(5)
    batch = encode([(b"x", None, None, [])], now_ms=7)
    partition.append(batch, epoch=5, now_ms=7)
    partition.advance_high_watermark(2)
    log.broker._purgatory.release(partition, batch)
    (part,) = waiting.result(0).parts
    assert part.path is not None and bytes(part.data) == bytes(batch.data), "it may have been cut"


def test_a_batch_of_a_topic_that_was_made_anew_meanwhile_is_not_given(log: pylog.Log) -> None:
    log.topic("t")[0].append([Record(b"before")])
    leader = log.broker.node.roles.writer("t", 0)
    batch = encode([(b"of the old one", None, None, [])], now_ms=7)
    leader.append(batch, 7)
    leader.advance()
    log.delete_topic("t")
    log.create_topic("t")
    log.topic("t")[0].append([Record(b"new")])
    waiting = log.broker.handle(Fetch([FetchPart("t", 0, 1)], max_wait_ms=HANG_SECONDS * 1000), SESSION)
    log.broker._purgatory.release(leader.partition, batch)
    assert not waiting.done()
    log.topic("t")[0].append([Record(b"newer")])
    (part,) = waiting.result(0).parts
    assert [record.value for found in split(part.data) for record in found.records("t", 0)] == [b"newer"]


def test_a_batch_too_small_for_min_bytes_is_read_with_the_others(log: pylog.Log) -> None:
    waiting = log.broker.handle(Fetch([FetchPart("t", 0, 0)], max_wait_ms=HANG_SECONDS * 1000, min_bytes=150), SESSION)
    leader = log.broker.node.roles.writer("t", 0)
    batches = [encode([(b"x" * 50, None, None, [])], now_ms=7) for _ in range(2)]
    for batch in batches:
        leader.append(batch, 7)
        leader.advance()
    log.broker._purgatory.release(leader.partition, batches[0])
    assert sizes(waiting.result(0)) == [2], "whoever appended the second one may find nobody"


def test_what_does_not_fit_beside_the_first_batch_waits_for_the_next_fetch(log: pylog.Log) -> None:
    """KIP-74: a client that takes 1,000,000 bytes and a little broke its connection at 1,800,000."""
    for number in (0, 1):
        log.topic("t")[number].append([Record(b"x" * 900_000)])
    for as_extents in (False, True):
        message = Fetch([FetchPart("t", 0, 0, 20 << 20), FetchPart("t", 1, 0, 20 << 20)], max_bytes=1_000_000)
        message.as_extents = as_extents
        first, second = log.broker.handle(message, SESSION).result(0).parts
        assert first.size > 900_000 and second.size == 0 and second.high_watermark == 1
    assert sizes(fetch(log, max_bytes=2_000_000).result(0)) == [1, 1]
    message = Fetch([FetchPart("t", 0, 0, 500), FetchPart("t", 1, 0, 500)])
    assert sizes(log.broker.handle(message, SESSION).result(0)) == [1, 0]


def test_a_consumer_of_large_batches_reads_all_partitions(log: pylog.Log) -> None:
    for number in (0, 1):
        for _ in range(3):
            log.topic("t")[number].append([Record(b"x" * 900_000)])
    with log.consumer("t", auto_offset_reset="earliest", fetch_max_bytes=1_000_000) as consumer:
        found = [record.partition for _ in range(6) for record in consumer.poll(1000, max_records=1)]
    assert sorted(found) == [0, 0, 0, 1, 1, 1] and len(set(found[:4])) == 2, found


def test_min_bytes_beyond_max_bytes_do_not_wait_for_ever(log: pylog.Log) -> None:
    log.topic("t")[0].append([Record(b"x" * 1000)])
    assert fetch(log, max_wait_ms=HANG_SECONDS * 1000, min_bytes=1 << 30, max_bytes=500).done()


def test_a_fetch_answers_with_nothing_when_its_time_is_up(log: pylog.Log) -> None:
    assert sizes(fetch(log, max_wait_ms=0).result(0)) == [0, 0]
    assert sizes(fetch(log, max_wait_ms=10).result(HANG_SECONDS)) == [0, 0]


def test_a_fetch_outside_the_log_is_answered_at_once(log: pylog.Log) -> None:
    part = fetch(log, 5, max_wait_ms=HANG_SECONDS * 1000).result(0).parts[0]
    assert isinstance(part.error, errors.OffsetOutOfRange) and part.log_start_offset == 0
    message = Fetch([FetchPart("t", 9, 0), FetchPart("nope", 0, 0)])
    parts = log.broker.handle(message, SESSION).result(0).parts
    assert [type(part.error) for part in parts] == [errors.UnknownTopicOrPartition] * 2


def test_a_topic_may_go_while_a_fetch_waits_for_it(log: pylog.Log) -> None:
    waiting = fetch(log, max_wait_ms=30)
    log.delete_topic("t")
    assert isinstance(waiting.result(HANG_SECONDS).parts[0].error, errors.UnknownTopicOrPartition)


def test_a_close_answers_waiting_requests(tmp_path: Path) -> None:
    with ExitStack() as closing:
        pair = Pair(tmp_path, closing, "none")
        pair.lead(1)
        produced = produce(pair.logs[1], b"x", timeout_ms=HANG_SECONDS * 1000)
        waiting = fetch(pair.logs[1], max_wait_ms=HANG_SECONDS * 1000)
        pair.logs[1].close()
        assert isinstance(produced.result(0).parts[0].error, errors.RequestTimedOut)
        assert waiting.result(0).parts[0].error is None


def test_parts_fail_alone(log: pylog.Log) -> None:
    asked = [
        ProduceRequest.of(topic, partition, encode([Record(b"x")], now_ms=1))
        for topic, partition in (("t", 0), ("t", 7), ("nope", 0), ("t", 1))
    ]
    produced = log.broker.handle(together(*asked), SESSION).result(0)
    assert [type(part.error) for part in produced.parts] == [
        type(None), errors.UnknownTopicOrPartition, errors.UnknownTopicOrPartition, type(None),
    ]  # fmt: skip
    assert [len(list(p.records())) for p in log.topic("t")] == [1, 1]


# --- durability -------------------------------------------------------------------------------------------------------


def test_interval_makes_durable_within_its_time(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="interval", config={"flush.interval.ms": 5}) as log:
        partition = log.create_topic("t")[0]
        partition.append([Record(b"x")])
        assert partition.high_watermark == 1
        wait_for(lambda: partition.durable_offset == 1)
        with pylog.open(tmp_path, mode="read") as reader:
            wait_for(lambda: reader.topic("t")[0].durable_offset == 1)


def test_flush_makes_everything_durable(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as log:
        topic = log.create_topic("t", partitions=3)
        for partition in topic:
            partition.append([Record(b"x")])
        assert [partition.durable_offset for partition in topic] == [0, 0, 0]
        log.flush()
        assert [partition.durable_offset for partition in topic] == [1, 1, 1]


class FailingFile:
    """A file whose syncs fail: everything else is the real one's."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        raise errors.StorageError(f"cannot sync {self._file.path}: Input/output error")


class FailingFiles(DiskFiles):
    """A disk on which the files of one folder cannot be synced."""

    failing = "bad-0/"

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        file = super().open(path, create=create, kept=kept)
        return FailingFile(file) if self.failing in path and path.endswith(".log") else file  # type: ignore[return-value]


def test_a_failed_sync_latches_one_partition_and_the_rest_goes_on(tmp_path: Path) -> None:
    broker = Broker(
        FailingFiles(), [str(tmp_path / "log")], config=NodeConfig(), clock=SimClock(1),
        transport=pylog.MemoryTransport(), node_id=None, flush="sync",
    )  # fmt: skip
    for name in ("bad", "good"):
        broker.node.changes.create_topic(NewTopic(name))

    def send(topic: str) -> Any:
        answer = broker.handle(ProduceRequest.of(topic, 0, encode([Record(b"x")], now_ms=1)), SESSION)
        answer.drive()
        return answer.result(0).parts[0].error

    assert isinstance(send("bad"), errors.DurabilityUnknown)
    assert isinstance(send("bad"), errors.PartitionFailed)
    assert send("good") is None
    assert broker.partition("bad", 0).high_watermark == 0, "what may be lost was never shown"
    with pytest.raises(errors.PartitionFailed):
        broker.sync()
    broker.close()
    with pylog.open(tmp_path / "log") as log:
        assert [record.value for record in log.topic("good")[0].records()] == [b"x"]
        log.topic("bad")[0].append([Record(b"again")])


class BlockingClock(SimClock):
    """A clock of which each look is a millisecond later; the last look that a thread has left waits to be let go."""

    __slots__ = ("left", "let_go", "looked")

    def __init__(self) -> None:
        super().__init__(wall_ms=NOW)
        self.left: dict[int, int] = {}
        self.looked, self.let_go = threading.Event(), threading.Event()

    def wall_ms(self) -> int:
        self.advance(1)
        found = super().wall_ms()
        left = self.left.pop(threading.get_ident(), 0)
        if left > 1:
            self.left[threading.get_ident()] = left - 1
        if left == 1:
            self.looked.set()
            assert self.let_go.wait(HANG_SECONDS)
        return found


def test_the_append_time_of_a_log_does_not_go_back_where_threads_append(tmp_path: Path) -> None:
    clock = BlockingClock()
    config = {"message.timestamp.type": "LogAppendTime"}
    with pylog.open(tmp_path / "log", flush="none", clock=clock) as log:
        partition = log.create_topic("t", config=config)[0]
        partition.append([Record(b"first")])

        def late() -> None:
            # That of the call, and the last one before the lock.
            clock.left = {threading.get_ident(): 2}
            partition.append([Record(b"late")])

        thread = threading.Thread(target=late)
        thread.start()
        assert clock.looked.wait(HANG_SECONDS)
        partition.append([Record(b"between")])
        clock.let_go.set()
        thread.join(HANG_SECONDS)
        records = list(partition.records(0))
        assert [record.value for record in records] == [b"first", b"between", b"late"]
        stamps = [record.timestamp for record in records]
        assert stamps == sorted(stamps)
