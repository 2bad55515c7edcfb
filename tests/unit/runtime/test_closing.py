"""Logs and clients that nobody closes: what was sent is there, nothing is held, and it is said."""

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.runtime import closing

SEND = """
import sys, pylog

def main():
    log = pylog.open(sys.argv[1])
    log.create_topic("t", partitions=3)
    producer = log.producer(linger_ms={linger})
    for number in range({count}):
        producer.send("t", b"%d" % number)
    {last}

{call}
"""


def run(script: str, path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def values(path: Path) -> set[bytes | None]:
    with pylog.open(path) as log:
        return {record.value for part in log.topic("t") for record in part.records()}


@pytest.mark.parametrize("linger", [0, 10_000])
@pytest.mark.parametrize("last", ["pass", "del log", "del producer, log"])
def test_a_script_that_closes_nothing_has_sent_everything(tmp_path: Path, linger: int, last: str) -> None:
    count = 300_000 if last == "pass" else 3_000
    ended = run(SEND.format(count=count, linger=linger, last=last, call="main()"), tmp_path / "log", "-Wd")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("was dropped without close") == 2, "the producer's and the log's"
    assert len(values(tmp_path / "log")) == count


def test_logs_still_held_at_exit_are_closed_silently(tmp_path: Path) -> None:
    script = SEND.format(count=1000, linger=10_000, last="return log, producer", call="log, producer = main()")
    ended = run(script, tmp_path / "log", "-Wd")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(values(tmp_path / "log")) == 1000


def test_a_script_that_ends_with_an_error_has_sent_everything(tmp_path: Path) -> None:
    ended = run(SEND.format(count=1000, linger=10_000, last="1 / 0", call="main()"), tmp_path / "log", "-Werror")
    assert ended.returncode == 1 and "ZeroDivisionError" in ended.stderr
    assert len(values(tmp_path / "log")) == 1000


def test_a_child_that_forks_closes_nothing_of_its_parents(tmp_path: Path) -> None:
    script = SEND.format(
        count=10,
        linger=10_000,
        last="return log, producer",
        call="""
import os
log, producer = main()
if not os.fork():
    del log, producer
    sys.exit()
print(os.waitstatus_to_exitcode(os.wait()[1]))
""",
    )
    ended = run(script, tmp_path / "log", "-Wd")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n", "")
    assert len(values(tmp_path / "log")) == 10


def test_dropped_producers_deliver_and_leave_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        for number in range(60):
            with pytest.warns(ResourceWarning, match=r"<Producer .*> of <Log .* was dropped without close"):
                log.producer(linger_ms=60_000).send("t", b"%d" % number)
        closing.settle()
        assert not [one for one in set(threading.enumerate()) - before if one.name == "pylog-producer"]
        assert {record.value for record in log.topic("t")[0].records()} == {b"%d" % number for number in range(60)}


def test_a_log_waits_for_records_of_its_dropped_producers(tmp_path: Path) -> None:
    with pylog.open(tmp_path, flush="none") as log:
        log.create_topic("t")
        with pytest.warns(ResourceWarning):
            future = log.producer(linger_ms=60_000).send("t", b"x")
    assert future.result(0).offset == 0


def drop_at_once(make: Callable[[], object]) -> None:
    make()


def drop_in_a_circle(make: Callable[[], object]) -> None:
    circle: list[object] = [make()]
    circle.append(circle)
    del circle
    gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("drop", [drop_at_once, drop_in_a_circle])
def test_a_directory_is_free_when_its_log_was_dropped(tmp_path: Path, drop: Callable[[Any], None]) -> None:
    def make() -> object:
        log = pylog.open(tmp_path)
        log.create_topic("t", exist_ok=True)
        producer = log.producer(linger_ms=60_000)
        producer.send("t", b"x")
        return log, producer, log.consumer("t"), log.consumer("t", group_id="g")

    for _ in range(3):
        drop(make)
    with pylog.open(tmp_path) as log:
        assert len(list(log.topic("t")[0].records())) == 3


def test_a_log_in_a_circle_is_not_closed_before_its_producer(tmp_path: Path) -> None:
    """All that is dropped by then is closed when a slow handler of warnings comes back."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: closing.settle()
        for number in range(5):
            log = pylog.open(tmp_path / str(number))
            log.create_topic("t")
            producer = log.producer(linger_ms=60_000)
            future = producer.send("t", b"x")
            circle: list[object] = [log, producer]
            circle.append(circle)
            del log, producer, circle
            gc.collect()
            closing.settle()
            assert future.result(0).offset == 0
            assert values(tmp_path / str(number)) == {b"x"}


def test_a_producer_whose_log_is_closed_fails_its_futures(tmp_path: Path) -> None:
    """The log was closed without it."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t")
        producer = log.producer(linger_ms=60_000)
        future = producer.send("t", b"x")
        log._opened.clients.discard(producer._client)
    del producer
    closing.settle()
    assert isinstance(future.exception(0), errors.Closed)


