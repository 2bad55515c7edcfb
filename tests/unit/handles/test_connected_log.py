"""`pylog.connect` against `pylog.serve`: what a client does by sockets, and what becomes of it when they break."""

import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest

import pylog
from pylog.client.network.call import Call
from pylog.client.network.network import Network
from pylog.config.connection import ConnectionConfig
from pylog.errors import (
    Closed,
    GroupIdNotFound,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    LogDirNotFound,
    NetworkError,
    NotLocal,
    ProducerFenced,
    RequestTimedOut,
    TopicAlreadyExists,
    TransactionAborted,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import ConfigSource, DescribeQuorum, Message, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import DescribeProducersRequest
from pylog.runtime.clock import SystemClock
from pylog.runtime.closing import settle
from pylog.runtime.future import Future, completed
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from pylog.transport import ANY_NODE
from support.clients.values import until
from support.patience import HANG_SECONDS, give_up_early

T0 = pylog.TopicPartition("t", 0)


# Members hear of each other at their next heartbeat.
HEARTBEATS = {"group.consumer.heartbeat.interval.ms": 20, "group.consumer.min.heartbeat.interval.ms": 20}


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve(":memory:", config=HEARTBEATS) as served:
        yield served


@pytest.fixture
def log(server: Server) -> Iterator[pylog.ConnectedLog]:
    with pylog.connect(server.bootstrap_servers) as connected:
        yield connected


def values(log: pylog.ConnectedLog, topic: str = "t", **config: Any) -> list[bytes | None]:
    """All values of a topic, partition by partition."""
    return [one.value for part in log.topic(topic) for one in part.records(**config)]


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_come_back_as_they_were_sent(log: pylog.ConnectedLog, codec: str) -> None:
    log.create_topic("t", 2)
    with log.producer(compression_type=codec) as producer:
        futures = [
            producer.send("t", b"v%d" % i, key=b"k%d" % (i % 3), headers=[("h", b"x")], timestamp_ms=i)
            for i in range(50)
        ]
        producer.flush()
        placed = {(f.result(HANG_SECONDS).partition, f.result(HANG_SECONDS).offset): i for i, f in enumerate(futures)}
    with log.consumer("t", auto_offset_reset="earliest", consumer_timeout_ms=300) as consumer:
        got = list(consumer)
    assert {(r.partition, r.offset): int((r.value or b"")[1:]) for r in got} == placed
    assert all(r.headers == (("h", b"x"),) and r.timestamp == int((r.value or b"")[1:]) for r in got)


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_records_are_stored_whatever_acks_they_ask_for(log: pylog.ConnectedLog, acks: str | int) -> None:
    log.create_topic("t")
    with log.producer(acks=acks, linger_ms=0) as producer:
        for i in range(100):
            producer.send("t", b"%d" % i)
    with log.consumer("t", auto_offset_reset="earliest") as consumer:
        got: list[bytes | None] = []
        while len(got) < 100:
            got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
    assert got == [b"%d" % i for i in range(100)]


def test_answers_of_many_mebibytes_are_received(log: pylog.ConnectedLog) -> None:
    log.create_topic("t", 3, {"max.message.bytes": 16 << 20})
    sent = [b"%d" % i * (4 << 20) for i in range(6)]
    with log.producer(max_request_size=16 << 20, buffer_memory=64 << 20) as producer:
        for i, value in enumerate(sent):
            producer.send("t", value, partition=i % 3)
    with log.consumer("t", auto_offset_reset="earliest", max_partition_fetch_bytes=16 << 20) as consumer:
        got: list[bytes | None] = []
        while len(got) < len(sent):
            got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
    assert sorted(value or b"" for value in got) == sent


def test_many_threads_share_one_producer(log: pylog.ConnectedLog) -> None:
    log.create_topic("t", 4)
    with log.producer(linger_ms=1) as producer:

        def send(name: int) -> None:
            for i in range(200):
                producer.send("t", b"%d:%d" % (name, i), key=b"%d" % name)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found: dict[int, list[int]] = {}
    for value in values(log):
        name, number = (value or b"").split(b":")
        found.setdefault(int(name), []).append(int(number))
    assert found == {name: list(range(200)) for name in range(4)}


def test_a_record_that_is_too_large_for_its_topic_is_refused(log: pylog.ConnectedLog) -> None:
    log.create_topic("t", config={"max.message.bytes": 1000})
    with log.producer() as producer:
        error = producer.send("t", b"x" * 5000).exception(HANG_SECONDS)
        assert type(error).__name__ == "RecordTooLarge"
        batch = producer.send_many("t", [b"x" * 300] * 10)
        producer.flush()
        assert sorted(one.result(HANG_SECONDS).offset for one in batch) == list(range(10))


def test_a_callback_that_waits_for_an_answer_is_told_so(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    told: list[BaseException] = []
    with log.producer() as producer:

        def ask(_: Any) -> None:
            try:
                log.topics()
            except RuntimeError as error:
                told.append(error)

        future = producer.send("t", b"x")
        future.add_done_callback(ask)
        future.result(HANG_SECONDS)
        producer.flush()
    assert "the thread that brings the answers" in str(told[0])
    assert log.topics() == ["t"]


# --- transactions -----------------------------------------------------------------------------------------------------


def test_a_transaction_is_read_when_it_is_committed_and_never_when_it_is_aborted(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    with log.producer(transactional_id="tx") as producer:
        with producer.transaction():
            producer.send("t", b"committed")
            producer.send_offsets({T0: 7}, "g")
        producer.begin()
        producer.send("t", b"aborted").result(HANG_SECONDS)
        lost = producer.send("t", b"unsent")
        producer.abort()
        assert lost.exception(HANG_SECONDS) is None or isinstance(lost.exception(HANG_SECONDS), TransactionAborted)
    assert values(log, isolation_level="read_committed") == [b"committed"]
    assert log.admin.committed("g")[T0].offset == 7
    assert log.admin.describe_transaction("tx").state == "CompleteAbort"


def test_a_second_producer_of_a_transactional_id_fences_the_first(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    first = log.producer(transactional_id="tx")
    first.begin()
    first.send("t", b"x").result(HANG_SECONDS)
    with log.producer(transactional_id="tx") as second, second.transaction():
        second.send("t", b"y")
    with pytest.raises(ProducerFenced):
        first.commit()
    first.close()
    assert values(log, isolation_level="read_committed") == [b"y"]


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_shares_a_topic_and_goes_on_where_it_was(log: pylog.ConnectedLog, protocol: str) -> None:
    log.create_topic("t", 4)
    with log.producer() as producer:
        for i in range(40):
            producer.send("t", b"%d" % i, partition=i % 4)
    config: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    config |= {"heartbeat_interval_ms": 20} if protocol == "classic" else {}
    got: list[bytes | None] = []
    with log.consumer("t", **config) as one, log.consumer("t", **config) as other:
        while len(got) < 40 or len(one.assignment()) != 2 or len(other.assignment()) != 2:
            for consumer in (one, other):
                got += [record.value for record in consumer.poll(50)]
        assert one.assignment() | other.assignment() == {pylog.TopicPartition("t", i) for i in range(4)}
        found = log.admin.describe_group("g")
        assert (found.state, found.type.lower(), len(found.members)) == ("Stable", protocol, 2)
        assert found.coordinator == 1
    assert sorted(int(value or b"") for value in set(got)) == list(range(40))
    with log.consumer("t", **config) as again:
        assert again.poll(300) == []
    assert {lag.lag for lag in log.admin.lag("g").values()} == {0}


def test_a_member_that_leaves_gives_its_partitions_to_the_others(log: pylog.ConnectedLog) -> None:
    log.create_topic("t", 2)
    config: dict[str, Any] = {"group_id": "g", "heartbeat_interval_ms": 20}
    with log.consumer("t", **config) as one:
        other = log.consumer("t", **config)
        while len(one.assignment()) != 1 or len(other.assignment()) != 1:
            one.poll(20)
            other.poll(20)
        other.close()
        while len(one.assignment()) != 2:
            one.poll(100)


def test_positions_are_committed_and_looked_up(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    with log.producer() as producer:
        for i in range(10):
            producer.send("t", b"%d" % i, timestamp_ms=1000 + i)
    with log.consumer("t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        while consumer.poll(1000, max_records=3) == []:
            pass
        consumer.commit()
        told: list[Any] = []
        consumer.commit_async({T0: 4}, lambda offsets, error: told.append((offsets[T0].offset, error)))
        while not told:
            consumer.poll(10, max_records=1)
        assert told == [(4, None)]
        found = consumer.committed([T0])[T0]
        assert found is not None
        assert found.offset == 4
        assert (consumer.beginning_offsets([T0]), consumer.end_offsets([T0])) == ({T0: 0}, {T0: 10})
        at = consumer.offsets_for_times({T0: 1006})[T0]
        assert at is not None
        assert (at.offset, at.timestamp) == (6, 1006)


# --- administration ---------------------------------------------------------------------------------------------------


def test_topics_are_made_changed_described_and_deleted(log: pylog.ConnectedLog) -> None:
    topic = log.create_topic("t", 2, {"retention.ms": 5000})
    assert (topic.name, len(topic), topic.config["retention.ms"].value) == ("t", 2, "5000")
    with pytest.raises(TopicAlreadyExists):
        log.create_topic("t")
    assert len(log.create_topic("t", exist_ok=True)) == 2
    assert len(log.create_partitions("t", 3)) == 3
    changed = log.alter_config("t", {"segment.bytes": 1 << 20}, delete=["retention.ms"])
    assert {name for name, value in changed.config.items() if value.is_set} == {"segment.bytes"}
    with log.producer() as producer:
        producer.send_many("t", [b"a", b"b", b"c"])
        producer.flush()
    first = next(part for part in log.topic("t") if part.next_offset)
    key = pylog.TopicPartition("t", first.partition)
    assert log.delete_records({key: 2}) == {key: 2}
    assert (first.start_offset, first.high_watermark, first.last_stable_offset) == (2, 3, 3)
    assert first.size > 0
    assert [record.value for record in first.records()] == [b"c"]
    assert first.offset_for_time(0) == 2
    log.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        log.topic("t")
    assert log.topics() == []


def test_a_producer_is_told_of_a_topic_that_is_not_there(log: pylog.ConnectedLog) -> None:
    with log.producer() as producer, pytest.raises(UnknownTopicOrPartition):
        producer.send("nowhere", b"x")
    assert log.topics() == []


def test_a_topic_is_made_by_its_first_record_where_that_is_allowed(server: Server) -> None:
    with pylog.connect(server.bootstrap_servers, allow_auto_create_topics=True) as log:
        with log.producer() as producer:
            assert producer.send("t", b"x").result(HANG_SECONDS).offset == 0
        assert log.topics() == ["t"]


def test_a_client_may_want_its_topics_made_though_the_connection_does_not(log: pylog.ConnectedLog) -> None:
    with log.producer(allow_auto_create_topics=True) as producer:
        assert producer.send("t", b"x").result(HANG_SECONDS).offset == 0
    with log.consumer("u", allow_auto_create_topics=True), log.consumer("v"):
        assert log.topics() == ["t", "u"]


def test_topics_that_no_server_makes_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylog.client.network.transport.CREATION_MS", 200)
    with (
        pylog.serve(":memory:", config={"auto.create.topics.enable": False}) as server,
        pylog.connect(server.bootstrap_servers) as log,
        log.consumer(allow_auto_create_topics=True) as consumer,
        log.producer(allow_auto_create_topics=True, max_block_ms=10_000) as producer,
    ):
        began = SystemClock().tick_ms()
        consumer.subscribe(["a", "b", "c"])
        assert SystemClock().tick_ms() - began >= 200
        monkeypatch.setattr("pylog.client.network.transport.CREATION_MS", 60_000)
        with pytest.raises(UnknownTopicOrPartition):
            producer.send("b", b"x")


def test_groups_and_transactions_and_directories_are_described(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    admin = log.admin
    admin.alter_offsets("g", {T0: 3})
    assert [group.group_id for group in admin.list_groups()] == ["g"]
    assert admin.reset_offsets("g", "earliest", dry_run=True)[T0] == (3, 0)
    admin.delete_offsets("g", [T0])
    admin.alter_offsets("h", {T0: 3})
    admin.delete_group("h")
    with pytest.raises(GroupIdNotFound):
        admin.describe_group("gone")
    with log.producer(transactional_id="tx") as producer:
        producer.begin()
        producer.send("t", b"x").result(HANG_SECONDS)
        assert [one.state for one in admin.list_transactions()] == ["Ongoing"]
        assert [one.producer_epoch for one in admin.describe_producers([T0])[T0]] == [0]
        assert admin.find_hanging_transactions() == []
    assert [T0 in one.partitions for one in admin.describe_log_dirs()] == [True]
    assert admin.describe_node_config()["num.partitions"] == ("1", ConfigSource.DEFAULT_CONFIG, True)


def test_a_topic_that_is_deleted_meanwhile_has_no_hanging_transactions() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")

        def delete_first(message: Message, session: Session) -> Future[Any]:
            if isinstance(message, DescribeProducersRequest) and log.topics():
                log.delete_topic("t")
            return log.broker.handle(message, session)

        node = ServedNode(delete_first, log.broker.node_id, log.broker.configs, SystemClock())
        with Server(node, "127.0.0.1:0") as server, pylog.connect(server.bootstrap_servers) as connected:
            assert connected.admin.find_hanging_transactions() == []
            with pytest.raises(UnknownTopicOrPartition):
                connected.admin.find_hanging_transactions([T0])


def test_columns_come_through_the_network_as_they_are_in_the_log(server: Server, log: pylog.ConnectedLog) -> None:
    topic = log.create_topic("t")
    with log.producer(compression_type="zstd") as producer:
        for n in range(25):
            producer.send("t", b"%d" % n, key=b"k", timestamp_ms=n, headers=[("h", None)] if n % 2 else ())
    here = server.owned
    assert here is not None
    expected = pyarrow.Table.from_batches(here.topic("t")[0].columns())
    assert pyarrow.Table.from_batches(topic[0].columns()).equals(expected)
    batches = list(topic[0].columns(5, 17, columns=["offset", "value"], max_rows=5))
    assert [batch.num_rows for batch in batches] == [5, 5, 2]
    assert pyarrow.Table.from_batches(batches).to_pydict() == {
        "offset": list(range(5, 17)), "value": [b"%d" % n for n in range(5, 17)],
    }  # fmt: skip
    assert topic.to_arrow().equals(here.topic("t").to_arrow()) and topic[0].to_pandas().shape == (25, 8)
    chosen = topic.select(["offset"], partitions=[0], since=5, until=7)
    assert polars.DataFrame(chosen)["offset"].to_list() == [one.offset for one in chosen.records()] == [5, 6]
    assert topic[0].select(["key"], offset=20).to_polars().height == 5
    with pytest.raises(IndexError, match="no partition 1"):
        topic.select(partitions=[1])
    (nothing,) = topic[0].columns(25)
    assert nothing.num_rows == 0
    with pytest.raises(ValueError, match="max_rows is 0"):
        next(topic[0].columns(max_rows=0))


def test_what_needs_files_says_so(log: pylog.ConnectedLog) -> None:
    topic = log.create_topic("t")
    for one, name, way in (
        (log, "find_damage", "pylog repair"), (log, "serve", "connect to it"), (topic[0], "read", "log.consumer"),
        (topic[0], "segments", "where it lies"), (topic[0], "append", "producer"), (log, "flush", "flush"),
        (log, "clean", "pylog topic clean"),
    ):  # fmt: skip
        with pytest.raises(NotLocal, match=f"{name} needs the files of .*: .*{way}"):
            getattr(one, name)
    for one in (log, topic[0]):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            one.nothing()


# --- connections that cannot be made ----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_no_node_that_answers_is_an_error_that_names_each(server: Server) -> None:
    one, other = free_port(), free_port()
    with pytest.raises(NetworkError, match=rf"127\.0\.0\.1:{one}.*127\.0\.0\.1:{other}"):
        pylog.connect([f"127.0.0.1:{one}", f"127.0.0.1:{other}"])
    with pylog.connect(f"127.0.0.1:{one},{server.bootstrap_servers}") as log:
        assert log.topics() == []


def test_a_host_that_has_no_address_is_an_error() -> None:
    with pytest.raises(NetworkError, match=r"nowhere\.invalid"):
        pylog.connect("nowhere.invalid:9092")


def test_what_listens_and_is_no_kafka_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(NetworkError, match="no response"):
            pylog.connect(f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_node_that_is_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises((NetworkError, RequestTimedOut)):
        pylog.connect(f"127.0.0.1:{listener.getsockname()[1]}", request_timeout_ms=200)


def test_bad_configs_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean request\.timeout\.ms"):
        pylog.connect("127.0.0.1:9", request_timeout=5)
    with pytest.raises(InvalidConfig, match=r"needs sasl\.mechanism"):
        pylog.connect("127.0.0.1:9", security_protocol="SASL_SSL")
    with pytest.raises(InvalidConfig, match=r"mean nothing with security\.protocol=PLAINTEXT"):
        pylog.connect("127.0.0.1:9", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")
    with pytest.raises(InvalidConfig, match=r"ssl\.ca\.location"):
        pylog.connect("127.0.0.1:9", security_protocol="SSL", ssl_ca_location="/nowhere.pem")
    with pytest.raises(ValueError, match="no address"):
        pylog.connect("nothing")


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_close_delivers_what_was_sent(server: Server) -> None:
    with pylog.connect(server.bootstrap_servers) as log:
        log.create_topic("t")
        producer = log.producer(linger_ms=60_000, delivery_timeout_ms=100_000)
        futures = [producer.send("t", b"%d" % i) for i in range(100)]
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(Closed):
        producer.send("t", b"x")
    with pytest.raises(Closed, match="connect to"):
        log.topics()
    with pylog.connect(server.bootstrap_servers) as log:
        assert len(values(log)) == 100


def test_a_process_that_ends_without_a_close_delivers_what_was_sent(log: pylog.ConnectedLog, server: Server) -> None:
    log.create_topic("t")
    program = (
        "import pylog, sys\n"
        "log = pylog.connect(sys.argv[1])\n"
        "producer = log.producer(linger_ms=60_000)\n"
        "for i in range(100): producer.send('t', b'x')\n"
    )
    source = str(Path(pylog.__file__).parents[1])
    words = [sys.executable, "-c", program, server.bootstrap_servers]
    subprocess.run(words, check=True, timeout=HANG_SECONDS, env={"PYTHONPATH": source})
    assert len(values(log)) == 100


def test_a_log_that_is_dropped_is_closed_with_a_warning(server: Server) -> None:
    log = pylog.connect(server.bootstrap_servers)
    log.create_topic("t")
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del log
        gc.collect()
    settle()
    assert not [thread for thread in threading.enumerate() if thread.name == "pylog-network"]


def test_a_poll_ends_when_its_log_is_closed(server: Server) -> None:
    log = pylog.connect(server.bootstrap_servers)
    log.create_topic("t")
    consumer = log.consumer("t")
    consumer.poll(0)
    raised: list[BaseException] = []

    def poll() -> None:
        try:
            while True:
                consumer.poll(HANG_SECONDS * 1000)
        except Closed as error:
            raised.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    log.close()
    thread.join(HANG_SECONDS)
    assert len(raised) == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors")
def test_no_thread_and_no_descriptor_is_left_by_a_closed_log(server: Server) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    def left() -> list[str]:
        """The threads of clients that were not there before."""
        kinds = ("pylog-network", "pylog-producer", "pylog-heartbeat")
        return [one.name for one in set(threading.enumerate()) - others if one.name.startswith(kinds)]

    with pylog.connect(server.bootstrap_servers) as log:
        log.create_topic("t")
    before, others = opened(), set(threading.enumerate())
    for _ in range(3):
        with pylog.connect(server.bootstrap_servers) as log:
            with log.producer() as producer:
                producer.send("t", b"x").result(HANG_SECONDS)
            with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.poll(10)
    until(lambda: not left(), patience=HANG_SECONDS)
    # The server closes its ends a moment later.
    until(lambda: opened() <= before, patience=HANG_SECONDS)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_a_closed_log_and_the_parent_goes_on(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    with log.producer() as producer:
        producer.send("t", b"before").result(HANG_SECONDS)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.send("t", b"child")
            except Closed:
                try:
                    log.topics()
                except Closed:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.send("t", b"after").result(HANG_SECONDS)
    assert values(log) == [b"before", b"after"]


# --- a server that goes away and comes back ---------------------------------------------------------------------------


def test_an_idempotent_producer_outlives_restarts_and_nothing_is_lost_or_twice(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    path = str(tmp_path / "log")
    here = pylog.open(path, flush="none")
    here.serve(listen)
    here.create_topic("t", 2)
    count = 600
    with pylog.connect(listen) as log, log.producer(linger_ms=0, retry_backoff_ms=5) as producer:
        futures = []
        for i in range(count):
            if i in (200, 400):
                here.close()
                here = pylog.open(path, flush="none")
                here.serve(listen)
            futures.append(producer.send("t", b"%d" % i, partition=i % 2))
        producer.flush(HANG_SECONDS)
        assert [future.exception(HANG_SECONDS) for future in futures] == [None] * count
        with log.consumer("t", auto_offset_reset="earliest") as consumer:
            got: list[bytes | None] = []
            while len(got) < count:
                got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
    here.close()
    assert sorted(int(value or b"") for value in got) == list(range(count))


def test_a_consumer_reads_on_when_its_server_comes_back(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    path = str(tmp_path / "log")
    here = pylog.open(path, flush="none")
    here.serve(listen)
    here.create_topic("t")
    with here.producer() as producer:
        producer.send("t", b"1")
    config: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5}
    with pylog.connect(listen) as log, log.consumer("t", group_id="g", **config) as consumer:
        got = [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
        consumer.commit()
        here.close()
        consumer.poll(10)
        here = pylog.open(path, flush="none")
        here.serve(listen)
        with here.producer() as producer:
            producer.send("t", b"2")
        while len(got) < 2:
            got += [record.value for record in consumer.poll(HANG_SECONDS * 1000)]
        consumer.commit()
    here.close()
    assert got == [b"1", b"2"]


# --- words, and mistakes ----------------------------------------------------------------------------------------------


def test_a_log_and_its_topics_say_what_they_are(log: pylog.ConnectedLog, server: Server) -> None:
    topic = log.create_topic("t", 2)
    assert repr(log) == f"<Log at {server.bootstrap_servers}>"
    assert (repr(topic), repr(topic[1])) == ("<ConnectedTopic t with 2 partitions>", "<ConnectedPartition t-1>")
    with pytest.raises(IndexError, match="no partition 2; it has 2"):
        topic[2]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        topic[0].nothing()
    assert "secret" not in repr(ConnectionConfig(sasl_password="secret"))


def test_mistakes_are_told_as_in_process(log: pylog.ConnectedLog) -> None:
    log.create_topic("t")
    with pytest.raises(TypeError, match="one by one"):
        log.consumer(["t"])  # type: ignore[arg-type]
    with pytest.raises(InvalidTopic):
        log.consumer("not a name")
    with pytest.raises(UnknownTopicOrPartition):
        log.admin.describe_topic_config("gone")
    with pytest.raises(LogDirNotFound):
        log.move_partition("t", 0, "/nowhere")
    with pytest.raises(InvalidConfig, match=r"ssl\.ca\.location"):
        ConnectionConfig(ssl_ca_location="x")
    with pytest.raises(InvalidConfig, match="together"):
        ConnectionConfig(security_protocol="SSL", ssl_key_location="x")


def test_the_records_of_a_partition_end_where_it_is_asked(log: pylog.ConnectedLog) -> None:
    partition = log.create_topic("t")[0]
    with log.producer() as producer:
        producer.send_many("t", [b"%d" % i for i in range(10)])
    assert [record.offset for record in partition.records(3, 6)] == [3, 4, 5]
    assert list(partition.records(10)) == []


def test_a_network_takes_no_nodes_and_no_messages_between_nodes(log: pylog.ConnectedLog) -> None:
    transport = log._transport
    with pytest.raises(ValueError, match="serve its log"):
        transport.attach(1, lambda message, session: completed(None))
    transport.detach(1)
    error = transport.send(-1, DescribeQuorum(), Session()).exception(HANG_SECONDS)
    assert isinstance(error, InvalidRequest)


def test_a_question_to_all_nodes_fails_with_the_error_of_one() -> None:
    with pylog.serve() as server, pylog.connect(server.bootstrap_servers) as log:
        server.close()
        give_up_early(log._transport)
        with pytest.raises((NetworkError, RequestTimedOut)):
            log.admin.list_groups()
        with pytest.raises((NetworkError, RequestTimedOut)):
            log.admin.describe_group("g")


def test_a_topic_that_a_server_does_not_make_by_itself_is_waited_for() -> None:
    with (
        pylog.open(":memory:", config={"auto.create.topics.enable": "false"}) as here,
        pylog.connect(here.serve().bootstrap_servers, allow_auto_create_topics=True) as log,
        log.producer() as producer,
    ):
        timer = threading.Timer(0.05, here.create_topic, ["t"])
        timer.start()
        assert producer.send("t", b"x").result(HANG_SECONDS).offset == 0
        timer.join()
        log.topics()


def test_a_connection_that_has_failed_since_it_was_given_calls_is_passed_over(log: pylog.ConnectedLog) -> None:
    """The thread of the network ended by an AssertionError, and no call was answered any more."""
    network = log._opened.node
    assert isinstance(network, Network)
    answer = network.future()

    def fail() -> None:
        link = next(iter(network._links))
        call = Call(ANY_NODE, MetadataRequest.of([]), None, Session(), answer, network._clock.tick_ms() + 10_000)
        link.give(call)
        network._dispatch.given[link] = None
        network._fail(link, NetworkError("it was cut"))

    network._submit(fail)
    assert answer.result(HANG_SECONDS).topics == log.topics() == []
