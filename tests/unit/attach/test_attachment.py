import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.attach.places import peer_of
from pylog.errors import (
    Closed,
    DirectoryReplaced,
    DiskFull,
    DurabilityUnknown,
    InvalidConfig,
    NetworkError,
    NotOwner,
    PylogError,
    RequestTimedOut,
    TopicAlreadyExists,
    Undelivered,
    UnknownTopicOrPartition,
)
from pylog.files import DiskFiles
from pylog.logdirs.log_directory import INCARNATION
from pylog.runtime.clock import MovableClock
from support.clients.values import until
from support.other_process import other_process

NOT_DELIVERED = RequestTimedOut, NetworkError
"""What a record ends with that no owner took in time: the second one where a try fails at the very end of it."""
AT_THE_END = r"|cannot be reached|was lost"


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log", flush="none") as log:
        yield log


@pytest.fixture
def attached(owner: pylog.Log) -> Iterator[pylog.Log]:
    with pylog.open(owner.path) as log:
        yield log


def values(log: pylog.Log, topic: str = "t") -> list[bytes | None]:
    return [record.value for part in log.topic(topic) for record in part.records()]


def test_an_attached_log_says_that_it_is_one(owner: pylog.Log, attached: pylog.Log) -> None:
    assert (owner.mode, attached.mode, attached.node_id) == ("own", "attach", owner.node_id)
    assert repr(attached) == f"<Log {owner.path} node 1, attach>"


def test_topics_are_made_and_changed_by_an_attached_process(owner: pylog.Log, attached: pylog.Log) -> None:
    view = attached.create_topic("t", 2, {"retention.ms": 1000})
    assert len(view) == 2 and view.overrides == {"retention.ms": "1000"}
    assert owner.topic("t").id == view.id
    attached.alter_config("t", {"retention.ms": 2000})
    assert owner.topic("t").config.retention_ms == 2000
    attached.create_partitions("t", 3)
    assert len(attached.topic("t")) == len(owner.topic("t")) == 3
    with pytest.raises(TopicAlreadyExists):
        attached.create_topic("t")
    with pytest.raises(InvalidConfig):
        attached.create_topic("u", config={"retention": 1})
    attached.delete_topic("t")
    assert owner.topics() == attached.topics() == []
    with pytest.raises(UnknownTopicOrPartition):
        attached.topic("t")


def test_records_go_both_ways(owner: pylog.Log, attached: pylog.Log) -> None:
    owner.create_topic("t")
    with attached.producer() as producer, owner.producer() as beside:
        producer.send("t", b"a").result()
        beside.send("t", b"b").result()
        assert producer.send("t", b"c").result().offset == 2
    with attached.consumer("t", auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(60_000)] == [b"a", b"b", b"c"]
    assert values(owner) == values(attached) == [b"a", b"b", b"c"]


def test_a_view_appends_by_the_owner_and_reads_the_files(owner: pylog.Log, attached: pylog.Log) -> None:
    part = attached.create_topic("t")[0]
    assert part.cleaning is None
    appended = part.append([Record(b"a"), Record(b"b")])
    assert (appended.base_offset, appended.next_offset) == (0, 2)
    assert (part.start_offset, part.high_watermark, part.next_offset) == (0, 2, 2)
    assert [segment.next_offset for segment in part.segments] == [2]
    part.check()
    with pytest.raises(PylogError, match=r"max\.message\.bytes"):
        part.append([Record(b"x" * (2 << 20))])


def test_a_consumer_of_an_attached_process_is_woken_by_the_owner(owner: pylog.Log, attached: pylog.Log) -> None:
    part = owner.create_topic("t")[0]
    found: list[bytes | None] = []
    with attached.consumer("t", auto_offset_reset="earliest") as consumer:
        thread = threading.Thread(target=lambda: found.extend(r.value for r in consumer.poll(20_000)))
        thread.start()
        part.append([Record(b"a")])
        thread.join()
    assert found == [b"a"]