def test_a_directory_that_another_one_holds_stays_locked(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning):
        pylog.open(tmp_path / "dropped")
    with pylog.open(tmp_path / "held"), pytest.raises(errors.DirectoryLocked, match=str(os.getpid())):
        pylog.open(tmp_path / "held", mode="own")
    with pytest.raises(errors.DirectoryLocked), pylog.open(tmp_path / "held"):
        pylog.open(tmp_path / "held", mode="own")


def test_objects_made_by_a_log_keep_it_open() -> None:
    def made(make: Callable[[pylog.Log], Any]) -> Any:
        log = pylog.open(":memory:")
        log.create_topic("t")
        return make(log)

    for make, use in (
        (lambda log: log.topic("t"), lambda topic: topic[0].append([pylog.Record(b"x")])),
        (lambda log: log.topic("t")[0], lambda part: part.append([pylog.Record(b"x")])),
        (lambda log: log.admin, lambda admin: admin.topics()),
        (lambda log: log.producer(), lambda producer: producer.send("t", b"x").result()),
        (lambda log: log.consumer("t"), lambda consumer: consumer.poll()),
        (lambda log: log.consumer("t", group_id="g"), lambda consumer: consumer.poll()),
    ):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            one = made(make)
            use(one)
            assert not warned
            del one
            assert warned, "it was the last one"


def test_a_dropped_member_leaves_its_group_and_commits_nothing() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")[0].append([pylog.Record(b"x")])

        def consume() -> None:
            consumer = log.consumer("t", group_id="g", auto_offset_reset="earliest")
            while not consumer.poll(timeout_ms=100):
                pass
            assert log.admin.describe_group("g").members

        with pytest.warns(ResourceWarning, match="a consumer of group 'g'"):
            consume()
        closing.settle()
        assert not log.admin.describe_group("g").members
        assert not [one for one in threading.enumerate() if one.name == "pylog-heartbeat"]
        with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            assert consumer.committed([pylog.TopicPartition("t", 0)]) == {pylog.TopicPartition("t", 0): None}


def test_clients_that_are_closed_or_hold_nothing_may_be_dropped() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.producer().close()
        log.consumer("t", group_id="g").close()
        log.consumer("t")
        with pytest.raises(errors.InvalidTopic):
            log.consumer("a b", group_id="g")
        producer, consumer = log.producer(), log.consumer("t", group_id="g")
    del producer, consumer, log


def test_a_log_that_cannot_be_closed_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = pylog.open(tmp_path)
    node: Any = log.broker.node
    close = node.close

    def fail() -> None:
        close()
        raise errors.StorageError("no disk")

    node.close = fail
    with pytest.warns(ResourceWarning):
        del log
    closing.settle()
    assert "could not be closed whole" in caplog.text and "no disk" in caplog.text


def test_where_no_thread_can_be_had_the_next_open_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(closing, "start_new_thread", none)
    with pytest.warns(ResourceWarning):
        pylog.open(tmp_path).create_topic("t")
    assert closing.has_dropped()
    with pylog.open(tmp_path) as log:
        assert log.topics() == ["t"] and not log.recovered
