"""The examples do what they say."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import uvicorn
import uvloop

import pylog
from examples import aio_web, bank, fan_out, http_queue, outbox, warm_standby, work_queue
from support.clients.values import until

ROOT = Path(__file__).parents[2]

# The first loop of a process makes a pipe for signals, which libuv keeps to the end: it is not a test's.
uvloop.new_event_loop().close()


def values(log: pylog.Log, topic: str) -> list[bytes | None]:
    return [record.value for view in log.topic(topic) for record in view.records(isolation_level="read_committed")]


@pytest.fixture
def log(tmp_path: Path) -> pylog.Log:
    return pylog.open(tmp_path / "log", flush="none")


def test_jobs_are_done_once_tried_again_and_put_aside(log: pylog.Log) -> None:
    failures = Counter({b"3": 1, b"5": 99})
    with log:
        for topic in ("jobs", "done", "jobs.dead"):
            log.create_topic(topic)
        with log.producer() as producer:
            for number in range(8):
                producer.send("jobs", b"%d" % number)

        def do(job: bytes) -> bytes:
            if failures[job] > 0:
                failures[job] -= 1
                raise RuntimeError("no")
            return job

        # On a busy machine a worker may come to the end of its patience first.
        jobs, ended = 8 + 1 + work_queue.ATTEMPTS - 1, 0
        while ended < jobs:
            ended += work_queue.work(log, do, idle_ms=200)
        assert ended == jobs
        assert sorted(values(log, "done")) == [b"0", b"1", b"2", b"3", b"4", b"6", b"7"]
        (dead,) = log.topic("jobs.dead")[0].records(isolation_level="read_committed")
        assert dead.value == b"5" and dict(dead.headers)["attempts"] == b"%d" % work_queue.ATTEMPTS


def test_a_relay_that_dies_in_a_transaction_sends_everything_once(log: pylog.Log) -> None:
    database = outbox.open_database(":memory:")
    with log:
        log.create_topic("orders")
        for number in range(7):
            outbox.place_order(database, "c", number)
        with pytest.raises(ValueError, match="negative amount"):
            outbox.place_order(database, "c", -1)
        dying = Dying(database, after=2)
        with pytest.raises(RuntimeError, match="killed"):
            outbox.relay(log, dying, most=3)  # type: ignore[arg-type]
        assert outbox.relay(log, database, most=3) == 7 - 3
        assert values(log, "orders") == [b"c ordered for %d cents" % number for number in range(7)]
        assert outbox.relay(log, database) == 0


class Dying:
    """A database that can be asked so often."""

    def __init__(self, database: sqlite3.Connection, after: int) -> None:
        self.database = database
        self.left = after

    def execute(self, *question: object) -> sqlite3.Cursor:
        self.left -= 1
        if self.left <= 0:
            raise RuntimeError("killed")
        return self.database.execute(*question)  # type: ignore[arg-type]


def test_a_bank_that_is_opened_again_has_the_same_balances(log: pylog.Log) -> None:
    dice = random.Random(7)
    with log:
        first = bank.Bank(log)
        for name in ("a", "b", "c"):
            first.transfer("cash", name, 100)
        for _ in range(30):
            source, target = dice.sample(["a", "b", "c"], 2)
            if first.balances[source] >= 10:
                first.transfer(source, target, 10)
        with pytest.raises(ValueError, match="has"):
            first.transfer("a", "b", 10_000)
        second = bank.Bank(log)
        assert second.balances == first.balances == bank.replay(log)
        assert sum(second.balances.values()) == 0
        with pytest.raises(pylog.PylogError):
            first.transfer("cash", "a", 1)
        assert bank.read_balances(log) == second.balances
        second.close()
        log.clean("balances")
        assert bank.read_balances(log) == second.balances


def test_every_group_gets_everything_and_members_share(capsys: pytest.CaptureFixture[str]) -> None:
    fan_out.main()
    lines = capsys.readouterr().out.splitlines()
    seen = {line.split()[0]: int(line.split()[1]) for line in lines if "/" in line}
    assert seen["billing/a"] == 1200
    assert sum(count for name, count in seen.items() if name.startswith("search/")) == 1200
    assert "group billing: Empty, 0 behind" in lines


def test_a_warm_standby_loses_nothing_that_was_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warm_standby.main(str(tmp_path))
    assert capsys.readouterr().out.splitlines() == [
        "a leads, 1000 numbers are acknowledged",
        "a is gone, b leads in epoch 1002000, 0 numbers are lost",
        "a follows b, both have the same 1500 numbers: True",
    ]


@pytest.mark.parametrize("example", [work_queue, outbox, bank])
def test_the_other_examples_run_as_they_are(example: object, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()  # type: ignore[attr-defined]
    assert capsys.readouterr().out


@pytest.mark.parametrize("example", [work_queue, outbox, bank, fan_out])
def test_an_example_runs_twice_on_a_directory(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (run(example, tmp_path / "data", capsys) for _ in range(2))
    if example is outbox:
        assert [line for line in first if "sent" in line] == [line for line in second if "sent" in line]
        orders = [line for line in second if line[0].isdigit() and "ordered" in line]
        assert len(orders) == 12 and orders[-1].endswith("b'customer-5 ordered for 500 cents'")
    if example is fan_out:
        assert "billing/a 1200" in first and "billing/a 1200" in second
    if example is bank:
        assert all("the audit agrees: True and nothing was lost: 0" in lines for lines in (first, second))
    if example is work_queue:
        assert any(line.startswith("done 38") for line in second)


def run(example: ModuleType, path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    example.main(str(path))
    return capsys.readouterr().out.splitlines()


def test_a_queue_by_http_gives_each_message_to_each_group_once(tmp_path: Path) -> None:
    def ask(path: str, message: bytes | None = None) -> tuple[int, Any]:
        request = Request(f"http://127.0.0.1:{serving.server_port}{path}", message)
        try:
            with urlopen(request, timeout=240) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def taken(path: str) -> Any:
        """The first messages that come: the server waits for them for a moment only."""
        while (answer := ask(path)) == (200, []):
            pass
        return answer[1]

    for expected in (["0", "1"], ["2"]):
        with pylog.open(tmp_path / "log") as log, http_queue.server(log) as serving:
            thread = threading.Thread(target=serving.serve_forever)
            thread.start()
            try:
                if expected[0] == "0":
                    for number in range(3):
                        answer = ask("/queues/jobs", b"%d" % number)
                        assert answer == (201, {"partition": 0, "offset": number})
                    assert taken("/queues/jobs?group=other") == ["0", "1", "2"]
                    assert ask("/queues/none")[0] == 400, "a reader makes no queue"
                    assert list(log.topics()) == ["jobs"]
                    assert ask("/queues/no%20name", b"?")[0] == 400
                    assert ask("/elsewhere")[0] == 404
                # The second process goes on where the first one was.
                assert taken("/queues/jobs?max=2") == expected
            finally:
                serving.shutdown()
                thread.join()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_web_application_in_a_loop_appends_and_streams(tmp_path: Path, loop: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    app = aio_web.application(str(tmp_path / "log"))
    # A busy machine may take longer between two requests of a connection than uvicorn keeps one by default.
    config = uvicorn.Config(app, log_level="error", loop=loop, timeout_graceful_shutdown=1, timeout_keep_alive=240)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    connections = [HTTPConnection(*listener.getsockname()[:2], timeout=240) for _ in range(3)]
    poster, reader, late = connections

    def post(message: bytes) -> tuple[int, Any]:
        poster.request("POST", "/topics/news", message)
        answer = poster.getresponse()
        return answer.status, json.load(answer)

    try:
        assert post(b"first") == (201, {"partition": 0, "offset": 0})
        reader.request("GET", "/topics/news?from=0")
        stream = reader.getresponse()
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert [stream.readline() for _ in range(3)] == [b"id: 0\n", b"data: first\n", b"\n"]
        # It streams what comes while it waits.
        assert post(b"two\nlines") == (201, {"partition": 0, "offset": 1})
        assert [stream.readline() for _ in range(4)] == [b"id: 1\n", b"data: two\n", b"data: lines\n", b"\n"]
        late.request("GET", "/topics/news", headers={"Last-Event-ID": "0"})
        assert late.getresponse().readline() == b"id: 1\n"
        poster.request("GET", "/topics/none")
        assert poster.getresponse().status == 404
    finally:
        for connection in connections:
            connection.close()
        server.should_exit = True
        thread.join()
        listener.close()
    with pylog.open(tmp_path / "log") as log:
        assert values(log, "news") == [b"first", b"two\nlines"]


def test_the_tests_of_the_shop_pass() -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "examples/shop"]

    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_a_pool_and_a_job_share_one_log(tmp_path: Path) -> None:
    """One of the workers owns the log, and is killed in the middle."""
    path = tmp_path / "log"
    environment = {**os.environ, "SHARED_LOG": str(path), "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "--workers",
        "2",
        "--timeout",
        "0",
        "--bind",
        f"unix:{tmp_path}/web",
        "--log-level",
        "error",
    ]

    def web(method: str, place: str = "/", body: bytes = b"") -> str:
        client = HTTPConnection("web")
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.connect(f"{tmp_path}/web")
        try:
            client.request(method, place, body)
            return client.getresponse().read().decode()
        finally:
            client.close()

    def run(name: str) -> str:
        words = [sys.executable, "-m", f"examples.shared.{name}"]
        return subprocess.run(words, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    with subprocess.Popen([*command, "examples.shared.web:app"], env=environment, cwd=ROOT) as workers:
        try:
            until(lambda: listens(tmp_path / "web"))
            for number in range(12):
                assert "put it at" in web("POST", f"/clicks/user-{number}", b"shoes")
            assert web("GET") == "12 clicks\n"
            assert " processes put 20 squares" in run("pool")
            assert run("nightly").startswith("12 new clicks, by 12 users; the log was opened in mode 'attach'")
            os.kill(int((path / ".lock").read_text().split()[0]), signal.SIGKILL)
            assert "put it at" in retried(lambda: web("POST", "/clicks/user-0", b"boots"))
            assert web("GET") == "13 clicks\n"
            assert run("nightly").startswith("1 new clicks")
        finally:
            workers.terminate()
    with pylog.open(path) as log:
        assert len(values(log, "squares")) == 20 and len(values(log, "clicks")) == 13


def listens(path: Path) -> bool:
    """Whether somebody takes connections at this socket: its file is there before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(os.fspath(path)) == 0


def retried(call: Callable[[], str]) -> str:
    """What a call gives when the worker that took it is not killed before it answers."""
    for _ in range(10):
        with suppress(ConnectionError):
            return call()
    raise AssertionError("no worker answers")
