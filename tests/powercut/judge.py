"""What a log has to hold after a power cut, given what `writer` had been promised by then.

In every mode: the log opens, nothing is quarantined, every record was once sent, none is there twice, offsets rise,
what was deleted stays deleted, what was aborted is not seen by readers of committed records, every transactional id can
go on, and appends do. What was promised to be durable is there: with flush="sync" everything acknowledged, else
everything before the last flush, and what a roll has made durable. So is a promised deletion: the records of a topic
that is gone never come back.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pylog
from pylog import TopicPartition
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.files import Files, MemoryFiles
from pylog.runtime.clock import SystemClock

from .writer import GROUP, MONEY, NODE, PAIRS, PLAIN

PATHS = ["one", "two"]


@dataclass(slots=True)
class Promises:
    """What was promised by some moment."""

    tried: set[int] = field(default_factory=set)
    acknowledged: dict[tuple[str, int, int], int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    """Of each key of the compacted topic the newest number that was acknowledged."""
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    deleting: dict[tuple[str, int], int] = field(default_factory=dict)
    transactions: dict[int, tuple[str, list[int]]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    offsets_tried: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    durable: dict[tuple[str, int], int] = field(default_factory=dict)
    topics: dict[str, bool] = field(default_factory=dict)
    """Those that have to be there (True) or must not (False); not those on their way."""
    going: dict[str, set[int]] = field(default_factory=dict)
    """Of topics that are being deleted: the numbers of their records."""
    erased: set[int] = field(default_factory=set)
    """Numbers of records that went with their topic: they stay gone, also where the topic is made again."""
    spoiled: set[tuple[str, int, int]] = field(default_factory=set)
    """Where a batch was damaged on purpose: a repair gives it up."""
    twice: list[tuple[str, int, int]] = field(default_factory=list)
    """Offsets that were acknowledged to two records."""


def promises(notes: Iterable[bytes], mode: str) -> tuple[Promises, Promises]:
    """All that was said, and that part of it which has to survive a power cut."""
    said = [json.loads(note) for note in notes]
    last = max((number for number, what in enumerate(said) if what[0] == "flushed"), default=-1)
    kept = said if mode == "sync" else said[: last + 1]
    found, safe = _collected(said), _collected(kept)
    # What is deleted on purpose later may be gone.
    deleted = {what[1] for what in said[len(kept) :] if what[0] == "deleting topic"}
    durable = {at: number for at, number in found.acknowledged.items() if at[2] < found.durable.get(at[:2], 0)}
    safe.acknowledged = {at: number for at, number in (safe.acknowledged | durable).items() if at[0] not in deleted}
    return found, safe


def _collected(said: list[Any]) -> Promises:
    found = Promises()
    for what, *facts in said:
        _TAKEN[what](found, *facts)
    return found


def _acknowledged(found: Promises, topic: str, partition: int, offset: int, number: int, key: str | None) -> None:
    if found.acknowledged.setdefault((topic, partition, offset), number) != number:
        found.twice.append((topic, partition, offset))
    if key is not None:
        found.newest[key] = max(found.newest.get(key, 0), number)


def _begun(found: Promises, transaction: int, numbers: list[int], offset: int) -> None:
    found.transactions[transaction] = "begin", numbers
    if offset >= 0:
        found.offsets_tried.setdefault((MONEY, 0), set()).add(offset)


def _ended(how: str) -> Callable[[Promises, int], None]:
    def end(found: Promises, transaction: int) -> None:
        found.transactions[transaction] = how, found.transactions[transaction][1]

    return end


def _committing(found: Promises, topic: str, partition: int, offset: int) -> None:
    found.offsets_tried.setdefault((topic, partition), set()).add(offset)


def _deleting_topic(found: Promises, name: str) -> None:
    found.topics.pop(name, None)
    going = {number for (topic, *_), number in found.acknowledged.items() if topic == name}
    found.going.setdefault(name, set()).update(going)
    found.acknowledged = {at: number for at, number in found.acknowledged.items() if at[0] != name}
    found.durable = {at: offset for at, offset in found.durable.items() if at[0] != name}


def _gone(found: Promises, name: str) -> None:
    found.topics[name] = False
    found.erased |= found.going.pop(name)


def _spoiled(found: Promises, topic: str, partition: int, offset: int) -> None:
    found.spoiled.add((topic, partition, offset))
    del found.acknowledged[topic, partition, offset]


_TAKEN: dict[str, Callable[..., object]] = {
    "try": lambda found, number: found.tried.add(number),
    "ack": _acknowledged,
    "begin": _begun,
    "commit": _ended("commit"),
    "abort": _ended("abort"),
    "deleting": lambda found, topic, partition, offset: found.deleting.update({(topic, partition): offset}),
    "start": lambda found, topic, partition, offset: found.starts.update({(topic, partition): offset}),
    "committing": _committing,
    "committed": lambda found, topic, partition, offset: found.offsets.update({(topic, partition): offset}),
    "durable": lambda found, topic, partition, offset: found.durable.update({(topic, partition): offset}),
    "making topic": lambda found, name: found.topics.pop(name, None),
    "topic": lambda found, name: found.topics.update({name: True}),
    "deleting topic": _deleting_topic,
    "gone": _gone,
    "spoiled": _spoiled,
    "flushed": lambda found: None,
}


Row = tuple[int, int]
"""Offset and number of a record."""


@dataclass(slots=True)
class Judgement:
    """Collects what is wrong."""

    said: Promises
    kept: Promises
    mode: str
    wrong: list[str] = field(default_factory=list)

    def check(self, is_right: bool, words: str) -> None:
        if not is_right:
            self.wrong.append(words)

    def look(self, log: pylog.Log) -> None:
        """Look at everything."""
        self.check(log.quarantined == (), f"quarantined: {log.quarantined}")
        self.check(not self.kept.twice, f"given to two records: {self.kept.twice}")
        for name, there in self.kept.topics.items():
            if self.said.topics.get(name) is there:
                self.check((name in log.topics()) is there, f"topic {name}: there should be {there}")
        self._repair(log)
        rows = {}
        for topic in log.topics():
            for view in log.topic(topic):
                view.check()
                rows[topic, view.partition] = self._partition(view)
        self._numbers(rows)
        self._transactions(log)
        self._offsets(log)

    def _repair(self, log: pylog.Log) -> None:
        """What was damaged on purpose, and nothing else, is damaged until it is repaired, which always can be done."""
        if not self.said.spoiled:
            return
        spoiled = {at[:2] for at in self.said.spoiled}
        findings = log.find_damage()
        damaged = {(one.topic, one.partition) for one in findings.damages}
        self.check(damaged <= spoiled, f"damaged: {damaged}")
        log.repair(findings)
        self.check(not log.find_damage().damages, "repaired and still damaged")

    def _partition(self, view: Any) -> list[Row]:
        at, name = (view.topic, view.partition), f"{view.topic}-{view.partition}"
        found = [(record.offset, int((record.value or b"0")[:8])) for record in view.records()]
        there = dict(found)
        self.check([offset for offset, _ in found] == sorted(there), f"{name}: offsets do not rise")
        start = self.kept.starts.get(at, 0)
        self.check(view.start_offset >= start, f"{name} starts at {view.start_offset}, {start} was acknowledged")
        highest = max(self.said.deleting.get(at, 0), start)
        self.check(view.start_offset <= highest, f"{name} starts at {view.start_offset}, {highest} was asked for")
        if view.topic == PAIRS:
            newest: dict[str, int] = {}
            for record in view.records():
                newest[(record.key or b"").decode()] = int((record.value or b"0")[:8])
            for key, number in self.kept.newest.items():
                self.check(newest.get(key, 0) >= number, f"{name}: {key} is {newest.get(key)}, {number} acknowledged")
            return found
        for (topic, partition, offset), number in self.kept.acknowledged.items():
            if (topic, partition) == at and offset >= view.start_offset:
                self.check(there.get(offset) == number, f"{name}: offset {offset} is {there.get(offset)}, not {number}")
        return found

    def _numbers(self, rows: Mapping[tuple[str, int], list[Row]]) -> None:
        numbers = [number for found in rows.values() for _, number in found]
        self.check(len(numbers) == len(set(numbers)), "a record is there twice")
        self.check(set(numbers) <= self.said.tried, f"never sent: {set(numbers) - self.said.tried}")
        back = self.kept.erased.intersection(numbers)
        self.check(not back, f"deleted with their topic and back: {back}")

    def _transactions(self, log: pylog.Log) -> None:
        with log.producer(transactional_id="till") as producer, producer.transaction():
            producer.send(MONEY, b"%08d" % 0)
        hanging = log.admin.find_hanging_transactions()
        self.check(not hanging, f"hanging transactions: {hanging}")
        seen, starts = set(), {}
        for topic in (PLAIN, MONEY):
            for view in log.topic(topic):
                starts[topic, view.partition] = view.start_offset
                self.check(
                    view.last_stable_offset == view.high_watermark, f"{topic}-{view.partition}: readers are stuck"
                )
                seen |= {int((one.value or b"0")[:8]) for one in view.records(isolation_level="read_committed")}
        deleted = {
            number for (*at, offset), number in self.said.acknowledged.items() if offset < starts.get((*at,), 0)
        }  # fmt: skip
        for transaction, (_, numbers) in self.said.transactions.items():
            left = set(numbers) - deleted
            if self.said.transactions[transaction][0] == "abort":
                self.check(not left & seen, f"transaction {transaction} was aborted and is seen")
            elif self.kept.transactions.get(transaction, ("", []))[0] == "commit":
                self.check(left <= seen, f"transaction {transaction} was committed: {left - seen} are not seen")
            elif self.mode == "sync" and not self.said.deleting:
                self.check(
                    not left & seen or left <= seen, f"transaction {transaction} is torn: {left & seen} of {left}"
                )

    def _offsets(self, log: pylog.Log) -> None:
        committed = {tuple(key): one.offset for key, one in log.admin.committed(GROUP).items()}
        for at, offset in self.kept.offsets.items():
            later = self.said.offsets_tried.get(at, set())
            self.check(
                committed.get(TopicPartition(*at)) in later | {offset}, f"{at}: committed is {committed.get(at)}"
            )


def opened(files: Files, paths: list[str], mode: str) -> pylog.Log:
    """The log in these files, as `pylog.open` opens it."""
    transport, clock = pylog.MemoryTransport(), SystemClock()
    config = NodeConfig.from_kafka(NODE)
    broker = Broker(files, paths, config=config, clock=clock, transport=transport, node_id=None, flush=mode)
    return pylog.Log(paths[0], broker, broker, transport, clock)


def judged(tree: Mapping[str, bytes | None], notes: Iterable[bytes], mode: str) -> list[str]:
    """What is wrong with what a power cut has left; nothing, where the log had not been made yet."""
    said, kept = promises(notes, mode)
    tree = {**dict.fromkeys(PATHS), **tree}
    return judged_files(MemoryFiles(None, tree), PATHS, said, kept, mode)


def judged_files(files: Files, paths: list[str], said: Promises, kept: Promises, mode: str) -> list[str]:
    """The same of files that lie anywhere."""
    judgement = Judgement(said, kept, mode)
    if not {PLAIN, PAIRS, MONEY} <= kept.topics.keys():
        with opened(files, paths, mode):
            return []
    with opened(files, paths, mode) as log:
        judgement.look(log)
    with opened(files, paths, mode) as log:
        judgement.check(log.recovered == () == log.quarantined, "after a clean close something was cut")
    return judgement.wrong