def test_a_group_has_members_in_both_processes(owner: pylog.Log, attached: pylog.Log) -> None:
    part = owner.create_topic("t")[0]
    part.append([Record(b"a"), Record(b"b")])
    with attached.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(60_000)) == 2
        consumer.commit()
    with owner.consumer("t", group_id="g") as consumer:
        assert consumer.poll(0) == [] and consumer.committed([TopicPartition("t", 0)]) is not None
    assert attached.admin.list_groups()[0].group_id == "g"


def test_a_transaction_of_an_attached_process(owner: pylog.Log, attached: pylog.Log) -> None:
    owner.create_topic("t")
    with attached.producer(transactional_id="x") as producer:
        with producer.transaction():
            producer.send("t", b"a")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("t", b"b")
            raise ZeroDivisionError
    for log in (owner, attached):
        committed = log.topic("t")[0].records(isolation_level="read_committed")
        assert [record.value for record in committed] == [b"a"]


def test_what_only_an_owner_can_do_is_refused(owner: pylog.Log, attached: pylog.Log) -> None:
    for call in (
        attached.apply_retention, attached.clean, attached.find_damage, attached.flush, lambda: attached.broker,
        attached.serve,
    ):  # fmt: skip
        with pytest.raises(NotOwner, match=r"process \d+, the owner of "):
            call()
    assert attached.recovered == attached.quarantined == ()


def test_an_owner_that_closes_hands_over(tmp_path: Path) -> None:
    owner = pylog.open(tmp_path)
    owner.create_topic("t")
    with pylog.open(tmp_path) as log, log.producer() as producer:
        producer.send("t", b"a").result()
        owner.close()
        assert producer.send("t", b"b").result().offset == 1
        assert log.mode == "own"
        log.flush()
        assert values(log) == [b"a", b"b"]
        with pylog.open(tmp_path) as another:
            assert another.mode == "attach" and values(another) == [b"a", b"b"]


def test_a_transaction_goes_on_when_the_owner_closes(tmp_path: Path) -> None:
    owner = pylog.open(tmp_path)
    owner.create_topic("t")
    with pylog.open(tmp_path) as log, log.producer(transactional_id="x", linger_ms=0) as producer:
        with producer.transaction():
            producer.send("t", b"a").result()
            owner.close()
            producer.send("t", b"b").result()
        committed = log.topic("t")[0].records(isolation_level="read_committed")
        assert [record.value for record in committed] == [b"a", b"b"] and log.mode == "own"


@pytest.mark.parametrize("power", [False, True], ids=["killed", "as after a power cut"])
def test_a_transaction_goes_on_when_its_owner_is_killed(tmp_path: Path, power: bool) -> None:
    """After a power cut it may lack records. The process that sees it is of this boot, but its directory may be told
    that it is of another one.
    """
    with other_process(tmp_path) as owner, pylog.open(tmp_path) as log:
        owner.does('log.create_topic("t")')
        may_lack = power or DiskFiles().incarnation(str(tmp_path / "meta.properties")) is None
        with log.producer(transactional_id="x", linger_ms=0) as producer:
            with pytest.raises(PylogError) if may_lack else nullcontext(), producer.transaction():
                producer.send("t", b"a").result()
                if power:
                    (tmp_path / INCARNATION).write_text("another boot")
                owner.kill()
                producer.send("t", b"b").result()
            with producer.transaction():
                producer.send("t", b"c")
        committed = log.topic("t")[0].records(isolation_level="read_committed")
        assert [record.value for record in committed] == ([b"c"] if may_lack else [b"a", b"b", b"c"])


def test_a_successor_goes_by_the_settings_of_the_owner(tmp_path: Path) -> None:
    owner = pylog.open(tmp_path, flush="none", config={"num.partitions": 3})
    owner.create_topic("before")
    with pylog.open(tmp_path) as log:
        owner.close()
        assert len(log.create_topic("t", -1)) == 3
        assert log.mode == "own"
        with pylog.open(tmp_path, flush="none", config={"num.partitions": 3}) as another:
            assert another.mode == "attach"


