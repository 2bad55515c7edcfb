"""Every config at the ends of its range, under the same operations, with both kernels: what do they answer?

A case gives one config of a topic, a node, a producer or a consumer a value that it takes: its least, its most, the
ones beside them, 0, 1, and where C integers end. Then a log appends, rolls, reads, deletes, cleans, commits, aborts and
is opened again. What a call gives, or the class of what it raises, is written down.

    same        both kernels say the same, and every error is one of pylog's own
    untyped     an error that is none of pylog's
    stuck       a case that takes longer than it may
    bricked     a topic that takes no record when the config is taken back
    differs     the kernels say different things

python -m tests.extremes.campaign 100000        all of them; a smaller number takes every so many
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pylog
from pylog import Record
from pylog.config import ConsumerConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.config.options import Config, Whole
from pylog.errors import PylogError

SECONDS_MOST = 20
INT, LONG = 2**31 - 1, 2**63 - 1
ENDS = (0, 1, 2, -1, INT - 1, INT, INT + 1, LONG - 1, LONG)
WAITS = {"max.block.ms": 1000, "request.timeout.ms": 1000, "delivery.timeout.ms": 2000, "transaction.timeout.ms": 5000}
"""What a client is given besides, or it would wait for a minute where it cannot go on."""
LARGE = {"offsets.topic.num.partitions", "transaction.state.log.num.partitions"}
"""Whose largest values ask for as many things."""


class Case(NamedTuple):
    kind: str
    name: str
    value: int


def cases() -> Iterator[Case]:
    """Every config of whole numbers, with every end that it takes."""
    kinds: dict[str, type[Config]] = {
        "topic": TopicConfig, "node": NodeConfig, "producer": ProducerConfig, "consumer": ConsumerConfig,
    }  # fmt: skip
    for kind, config in kinds.items():
        for name, option in config._kinds().items():
            if not isinstance(option, Whole):
                continue
            taken = {option._low, option._low + 1, option._high - 1, option._high, *ENDS}
            for value in sorted(value for value in taken if is_taken(option, value)):
                if name.replace("_", ".") not in LARGE or value < 100:
                    yield Case(kind, name.replace("_", "."), value)


def is_taken(option: Whole, value: int) -> bool:
    try:
        option.parse(value)
    except ValueError:
        return False
    return True


# --- one case, in a process of its kernel -----------------------------------------------------------------------------


class Play:
    """What a case does; `said` is what it answers."""

    def __init__(self, case: Case, path: str) -> None:
        self.path = path
        self.said: list[Any] = []
        self.topic: dict[str, Any] = {"segment.bytes": 1 << 20, "index.interval.bytes": 100}
        self.node: dict[str, Any] = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
        self.producer: dict[str, Any] = dict(WAITS)
        self.consumer: dict[str, Any] = {"default.api.timeout.ms": 1000, "auto.offset.reset": "earliest"}
        given = {"topic": self.topic, "node": self.node, "producer": self.producer, "consumer": self.consumer}
        given[case.kind][case.name] = case.value
        self.altered = {case.name: case.value} if case.kind == "topic" else {"retention.ms": LONG}
        if case.name in ("request.timeout.ms", "linger.ms"):
            self.producer.pop("delivery.timeout.ms")

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            found = call()
        except PylogError as error:
            self.said.append([name, type(error).__name__])
            return None
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.said.append([name, "untyped", f"{type(error).__name__}: {error}"])
            return None
        self.said.append([name, found if isinstance(found, int | str | list) else None])
        return found

    def play(self) -> list[Any]:
        log = self.step("open", lambda: pylog.open(self.path, flush="none", config=self.node))
        if log is None:
            return self.said
        with contextlib.ExitStack() as closing:
            closing.callback(lambda: self.step("close", log.close))
            topic = self.step("create", lambda: log.create_topic("t", config=self.topic))
            if topic is not None:
                self.use(log, "first")
            self.compact(log)
            self.alter(log)
        log = self.step("reopen", lambda: pylog.open(self.path, flush="none", config=self.node))
        if log is None:
            return self.said
        with contextlib.ExitStack() as closing:
            closing.callback(lambda: self.step("close again", log.close))
            if topic is not None:
                self.use(log, "again")
                self.take_back(log)
        return self.said

    def use(self, log: pylog.Log, life: str) -> None:
        partition = log.topic("t")[0]
        for count in (1, 3, 30):
            rows = [Record(b"v" * 500, b"k%d" % (n % 4)) for n in range(count)]
            self.step("append", lambda rows=rows: partition.append(rows).next_offset)
        self.step("large", lambda: partition.append([Record(os.urandom(700_000), b"k")]).next_offset)
        self.step("late", lambda: partition.append([Record(b"late", b"k", LONG)]).next_offset)
        self.step("old", lambda: partition.append([Record(b"old", b"k", 0)]).next_offset)
        self.step("next", lambda: partition.append([Record(b"next", b"k")]).next_offset)
        self.step("send", lambda: self.send(log))
        self.step("records", lambda: [record.offset for record in partition.records()])
        self.step("time", lambda: partition.offset_for_time(LONG) or -1)
        self.step("commit", lambda: self.transact(log, life))
        self.step("abort", lambda: self.transact(log, life, abort=True))
        self.step("consume", lambda: self.consume(log))
        self.step("group", lambda: self.consume(log, group_id="g"))
        self.step("delete", lambda: list(log.delete_records({pylog.TopicPartition("t", 0): 2}).values()) and 0)
        # How many segments go is a question of how many were rolled, which may be one of the time.
        self.step("retain", lambda: log.apply_retention() and None)
        self.step("clean", lambda: log.clean() and None)
        self.step("check", partition.check)

    def compact(self, log: pylog.Log) -> None:
        """The same in a compacted topic, whose segments are rolled by what is large."""
        config = self.topic | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
        if self.step("create a compacted one", lambda: log.create_topic("c", config=config) and 0) is None:
            return
        partition = log.topic("c")[0]
        for number in range(6):
            rows = [Record(os.urandom(200_000), b"k%d" % (n % 2)) for n in range(4)]
            self.step("append", lambda rows=rows: partition.append(rows).next_offset)
            self.step("delete a key", lambda n=number: partition.append([Record(None, b"k%d" % n)]).next_offset)
        self.step("clean", lambda: log.clean() and None)
        self.step("check", partition.check)
        self.step("last", lambda: [record.offset for record in partition.records()][-1:])

    def alter(self, log: pylog.Log) -> None:
        """A topic whose config is changed while it is in use."""
        made = self.step("create one to alter", lambda: log.create_topic("a") and 0)
        if made is None:
            return
        partition = log.topic("a")[0]
        for config, gone in (({}, []), (self.altered, []), ({}, list(self.altered))):
            self.step("alter", lambda config=config, gone=gone: log.alter_config("a", config, delete=gone) and 0)
            for size in (5, 600_000, 600_000, 5):
                rows = [Record(os.urandom(size), b"k")]
                self.step("append", lambda rows=rows: partition.append(rows).next_offset)
        self.step("check", partition.check)

    def send(self, log: pylog.Log) -> list[int]:
        with log.producer(**named(self.producer)) as producer:
            futures = [producer.send("t", b"s" * 300, key=b"k") for _ in range(12)]
            producer.flush(3)
            return [future.result(3).offset for future in futures]

    def transact(self, log: pylog.Log, life: str, *, abort: bool = False) -> None:
        with log.producer(**named(self.producer), transactional_id="id") as producer:
            producer.begin()
            producer.send("t", b"in a transaction", key=b"k")
            if abort:
                # What was not sent yet would never be: whether it was is a question of the time.
                producer.flush(3)
                producer.abort()
            else:
                producer.commit()

    def consume(self, log: pylog.Log, **more: Any) -> int:
        found = 0
        with log.consumer("t", **named(self.consumer), **more) as consumer:
            for _ in range(40):
                found += len(consumer.poll(timeout_ms=50 if found == 0 else 0))
            if more:
                consumer.commit()
        return found and 1

    def take_back(self, log: pylog.Log) -> None:
        """Whatever the config was, the topic takes records when it is as usual."""
        self.step("alter", lambda: log.alter_config("t", TopicConfig().to_kafka()) and 0)
        try:
            log.topic("t")[0].append([Record(b"alive", b"k")])
        except PylogError as error:
            self.said.append(["alive", "bricked", repr(error)])


def named(config: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in config.items()}


class Stuck(BaseException):
    """A case takes too long."""


def too_late(*_: object) -> None:
    raise Stuck


def answer(case: Case, folder: str) -> list[Any]:
    with tempfile.TemporaryDirectory(dir=folder) as path:
        play = Play(case, path)
        signal.alarm(SECONDS_MOST)
        try:
            play.play()
        except Stuck:
            play.said.append(["stuck", "stuck"])
        finally:
            signal.alarm(0)
        return play.said


def serve() -> None:
    """Answer the cases that come in, a line each."""
    signal.signal(signal.SIGALRM, too_late)
    threading.excepthook = lambda raised: print(raised.exc_value, file=sys.stderr)
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    for line in sys.stdin:
        print(json.dumps(answer(Case(*json.loads(line)), folder)), flush=True)
    os._exit(0)


# --- both kernels -----------------------------------------------------------------------------------------------------


class Side:
    """A process with one kernel."""

    def __init__(self, *, pure: bool) -> None:
        paths = [str(Path(pylog.__file__).parent.parent), str(Path(__file__).parents[2])]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYLOG_PURE": "1" if pure else "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.extremes.campaign", "--serve"], env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, case: Case) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()

    def said(self) -> list[Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else [["the process", "untyped", "it ended"]]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def faults(case: Case, plain: list[Any], pure: list[Any]) -> list[str]:
    """What is wrong with the answers of both kernels."""
    found = []
    for kernel, said in (("compiled", plain), ("pure", pure)):
        wrong = [step for step in said if step[1] in ("untyped", "stuck", "bricked")]
        found += [f"{case.kind} {case.name}={case.value}, {kernel}: {' '.join(map(str, step))}" for step in wrong]
    if (
        not found
        and plain != pure
        and not (case.name == "message.timestamp.before.max.ms" and case.value < SECONDS_MOST)
    ):
        one, other = next(pair for pair in zip([*plain, None], [*pure, None], strict=False) if pair[0] != pair[1])
        found.append(f"{case.kind} {case.name}={case.value}: compiled says {one}, pure {other}")
    return found


def run(wanted: list[Case]) -> list[str]:
    """What is wrong with some cases, in words."""
    found = []
    sides = [Side(pure=False), Side(pure=True)]
    try:
        for case in wanted:
            for side in sides:
                side.ask(case)
            found += faults(case, *(side.said() for side in sides))
    finally:
        for side in sides:
            side.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("budget", type=int, nargs="?", default=100_000, help="how many cases at most")
    parser.add_argument("--only", default="", help="only configs with this in their names")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    wanted = [case for case in cases() if arguments.only in case.name]
    wanted = wanted[:: max(-(-len(wanted) // arguments.budget), 1)]
    found = run(wanted)
    for fault in found:
        print(fault)
    print(f"{len(wanted)} cases, {len(found)} faults")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
