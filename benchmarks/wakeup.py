"""From an append to the record in the hands of a consumer that waited for it, and what waiting costs.

The appender rests 3 ms between appends, so that the consumer is asleep each time; the value is the moment before the
append, on the clock that all processes of a machine share. "Thread" is a consumer of the same log in another thread;
"process" is one that has opened the directory with mode="read". Against the least there is, a thread that waits at a
`SimpleQueue` and a process that waits at a pipe; and against the least of a log: the same when the value goes through
a file, which the one writes and the other reads. What a consumer adds to an append is seen beside two who have none:
"handed over" appends with pylog and puts the value into a `SimpleQueue`, and "read by hand" is a process that reads
what pylog appends with as little as goes: the system's word, what is published, the batch, what is published again;
nothing of pylog but what decodes. Idle processors are counted over two seconds of waiting in a process of its own.
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from select import POLLIN, poll

import pylog
from harness import at_most, figure, measure, mode, report, scaled, scratch
from pylog.files import DiskFiles
from pylog.kernel import take_records

COUNT = scaled(usual=100, quick=10)
ROUNDS = scaled(usual=5, quick=2)
IDLE_SECONDS = scaled(usual=2.0, quick=0.2)
REST = 0.003
STAMP = struct.Struct("<q")
STOP = STAMP.pack(-1)
IDLE_PERCENT = 0.5
"""What counts as none: a consumer asks anew twice a second."""

tails: dict[str, list[float]] = {}


def spread(name: str, latencies: list[int]) -> float:
    """The median in seconds; the 99th hundredth is kept beside it."""
    latencies.sort()
    tails.setdefault(name, []).append(latencies[len(latencies) * 99 // 100] / 1e9)
    return statistics.median(latencies) / 1e9


def appending(append: Callable[[bytes], object]) -> None:
    for _ in range(COUNT):
        time.sleep(REST)
        append(STAMP.pack(time.perf_counter_ns()))
    time.sleep(REST)
    append(STOP)


def receive(take: Callable[[], list[bytes]]) -> list[int]:
    """The nanoseconds between each value's moment and now."""
    latencies: list[int] = []
    while True:
        for value in take():
            (moment,) = STAMP.unpack(value)
            if moment < 0:
                return latencies
            latencies.append(time.perf_counter_ns() - moment)


def polling(log: pylog.Log) -> Callable[[], list[bytes]]:
    """What takes the values that a consumer gets from now on."""
    consumer = log.consumer("bench", auto_offset_reset="latest")
    consumer.poll(timeout_ms=0)
    return lambda: [record.value or STOP for record in consumer.poll(timeout_ms=10_000)]


def in_thread(name: str, append: Callable[[bytes], object], take: Callable[[], list[bytes]]) -> float:
    latencies: list[int] = []
    thread = threading.Thread(target=lambda: latencies.extend(receive(take)))
    thread.start()
    appending(append)
    thread.join()
    return spread(name, latencies)


def to_thread(log: pylog.Log) -> float:
    partition = log.topic("bench")[0]
    return in_thread("thread", lambda value: partition.append([pylog.Record(value)]), polling(log))


def to_queue() -> float:
    queue: SimpleQueue[bytes] = SimpleQueue()
    return in_thread("SimpleQueue", queue.put, lambda: [queue.get()])


def to_queue_by_append(log: pylog.Log) -> float:
    partition = log.topic("bench")[0]
    queue: SimpleQueue[bytes] = SimpleQueue()

    def append(value: bytes) -> None:
        partition.append([pylog.Record(value)])
        queue.put(value)

    return in_thread("handed over", append, lambda: [queue.get()])


def to_queue_by_file(path: Path) -> float:
    queue: SimpleQueue[int] = SimpleQueue()
    ends = count(step=STAMP.size)
    with path.open("w+b", buffering=0) as file:
        descriptor = file.fileno()

        def append(value: bytes) -> None:
            position = next(ends)
            os.pwrite(descriptor, value, position)
            queue.put(position)

        return in_thread("file and SimpleQueue", append, lambda: [os.pread(descriptor, STAMP.size, queue.get())])


def in_process(name: str, append: Callable[[bytes], object], *words: str, stdin: int | None = None) -> float:
    """The same with a process of this file, `child`, at the other end: it says that it waits, then what it saw."""
    command = [sys.executable, __file__, *mode(), "child", *words]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        appending(append)
        return spread(name, json.loads(child.stdout.read()))


def to_process(log: pylog.Log, kind: str = "read") -> float:
    partition = log.topic("bench")[0]
    return in_process(kind, lambda value: partition.append([pylog.Record(value)]), kind, str(log.path))