def test_an_owner_with_other_settings_is_not_gone_on_with(tmp_path: Path) -> None:
    """It would acknowledge what was to be synced."""
    clock, owner = MovableClock(), pylog.open(tmp_path, flush="sync")
    owner.create_topic("t")
    with pylog.open(tmp_path, mode="attach", flush="sync", clock=clock) as log:
        producer = log.producer(linger_ms=0)
        producer.send("t", b"a").result()
        owner.close()
        words = r"this process asks for flush='sync'.* goes by flush='none'"
        with other_process(tmp_path, flush="none") as another:
            assert another.mode == "own"
            assert re.search(words + AT_THE_END, not_delivered(clock, producer))
        with pylog.open(tmp_path):
            assert producer.send("t", b"c").result().offset == 1
        producer.close()


def test_an_owner_that_comes_back_with_other_settings_gets_nothing(tmp_path: Path) -> None:
    """It is the same process, at the same socket."""
    with other_process(tmp_path, flush="sync") as owner:
        owner.does('log.create_topic("t")')
        with pylog.open(tmp_path, mode="attach", flush="sync") as log:
            producer = log.producer(
                delivery_timeout_ms=1000, request_timeout_ms=500, max_block_ms=1000, linger_ms=0,
                retry_backoff_ms=1, retry_backoff_max_ms=1, enable_idempotence=False,
            )  # fmt: skip
            with log.producer() as patient:
                patient.send("t", b"a").result()
            owner.begins('log.close(); log = pylog.open(log.path, flush="none")')
            with pytest.raises(NOT_DELIVERED):
                for _ in range(50_000):
                    producer.send("t", b"b").result()
            owner._answer()
            with pytest.raises(NOT_DELIVERED, match="goes by flush='none'" + AT_THE_END):
                producer.send("t", b"c").result()
            with suppress(Undelivered):
                producer.close()


def test_a_process_that_only_attaches_never_takes_over(tmp_path: Path) -> None:
    clock, owner = MovableClock(), pylog.open(tmp_path)
    owner.create_topic("t")
    with pylog.open(tmp_path, mode="attach", clock=clock) as log, log.producer(linger_ms=0) as producer:
        producer.send("t", b"a").result()
        owner.close()
        words = r"process \d+, the owner of .* which has ended \(no "
        assert re.search(words + AT_THE_END, not_delivered(clock, producer))
        assert log.mode == "attach"
        with pylog.open(tmp_path) as second:
            assert second.mode == "own"
            assert producer.send("t", b"c").result().offset == 1


