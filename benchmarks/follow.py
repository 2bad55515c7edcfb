"""A follower copies a leader's log over TCP's loopback, against bare sendfile into a file of the same bytes.

The leader is another process, `pylog serve`, and so is the sender of the bare way, which hands the file to a socket;
this process receives a MiB at a time and writes that. The follower's way begins with `Log.follow`, so the connection,
the topic and the folder are in it; it checks each batch, and makes its indexes. Neither syncs.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pylog
import storage
from harness import MIB, at_least, fresh, measure, report, scaled, scratch, stopwatch

SIZE = scaled(usual=256 * MIB, quick=2 * MIB)
ROUNDS = scaled(usual=7, quick=2)
BATCH = 1000
SENDER = """
import os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        near, _ = server.accept()
        with near, open(sys.argv[1], "rb") as file:
            at = 0
            while sent := os.sendfile(near.fileno(), file.fileno(), at, 1 << 20):
                at += sent
"""
POLL_SECONDS = 0.005


@contextmanager
def sending(path: Path) -> Iterator[int]:
    """The port at which another process hands a file to each who comes."""
    with subprocess.Popen([sys.executable, "-c", SENDER, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            yield int(other.stdout.readline())
        finally:
            other.kill()


@contextmanager
def served(path: Path) -> Iterator[str]:
    """The address of another process that serves a log."""
    command = [sys.executable, "-m", "pylog", "serve", "--log", str(path), "--listen", "127.0.0.1:0", "--flush", "none"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as other:
        assert other.stderr is not None
        try:
            yield other.stderr.readline().partition(" at ")[2].partition(";")[0]
        finally:
            other.terminate()
            other.communicate()


def receive(port: int, folder: Path) -> float:
    taken = stopwatch()
    buffer, size = bytearray(MIB), 0
    with socket.create_connection(("127.0.0.1", port)) as far, (folder / "raw").open("wb", buffering=0) as file:
        while count := far.recv_into(buffer):
            file.write(memoryview(buffer)[:count])
            size += count
    return taken() / (size / MIB)


def follow(address: str, end: int, folder: Path) -> float:
    with pylog.open(folder / "copy", node_id=2, flush="none") as log:
        taken = stopwatch()
        log.follow(address, ["bench"])
        partition = log.broker.partition("bench", 0)
        while partition.next_offset < end:
            time.sleep(POLL_SECONDS)
        seconds = taken()
        return seconds / (partition.size / MIB)


def main() -> None:
    with scratch() as folder:
        with pylog.open(folder / "log", flush="none") as log:
            log.create_topic("bench")
            partition = log.broker.partition("bench", 0)
            storage.fill(partition, SIZE, BATCH)
            end = partition.next_offset
            (path,) = (folder / "log" / "bench-0").glob("*.log")
        with served(folder / "log") as address, sending(path) as port:
            measured = measure(
                {
                    "follower": fresh(lambda place: follow(address, end, place)),
                    "sendfile": fresh(lambda place: receive(port, place)),
                },
                ROUNDS,
                "MiB",
            )
    report(
        "follow",
        [measured.speed("a follower over TCP, batches of 1000", "follower", "sendfile", at_least(0.6))],
        bytes=SIZE,
    )


if __name__ == "__main__":
    main()
