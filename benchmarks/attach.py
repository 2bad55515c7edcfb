"""A process that is attached to the owner of a log, against the same work in an owner's own process.

The owner is another process: it rests, or a loop in Python keeps its interpreter busy. What is sent goes through its
Unix socket; what is read comes from the files. The cost of a door is that of opening a node with one, and without.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pylog
from harness import (
    Way,
    at_least,
    at_most,
    figure,
    keys_and_values,
    measure,
    report,
    scaled,
    scratch,
    stopwatch,
)
from nodes import Node
from pylog.attach.doorway import Doorway
from pylog.attach.owned import Owned
from pylog.attach.settings import Settings
from pylog.broker.broker import Broker
from pylog.broker.nodes import owner
from pylog.runtime.clock import SystemClock
from pylog.transport import MemoryTransport
from results import Figure

LISTS, LIST = scaled(usual=200, quick=5), 1000
SINGLE, DURABLE = scaled(usual=2000, quick=20), scaled(usual=200, quick=5)
READ = scaled(usual=200_000, quick=2_000)
OPENS = scaled(usual=50, quick=2)
OTHERS = scaled(usual=7, quick=1)
ROUNDS = scaled(usual=5, quick=1)

OWNER = """
import sys, threading, pylog
with pylog.open(sys.argv[1], mode="own", flush=sys.argv[2]) as log:
    log.create_topic("bench")
    print("ready", flush=True)
    if sys.argv[3] == "computing":
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
        while not ended.is_set():
            sum(range(1000))
    else:
        sys.stdin.read()
