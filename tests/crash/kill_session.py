"""One directory whose writers are killed, again and again, while three readers look on.

After each kill a reader that comes new, and every third time an owner, who recovers it first, find all that was
acknowledged: the parent counts only what it had read from the pipe before the kill. In the end the readers have seen
nothing but what lies there.
"""

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pylog
from tests.support.canaries import touched

from .kill_reader import JOBS, Row, Transactions, check_compacted, read
from .kill_writer import PARTITIONS, canaries_of, numbers_of, write

SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["pylog"])
FLUSHES = ("sync", "interval", "none")
ALIVE_SECONDS = 0.06
PATIENCE_SECONDS = 60

Ack = tuple[int, str, int, int, int, int]
"""Life, topic, partition, base offset, first number, count."""


class Session(NamedTuple):
    """What to do: a seed, the number of kills, and where; the flush mode goes by the seed."""

    seed: int
    kills: int
    root: str

    @property
    def flush(self) -> Any:
        return FLUSHES[self.seed % len(FLUSHES)]


def roots() -> list[str]:
    """Where directories are made: on disk, and in memory where there is a place for that."""
    shared = "/dev/shm"
    return [tempfile.gettempdir(), *([shared] if os.access(shared, os.W_OK) else [])]


def sessions(kills: int, kills_each: int, seed: int = 0) -> list[Session]:
    """So many kills in all, in directories by turns on disk and in memory."""
    places = roots()
    counts = [min(kills_each, kills - done) for done in range(0, kills, kills_each)]
    return [Session(seed + i, count, places[(seed + i) % len(places)]) for i, count in enumerate(counts)]


def run(session: Session) -> str | None:
    """Gives what was wrong, with what replays it; None when all went well."""
    folder = tempfile.mkdtemp(prefix="pylog-kill-", dir=session.root)
    try:
        _run(session, str(Path(folder, "log")))
    except AssertionError as error:
        return f"{session}: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _run(session: Session, path: str) -> None:
    chance = random.Random(session.seed)
    acknowledged: list[Ack] = []
    newest: dict[bytes, Row] = {}
    with ExitStack() as ending:
        readers: list[Reading] = []
        for life in range(session.kills):
            alive = chance.uniform(0.001, ALIVE_SECONDS)
            acknowledged += [(life, *ack) for ack in one_life(path, session.flush, life, alive)]
            if not readers:
                readers = [Reading(path, job) for job in range(len(JOBS))]
                for reading in readers:
                    ending.callback(reading.close)
            with pylog.open(path, mode="read") as log:
                check(log, acknowledged, newest, f"life {life}, before recovery")
            if life % 3 == 2 or life == session.kills - 1:
                with pylog.open(path) as log:
                    check(log, acknowledged, newest, f"life {life}, after recovery")
                    for view in (view for name in log.topics() for view in log.topic(name)):
                        view.check()
        seen = [reading.result() for reading in readers]
    assert not touched(canaries_of(path)), f"bytes went to files that are not the log's: {touched(canaries_of(path))}"
    with pylog.open(path) as log:
        check_seen(log, seen[0])


