"""A process with a log that is going to lose its power: it does anything a log can do, and says what was promised.

    python writer.py ROOT MODE SEED STEPS        a log in ROOT/one and ROOT/two, with that flush mode

Each promise is a line of JSON, noted the moment it is made: by the recorder where that is preloaded, else on stdout.

    ["try", number]                          a record of this number is about to be sent
    ["ack", topic, partition, offset, number, key]    it was acknowledged there
    ["begin", transaction, [numbers]]        these belong to one transaction, which is about to be decided
    ["commit" | "abort", transaction]        it was, and was acknowledged
    ["start", topic, partition, offset]      its records below were deleted, and that was acknowledged
    ["committed", topic, partition, offset]  the group's offset
    ["making topic", name], ["topic", name]  it is going to be made; it was
    ["deleting topic", name], ["gone", name] it is going to be deleted, with its records; it was, and they never return
    ["durable", topic, partition, offset]    its records below are durable, whatever the mode
    ["spoiled", topic, partition, offset]    the batch there was damaged
    ["flushed"]                              everything before is as safe as it would be with flush="sync"
"""

import ctypes
import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pylog
from pylog import TopicPartition
from pylog.runtime.future import Future

GROUP = "group"
SMALL = {"index.interval.bytes": 300}
NODE = {
    "log.segment.delete.delay.ms": 0, "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1,
}  # fmt: skip
PLAIN, PAIRS, MONEY, SPOILED = "plain", "pairs", "money", "spoiled"
BURST = "burst"
"""The name of the threads of a burst."""


def noter() -> Callable[[bytes], object]:
    """What notes a promise."""
    note = getattr(ctypes.CDLL(None), "pylog_note", None)
    writing = threading.Lock()

    def write(line: bytes) -> None:
        if note is not None:
            note(line, ctypes.c_size_t(len(line)))
            return
        with writing:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    return write


class AbortedError(Exception):
    """Ends a transaction."""


