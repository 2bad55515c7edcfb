"""A writing process is killed at random moments: what it acknowledged is there, in order, and nothing else.

200 kills by default (`PYLOG_KILLS` for a longer campaign), spread over the three flush modes and, within each, over
directories that are killed again and again, so that recovery meets what earlier recoveries left behind.
"""

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import pylog
from pylog.views import TopicView

KILLS = int(os.environ.get("PYLOG_KILLS", "200"))
KILLS_A_DIRECTORY = 10
PARTITIONS = 3
CONFIG = {"segment.bytes": 1 << 20, "index.interval.bytes": 200}
FLUSHES = ("sync", "interval", "none")

SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["pylog"])


def value_of(life: int, number: int) -> bytes:
    """What life `life` of the writer sends as its `number`th record: nothing else may ever be in the log."""
    seed = life * 1_000_003 + number
    return b"%d:%d:" % (life, number) + b"x" * (seed * 7919 % 900)


def write(path: str, flush: pylog.log.Flush, life: int, acknowledge: Connection) -> None:
    """Append for ever, one to three records a batch, and say what was acknowledged."""
    log = pylog.open(path, flush=flush, config={"flush.interval.ms": 10} if flush == "interval" else None)
    topic = log.topic("t") if "t" in log.topics() else log.create_topic("t", PARTITIONS, CONFIG)
    number = 0
    while True:
        for partition in topic:
            count = number % 3 + 1
            records = [pylog.Record(value_of(life, number + i)) for i in range(count)]
            appended = partition.append(records)
            acknowledge.send((partition.partition, appended.base_offset, number, count))
            number += count


def one_life(path: str, flush: str, life: int, alive_seconds: float) -> list[tuple[int, int, int, int]]:
    """Let a writer live for a while, kill it, and give what it had acknowledged."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    writer = SPAWN.Process(target=write, args=(path, flush, life, theirs))
    writer.start()
    theirs.close()
    acknowledged = []
    deadline = None
    try:
        while deadline is None or time.monotonic() < deadline:
            if ours.poll(0.001 if deadline else 20):
                acknowledged.append(ours.recv())
                deadline = deadline or time.monotonic() + alive_seconds
            elif deadline is None:
                raise AssertionError("the writer acknowledged nothing in 20 seconds")
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
    return acknowledged


def read_all(topic: TopicView) -> list[list[bytes | None]]:
    return [[record.value for record in partition.records()] for partition in topic]


def check_values(found: list[list[bytes | None]], lives: int) -> None:
    """Every value is one that was sent, and each life's are in the order in which they were sent, without holes."""
    seen: list[tuple[int, int]] = []
    for values in found:
        order = [tuple(int(part) for part in value.split(b":")[:2]) for value in values if value is not None]
        assert len(order) == len(values)
        assert order == sorted(order), "records changed their order"
        for value, (life, number) in zip(values, order, strict=True):
            assert value == value_of(life, number), "a record was never sent like this"
        seen += [(life, number) for life, number in order]
    assert len(seen) == len(set(seen)), "a record appeared twice"
    for life in range(lives):
        numbers = sorted(number for of, number in seen if of == life)
        # One batch goes out after the other: at most the last few may be missing, never one in between.
        assert numbers == list(range(len(numbers))), f"life {life} has a hole"


def check_lookups(topic: TopicView) -> None:
    for partition in topic:
        partition.check()
        records = list(partition.records())
        for record in records[:: max(1, len(records) // 20)]:
            assert next(partition.records(record.offset)) == record
            newer = next(r for r in records if r.timestamp >= record.timestamp)
            assert partition.offset_for_time(record.timestamp) == newer.offset


def directories() -> list[tuple[str, int, int]]:
    """(flush, seed, kills) of every directory, KILLS kills in all."""
    found, left, seed = [], KILLS, 0
    while left > 0:
        kills = min(KILLS_A_DIRECTORY, left)
        found.append((FLUSHES[seed % len(FLUSHES)], seed, kills))
        left, seed = left - kills, seed + 1
    return found


@pytest.mark.kill
@pytest.mark.parametrize(("flush", "seed", "kills"), directories())
def test_nothing_acknowledged_is_lost(tmp_path: Path, flush: str, seed: int, kills: int) -> None:
    path = str(tmp_path / "log")
    chance = random.Random(seed)
    acknowledged: list[tuple[int, int, int, int, int]] = []
    for life in range(kills):
        alive = chance.uniform(0.001, 0.06)
        acknowledged += [(life, *ack) for ack in one_life(path, flush, life, alive)]
        with pylog.open(path, mode="read") as log:
            # Before recovery: a reader sees what was published, whole, whatever the writer was doing.
            check_values(read_all(log.topic("t")), life + 1)
        with pylog.open(path) as log:
            topic = log.topic("t")
            found = read_all(topic)
            check_values(found, life + 1)
            for of, partition, base, number, count in acknowledged:
                assert found[partition][base : base + count] == [value_of(of, number + i) for i in range(count)], (
                    f"an acknowledged record was lost: seed {seed}, life {life}, partition {partition}, offset {base}"
                )
            if life % 3 == 2:
                check_lookups(topic)
