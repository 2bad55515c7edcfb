"""What a `kill -9` of a server did to clients that outlive it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

import pylog
from pylog.files import DiskFiles


@contextmanager
def serving(path: Path, port: str) -> Iterator[str]:
    """A server until it is killed; gives its port."""
    command = [sys.executable, "-m", "pylog", "serve", "--log", str(path), "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split("127.0.0.1:")[1].split(";")[0].strip()
        finally:
            server.kill()


def test_a_killed_server_fences_no_producer(tmp_path: Path) -> None:
    """A kill was taken for a power cut: every transactional id was fenced, which librdkafka takes for fatal."""
    with serving(tmp_path / "log", "0") as port:
        if DiskFiles().incarnation(str(tmp_path / "log" / "meta.properties")) is None:
            pytest.skip("the temporary directory lies on a file system that does not tell a kill from a power cut")
        address = f"127.0.0.1:{port}"
        idle, busy = (theirs(address, name) for name in ("idle", "busy"))
        log = pylog.connect(address)
        own_idle, own_busy = (log.producer(transactional_id=name) for name in ("own idle", "own busy"))
        busy.begin_transaction()
        busy.produce("t", b"open")
        busy.flush()
        transaction = own_busy.transaction()
        transaction.__enter__()
        own_busy.send("t", b"open").result()
        with own_idle.transaction():
            own_idle.send("t", b"before")
    with log, serving(tmp_path / "log", port):
        idle.begin_transaction()
        for producer in (idle, busy):
            producer.produce("t", b"after")
            producer.commit_transaction()
        own_busy.send("t", b"after")
        transaction.__exit__(None, None, None)
        with own_idle.transaction():
            own_idle.send("t", b"after")
        found = [record.value or b"" for record in log.topic("t")[0].records(isolation_level="read_committed")]
        assert sorted(found) == [b"after"] * 4 + [b"before"] * 3 + [b"open"] * 2


def theirs(address: str, name: str) -> confluent_kafka.Producer:
    """A producer of librdkafka that has committed one transaction."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": name, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", b"before")
    producer.commit_transaction()
    return producer