def test_the_owner_is_killed_and_another_takes_over(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner:
        owner.does('log.create_topic("t")')
        with pylog.open(tmp_path) as log, log.producer() as producer:
            producer.send("t", b"a").result()
            owner.kill()
            assert producer.send("t", b"b").result().offset == 1
            assert log.mode == "own"
            assert values(log) == [b"a", b"b"]
            assert log.metrics().total("MessagesInPerSec", topic="t") == 1
            assert log.metrics().total("record-send-total", topic="t") >= 2


def test_a_successor_answers_others_while_a_callback_of_its_own_waits(tmp_path: Path) -> None:
    """It may wait for what another thread holds that sends: under a lock of the program's, say."""
    begun, free = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        free.wait(240)

    with other_process(tmp_path) as owner, pylog.open(tmp_path) as log, log.producer(linger_ms=0) as producer:
        owner.does('log.create_topic("t")')
        producer.send("t", b"a").result()
        owner.stop()
        producer.send("t", b"b").add_done_callback(wait)
        owner.go_on()
        assert begun.wait(240)
        owner.kill()
        with pylog.open(tmp_path, mode="attach", wait=20) as another:
            sent = producer.send("t", b"c")
            assert another.topics() == ["t"]
        free.set()
        assert sent.result().offset == 2


def test_one_of_two_takes_over_and_the_other_goes_on(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner, other_process(tmp_path) as first, pylog.open(tmp_path) as second:
        owner.does('log.create_topic("t")')
        assert first.does('producer = log.producer(); producer.send("t", b"a").result()', "log.mode") == "attach"
        with second.producer() as producer:
            owner.kill()
            first.begins('producer.send("t", b"b").result()', "log.mode")
            producer.send("t", b"c").result()
            modes = {first._answer(), second.mode}
        assert modes == {"own", "attach"}
        assert sorted(map(str, values(second))) == ["b'a'", "b'b'", "b'c'"]


def test_a_stopped_owner_is_never_robbed(tmp_path: Path) -> None:
    clock = MovableClock()
    with other_process(tmp_path) as owner:
        owner.does('log.create_topic("t")')
        with pylog.open(tmp_path, clock=clock) as log:
            producer = log.producer(linger_ms=0)
            producer.send("t", b"a").result()
            owner.stop()
            assert f"process {owner.pid}, the owner of " in not_delivered(clock, producer)
            with pylog.open(tmp_path, wait=0.1) as late:
                assert log.mode == late.mode == "attach"
            owner.go_on()
            assert producer.send("t", b"c").result().offset in (1, 2)
            producer.close()
            assert log.mode == "attach" and values(log)[-1] == b"c"


def test_every_call_that_waits_for_a_stopped_owner_ends_with_its_pid(tmp_path: Path) -> None:
    clock, at = MovableClock(), [TopicPartition("t", 0)]
    with other_process(tmp_path) as owner:
        owner.does("log.create_topic('t')")
        log = pylog.open(tmp_path, clock=clock)
        producer = log.producer(linger_ms=0)
        writer = log.producer(transactional_id="x")
        consumer, other = log.consumer(group_id="g", auto_offset_reset="earliest"), log.consumer()
        consumer.assign(at)
        other.assign(at)
        writer.begin()
        for sender in (producer, writer):
            sender.send("t", b"a").result()
        log.topics()
        owner.stop()
        calls: dict[str, Callable[[], object]] = {
            "create_topic": lambda: log.create_topic("u"),
            "delete_topic": lambda: log.delete_topic("t"),
            "alter_config": lambda: log.alter_config("t", {"retention.ms": 1000}),
            "delete_records": lambda: log.delete_records({at[0]: 1}),
            "topics": log.topics,
            "append": lambda: log.topic("t")[0].append([Record(b"b")]),
            "list_groups": log.admin.list_groups,
            "describe_group": lambda: log.admin.describe_group("g"),
            "send": lambda: producer.send("t", b"c").result(),
            "partitions_for": lambda: producer.partitions_for("u"),
            "commit of a transaction": writer.commit,
            "a transactional producer": lambda: log.producer(transactional_id="y").begin(),
            "end_offsets": lambda: other.end_offsets(at),
            "position": lambda: other.position(at[0]),
            "committed": lambda: consumer.committed(at),
            "commit": lambda: consumer.commit({at[0]: 1}),
        }
        told = {name: ended(clock, call) for name, call in calls.items()}
        unnamed = {name: error for name, error in told.items() if f"process {owner.pid}, the owner" not in error}
        assert unnamed == {}
        owner.go_on()
        log.close()


def ended(clock: MovableClock, call: Callable[[], object]) -> str:
    """What a call raises that waits for an answer, while time goes by."""
    raised = []

    def run() -> None:
        try:
            raised.append(f"nothing: {call()!r}")
        except (PylogError, TimeoutError) as error:
            raised.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: clock.advance(5000) or raised)
    thread.join()
    return raised[0]


def not_delivered(clock: MovableClock, producer: pylog.Producer) -> str:
    """The error of a record that no owner takes, while time goes by."""
    error = ended(clock, lambda: producer.send("t", b"b").result())
    assert error.partition(":")[0] in [one.__name__ for one in NOT_DELIVERED]
    return error


def test_a_directory_that_is_replaced_is_not_taken_over(tmp_path: Path) -> None:
    clock, owner = MovableClock(), pylog.open(tmp_path / "log")
    owner.create_topic("t")
    with pylog.open(tmp_path / "log", clock=clock) as log, log.producer(linger_ms=0) as producer:
        producer.send("t", b"a").result()
        (tmp_path / "log").rename(tmp_path / "away")
        with pytest.raises(DirectoryReplaced):
            owner.close()
        assert not_delivered(clock, producer)
        assert not (tmp_path / "log").exists() and log.mode == "attach"


def test_closing_an_attached_log_delivers_what_was_sent(owner: pylog.Log) -> None:
    owner.create_topic("t")
    with pylog.open(owner.path) as log:
        producer = log.producer(linger_ms=60_000)
        producer.send("t", b"a")
    assert values(owner) == [b"a"]
    with pytest.raises(Closed, match=r"open .* again"):
        log.topics()


def test_an_append_that_waits_for_an_owner_ends_with_the_log(tmp_path: Path) -> None:
    owner = pylog.open(tmp_path)
    owner.create_topic("t")
    log = pylog.open(tmp_path, mode="attach")
    part = log.topic("t")[0]
    owner.close()
    ended = threading.Event()

    def append() -> None:
        while not ended.is_set():
            try:
                part.append([Record(b"a")])
            except DurabilityUnknown:
                continue
            except Closed:
                ended.set()

    thread = threading.Thread(target=append)
    thread.start()
    while log._attachment is None or log._attachment._has_owner.is_set():
        ended.wait(0.01)
    log.close()
    thread.join()
    assert ended.is_set()


def test_records_that_no_owner_took_are_told_at_the_end(tmp_path: Path) -> None:
    clock, owner = MovableClock(), pylog.open(tmp_path)
    owner.create_topic("t")
    log = pylog.open(tmp_path, mode="attach", clock=clock)
    producer = log.producer(linger_ms=0)
    producer.send("t", b"a").result()
    owner.close()
    producer.send("t", b"b")
    assert ended(clock, log.close).startswith("Undelivered")


def test_an_append_that_its_owner_did_not_answer_is_in_doubt(tmp_path: Path) -> None:
    with other_process(tmp_path) as owner, pylog.open(tmp_path) as log:
        part = log.create_topic("t")[0]
        part.append([Record(b"a")])
        owner.stop()
        threading.Timer(0.2, owner.kill).start()
        with pytest.raises(DurabilityUnknown, match=rf"whether process {owner.pid}, the owner of .* is not known"):
            part.append([Record(b"b")])
        until(lambda: log.mode == "own")
        assert part.append([Record(b"c")]).base_offset in (1, 2)
        assert part.cleaning is None


def test_a_door_that_cannot_be_opened_opens_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, broker: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("pylog.attach.doorway.Doorway.open", fail)
        with pytest.raises(ZeroDivisionError):
            pylog.open(tmp_path)
    with pylog.open(tmp_path, mode="own") as log:
        assert log.mode == "own"


def test_a_peer_is_not_seen_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one) == os.getpid()
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert peer_of(one) == 0


def test_an_attachment_of_the_parent_refuses_in_a_child(attached: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    attachment = attached._attachment
    part = attached.create_topic("t")[0]
    with monkeypatch.context() as forked:
        forked.setattr(attachment, "_is_forked", True)
        with pytest.raises(Closed, match="before the process forked"):
            part.append([Record(b"a")])
        with pytest.raises(Closed, match="before the process forked"):
            attached.topics()
    assert part.append([Record(b"a")]).base_offset == 0


def test_a_disk_that_is_full_is_told_on_both_sides_of_the_socket(tmp_path: Path) -> None:
    """The disk is the size that a file of the owner may have."""
    with other_process(tmp_path) as owner, pylog.open(tmp_path) as log, log.producer(linger_ms=0) as producer:
        owner.does('log.create_topic("t")')
        producer.send("t", b"1" * 100_000).result()
        owner.does(
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))"
        )
        with pytest.raises(DiskFull, match="cannot write"):
            producer.send("t", b"2" * 150_000).result()
        with pytest.raises(DiskFull, match="cannot write"):
            log.topic("t")[0].append([Record(b"2" * 150_000)])
        owner.does("resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)")
        assert producer.send("t", b"3").result().offset == 1
