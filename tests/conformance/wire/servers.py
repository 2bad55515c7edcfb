"""The two servers that every scenario runs against: pylog's and a real Kafka, each with the same settings.

A server has one address for its whole life, also after `kill` and `start`. Each is a process of its own.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pylog
from conformance import dump_log
from conformance.kafka_broker import Node, free_port

SOURCE = Path(pylog.__file__).parents[1]
STOP_SECONDS = 30.0
NAMES = ("pylog", "kafka")
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.retention.ms": "-1",
}


class Server(Protocol):
    name: str
    bootstrap_servers: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class KafkaServer(Node):
    name = "kafka"

    def __init__(self, work: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(work / "data", work, settings)


class PylogServer:
    name = "pylog"

    def __init__(self, work: Path, settings: Mapping[str, str] = SETTINGS, address: str | None = None) -> None:
        self.bootstrap_servers = address or f"127.0.0.1:{free_port()}"
        self._settings = json.dumps(dict(settings))
        self._data, self._log = work / "data", work / "server.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        script = Path(__file__).with_name("pylog_server.py")
        command = [sys.executable, str(script), str(self._data), self.bootstrap_servers, self._settings]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env={"PYTHONPATH": str(SOURCE)},
            )  # fmt: skip
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().strip()
        assert ready == self.bootstrap_servers, f"it did not start: {self._log.read_text()[-3000:]}"

    def stop(self) -> None:
        self._end(self._process.terminate if self._process else None)

    def kill(self) -> None:
        self._end(self._process.kill if self._process else None)

    def said(self) -> str:
        """All that it has logged so far."""
        return self._log.read_text(errors="replace")

    def stacks(self) -> str:
        """Where its threads are, a second after they were asked, at the end of all that it has logged."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return self.said()

    def forget_memory(self) -> int:
        """Count the most memory from now on; what it has now."""
        assert self._process is not None
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return self.memory_mib()

    def memory_mib(self) -> int:
        """The most memory that it has had."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) >> 10

    def _end(self, strike: Callable[[], None] | None) -> None:
        process, self._process = self._process, None
        if process is None or strike is None:
            return
        strike()
        with process:
            process.wait(STOP_SECONDS)


def missing(name: str) -> str | None:
    """Why this server cannot run here, or None."""
    if name == "kafka":
        return dump_log.missing()
    return None if hasattr(pylog.Log, "serve") else "pylog has no server yet: Log.serve is missing"


@contextlib.contextmanager
def running(name: str, work: Path, **settings: str) -> Iterator[Server]:
    """A started server, stopped at the end, with these settings besides `SETTINGS`; underscores are dots."""
    kinds: Mapping[str, type[Server]] = {"pylog": PylogServer, "kafka": KafkaServer}
    (work / "data").mkdir()
    more = {key.replace("_", "."): value for key, value in settings.items()}
    server = kinds[name](work, {**SETTINGS, **more})  # type: ignore[call-arg]
    server.start()
    try:
        yield server
    finally:
        server.stop()
