"""Appending 100-byte values with 8-byte keys: lists of 1000 and single sends, against sqlite3, lmdb and a bare write.

What each way promises when the power goes differs as little as the ways allow: pylog syncs once a second (`interval`)
or leaves it to the kernel (`none`), sqlite3 in WAL mode with synchronous=NORMAL syncs at checkpoints, lmdb (sync=False)
and the bare write do not sync. The records are made beforehand; sqlite3 gets the same columns (offset, time, key,
value), lmdb only offset and value.
"""

import os
import sqlite3
import struct
import time
from pathlib import Path

import lmdb

import pylog
from harness import keys_and_values, measure, quick, report, scratch, stopwatch

BATCH = 1000
COUNT = 20_000 if quick() else 200_000
ROUNDS = 2 if quick() else 7

ROWS = keys_and_values(COUNT)
NOW_MS = time.time_ns() // 1_000_000


def chunks(rows: list) -> list[list]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def append_lists(folder: Path, flush: str) -> float:
    lists = chunks([pylog.Record(value, key) for key, value in ROWS])
    with pylog.open(folder / "log", flush=flush) as log:
        partition = log.create_topic("bench")[0]
        partition.append(lists[0])
        taken = stopwatch()
        for records in lists:
            partition.append(records)
        seconds = taken()
        assert partition.next_offset == COUNT + BATCH
    return seconds


def send(folder: Path, flush: str) -> float:
    with pylog.open(folder / "log", flush=flush) as log:
        log.create_topic("bench")
        with log.producer() as producer:
            producer.send("bench", b"first").result()
            taken = stopwatch()
            for key, value in ROWS:
                last = producer.send("bench", value, key)
            producer.flush()
            seconds = taken()
            assert last.result().offset == COUNT
    return seconds


def sqlite(folder: Path) -> float:
    rows = chunks([(NOW_MS, key, value) for key, value in ROWS])
    database = sqlite3.connect(folder / "bench.sqlite", isolation_level=None)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=normal")
    database.execute("create table log (offset integer primary key, time integer, key blob, value blob)")
    taken = stopwatch()
    for some in rows:
        database.execute("begin")
        database.executemany("insert into log (time, key, value) values (?, ?, ?)", some)
        database.execute("commit")
    seconds = taken()
    database.close()
    return seconds


def lmdb_put(folder: Path) -> float:
    values = chunks([value for _, value in ROWS])
    pack = struct.Struct(">Q").pack
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 32, sync=False, metasync=False) as environment:
        taken = stopwatch()
        offset = 0
        for some in values:
            with environment.begin(write=True) as transaction:
                for value in some:
                    transaction.put(pack(offset), value, append=True)
                    offset += 1
        return taken()


def raw_write(folder: Path) -> float:
    blocks = [os.urandom(BATCH * 118) for _ in range(COUNT // BATCH)]
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    taken = stopwatch()
    for block in blocks:
        os.write(descriptor, block)
    seconds = taken()
    os.close(descriptor)
    return seconds


WAYS = {
    "append interval": lambda folder: append_lists(folder, "interval"),
    "append none": lambda folder: append_lists(folder, "none"),
    "send interval": lambda folder: send(folder, "interval"),
    "sqlite": sqlite,
    "lmdb": lmdb_put,
    "raw write": raw_write,
}


def fresh(name: str) -> float:
    with scratch() as folder:
        return WAYS[name](folder)


if __name__ == "__main__":
    report(
        "append",
        measure({name: lambda name=name: fresh(name) for name in WAYS}, ROUNDS),
        records=COUNT,
        ratios={
            "append / sqlite": ("append interval", "sqlite"),
            "append / lmdb": ("append none", "lmdb"),
            "append / raw write": ("append none", "raw write"),
            "send / sqlite": ("send interval", "sqlite"),
            "send / lmdb": ("send interval", "lmdb"),
        },
        notes={
            "batch": BATCH,
            "value_bytes": 100,
            "key_bytes": 8,
            "sqlite": "WAL, synchronous=NORMAL, executemany of 1000 in a transaction",
            "lmdb": "put(append=True), 1000 a transaction, sync=False, no key and no time stored",
        },
    )