def one_life(path: str, flush: str, life: int, alive_seconds: float) -> list[tuple[str, int, int, int, int]]:
    """Let a writer live for a while, kill it, and give what it had acknowledged by then."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    writer = SPAWN.Process(target=write, args=(path, flush, life, theirs), daemon=True)
    writer.start()
    theirs.close()
    acknowledged = []
    deadline = None
    try:
        while deadline is None or time.monotonic() < deadline:
            if ours.poll(0.001 if deadline else PATIENCE_SECONDS):
                acknowledged.append(ours.recv())
                deadline = deadline or time.monotonic() + alive_seconds
            else:
                assert deadline, f"life {life}: the writer acknowledged nothing in {PATIENCE_SECONDS} seconds"
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        while ours.poll():
            acknowledged.append(ours.recv())
    except EOFError:
        pass
    finally:
        writer.kill()
        writer.join()
        ours.close()
    # 255: the fork server does not know.
    assert writer.exitcode in (-signal.SIGKILL, 255), f"life {life}: the writer ended by itself ({writer.exitcode})"
    return acknowledged


class Reading:
    """A reader in a process of its own."""

    def __init__(self, path: str, job: int) -> None:
        self.job = job
        theirs, self._stop = SPAWN.Pipe(duplex=False)
        self._result, result = SPAWN.Pipe(duplex=False)
        self._process: BaseProcess = SPAWN.Process(target=read, args=(path, job, theirs, result), daemon=True)
        self._process.start()
        theirs.close()
        result.close()

    def result(self) -> dict[int, list[Row]]:
        """Tell it to come to an end; what it has seen. An AssertionError says what was wrong."""
        self._tell()
        assert self._result.poll(PATIENCE_SECONDS), f"{JOBS[self.job].__name__} does not come to an end"
        wrong, seen = self._receive(self._result)
        assert wrong is None, wrong
        return seen

    def _tell(self) -> None:
        try:
            self._stop.send("stop")
        except BrokenPipeError:
            # It has ended: its result says why.
            return

    @staticmethod
    def _receive(result: Connection) -> tuple[str | None, dict[int, list[Row]]]:
        try:
            received: tuple[str | None, dict[int, list[Row]]] = result.recv()
        except EOFError:
            return "a reader died", {}
        return received

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._stop.close()
        self._result.close()


def check(log: pylog.Log, acknowledged: list[Ack], newest: dict[bytes, Row], when: str) -> None:
    """All that was acknowledged is there, unless retention or a newer record of its key has taken it."""
    found = {partition: rows_of(log, partition) for partition in range(PARTITIONS)}
    starts = [log.topic("t")[partition].start_offset for partition in range(PARTITIONS)]
    committed = Transactions()
    for record in log.topic("x")[0].records(isolation_level="read_committed"):
        committed.see(record)
    committed.check_ended()
    whole = set(committed.whole)
    check_compacted(log.topic("c")[0].records(), newest)
    latest = {key: row[1:] for key, row in newest.items()}
    for life, topic, partition, base, number, count in acknowledged:
        if topic == "x":
            assert (life, number) in whole, f"{when}: transaction {number} of life {life} was committed, and is gone"
        elif topic == "c":
            last = life, number + count - 1
            assert max(latest.values(), default=(-1, -1)) >= last, f"{when}: c lost {last}"
        else:
            for index in range(count):
                offset = base + index
                there = found[partition].get(offset)
                lost = there is None and offset >= starts[partition]
                assert not lost and there in (None, (life, number + index)), (
                    f"{when}: t-{partition} at offset {offset} is {there}, acknowledged {(life, number + index)}"
                )


def rows_of(log: pylog.Log, partition: int) -> dict[int, tuple[int, int]]:
    """Life and number of every record of a partition of `t`."""
    rows: dict[int, tuple[int, int]] = {}
    last: tuple[int, int, int] | None = None
    for record in log.topic("t")[partition].records():
        assert record.value is not None
        life, number = map(int, numbers_of(record.value))
        assert last is None or record.offset == last[0] + 1, f"t-{partition}: {record.offset} after {last}: a hole"
        assert last is None or (life, number) > last[1:], f"t-{partition}: {(life, number)} after {last}"
        rows[record.offset] = (life, number)
        last = record.offset, life, number
    return rows


def check_seen(log: pylog.Log, seen: dict[int, list[Row]]) -> None:
    """What a reader has seen of `t` is what lies there, as far as retention has left it, up to its end."""
    for partition in range(PARTITIONS):
        there = rows_of(log, partition)
        rows = seen[partition]
        for offset, life, number in rows:
            known = there.get(offset, (life, number))
            assert known == (life, number), f"t-{partition} at {offset}: {(life, number)} was seen, {known} is there"
        if there:
            assert rows and rows[-1][0] == max(there), f"t-{partition}: the reader ended at {rows[-1:]}"
