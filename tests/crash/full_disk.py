"""Disks that are really full: what `make full-disk` runs.

    python -m tests.crash.full_disk 40        so many rounds
    python -m tests.crash.full_disk --seed 7  one of them

Each round mounts a small ext4 of its own, with blocks of 1 or 4 KiB, and does at random what a log does: appends,
groups that commit, transactions, compaction, retention, deleted records, deleted topics, reopenings. Meanwhile a file
beside the log takes the last byte, and goes again. What has to hold:

    full      an append is refused with DiskFull, and nothing of it is there; no partition latches
              deleting records, retention and deleting a topic give room back; files are what the log says
    room      the next append of each kind goes on
    reopened  all that was acknowledged is there, nothing was cut and nothing is damaged; a copy made in the middle, as
              a kill leaves it, has it too

It needs root, for the mount.
"""

import argparse
import logging
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pylog
from pylog import Record, TopicPartition
from pylog.errors import DiskFull, PylogError
from tests.support.log_copies import copy_log

IMAGE_BYTES = 24 << 20
STEPS = 120
SOON = {"max_block_ms": 3000, "delivery_timeout_ms": 3000, "request_timeout_ms": 1000}
PLAIN, QUEUE, TABLE, IN, OUT = "plain", "queue", "table", "in", "out"
LATER_MS = 10**9


class SkippedError(Exception):
    """This machine cannot mount anything."""


