"""Checks a history: `check` finds what a log that keeps its promises cannot have shown. Pure functions, O(n log n).

Kafka has no isolation among writers: transactions that are open at the same time lie mixed in their partitions. So the
order of writes may have cycles (G0), also with reads in them; they are found and named, and are no failure. A cycle of
reads alone (G1c) is one: each of its transactions would have seen the next one committed before itself.

After jepsen.tests.kafka and Elle (Kingsbury, Alvaro: VLDB 2020).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from .cycles import components, union
from .history import Moved, Op, Outcome, Partition, Poll, Read, Send, Value


class Anomaly(Enum):
    INCONSISTENT_OFFSET = "two values were seen at one offset"
    DUPLICATE = "one value lies at two offsets"
    LOST_WRITE = "an answered value was passed over by everybody"
    UNSEEN = "an answered value was never read, though all was read at the end"
    ABORTED_READ = "a value of what failed was read (G1a)"
    UNWRITTEN_READ = "a value was read that nobody wrote"
    PRECOMMITTED_READ = "a value was read before its transaction was to end"
    TORN_TRANSACTION = "of a transaction some values were read, and others passed over"
    NONMONOTONIC_POLL = "a consumer went back between two operations"
    INTERNAL_NONMONOTONIC_POLL = "a consumer went back within one operation"
    SKIPPED_POLL = "a consumer left values out between two operations"
    INTERNAL_SKIPPED_POLL = "a consumer left values out within one operation"
    NONMONOTONIC_SEND = "a producer's later operation lies before its earlier one"
    INTERNAL_NONMONOTONIC_SEND = "within one operation, what was sent later lies before what was sent earlier"
    G0 = "transactions overwrite each other in a circle"
    G1C = "transactions read of each other in a circle"
    G1C_OF_WRITES = "transactions read and overwrite each other in a circle"


ALLOWED = {Anomaly.G0, Anomaly.G1C_OF_WRITES}


class Finding(NamedTuple):
    anomaly: Anomaly
    what: str
    ops: tuple[int, ...]
    """The places in the history of those that took part."""


@dataclass(frozen=True, slots=True)
class Write:
    op: int
    send: Send


class Facts:
    """What a history says, by value and by partition."""

    def __init__(self, history: Sequence[Op], *, complete: bool) -> None:
        self.history = history
        self.complete = complete
        self.writes: dict[Value, Write] = {}
        self.reads: list[tuple[int, Read]] = []
        self.readers: dict[Value, int] = {}
        self.furthest: dict[Partition, int] = defaultdict(lambda: -1)
        self.seen: dict[tuple[Partition, int], dict[Value, int]] = defaultdict(dict)
        """What was said to lie at an offset, and by which operation first."""
        for place, op in enumerate(history):
            for action in op.actions:
                if isinstance(action, Send):
                    self.writes[action.value] = Write(place, action)
                    if action.offset is not None:
                        self.seen[action.partition, action.offset].setdefault(action.value, place)
                elif isinstance(action, Poll):
                    for read in action.reads:
                        self._read(place, read)

    def _read(self, place: int, read: Read) -> None:
        self.reads.append((place, read))
        self.readers.setdefault(read.value, place)
        self.seen[read.partition, read.offset].setdefault(read.value, place)
        self.furthest[read.partition] = max(self.furthest[read.partition], read.offset)

    def is_committed(self, place: int) -> bool:
        """Whether the operation happened: it was said to have, or one of its values was read."""
        outcome = self.history[place].outcome
        return outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and place in self.observed)

    @cached_property
    def observed(self) -> set[int]:
        return {self.writes[value].op for value in self.readers if value in self.writes}

    @cached_property
    def orders(self) -> dict[Partition, list[tuple[int, Value]]]:
        """Of each partition, what is visible in it, by offset."""
        orders: dict[Partition, list[tuple[int, Value]]] = defaultdict(list)
        for (partition, offset), values in self.seen.items():
            for value in values:
                write = self.writes.get(value)
                if value in self.readers or (write is not None and self.is_committed(write.op)):
                    orders[partition].append((offset, value))
                    break
        for order in orders.values():
            order.sort(key=lambda item: item[0])
        return orders

    @cached_property
    def ranks(self) -> dict[tuple[Partition, int], int]:
        """The how-manieth visible one of its partition an offset is."""
        return {(name, offset): rank for name, order in self.orders.items() for rank, (offset, _) in enumerate(order)}

    def lasts(self, place: int) -> bool:
        """Whether what an operation was answered holds after a crash."""
        op = self.history[place]
        return op.outcome is Outcome.OK or not op.transactional

    def is_passed(self, send: Send) -> bool:
        """Whether a consumer had to see it by now, and none did."""
        if send.value in self.readers:
            return False
        return self.complete if send.offset is None else self.furthest[send.partition] > send.offset


def check(history: Sequence[Op], *, complete: bool = False) -> list[Finding]:
    """Everything that is wrong; `complete`: at the end everything was read up to the end of every partition."""
    facts = Facts(history, complete=complete)
    return [finding for find in FINDERS for finding in find(facts)]


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """Those that Kafka does not allow."""
    return [finding for finding in findings if finding.anomaly not in ALLOWED]


# --- places ----------------------------------------------------------------------------------------------------------


def inconsistent_offsets(facts: Facts) -> Iterator[Finding]:
    """The answer of a record in a transaction that has not committed, and was not read, says nothing that lasts: a
    crash may take the record, and its offset is given again.
    """
    for (partition, offset), seen in facts.seen.items():
        values = {value: place for value, place in seen.items() if value in facts.readers or facts.lasts(place)}
        if len(values) > 1:
            what = f"{partition} at {offset}: {sorted(values, key=repr)}"
            yield Finding(Anomaly.INCONSISTENT_OFFSET, what, tuple(values.values()))


def duplicates(facts: Facts) -> Iterator[Finding]:
    places: dict[Value, list[tuple[Partition, int]]] = defaultdict(list)
    for where, values in facts.seen.items():
        for value in values:
            places[value].append(where)
    for value, where_all in places.items():
        if len(where_all) > 1:
            ops = tuple(facts.seen[where][value] for where in where_all)
            yield Finding(Anomaly.DUPLICATE, f"{value} at {sorted(where_all, key=repr)}", ops)


# --- writes that were not read, and reads that should not have been ---------------------------------------------------


def lost_writes(facts: Facts) -> Iterator[Finding]:
    for value, write in facts.writes.items():
        if facts.history[write.op].outcome is not Outcome.OK or value in facts.readers:
            continue
        if write.send.offset is not None and facts.is_passed(write.send):
            yield Finding(Anomaly.LOST_WRITE, f"{write.send}", (write.op,))
        elif facts.complete:
            yield Finding(Anomaly.UNSEEN, f"{write.send}", (write.op,))


def torn_transactions(facts: Facts) -> Iterator[Finding]:
    for place in sorted(facts.observed):
        op = facts.history[place]
        absent = [action for action in op.actions if isinstance(action, Send) and facts.is_passed(action)]
        if op.transactional and op.outcome is not Outcome.FAILED and absent:
            yield Finding(Anomaly.TORN_TRANSACTION, f"absent: {absent}", (place,))


def wrong_reads(facts: Facts) -> Iterator[Finding]:
    for place, read in facts.reads:
        write = facts.writes.get(read.value)
        if write is None:
            yield Finding(Anomaly.UNWRITTEN_READ, f"{read}", (place,))
            continue
        writer, reader = facts.history[write.op], facts.history[place]
        if writer.outcome is Outcome.FAILED:
            yield Finding(Anomaly.ABORTED_READ, f"{read}", (write.op, place))
        began = writer.start if writer.ending is None else writer.ending
        if (writer is reader and writer.transactional) or reader.end < began:
            yield Finding(Anomaly.PRECOMMITTED_READ, f"{read}", (write.op, place))


# --- the order that one process sees ---------------------------------------------------------------------------------


def polls(facts: Facts) -> Iterator[Finding]:
    last: dict[tuple[object, Partition], tuple[int, int]] = {}
    for place, op in enumerate(facts.history):
        for action in op.actions:
            if isinstance(action, Moved):
                for partition in action.partitions:
                    last.pop((op.process, partition), None)
            elif isinstance(action, Poll):
                for read in action.reads:
                    key = (op.process, read.partition)
                    if key in last:
                        yield from _step(facts, read, *last[key], place)
                    last[key] = (read.offset, place)


def _step(facts: Facts, read: Read, before: int, earlier: int, place: int) -> Iterator[Finding]:
    internal = earlier == place
    what = f"{read.partition}: {read.offset} after {before}"
    if read.offset <= before:
        kind = Anomaly.INTERNAL_NONMONOTONIC_POLL if internal else Anomaly.NONMONOTONIC_POLL
        yield Finding(kind, what, (earlier, place))
    elif facts.ranks[read.partition, read.offset] > facts.ranks[read.partition, before] + 1:
        kind = Anomaly.INTERNAL_SKIPPED_POLL if internal else Anomaly.SKIPPED_POLL
        yield Finding(kind, what, (earlier, place))


def sends(facts: Facts) -> Iterator[Finding]:
    """The order of what was sent. A power cut lets offsets of what has failed be given again: it was not durable."""
    last: dict[tuple[object, Partition], tuple[int, int]] = {}
    for place, op in enumerate(facts.history):
        seen = {} if op.outcome is Outcome.FAILED else last
        for action in op.actions:
            if not isinstance(action, Send) or action.offset is None:
                continue
            key = (op.process, action.partition)
            before, earlier = seen.get(key, (-1, place))
            if action.offset <= before:
                kind = Anomaly.INTERNAL_NONMONOTONIC_SEND if earlier == place else Anomaly.NONMONOTONIC_SEND
                what = f"{action.partition}: {action.offset} after {before}"
                yield Finding(kind, what, (earlier, place))
            seen[key] = (action.offset, place)


# --- cycles ----------------------------------------------------------------------------------------------------------


def cycles(facts: Facts) -> Iterator[Finding]:
    """Each circle under the strictest name that fits it."""
    writes, reads = _write_order(facts), _read_order(facts)
    named: list[set[int]] = []
    for anomaly, graph in ((Anomaly.G1C, reads), (Anomaly.G0, writes), (Anomaly.G1C_OF_WRITES, union(reads, writes))):
        for circle in components(graph):
            if circle not in named:
                named.append(circle)
                yield Finding(anomaly, f"{len(circle)} transactions", tuple(sorted(circle)))


def _write_order(facts: Facts) -> dict[int, set[int]]:
    graph: dict[int, set[int]] = defaultdict(set)
    for order in facts.orders.values():
        writers = [facts.writes[value].op for _, value in order if value in facts.writes]
        for before, after in pairwise([place for place in writers if facts.history[place].transactional]):
            if before != after:
                graph[before].add(after)
    return graph


def _read_order(facts: Facts) -> dict[int, set[int]]:
    graph: dict[int, set[int]] = defaultdict(set)
    for place, read in facts.reads:
        write = facts.writes.get(read.value)
        if write is None or write.op == place:
            continue
        if all(facts.history[each].transactional and facts.is_committed(each) for each in (write.op, place)):
            graph[write.op].add(place)
    return graph


FINDERS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    inconsistent_offsets,
    duplicates,
    lost_writes,
    torn_transactions,
    wrong_reads,
    polls,
    sends,
    cycles,
)
