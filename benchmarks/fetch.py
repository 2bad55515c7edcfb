"""Fetching bytes, as a server or a follower does, without decoding them: against bare reads of the same files.

In process: `Fetch` messages for a MiB each, to the end of a partition, against `os.pread` of a MiB at a time. To a
socket: the same bytes through a Unix socket pair, whose other end a thread drops, against `pread` + `sendall`.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pylog
import storage
from harness import MIB, at_least, measure, report, scaled, scratch, stopwatch
from pylog.message import Fetch, FetchPart, Session

SIZE = scaled(usual=512 * MIB, quick=2 * MIB)
ROUNDS = scaled(usual=7, quick=2)
SESSION = Session("bench")

Send = Callable[[memoryview], object]


def fetch(log: pylog.Log, size: int, send: Send | None = None) -> float:
    """Fetch the whole partition. Each fetch goes on behind the last whole batch, as that batch's header says."""
    taken, offset, read = stopwatch(), 0, 0
    while read < size:
        message = Fetch([FetchPart("bench", 0, offset, MIB)], max_wait_ms=0, max_bytes=MIB)
        data = log.broker.handle(message, SESSION).result().parts[0].data
        read += len(data)
        offset = next_offset(data)
        if send is not None:
            send(data)
    return taken() / (size / MIB)


def next_offset(data: memoryview) -> int:
    """Behind the last batch: all batches of a file have the same size here."""
    size = 12 + int.from_bytes(data[8:12], "big")
    last = len(data) - size
    return int.from_bytes(data[last : last + 8], "big") + int.from_bytes(data[last + 23 : last + 27], "big") + 1


def read_and_send(path: Path, size: int, send: Send | None = None) -> float:
    descriptor = os.open(path, os.O_RDONLY)
    taken, at = stopwatch(), 0
    while piece := os.pread(descriptor, MIB, at):
        at += len(piece)
        if send is not None:
            send(memoryview(piece))
    seconds = taken()
    os.close(descriptor)
    return seconds / (size / MIB)


@contextmanager
def dropping() -> Iterator[Send]:
    """A socket whose other end a thread empties."""
    near, far = socket.socketpair()
    buffer = bytearray(MIB)

    def drop() -> None:
        while far.recv_into(buffer):
            pass

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        yield near.sendall
    finally:
        near.close()
        thread.join()
        far.close()


def main() -> None:
    with scratch() as folder, pylog.open(folder / "log", flush="none") as log, dropping() as send:
        log.create_topic("bench")
        partition = log.broker.partition("bench", 0)
        storage.fill(partition, SIZE, 1000)
        partition.advance_high_watermark(partition.next_offset)
        size, (path,) = partition.size, (folder / "log" / "bench-0").glob("*.log")
        measured = measure(
            {
                "fetch": lambda: fetch(log, size),
                "pread": lambda: read_and_send(path, size),
                "fetch to a socket": lambda: fetch(log, size, send),
                "pread + sendall": lambda: read_and_send(path, size, send),
            },
            ROUNDS,
            "MiB",
        )
    report(
        "fetch",
        [
            measured.speed("Fetch messages of a MiB", "fetch", "pread", at_least(0.8)),
            measured.speed(
                "to a socket", "fetch to a socket", "pread + sendall", at_least(1.5),
                "nothing in pylog sends a file to a socket yet: the answer's bytes, sent with sendall",
            ),
        ],
        bytes=size,
    )  # fmt: skip


if __name__ == "__main__":
    main()
