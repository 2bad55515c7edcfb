"""Fetching bytes, as a server or a follower does, without decoding them: against bare calls on the same files.

In process: `Fetch` messages for a MiB each, to the end of a partition, against `os.pread` of a MiB at a time. To a
socket: the same messages, answered with where the bytes lie, which the answer's `extent` sends; against `pread` +
`sendall` of a MiB at a time. To TCP's loopback also against bare `sendfile`, which gains little there.

At the other end is another process, as a client is, which reads into memory what comes. Before the clock starts, it has
been asked once whether that is what lies in the file. The buffers of the Unix socket hold a MiB, for both ways: with
smaller ones it is the two processes' waiting for each other that is measured. Where each fetch begins is known before:
the other side says so, whose work is not measured here.
"""

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pylog
import storage
from harness import MIB, Way, at_least, measure, report, scaled, scratch
from pylog.protocol.messages import Fetch, FetchedPart, FetchPart, Session

SIZE = scaled(usual=512 * MIB, quick=2 * MIB)
ROUNDS = scaled(usual=7, quick=2)
SESSION = Session("bench")
DRAIN = """
import hashlib, socket, sys
far, buffer, digest = socket.socket(fileno=int(sys.argv[1])), bytearray(1 << 20), hashlib.sha256()
while count := far.recv_into(buffer):
    if sys.argv[2] == "digest":
        digest.update(memoryview(buffer)[:count])
print(digest.hexdigest())
"""

Move = Callable[[], object]


def fetched(log: pylog.Log, offset: int, *, as_extents: bool = False) -> FetchedPart:
    message = Fetch([FetchPart("bench", 0, offset, MIB)], max_wait_ms=0, max_bytes=MIB, as_extents=as_extents)
    part: FetchedPart = log.broker.handle(message, SESSION).result().parts[0]
    return part


def starts(log: pylog.Log, size: int) -> list[int]:
    """The offset of each fetch: behind the last whole batch of the one before, as that batch's header says."""
    offsets, read = [0], 0
    while read < size:
        data = fetched(log, offsets[-1]).data
        read += len(data)
        last = len(data) - 12 - int.from_bytes(data[8:12], "big")  # all batches of a file have the same size here
        delta = int.from_bytes(data[last + 23 : last + 27], "big")
        offsets.append(int.from_bytes(data[last : last + 8], "big") + delta + 1)
    return offsets[:-1]


def fetch(log: pylog.Log, offsets: Sequence[int]) -> None:
    for offset in offsets:
        assert fetched(log, offset).data


def fetch_and_send(log: pylog.Log, offsets: Sequence[int], near: socket.socket) -> None:
    target = near.fileno()
    for offset in offsets:
        extent = fetched(log, offset, as_extents=True).extent
        assert extent is not None
        while extent.left:
            extent.send(target)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(path: Path, send: Callable[[bytes], object] | None = None) -> None:
    with opened(path) as descriptor:
        at = 0
        while piece := os.pread(descriptor, MIB, at):
            at += len(piece)
            if send is not None:
                send(piece)


def sendfile(path: Path, near: socket.socket) -> None:
    with opened(path) as descriptor:
        at = 0
        while sent := os.sendfile(near.fileno(), descriptor, at, MIB):
            at += sent


def connected(family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    if family == socket.AF_UNIX:
        near, far = socket.socketpair()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
        return near, far
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()), server.accept()[0]


@contextmanager
def drained(family: socket.AddressFamily, how: str = "") -> Iterator[tuple[socket.socket, list[str]]]:
    """A socket whose other end another process empties; behind the block, what that process said in the end."""
    near, far = connected(family)
    said: list[str] = []
    with near, far:
        command = [sys.executable, "-c", DRAIN, str(far.fileno()), how]
        with subprocess.Popen(command, pass_fds=[far.fileno()], stdout=subprocess.PIPE, text=True) as other:
            far.close()
            try:
                yield near, said
            finally:
                near.close()
                said += other.communicate()[0].split()


def check(path: Path, log: pylog.Log, offsets: Sequence[int]) -> None:
    """What arrives is what lies in the file."""
    with drained(socket.AF_UNIX, "digest") as (near, said):
        fetch_and_send(log, offsets, near)
    if said != [hashlib.sha256(path.read_bytes()).hexdigest()]:
        raise AssertionError("what arrived is not what lies in the file")


def per_mib(size: int, move: Move, clock: Callable[[], float] = time.perf_counter) -> Way:
    """A way that moves `size` bytes, by a clock of its own."""

    def way() -> float:
        before = clock()
        move()
        return (clock() - before) / (size / MIB)

    return way


def main() -> None:
    with (
        scratch() as folder,
        pylog.open(folder / "log", flush="none") as log,
        drained(socket.AF_UNIX) as (near, _),
        drained(socket.AF_INET) as (tcp, _),
    ):
        log.create_topic("bench")
        partition = log.broker.partition("bench", 0)
        storage.fill(partition, SIZE, 1000)
        partition.advance_high_watermark(partition.next_offset)
        size, (path,) = partition.size, (folder / "log" / "bench-0").glob("*.log")
        offsets = starts(log, size)
        check(path, log, offsets)
        moves: dict[str, Move] = {
            "fetch": lambda: fetch(log, offsets),
            "pread": lambda: read(path),
            "fetch to a socket": lambda: fetch_and_send(log, offsets, near),
            "pread + sendall": lambda: read(path, near.sendall),
            "fetch to TCP": lambda: fetch_and_send(log, offsets, tcp),
            "pread + sendall to TCP": lambda: read(path, tcp.sendall),
            "sendfile to TCP": lambda: sendfile(path, tcp),
        }
        ways = {name: per_mib(size, move) for name, move in moves.items()}
        for name in ("fetch to a socket", "pread + sendall"):
            ways[f"{name}, processor"] = per_mib(size, moves[name], time.process_time)
        measured = measure(ways, ROUNDS, "MiB")
    sender = "processor time of the sender"
    report(
        "fetch",
        [
            measured.speed("Fetch messages of a MiB", "fetch", "pread", at_least(0.8)),
            measured.speed("to a socket", "fetch to a socket", "pread + sendall", at_least(1.5)),
            measured.speed(
                f"to a socket, {sender}", "fetch to a socket, processor", "pread + sendall, processor"
            ),
            measured.speed("to TCP's loopback", "fetch to TCP", "pread + sendall to TCP"),
            measured.speed("to TCP's loopback, and sendfile", "fetch to TCP", "sendfile to TCP"),
        ],
        bytes=size,
    )  # fmt: skip


if __name__ == "__main__":
    main()