def by_hand(path: Path) -> Callable[[], list[bytes]]:
    """The same of a log of a few short batches, for who does nothing that the bytes do not ask for."""
    word = DiskFiles().watch(str(path))
    assert word is not None, "the system has no word for who waits"
    told = poll()
    told.register(word, POLLIN)
    log = os.open(path / "bench-0" / ("0" * 20 + ".log"), os.O_RDONLY)
    published = os.open(path / ".pylog-published", os.O_RDONLY)
    position = 0

    def ahead(size: int) -> list[pylog.ConsumerRecord]:
        nonlocal position
        records, used, _, _ = take_records(memoryview(os.pread(log, size, position)), 0, 0, size, "bench", 0, True)
        position += used
        return records

    def take() -> list[bytes]:
        told.poll()
        word.take()
        os.pread(published, 512, 0)
        records = ahead(512)
        os.pread(published, 512, 0)
        return [record.value or STOP for record in records]

    ahead(1 << 20)
    return take


def to_pipe() -> float:
    out, into = os.pipe()
    try:
        return in_process("pipe", lambda value: os.write(into, value), "pipe", stdin=out)
    finally:
        os.close(out)
        os.close(into)


def to_pipe_by_file(path: Path) -> float:
    out, into = os.pipe()
    ends = count(step=STAMP.size)
    try:
        with path.open("w+b", buffering=0) as file:
            descriptor = file.fileno()

            def append(value: bytes) -> None:
                position = next(ends)
                os.pwrite(descriptor, value, position)
                os.write(into, STAMP.pack(position))

            return in_process("file and pipe", append, "file", str(path), stdin=out)
    finally:
        os.close(out)
        os.close(into)


def idle_percent(kind: str, path: Path) -> float:
    ran = subprocess.run(
        [sys.executable, __file__, *mode(), "child", kind, str(path)], capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def child(kind: str, path: str = "") -> None:
    """What runs in the other process."""
    if kind in ("pipe", "file"):
        take: Callable[[], list[bytes]] = lambda: [os.read(0, STAMP.size)]
        if kind == "file":
            descriptor = os.open(path, os.O_RDONLY)
            take = lambda: [os.pread(descriptor, STAMP.size, *STAMP.unpack(os.read(0, STAMP.size)))]
        print("ready", flush=True)
        print(json.dumps(receive(take)))
        return
    if kind == "by hand":
        take = by_hand(Path(path))
        print("ready", flush=True)
        print(json.dumps(receive(take)))
        return
    if kind == "read":
        with pylog.open(path, mode="read") as log:
            take = polling(log)
            print("ready", flush=True)
            print(json.dumps(receive(take)))
        return
    with pylog.open(path, mode="read" if kind == "idle-read" else "own") as log:
        if kind == "idle-own":
            log.create_topic("bench")
        consumer = log.consumer("bench")
        consumer.poll(timeout_ms=100)
        before = time.process_time()
        consumer.poll(timeout_ms=int(IDLE_SECONDS * 1000))
        print(100 * (time.process_time() - before) / IDLE_SECONDS)


def main() -> None:
    with scratch() as folder, pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        measured = measure(
            {
                "thread": lambda: to_thread(log),
                "SimpleQueue": to_queue,
                "handed over": lambda: to_queue_by_append(log),
                "file and SimpleQueue": lambda: to_queue_by_file(folder / "thread"),
                "process": lambda: to_process(log),
                "read by hand": lambda: to_process(log, "by hand"),
                "pipe": to_pipe,
                "file and pipe": lambda: to_pipe_by_file(folder / "process"),
            },
            ROUNDS,
            "record",
        )
        idle_read = idle_percent("idle-read", folder / "log")
        idle_own = idle_percent("idle-own", folder / "other")

    def us(name: str) -> float:
        return measured.median(name) * 1e6

    report(
        "wakeup",
        [
            figure("thread to thread, median", us("thread"), "us", at_most(50)),
            measured.time("thread to thread, median", "thread", "SimpleQueue"),
            measured.time("thread to thread, median", "thread", "file and SimpleQueue"),
            measured.time("thread to thread, median", "thread", "handed over"),
            figure("thread to thread, p99", statistics.median(tails["thread"]) * 1e6, "us"),
            figure("process to process, median", us("process"), "us", at_most(100)),
            measured.time("process to process, median", "process", "pipe"),
            measured.time("process to process, median", "process", "file and pipe"),
            measured.time("process to process, median", "process", "read by hand"),
            figure("process to process, p99", statistics.median(tails["read"]) * 1e6, "us"),
            figure("processor while a consumer waits, own log", idle_own, "%", at_most(IDLE_PERCENT)),
            figure("processor while a consumer waits, another's log", idle_read, "%", at_most(IDLE_PERCENT)),
        ],
        appends=COUNT,
    )


if __name__ == "__main__":
    if "child" in sys.argv:
        child(*sys.argv[sys.argv.index("child") + 1 :])
    else:
        main()