"""
OTHER = """
import sys, threading, pylog
with pylog.open(sys.argv[1], mode="attach") as log, log.producer(linger_ms=0) as producer:
    producer.send("bench", b"x" * 100).result()
    print("ready", flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
    while not ended.is_set():
        producer.send("bench", b"x" * 100).result()
"""


@contextmanager
def process(program: str, *words: str) -> Iterator[None]:
    """A process that is ready, and ends with its input."""
    with Popen([sys.executable, "-c", program, *words], stdin=PIPE, stdout=PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "ready\n"
        yield
        assert running.stdin is not None
        running.stdin.close()


@contextmanager
def attached(path: Path, flush: str, *, busy: bool = False, others: int = 0) -> Iterator[pylog.Log]:
    """A log of another process, as this one has it; and so many others beside this one, which send all the time."""
    with ExitStack() as stack:
        stack.enter_context(process(OWNER, str(path), flush, "computing" if busy else "resting"))
        for _ in range(others):
            stack.enter_context(process(OTHER, str(path)))
        yield stack.enter_context(pylog.open(path, mode="attach"))


@contextmanager
def owned(path: Path, flush: str) -> Iterator[pylog.Log]:
    """A log of this process."""
    with pylog.open(path, mode="own", flush=flush) as log:
        log.create_topic("bench")
        yield log


# --- the works --------------------------------------------------------------------------------------------------------


def lists(log: pylog.Log) -> float:
    """Append lists of records, each when the one before is answered."""
    part = log.topic("bench")[0]
    records = [pylog.Record(value, key) for key, value in keys_and_values(LIST)]
    taken = stopwatch()
    for _ in range(LISTS):
        part.append(records)
    return taken() / (LISTS * LIST)


def stream(log: pylog.Log) -> float:
    """Send records one after the other, and wait for all of them in the end."""
    sent = keys_and_values(LISTS * LIST)
    with log.producer() as producer:
        taken = stopwatch()
        for key, value in sent:
            producer.send("bench", value, key)
        producer.flush()
        return taken() / len(sent)


def singles(log: pylog.Log) -> float:
    """Append single records."""
    part = log.topic("bench")[0]
    taken = stopwatch()
    for _ in range(DURABLE):
        part.append([pylog.Record(b"x" * 100)])
    return taken() / DURABLE


def sends(log: pylog.Log) -> float:
    """Send single records, and wait for each: the median."""
    seconds = []
    with log.producer(linger_ms=0) as producer:
        for _ in range(SINGLE):
            taken = stopwatch()
            producer.send("bench", b"x" * 100).result()
            seconds.append(taken())
    return sorted(seconds)[SINGLE // 2]


def reads(log: pylog.Log) -> float:
    """Read records from the start on."""
    count = 0
    with log.consumer("bench", auto_offset_reset="earliest") as consumer:
        taken = stopwatch()
        while count < READ:
            count += len(consumer.poll(1000, max_records=1000))
        return taken() / count


def main() -> None:
    with scratch() as folder:
        figures = [*records(folder), *durable(folder), *sent(folder), *door(folder)]
    report(
        "attach",
        figures,
        records=[LISTS * LIST, SINGLE, DURABLE, READ],
    )


def records(folder: Path) -> list[Figure]:
    with owned(folder / "own", "none") as own, attached(folder / "other", "none") as other:
        ways: dict[str, Way] = {
            "own, lists": lambda: lists(own), "attached, lists": lambda: lists(other),
            "own, sent": lambda: stream(own), "attached, sent": lambda: stream(other),
            "own, read": lambda: reads(own), "attached, read": lambda: reads(other),
        }  # fmt: skip
        measured = measure(ways, ROUNDS, "record")
    return [
        measured.speed("lists of 1000", "attached, lists", "own, lists", at_least(0.5)),
        measured.speed("a future each", "attached, sent", "own, sent"),
        measured.speed("reading", "attached, read", "own, read", at_least(0.9)),
    ]


def durable(folder: Path) -> list[Figure]:
    with owned(folder / "own-sync", "sync") as own, attached(folder / "other-sync", "sync") as other:
        ways: dict[str, Way] = {"own": lambda: singles(own), "attached": lambda: singles(other)}
        measured = measure(ways, ROUNDS, "append")
    return [measured.time("one durable append", "attached", "own", at_most(1.3))]


def sent(folder: Path) -> list[Figure]:
    def median(place: AbstractContextManager[pylog.Log]) -> float:
        with place as log:
            return 1e6 * measure({"send": lambda: sends(log)}, ROUNDS, "send").median("send")

    several = f"send and result, {OTHERS + 1} attached processes at once"
    return [
        figure("send and result", median(attached(folder / "send", "none")), "us", at_most(100)),
        figure("send and result, in the owner", median(owned(folder / "own-send", "none")), "us"),
        figure(several, median(attached(folder / "send-8", "none", others=OTHERS)), "us"),
        figure("send and result, the owner computes", median(attached(folder / "busy", "none", busy=True)), "us"),
    ]


def door(folder: Path) -> list[Figure]:
    settings = Settings(paths=(str(folder / "door"),), clock=SystemClock())

    def alone() -> Broker:
        return owner(settings.paths, settings.config, MemoryTransport(), settings.clock, None, "sync")

    def opened(make: Callable[[], Broker | Owned]) -> float:
        taken = stopwatch()
        for _ in range(OPENS):
            make().close()
        return taken() / OPENS

    ways: dict[str, Way] = {
        "alone": lambda: opened(alone), "with a door": lambda: opened(lambda: Owned(settings, MemoryTransport()))
    }  # fmt: skip
    measured = measure(ways, ROUNDS, "open")
    more_ms = 1000 * (measured.median("with a door") - measured.median("alone"))
    broker, node = alone(), Node("pylog", "", os.getpid())
    before = node.resident_mib()
    doorway = Doorway(settings.paths, settings.clock, "sync")
    doorway.open(broker)
    more_mib = node.resident_mib() - before
    doorway.close()
    broker.close()
    return [
        figure("open and close with a door, beyond one without", more_ms, "ms", at_most(1)),
        figure("memory of a door that nobody comes by", more_mib, "MiB", at_most(1)),
    ]


if __name__ == "__main__":
    main()