class Writer:
    """The workload: `step` does one thing of those that there are, at random."""

    def __init__(self, root: Path, mode: Any, seed: int, note: Callable[[bytes], object]) -> None:
        self.paths = [str(root / "one"), str(root / "two")]
        self.mode = mode
        self.chance = random.Random(seed)
        self._note = note
        self.number = 0
        self.transactions = 0
        self.numbering = threading.Lock()
        self.log = self.opened()
        self.steps = [
            *[self.send] * 6, *[self.burst] * 3, *[self.pairs] * 3, *[self.transaction] * 4, self.delete_records,
            self.delete_records, self.clean, self.clean, self.move, self.commit, self.roll, self.flush, self.reopen,
            self.replace_topic, self.group, self.retain,
        ]  # fmt: skip

    def note(self, *what: object) -> None:
        """A promise."""
        self._note(json.dumps(what).encode())

    def begin(self) -> None:
        """Make the topics."""
        self.topic(PLAIN, 3)
        self.topic(PAIRS, 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01})
        self.topic(MONEY, 2)

    def opened(self) -> pylog.Log:
        return pylog.open(self.paths, flush=self.mode, config=NODE)

    def topic(self, name: str, partitions: int, config: dict[str, Any] | None = None) -> None:
        self.note("making topic", name)
        self.log.create_topic(name, partitions, {**SMALL, **(config or {})})
        self.note("topic", name)

    def step(self) -> None:
        """One thing."""
        self.chance.choice(self.steps)()

    def value(self) -> tuple[int, bytes]:
        with self.numbering:
            self.number += 1
            return self.number, b"%08d" % self.number + bytes(self.chance.choice((0, 30, 400)))

    def sent(self, producer: pylog.Producer, topic: str, key: bytes | None = None) -> tuple[int, Future[Any]]:
        number, value = self.value()
        self.note("try", number)
        return number, producer.send(topic, value, key)

    def acknowledged(self, number: int, future: Future[Any], key: bytes | None = None) -> None:
        at = future.result(60)
        self.note("ack", at.topic, at.partition, at.offset, number, None if key is None else key.decode())

    def send(self) -> None:
        with self.log.producer(linger_ms=1) as producer:
            for sent in [self.sent(producer, PLAIN) for _ in range(self.chance.choice((1, 1, 3, 12)))]:
                self.acknowledged(*sent)

    def burst(self) -> None:
        """Threads that share syncs."""
        raised: list[BaseException] = []

        def one() -> None:
            try:
                with self.log.producer() as producer:
                    for _ in range(4):
                        self.acknowledged(*self.sent(producer, PLAIN))
            except BaseException as error:  # noqa: BLE001 - it is raised again
                raised.append(error)

        threads = [threading.Thread(target=one, name=BURST) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]

    def pairs(self) -> None:
        with self.log.producer() as producer:
            for _ in range(6):
                key = b"key-%d" % self.chance.randrange(5)
                self.acknowledged(*self.sent(producer, PAIRS, key), key)

    def transaction(self) -> None:
        self.transactions += 1
        sent: list[tuple[int, Future[Any]]] = []
        # Where the disk refuses, a minute would be spent on trying again.
        with self.log.producer(transactional_id="till", max_block_ms=3000) as producer:
            try:
                with producer.transaction():
                    topics = self.chance.choices((PLAIN, MONEY), k=self.chance.randrange(1, 6))
                    sent += [self.sent(producer, topic) for topic in topics]
                    offset = self.transactions if self.chance.random() < 0.4 else -1
                    if offset >= 0:
                        producer.send_offsets({TopicPartition(MONEY, 0): offset}, GROUP)
                    self.note("begin", self.transactions, [number for number, _ in sent], offset)
                    if self.chance.random() < 0.3:
                        raise AbortedError
            except AbortedError:
                self.note("abort", self.transactions)
                return
            self.note("commit", self.transactions)
        for number, future in sent:
            self.acknowledged(number, future)

    def delete_records(self) -> None:
        number = self.chance.randrange(3)
        view = self.log.topic(PLAIN)[number]
        if view.start_offset < view.high_watermark:
            offset = self.chance.randint(view.start_offset, view.high_watermark)
            self.note("deleting", PLAIN, number, offset)
            self.log.delete_records({TopicPartition(PLAIN, number): offset})
            self.note("start", PLAIN, number, offset)
            if self.chance.random() < 0.5:
                self.log.apply_retention()

    def clean(self) -> None:
        self.roll()
        self.log.clean(PAIRS)

    def roll(self) -> None:
        for topic in (PLAIN, PAIRS, MONEY):
            for view in self.log.topic(topic):
                if view.next_offset > view.start_offset and self.chance.random() < 0.5:
                    self.log.broker.partition(topic, view.partition).roll(0)
                    self.note("durable", topic, view.partition, view.durable_offset)

    def move(self) -> None:
        self.log.move_partition(PLAIN, self.chance.randrange(3), self.chance.choice(self.paths))

    def commit(self) -> None:
        offset = self.chance.randrange(1 << 20)
        key = TopicPartition(PLAIN, self.chance.randrange(3))
        self.note("committing", *key, offset)
        self.log.admin.alter_offsets(GROUP, {key: offset})
        self.note("committed", *key, offset)

    def repair(self) -> None:
        """What is damaged is given up."""
        self.log.repair(self.log.find_damage())

    def retain(self) -> None:
        """Retention takes what it may."""
        for view in self.log.topic(PLAIN):
            self.note("deleting", PLAIN, view.partition, view.next_offset)
        self.log.alter_config(PLAIN, {"retention.bytes": 1})
        self.roll()
        self.log.apply_retention()
        self.log.alter_config(PLAIN, delete=["retention.bytes"])

    def group(self) -> None:
        """A group of its own reads and commits."""
        with self.log.consumer(PLAIN, group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.poll(timeout_ms=2000, max_records=5)
            consumer.commit()

    def flush(self) -> None:
        self.log.flush()
        self.note("flushed")

    def reopen(self) -> None:
        self.log.close()
        self.note("flushed")
        self.log = self.opened()

    def replace_topic(self) -> None:
        """A topic that comes and goes, by the same name."""
        name = "extra"
        if name in self.log.topics():
            self.note("deleting topic", name)
            self.log.delete_topic(name)
            self.note("gone", name)
        self.topic(name, 1)
        with self.log.producer() as producer:
            self.acknowledged(*self.sent(producer, name))


def main(root: str, mode: str, seed: str, steps: str) -> None:
    writer = Writer(Path(root), mode, int(seed), noter())
    writer.begin()
    for _ in range(int(steps)):
        writer.step()
    writer.log.close()
    writer.note("flushed")


if __name__ == "__main__":
    main(*sys.argv[1:])
