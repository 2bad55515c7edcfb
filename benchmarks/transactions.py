"""Transactions of 1 and of 100 records, against sqlite3's; and commits of a group's offsets.

Both lie on the same disk and promise the same: what was committed survives a power cut (sqlite3: WAL with
synchronous=FULL), and what was not is nowhere. A transaction of the log is more than one of sqlite3's: it spans
partitions, its coordinator could be elsewhere, and other processes' readers see it whole. "page cache" is flush="none",
against sqlite3 with synchronous=OFF.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pylog
from harness import Way, fresh, keys_and_values, measure, report, scaled, stopwatch

COUNT = scaled(usual=100, quick=5)
LAZY = scaled(usual=500, quick=5)
ROUNDS = scaled(usual=5, quick=2)
ROWS = keys_and_values(100)
KEY = pylog.TopicPartition("bench", 0)


def transactions(flush: str, records: int, count: int) -> Callable[[Path], float]:
    def way(folder: Path) -> float:
        with pylog.open(folder / "log", flush=flush) as log:  # type: ignore[arg-type]
            log.create_topic("bench")
            with log.producer(transactional_id="bench") as producer:
                with producer.transaction():
                    producer.send("bench", b"first")
                taken = stopwatch()
                for _ in range(count):
                    with producer.transaction():
                        for key, value in ROWS[:records]:
                            producer.send("bench", value, key)
                return taken() / count

    return way


def sqlite(synchronous: str, records: int, count: int) -> Callable[[Path], float]:
    def way(folder: Path) -> float:
        database = sqlite3.connect(folder / "db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {synchronous}")
        database.execute("CREATE TABLE log (offset INTEGER PRIMARY KEY, key BLOB, value BLOB)")
        taken = stopwatch()
        for _ in range(count):
            database.execute("BEGIN")
            database.executemany("INSERT INTO log (key, value) VALUES (?, ?)", ROWS[:records])
            database.execute("COMMIT")
        seconds = taken()
        database.close()
        return seconds / count

    return way


def commits(flush: str, count: int) -> Callable[[Path], float]:
    def way(folder: Path) -> float:
        with pylog.open(folder / "log", flush=flush) as log:  # type: ignore[arg-type]
            log.create_topic("bench")
            log.topic("bench")[0].append([pylog.Record(value, key) for key, value in ROWS])
            with log.consumer(
                "bench", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer:
                while not consumer.poll(timeout_ms=1000):
                    pass
                taken = stopwatch()
                for number in range(count):
                    consumer.commit({KEY: number})
                return taken() / count

    return way


def sqlite_update(synchronous: str, count: int) -> Callable[[Path], float]:
    def way(folder: Path) -> float:
        database = sqlite3.connect(folder / "db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {synchronous}")
        database.execute("CREATE TABLE offsets (name TEXT PRIMARY KEY, offset INTEGER)")
        taken = stopwatch()
        for number in range(count):
            database.execute("INSERT OR REPLACE INTO offsets VALUES ('bench-0', ?)", (number,))
        seconds = taken()
        database.close()
        return seconds / count

    return way


WAYS: dict[str, Way] = {
    "1 record, durable": fresh(transactions("sync", 1, COUNT)),
    "sqlite3, 1 row, FULL": fresh(sqlite("FULL", 1, COUNT)),
    "100 records, durable": fresh(transactions("sync", 100, COUNT)),
    "sqlite3, 100 rows, FULL": fresh(sqlite("FULL", 100, COUNT)),
    "1 record, page cache": fresh(transactions("none", 1, LAZY)),
    "sqlite3, 1 row, OFF": fresh(sqlite("OFF", 1, LAZY)),
    "100 records, page cache": fresh(transactions("none", 100, LAZY)),
    "sqlite3, 100 rows, OFF": fresh(sqlite("OFF", 100, LAZY)),
    "commit of offsets, durable": fresh(commits("sync", COUNT)),
    "sqlite3, one row replaced, FULL": fresh(sqlite_update("FULL", COUNT)),
    "commit of offsets, page cache": fresh(commits("none", LAZY)),
    "sqlite3, one row replaced, OFF": fresh(sqlite_update("OFF", LAZY)),
}
PAIRS = list(zip(list(WAYS)[::2], list(WAYS)[1::2], strict=True))


def main() -> None:
    found = measure(WAYS, ROUNDS, "transaction")
    report(
        "transactions",
        [found.speed(mine, mine, theirs) for mine, theirs in PAIRS],
        transactions=COUNT,
    )


if __name__ == "__main__":
    main()
