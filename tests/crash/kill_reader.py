"""What is held against everything that can be read of a directory, by processes that look on while its writers die.

t    offsets follow one another, lives rise, numbers within a life have no holes     (but for what retention took)
c    offsets rise, lives and numbers rise, and no key that was there is missing
x    read_committed: whole transactions in order, none that was to be aborted
"""

import random
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection

import pylog
from pylog import TopicPartition
from pylog.handles.views import PartitionView
from tests.support.canaries import Canaries

from .kill_writer import PARTITIONS, canaries_of, key_of, numbers_of

Row = tuple[int, int, int]
"""Offset, life, number."""


class Follower:
    """What a reader has seen of one partition of `t`, from wherever it began."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def see(self, record: pylog.ConsumerRecord, start_offset: int) -> None:
        """Take the next record; a jump is for retention alone, which has moved the start up to `start_offset`."""
        assert record.value is not None
        life, number = map(int, numbers_of(record.value))
        row = (record.offset, life, number)
        if self.rows:
            offset, last_life, last = self.rows[-1]
            if record.offset != offset + 1:
                assert offset + 1 < start_offset <= record.offset, f"{row} after {self.rows[-1]}: a hole"
                assert (last_life, last) < (life, number), f"{row} after {self.rows[-1]}: not in order"
            else:
                follows = number == last + 1 if life == last_life else life > last_life and number == 0
                assert follows, f"{row} after {self.rows[-1]}: not in order"
        self.rows.append(row)


def check_compacted(records: Iterable[pylog.ConsumerRecord], seen: dict[bytes, Row]) -> None:
    """Look at all of `c`; `seen` has the newest of each key so far, and gets newer ones."""
    last: Row = (-1, -1, -1)
    newest: dict[bytes, Row] = {}
    for record in records:
        assert record.value is not None and record.key is not None
        life, number = map(int, numbers_of(record.value))
        assert record.key == key_of(number)
        row = (record.offset, life, number)
        assert record.offset > last[0] and (life, number) > last[1:], f"{row} after {last}: not in order"
        newest[record.key] = last = row
    for key, row in seen.items():
        assert key in newest and newest[key] >= row, f"{key!r}: {row} was there, now {newest.get(key)}"
    seen.update(newest)


class Transactions:
    """What was seen of `x` under read_committed."""

    def __init__(self) -> None:
        self.whole: list[tuple[int, int]] = []
        self._open: list[int] = []

    def see(self, record: pylog.ConsumerRecord) -> None:
        assert record.value is not None
        life, transaction, index, count, intent = numbers_of(record.value)
        assert intent == "commit", f"offset {record.offset}: a record of a transaction that is to be aborted"
        key = int(life), int(transaction)
        if int(index) == 0:
            assert not self._open, f"offset {record.offset}: {key} begins inside {self.whole[-1]}"
            assert not self.whole or self.whole[-1] < key, f"offset {record.offset}: {key} after {self.whole[-1]}"
            self.whole.append(key)
        assert self.whole[-1] == key and len(self._open) == int(index), f"offset {record.offset}: {key} is torn"
        self._open = [*self._open, int(index)] if int(index) + 1 < int(count) else []

    def check_ended(self) -> None:
        """At the last stable offset nothing is half there."""
        assert not self._open, f"{self.whole[-1]} is torn"


def follow_appends(log: pylog.Log, stop: Connection) -> dict[int, list[Row]]:
    """Consume `t` until told to stop, and then to its end."""
    followers = {partition: Follower() for partition in range(PARTITIONS)}
    with log.consumer("t", auto_offset_reset="earliest", max_partition_fetch_bytes=5000) as consumer:
        stopping = False
        while True:
            records = consumer.poll(5)
            for record in records:
                follower = followers[record.partition]
                follower.see(record, log.topic("t")[record.partition].start_offset if follower.rows else 0)
            if stopping and not records:
                return {partition: follower.rows for partition, follower in followers.items()}
            stopping = stopping or stop.poll()


def follow_transactions(log: pylog.Log, stop: Connection) -> dict[int, list[Row]]:
    """Consume the committed records of `x`; begin anew at a random offset now and then."""
    chance, stopping = random.Random(1), False
    key = TopicPartition("x", 0)
    with log.consumer(
        auto_offset_reset="earliest", isolation_level="read_committed", max_partition_fetch_bytes=3000
    ) as consumer:
        consumer.assign([key])
        seen = Transactions()
        while True:
            records = consumer.poll(5)
            for record in records:
                seen.see(record)
            if not records:
                seen.check_ended()
                if stopping:
                    return {}
                if chance.random() < 0.3:
                    consumer.seek_to_beginning(key)
                    seen = Transactions()
            stopping = stopping or stop.poll()


def all_of(view: PartitionView) -> Iterator[pylog.ConsumerRecord]:
    """Up to an end that has stayed where it was: the newest of a key may move behind an earlier end meanwhile."""
    position = view.start_offset
    while position < (end := view.high_watermark):
        yield from view.records(position, end)
        position = end


def scan_compacted(log: pylog.Log, stop: Connection) -> dict[int, list[Row]]:
    """Read all of `c`, again and again."""
    seen: dict[bytes, Row] = {}
    while True:
        stopping = stop.poll()
        check_compacted(all_of(log.topic("c")[0]), seen)
        if stopping:
            return {}


JOBS = (follow_appends, follow_transactions, scan_compacted)


def read(path: str, job: int, stop: Connection, result: Connection) -> None:
    """The whole life of a reading process: says what it has seen, or what was wrong with it."""
    try:
        with Canaries(canaries_of(path)), pylog.open(path, mode="read") as log:
            result.send((None, JOBS[job](log, stop)))
    except BaseException as error:  # noqa: BLE001
        result.send((f"{JOBS[job].__name__}: {type(error).__name__}: {error}", {}))
