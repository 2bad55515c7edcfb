"""What else a Python program can keep records in, each written to and read from as its documentation suggests.

Every function gives seconds per record. None syncs but where it says so, and what they keep of a record differs; pylog
always keeps offset, time, key, value and headers, with a CRC a batch:

    sqlite3         offset, time, key, value; executemany of 1000 in a transaction; WAL, synchronous=NORMAL: syncs at
                    checkpoints
    lmdb            offset -> value; put(append=True), 1000 in a transaction, sync=False. Its other mode, putmulti into
                    a writable map, is printed beside it
    queuelib        value; a file in chunks, with an index file rewritten at close
    persist-queue   value, pickled; files of 100, synced when full, the index file replaced at each put
    litequeue       value, as text; a sqlite3 table with status and two indexes
    diskcache       value; a sqlite3 table
    SimpleQueue     nothing on disk: what handing a pair to another thread costs
"""

import contextlib
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness import VALUE_BYTES, fresh, keys_and_values, scaled, stopwatch

BATCH = 1000
FEW = scaled(usual=500, quick=100)
"""How many records those get that take 10 us and more for each."""
OFFSET = struct.Struct(">Q").pack

Rows = list[tuple[bytes, bytes]]


def chunks(rows: list[Any], size: int = BATCH) -> list[list[Any]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


# --- databases -------------------------------------------------------------------------------------------------------


def sqlite_fill(folder: Path, rows: Rows) -> float:
    now_ms = time.time_ns() // 1_000_000
    lists = chunks([(now_ms, key, value) for key, value in rows])
    database = sqlite3.connect(folder / "peer.sqlite", isolation_level=None)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=normal")
    database.execute("create table log (offset integer primary key, time integer, key blob, value blob)")
    taken = stopwatch()
    for some in lists:
        database.execute("begin")
        database.executemany("insert into log (time, key, value) values (?, ?, ?)", some)
        database.execute("commit")
    seconds = taken()
    database.close()
    return seconds / len(rows)


def sqlite_rows(folder: Path, at_once: int | None) -> float:
    """Select everything; in lists of `at_once` rows, or one row after another."""
    database = sqlite3.connect(folder / "peer.sqlite")
    taken, size = stopwatch(), 0
    rows = database.execute("select offset, time, key, value from log order by offset")
    if at_once is None:
        for row in rows:
            size += len(row[3])
    else:
        while some := rows.fetchmany(at_once):
            for row in some:
                size += len(row[3])
    seconds = taken()
    database.close()
    return seconds * VALUE_BYTES / size


def lmdb_fill(folder: Path, rows: Rows) -> float:
    import lmdb

    lists = chunks([value for _, value in rows])
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 32, sync=False, metasync=False) as environment:
        taken, offset = stopwatch(), 0
        for some in lists:
            with environment.begin(write=True) as transaction:
                for value in some:
                    transaction.put(OFFSET(offset), value, append=True)
                    offset += 1
        return taken() / len(rows)


def lmdb_fill_many(folder: Path, rows: Rows) -> float:
    import lmdb

    lists = chunks([(OFFSET(offset), value) for offset, (_, value) in enumerate(rows)])
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 32, sync=False, metasync=False, writemap=True) as environment:
        taken = stopwatch()
        for some in lists:
            with environment.begin(write=True) as transaction, transaction.cursor() as cursor:
                cursor.putmulti(some, append=True)
        return taken() / len(rows)


def lmdb_rows(folder: Path, *, look: bool = True) -> float:
    """Iterate over all rows; `look` at each value."""
    import lmdb

    with lmdb.open(str(folder / "lmdb"), map_size=1 << 32, readonly=True) as environment, environment.begin() as read:
        taken, size, count = stopwatch(), 0, environment.stat()["entries"]
        if look:
            for _, value in read.cursor():
                size += len(value)
            assert size == count * VALUE_BYTES
        else:
            for _ in read.cursor():
                pass
        return taken() / count


# --- queues ----------------------------------------------------------------------------------------------------------


def simple_queue(rows: Rows) -> float:
    queue: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()
    put = queue.put
    taken = stopwatch()
    for key, value in rows:
        put((value, key))
    return taken() / len(rows)


@contextlib.contextmanager
def queuelib_queue(folder: Path) -> Iterator[tuple[Callable[[bytes], object], Callable[[], object]]]:
    import queuelib

    queue = queuelib.FifoDiskQueue(str(folder / "queuelib"))
    yield queue.push, queue.pop
    queue.close()


@contextlib.contextmanager
def persist_queue(folder: Path) -> Iterator[tuple[Callable[[bytes], object], Callable[[], object]]]:
    import persistqueue

    queue = persistqueue.Queue(str(folder / "persist-queue"))

    def get() -> object:
        found = queue.get()
        queue.task_done()
        return found

    yield queue.put, get


@contextlib.contextmanager
def litequeue_queue(folder: Path) -> Iterator[tuple[Callable[[bytes], object], Callable[[], object]]]:
    import litequeue

    queue = litequeue.LiteQueue(folder / "litequeue.sqlite")

    def get() -> object:
        message = queue.pop()
        queue.done(message.message_id)
        return message.data

    yield lambda value: queue.put(value.decode("latin-1")), get
    queue.close()


@contextlib.contextmanager
def diskcache_deque(folder: Path) -> Iterator[tuple[Callable[[bytes], object], Callable[[], object]]]:
    import diskcache

    queue = diskcache.Deque(directory=str(folder / "diskcache"))
    yield queue.append, queue.popleft
    queue.cache.close()


QUEUES = {
    "queuelib": queuelib_queue,
    "persist-queue": persist_queue,
    "litequeue": litequeue_queue,
    "diskcache": diskcache_deque,
}


def queue_ways(*, reading: bool) -> dict[str, Callable[[], float]]:
    """A way for each queue on disk: putting a record at a time, or taking one at a time."""
    values = [value for _, value in keys_and_values(FEW)]

    def way(name: str) -> Callable[[], float]:
        def run(folder: Path) -> float:
            with QUEUES[name](folder) as (put, get):
                taken = stopwatch()
                for value in values:
                    put(value)
                if reading:
                    taken = stopwatch()
                    for _ in values:
                        get()
                return taken() / len(values)

        return fresh(run)

    return {name: way(name) for name in QUEUES}