@contextmanager
def small_disk(folder: Path, block_bytes: int) -> Iterator[Path]:
    """A folder with a file system of its own. Raises SkippedError."""
    image, mounted = folder / "image", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    for command in (
        ["mkfs.ext4", "-q", "-F", "-b", str(block_bytes), "-m", "0", "-N", "4000", str(image)],
        ["mount", "-o", "loop", str(image), str(mounted)],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SkippedError(f"{' '.join(command)}: {getattr(error, 'stderr', b'') or error!r}") from error
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


class FoundError(AssertionError):
    """What must not be."""


@dataclass
class Topic:
    """What was acknowledged of a partition, and what may be there besides."""

    start: int = 0
    values: dict[int, bytes] = field(default_factory=dict)
    doubtful: set[bytes] = field(default_factory=set)


@dataclass
class Round:
    """One log on one disk, and what it has promised."""

    disk: Path
    copies: Path
    chance: random.Random
    flush: str
    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0
    topics: dict[str, Topic] = field(default_factory=dict)
    table: dict[bytes, list[bytes]] = field(default_factory=dict)
    committed: set[bytes] = field(default_factory=set)
    maybe: set[bytes] = field(default_factory=set)
    offsets: list[int] = field(default_factory=lambda: [0])

    def run(self) -> None:
        self.open()
        for name, config in (
            (PLAIN, {"retention.bytes": 60_000}),
            (QUEUE, {}),
            (TABLE, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0}),
            (IN, {}),
            (OUT, {}),
        ):
            self.log.create_topic(name, config={**config, "file.delete.delay.ms": 0})
            self.topics[name] = Topic()
        # What is made once, while there is room: producers, a group, the first record of each.
        for name in (PLAIN, QUEUE, IN):
            self.append_to(name)
        for act in (self.put, self.transact, self.commit):
            act()
        steps: list[tuple[Callable[[], None], int]] = [
            (self.append, 12), (self.put, 6), (self.transact, 3), (self.commit, 3), (self.roll, 8), (self.fill, 4),
            (self.free, 3), (self.delete_records, 2), (self.retain, 3), (self.clean, 2), (self.passing, 1),
            (self.reopen, 1), (self.copy, 1),
        ]  # fmt: skip
        acts, weights = [act for act, _ in steps], [weight for _, weight in steps]
        for act in self.chance.choices(acts, weights, k=STEPS):
            self.now = act.__name__
            act()
            self.look()
        self.finish()

    # --- what is done --------------------------------------------------------------------------------------------

    def open(self) -> None:
        try:
            self.log = pylog.open(self.disk / "log", flush=self.flush)
        except DiskFull:
            # It may say so; with a little room it opens.
            self.counts["opening refused"] += 1
            self.free()
            self.log = pylog.open(self.disk / "log", flush=self.flush)

    def value(self) -> bytes:
        self.number += 1
        return b"%d:" % self.number + self.chance.randbytes(self.chance.choice((10, 900, 20_000)))

    def attempt(self, what: str, how: Callable[[], object]) -> object:
        """Do it, or be told that the disk is full, which it has to be. None then."""
        try:
            done = how()
        except DiskFull:
            if not (self.disk / "filler").exists():
                self.counts[f"{what}: full without a filler"] += 1
            self.counts[f"{what} refused"] += 1
            return None
        self.counts[what] += 1
        return done if done is not None else True

    def append(self) -> None:
        name = self.chance.choice((PLAIN, QUEUE, IN))
        self.append_to(name)

    def append_to(self, name: str) -> bool:
        values = [self.value() for _ in range(self.chance.choice((1, 1, 3)))]
        appended = self.attempt("append", lambda: self.log.topic(name)[0].append([Record(value) for value in values]))
        if appended is None:
            return False
        for at, value in enumerate(values):
            self.topics[name].values[appended.base_offset + at] = value  # type: ignore[attr-defined]
        return True

    def put(self) -> None:
        key, value = b"%d" % self.chance.randrange(20), self.value()
        appended = self.attempt("put", lambda: self.log.topic(TABLE)[0].append([Record(value, key)]))
        if appended is not None:
            self.table[key] = [value]

    def transact(self) -> None:
        """A transaction of one record and an offset, which a full disk may leave undecided: then it is found out."""
        value = self.value()
        with suppress(PylogError, TimeoutError), self.log.producer(transactional_id="tx", **SOON) as producer:
            self.maybe.add(value)
            with producer.transaction():
                producer.send(OUT, value)
            self.committed.add(value)
            self.counts["transaction"] += 1

    def commit(self) -> None:
        key, offset = TopicPartition(IN, 0), self.offsets[-1] + 1
        with self.log.consumer(group_id="group", enable_auto_commit=False, default_api_timeout_ms=5000) as consumer:
            consumer.assign([key])
            try:
                consumer.commit({key: offset})
            except PylogError:
                self.counts["commit refused"] += 1
                self.offsets.append(offset)
            else:
                self.counts["commit"] += 1
                self.offsets = [offset]

    def roll(self) -> None:
        for name in (PLAIN, QUEUE, TABLE, OUT):
            partition = self.log.broker.partition(name, 0)
            if partition.segments[-1][0].size:
                self.attempt("roll", lambda partition=partition: partition.roll(int(time.time() * 1000)))  # type: ignore[misc]

    def fill(self) -> None:
        """Take the last byte."""
        with (self.disk / "filler").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def delete_records(self) -> None:
        name = self.chance.choice((QUEUE, IN, PLAIN))
        topic, view = self.topics[name], self.log.topic(name)[0]
        offset = self.chance.randint(view.start_offset, view.high_watermark)
        if self.log.delete_records({TopicPartition(name, 0): offset})[TopicPartition(name, 0)] < offset:
            raise FoundError("records are not deleted, and nothing is said")
        topic.start = max(topic.start, offset)

    def retain(self) -> None:
        before = self.used()
        self.attempt("retention", self.log.apply_retention)
        self.log.broker.node.topics.purge(int(time.time() * 1000) + LATER_MS)
        self.counts["bytes given back"] += max(0, before - self.used())

    def clean(self) -> None:
        self.attempt("cleaning", self.log.clean)
        self.log.broker.node.topics.purge(int(time.time() * 1000) + LATER_MS)

    def passing(self) -> None:
        """A topic that comes and goes: its room comes back."""
        if self.attempt("topic", lambda: self.log.create_topic("passing", config={"file.delete.delay.ms": 0})) is None:
            return
        if self.attempt("its append", lambda: self.log.topic("passing")[0].append([Record(bytes(300_000))])):
            self.fill()
        self.attempt("topic deleted", lambda: self.log.delete_topic("passing"))
        if "passing" in self.log.topics():
            self.free()
            self.log.delete_topic("passing")
        self.log.broker.node.topics.purge(int(time.time() * 1000) + LATER_MS)
        left = [path.name for path in (self.disk / "log").iterdir() if path.name.startswith("passing")]
        if left:
            raise FoundError(f"of a deleted topic there is {left}")

    def close(self) -> None:
        try:
            self.log.close()
        except PylogError:
            self.counts["close refused"] += 1

    def reopen(self) -> None:
        self.close()
        self.open()
        self.check(self.log)

    def copy(self) -> None:
        """What a kill would leave."""
        shutil.rmtree(self.copies, ignore_errors=True)
        copy_log(self.disk / "log", self.copies)
        with pylog.open(self.copies, flush=self.flush) as log:
            self.check(log)

    def finish(self) -> None:
        """With room again everything goes on, and a clean stop is clean."""
        self.now = "finish"
        self.free()
        for name in (PLAIN, QUEUE, IN):
            if not self.append_to(name):
                raise FoundError("there is room, and an append is refused")
        before = self.counts["transaction"], self.counts["commit"]
        self.put()
        self.transact()
        self.commit()
        if (self.counts["transaction"], self.counts["commit"]) != (before[0] + 1, before[1] + 1):
            raise FoundError("there is room, and a transaction or a commit is refused")
        if self.log.topic(OUT)[0].last_stable_offset < self.log.topic(OUT)[0].high_watermark:
            raise FoundError("there is room, and a transaction does not end")
        self.look()
        self.log.close()
        with pylog.open(self.disk / "log", flush=self.flush) as log:
            self.check(log)

    # --- what has to hold ----------------------------------------------------------------------------------------

    def used(self) -> int:
        return sum(path.stat().st_size for path in (self.disk / "log").rglob("*") if path.is_file())

    def look(self) -> None:
        """Nothing latches; what a partition says that it has its files have."""
        for partition in self.log.broker.node.topics.partitions:
            if partition.failed:
                raise FoundError(f"{partition.topic} is latched: {partition.state.failure!r}")
            names = [Path(segment.path).name for segment, _ in partition.segments]
            there = sorted(path.name for path in Path(partition.directory).glob("*.log"))
            if names != there:
                raise FoundError(f"{partition.topic} lists {names}, and its folder has {there}")

    def check(self, log: pylog.Log) -> None:
        """All that was acknowledged is there."""
        if log.recovered or log.quarantined:
            raise FoundError(f"opening has cut {log.recovered} and found {log.quarantined}")
        for name, topic in self.topics.items():
            view = log.topic(name)[0]
            view.check()
            if view.start_offset < topic.start:
                raise FoundError(f"{name} starts at {view.start_offset}, and was deleted up to {topic.start}")
            found = {record.offset: record.value for record in view.records()}
            if name in (PLAIN, QUEUE, IN):
                wanted = {at: value for at, value in topic.values.items() if at >= view.start_offset}
                if found != wanted:
                    raise FoundError(f"{name} is not what was acknowledged: {len(found)} and {len(wanted)} records")
        newest: dict[bytes | None, bytes | None] = {}
        for record in log.topic(TABLE)[0].records():
            newest[record.key] = record.value
        for key, values in self.table.items():
            if newest.get(key) not in values:
                raise FoundError(f"key {key!r} is not what was acknowledged")
        self.check_transactions(log)

    def check_transactions(self, log: pylog.Log) -> None:
        with log.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(OUT, 0)])
            seen: list[bytes | None] = []
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                records = consumer.poll(timeout_ms=100)
                seen += [record.value for record in records]
                if not records and self.committed <= set(seen):
                    break
        view = log.topic(OUT)[0]
        if view.last_stable_offset < view.high_watermark:
            # A transaction is open for which a full disk has no room to end: what lies behind it is there.
            seen += [record.value for record in view.records(view.last_stable_offset) if record.value in self.committed]
        if not self.committed <= set(seen) or not set(seen) <= self.maybe or len(set(seen)) < len(seen):
            raise FoundError(f"of {len(self.committed)} transactions {len(self.committed - set(seen))} are missing")
        with log.consumer(group_id="group", enable_auto_commit=False, default_api_timeout_ms=5000) as consumer:
            key = TopicPartition(IN, 0)
            found = consumer.committed([key]).get(key)
            offset = found.offset if found is not None else 0
            if self.offsets != [0] and offset not in self.offsets:
                raise FoundError(f"the group has committed {self.offsets}, and {found} is there")


def attempt(seed: int) -> tuple[str, Counter[str]]:
    """One round; what was found, and what was done. Raises SkippedError."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="pylog-full-") as folder:
        block, flush = chance.choice((1024, 4096)), chance.choice(("sync", "sync", "interval", "none"))
        with small_disk(Path(folder), block) as disk:
            one = Round(disk, Path(folder) / "copy", chance, flush)
            try:
                one.run()
            except (FoundError, PylogError, OSError) as error:
                return f"blocks of {block}, flush={flush}, {one.now}: {error!r}", one.counts
            finally:
                one.close()
            return "", one.counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", nargs="?", type=int, default=20)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    failures = 0
    for seed in range(given.budget) if given.seed is None else [given.seed]:
        try:
            wrong, counts = attempt(seed)
        except SkippedError as error:
            print(f"SKIPPED: no small disk can be mounted here, which takes root, mkfs.ext4 and loop devices ({error})")
            return 0
        total += counts
        failures += bool(wrong)
        print(f"seed {seed}: {wrong or 'nothing was found'}", flush=True)
    print(", ".join(f"{what} {count}" for what, count in sorted(total.items())))
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
