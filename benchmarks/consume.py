"""Reading everything back, oldest first: a consumer's lists and its iteration, against sqlite3, lmdb and a bare read.

All files are in the page cache. pylog gives offset, time, key, value and headers of each record and checks each batch's
CRC; sqlite3 selects offset, time, key and value; lmdb iterates offset and value. "lists" hands over up to 10,000
records at once, "for" one at a time; in both, every value is looked at.
"""

import os
import sqlite3
import struct
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

import pylog
from harness import VALUE_BYTES, keys_and_values, measure, quick, report, scratch, stopwatch

AT_ONCE = 10_000
COUNT = 20_000 if quick() else 300_000
ROUNDS = 2 if quick() else 7
TOTAL = COUNT * VALUE_BYTES


def write_all(folder: Path) -> None:
    rows = keys_and_values(COUNT)
    now_ms = time.time_ns() // 1_000_000
    with pylog.open(folder / "log", flush="none") as log:
        for topic, codec in (("plain", "none"), ("lz4", "lz4"), ("zstd", "zstd")):
            log.create_topic(topic)
            with log.producer(compression_type=codec) as producer:
                for key, value in rows:
                    producer.send(topic, value, key)
    database = sqlite3.connect(folder / "bench.sqlite")
    database.execute("create table log (offset integer primary key, time integer, key blob, value blob)")
    database.executemany(
        "insert into log (time, key, value) values (?, ?, ?)", ((now_ms, key, value) for key, value in rows)
    )
    database.commit()
    database.close()
    with (
        lmdb.open(str(folder / "lmdb"), map_size=1 << 32, sync=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for offset, (_, value) in enumerate(rows):
            transaction.put(struct.pack(">Q", offset), value, append=True)


def lists(log: pylog.Log, topic: str) -> float:
    with log.consumer(topic, auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, size, left = stopwatch(), 0, COUNT
        while left:
            records = consumer.poll(timeout_ms=10_000)
            left -= len(records)
            for record in records:
                size += len(record.value)
        return checked(taken(), size)


def one_at_a_time(log: pylog.Log, topic: str) -> float:
    with log.consumer(topic, auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, size, left = stopwatch(), 0, COUNT
        for record in consumer:
            size += len(record.value)
            left -= 1
            if not left:
                break
        return checked(taken(), size)


def arrow(log: pylog.Log, topic: str) -> float:
    taken, size = stopwatch(), 0
    for batch in log.topic(topic)[0].columns(columns=["offset", "timestamp", "key", "value"]):
        size += batch.num_rows * VALUE_BYTES
    return checked(taken(), size)


def sqlite_lists(folder: Path) -> float:
    database = sqlite3.connect(folder / "bench.sqlite")
    taken, size = stopwatch(), 0
    rows = database.execute("select offset, time, key, value from log order by offset")
    while some := rows.fetchmany(AT_ONCE):
        for row in some:
            size += len(row[3])
    seconds = taken()
    database.close()
    return checked(seconds, size)


def sqlite_for(folder: Path) -> float:
    database = sqlite3.connect(folder / "bench.sqlite")
    taken, size = stopwatch(), 0
    for row in database.execute("select offset, time, key, value from log order by offset"):
        size += len(row[3])
    seconds = taken()
    database.close()
    return checked(seconds, size)


def lmdb_for(folder: Path) -> float:
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 32, readonly=True) as environment, environment.begin() as read:
        taken, size = stopwatch(), 0
        for _, value in read.cursor():
            size += len(value)
        return checked(taken(), size)


def raw_read(folder: Path) -> float:
    files = sorted((folder / "log" / "plain-0").glob("*.log"))
    taken = stopwatch()
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        position = 0
        while data := os.pread(descriptor, 1 << 20, position):
            position += len(data)
        os.close(descriptor)
    return taken()


def checked(seconds: float, size: int) -> float:
    assert size == TOTAL, f"{size} bytes of values were read, {TOTAL} were written"
    return seconds


def main() -> None:
    with scratch() as folder:
        write_all(folder)
        with pylog.open(folder / "log", flush="none") as log:
            ways: dict[str, Callable[[], float]] = {
                "poll lists": lambda: lists(log, "plain"),
                "poll lists lz4": lambda: lists(log, "lz4"),
                "poll lists zstd": lambda: lists(log, "zstd"),
                "for": lambda: one_at_a_time(log, "plain"),
                "arrow": lambda: arrow(log, "plain"),
                "sqlite lists": lambda: sqlite_lists(folder),
                "sqlite for": lambda: sqlite_for(folder),
                "lmdb": lambda: lmdb_for(folder),
                "raw read": lambda: raw_read(folder),
            }
            seconds = measure(ways, ROUNDS)
        report(
            "consume",
            seconds,
            records=COUNT,
            ratios={
                "lists / sqlite": ("poll lists", "sqlite lists"),
                "lists / lmdb": ("poll lists", "lmdb"),
                "for / sqlite": ("for", "sqlite for"),
                "for / lmdb": ("for", "lmdb"),
                "lz4 lists / sqlite": ("poll lists lz4", "sqlite lists"),
                "zstd lists / sqlite": ("poll lists zstd", "sqlite lists"),
                "arrow / lmdb": ("arrow", "lmdb"),
                "arrow / raw read": ("arrow", "raw read"),
            },
            notes={"records_in_a_list": AT_ONCE, "value_bytes": 100, "key_bytes": 8, "lmdb": "offset and value only"},
        )


if __name__ == "__main__":
    main()
