"""Every bit of every file of a small log directory flipped, and every file cut at every length: what do clients see?

    same         what they saw before
    error        a typed error where data would be, or instead of an open log; what they do see is right
    quarantine   damage that opening has declared (Log.quarantined); what they do see is right
    warning      fewer records, from a start that a file without a checksum says, and a warning that names the file
    epoch        right, but for the leader epoch of records, which no CRC covers and nothing could contradict
    SILENT       other records, offsets, timestamps, watermarks or look-ups, and no word of it: never

An owner opens a copy in memory, a reader the files of a RAM disk.

python -m crash.bits 1800000 --jobs 2        so many, of logs that were closed, killed, and killed with
                                                   flush="none", when only rolls have synced something: all
python -m crash.bits 20000                   every so many of them
"""

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pylog
from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.errors import PylogError
from pylog.files import MemoryFiles
from pylog.protocol.batch import Origin, encode
from pylog.testing import SimClock
from pylog.transport import MemoryTransport
from support.killed import kill

NOW_MS = 1_700_000_000_000
SMALL = {"internal.segment.bytes": "9000", "index.interval.bytes": "1000"}
TOPICS = ("plain", "txn")
TIMES = (0, 900, 1750, 99_999)
FOLDERS = ("read", "own", "again")
"""Read by another process; opened by an owner; opened again after that owner closed it."""

Tree = dict[str, bytes]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Any, ...]]


class Damage(NamedTuple):
    """One bit of a file that is flipped, or the length that it is cut to."""

    file: str
    kind: str
    at: int

    def applied(self, data: bytes) -> bytes:
        if self.kind == "cut":
            return data[: self.at]
        byte = self.at // 8
        return data[:byte] + bytes([data[byte] ^ 1 << self.at % 8]) + data[byte + 1 :]


# --- the directory ----------------------------------------------------------------------------------------------------


UNVERIFIED = {"transaction.partition.verification.enable": False}
"""Transactions are written here without a coordinator."""


HOW = ("closed", "killed", "lazy")
"""How a log was left: `lazy` is killed with flush="none", nothing of it was synced but by rolls."""


def make(path: Path, how: str) -> None:
    """A log of about 64 KiB with files of every kind, left in one of the ways above."""
    with pylog.open(path, clock=SimClock(NOW_MS), config=UNVERIFIED) as log:
        for name in TOPICS:
            log.create_topic(name)
        fill(log, range(12))
    log = pylog.open(path, clock=SimClock(NOW_MS), config=UNVERIFIED, flush="none" if how == "lazy" else "sync")
    fill(log, range(12, 24))
    log.delete_records({pylog.TopicPartition("plain", 0): 5})
    if how == "closed":
        log.close()
        return
    if how == "killed":
        log.flush()
        log.broker.node.checkpoint()
    kill(log)


def fill(log: pylog.Log, turns: range) -> None:
    """Append to both topics, in segments that are smaller than a config may ask for."""
    for name in TOPICS:
        log.broker.node.topics.image_of(name).config.update(SMALL)
        log.broker.node.topics.topic(name).reconfigure(log.topic(name).config)
    for turn in turns:
        records = [
            pylog.Record(b"%d:%d " % (turn, i) * 60, b"key %d" % i, NOW_MS + 100 * turn - 150 * (turn % 2))
            for i in range(4)
        ]
        log.topic("plain")[0].append(records)
    leader = log.broker.node.roles.writer("txn", 0)
    assert leader.epoch is not None
    for turn in turns:
        for producer_id in (7, 8):
            record = pylog.Record(b"of %d " % producer_id * 90, b"k", NOW_MS + turn)
            batch = encode(
                [record], now_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=turn,
                transactional=True,
            )  # fmt: skip
            leader.partition.append(batch, epoch=leader.epoch, now_ms=NOW_MS)
        for producer_id in (7, 8):
            key = b"\0\0\0\0" if (turn + producer_id) % 3 == 0 else b"\0\0\0\1"
            record = pylog.Record(b"\0\0\0\0\0\0", key, NOW_MS + turn)
            batch = encode(
                [record], now_ms=NOW_MS, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
            )
            leader.partition.append(batch, epoch=leader.epoch, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    leader.partition.sync()
    leader.advance()


def tree_of(path: Path) -> Tree:
    """All files but the lock, whose content says nothing."""
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def promised(tree: Tree) -> Tree:
    """The files without the last `.log` of each partition, in which damage may be a torn tail: it was not synced."""
    last = {file.rpartition("/")[0]: file for file in sorted(tree) if file.endswith(".log")}
    return {file: data for file, data in tree.items() if file not in last.values()}


def damages(tree: Tree) -> Iterator[Damage]:
    """Every bit flipped and every length cut, file after file."""
    for file, data in tree.items():
        yield from (Damage(file, "flip", bit) for bit in range(8 * len(data)))
        yield from (Damage(file, "cut", length) for length in range(len(data)))


def count(tree: Tree) -> int:
    """How many `damages` there are."""
    return 9 * sum(map(len, tree.values()))


# --- what clients see -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """What clients see of a log directory: values, and typed errors in the place of others."""

    values: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    errors: dict[str, PylogError] = field(default_factory=dict)
    quarantined: bool = False
    warned: bool = False
    """A warning has named the file that is damaged."""

    def ask(self, name: str, question: Callable[[], Any]) -> None:
        try:
            self.values[name] = question()
        except PylogError as error:
            self.errors[name] = error


def look(opened: Callable[[], pylog.Log], topics: tuple[str, ...], starts: dict[str, list[int]]) -> Seen:
    """Everything that clients see of `topics`; `starts` are offsets at which reading may go on behind damage."""
    seen = Seen()
    try:
        log = opened()
    except PylogError as error:
        seen.errors["open"] = error
        return seen
    try:
        for name in topics:
            look_at(log, name, starts.get(name, []), seen)
        seen.quarantined = len(log.quarantined) > 0
    finally:
        try:
            log.close()
        except PylogError as error:
            seen.errors["close"] = error
    return seen


def look_at(log: pylog.Log, name: str, starts: list[int], seen: Seen) -> None:
    key = pylog.TopicPartition(name, 0)
    for isolation in ("read_uncommitted", "read_committed")[: 1 + (name == "txn")]:
        what = f"{name} {isolation}"
        seen.rows[what] = {}
        with log.consumer(isolation_level=isolation, auto_offset_reset="none", max_poll_records=1 << 20) as consumer:
            consumer.assign([key])
            seen.ask(f"{name} start", lambda: consumer.beginning_offsets([key])[key])
            seen.ask(f"{what} end", lambda: consumer.end_offsets([key])[key])
            start, end = seen.values.get(f"{name} start"), seen.values.get(f"{what} end")
            if start is not None and end is not None:
                consume(consumer, key, range(start, end), starts, seen, what)
    with log.consumer() as consumer:
        for ms in TIMES:
            seen.ask(f"{name} time {ms}", partial(time_found, consumer, key, ms))
    seen.ask(f"{name} next", lambda: log.topic(name)[0].next_offset)


def time_found(consumer: pylog.Consumer, key: pylog.TopicPartition, ms: int) -> tuple[int, int] | None:
    found = consumer.offsets_for_times({key: NOW_MS + ms})[key]
    return None if found is None else (found.offset, found.timestamp)


def consume(
    consumer: pylog.Consumer, key: pylog.TopicPartition, offsets: range, starts: list[int], seen: Seen, what: str
) -> None:
    """Read from the start to the end; behind damage go on where a batch, or a segment, is known to begin."""
    rows, epochs = seen.rows[what], seen.epochs.setdefault(what, {})
    consumer.seek(key, offsets.start)
    while (position := consumer.position(key)) < offsets.stop:
        try:
            polled = consumer.poll()
        except PylogError as error:
            seen.errors[what] = error
            consumer.seek(key, min((start for start in starts if start > position), default=offsets.stop))
            continue
        for record in polled:
            rows[record.offset] = (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
            epochs[record.offset] = record.leader_epoch
        if not polled and consumer.position(key) <= position:
            return


def verdict(good: Seen, seen: Seen) -> str:
    """In which of the ways above `seen` differs from `good`."""
    declared = seen.quarantined or seen.warned or bool(seen.errors)
    if "open" in seen.errors:
        return "error"
    wrong = [
        f"{name}: {seen.values.get(name)} instead of {value}"
        for name, value in good.values.items()
        if seen.values.get(name) != value and name not in seen.errors and not is_excused(name, value, seen)
    ]
    for what, rows in good.rows.items():
        wrong += compared(what, rows, seen, declared)
    if wrong:
        return f"SILENT {wrong[0][:400]}"
    if seen.quarantined or seen.errors:
        return "quarantine" if seen.quarantined else "error"
    if (seen.values, seen.rows) != (good.values, good.rows):
        return "warning"
    return "same" if seen.epochs == good.epochs else "epoch"


def is_excused(name: str, good: Any, seen: Seen) -> bool:
    """Where a transaction that declared damage has swallowed ends cannot be known, and the owner, which aborts it in
    its own time, appends a marker. A start that was warned of may be wrong, and so may what is found from there.
    """
    if name.endswith("read_committed end"):
        return seen.quarantined
    if name.endswith((" end", " next")):
        return seen.quarantined and seen.values[name] > good
    return seen.warned and (name.endswith(" start") or " time " in name)


def compared(what: str, rows: dict[int, Row], seen: Seen, declared: bool) -> Iterator[str]:
    """What of the records is wrong: another one, one too many, or one that is missing without a word."""
    found = seen.rows[what]
    for offset, row in found.items():
        if rows.get(offset) != row:
            yield f"{what}: {row} instead of {rows.get(offset)}"
    if not declared and found.keys() != rows.keys():
        yield f"{what}: {len(rows) - len(found)} records are missing"


# --- trying -----------------------------------------------------------------------------------------------------------


class Subject:
    """A directory that can be damaged in one place after the other."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        self.starts: dict[str, list[int]] = {}
        for name, data in tree.items():
            self._write(name, data)
        for name in (".lock",):
            (folder / name).touch()
        self.good = {folder: self._look(folder, TOPICS) for folder in ("read", "own")}
        self.good["again"] = self.good["own"]
        for what, rows in self.good["own"].rows.items():
            self.starts[what.split()[0]] = sorted(rows)[::4]

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def judge(self, damage: Damage, *, again: bool = False) -> dict[str, str]:
        """The verdicts on one damage, by the way of looking."""
        topic = damage.file.partition("-0/")[0]
        topics = (topic,) if topic in TOPICS else TOPICS
        data = damage.applied(self.tree[damage.file])
        self._write(damage.file, data)
        found = {"read": self._look("read", topics)}
        self._write(damage.file, self.tree[damage.file])
        files = MemoryFiles(tree=self._memory() | {f"log/{damage.file}": data})
        with warnings_of("pylog") as said:
            found["own"] = self._look("own", topics, files)
        found["own"].warned = any(damage.file in text for text in said)
        if again:
            found["again"] = self._look("own", topics, files)
            # It was said when the log was opened first.
            found["again"].warned = found["own"].warned
        return {way: verdict(self._of(self.good[way], topics), seen) for way, seen in found.items()}

    @staticmethod
    def _of(seen: Seen, topics: tuple[str, ...]) -> Seen:
        """What of it is about `topics`."""

        def chosen(found: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in found.items() if name.split()[0] in topics}

        return Seen(chosen(seen.values), chosen(seen.rows), chosen(seen.epochs))

    def _memory(self) -> dict[str, bytes | None]:
        dirs: dict[str, bytes | None] = {f"log/{name.partition('/')[0]}": None for name in self.tree if "/" in name}
        return {"log": None} | dirs | {f"log/{name}": data for name, data in self.tree.items()}

    def _look(self, way: str, topics: tuple[str, ...], files: MemoryFiles | None = None) -> Seen:
        clock = SimClock(NOW_MS)
        if way == "read":
            return look(lambda: pylog.open(self.folder, mode="read", clock=clock), topics, self.starts)
        files = files or MemoryFiles(tree=self._memory())
        return look(lambda: open_in_memory(files, clock), topics, self.starts)


@contextmanager
def warnings_of(name: str) -> Iterator[list[str]]:
    """Collect the warnings of a logger, and pass nothing on."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def open_in_memory(files: MemoryFiles, clock: SimClock) -> pylog.Log:
    way = MemoryTransport()
    broker = Broker(files, ["log"], config=NodeConfig(), clock=clock, transport=way, node_id=None, flush="sync")
    return pylog.Log("log", broker, broker, way, clock)


def kind_of(name: str) -> str:
    last = name.rsplit("/", 1)[-1]
    return f"*{last[20:]}" if last[:20].isdigit() else last


def ram() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _part(task: tuple[Tree, Tree, int, int, int]) -> tuple[Counter[tuple[str, str, str, str]], list[str]]:
    """One of `parts` parts of all damages to `files` of a tree; every `again`th is looked at once more after it was
    closed.
    """
    tree, files, part, parts, again = task
    logging.getLogger("pylog").propagate = False
    counts: Counter[tuple[str, str, str, str]] = Counter()
    silent: list[str] = []
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        subject = Subject(tree, Path(folder))
        for number, damage in enumerate(damages(files)):
            if number % parts == part:
                for way, outcome in subject.judge(damage, again=number // parts % again == 0).items():
                    counts[kind_of(damage.file), damage.kind, way, outcome.split()[0]] += 1
                    if outcome.startswith("SILENT"):
                        silent.append(f"{damage} {way}: {outcome}")
    return counts, silent


def campaign(tree: Tree, files: Tree, jobs: int, sample: int, again: int) -> int:
    """Try every `sample`th damage to `files`, over `jobs` processes; print what came out. Gives the number of silent
    ones.
    """
    began = time.monotonic()
    parts = max(sample, 1) * 64
    counts: Counter[tuple[str, str, str, str]] = Counter()
    silent: list[str] = []
    tasks = [(tree, files, part, parts, again) for part in range(0, parts, sample)]
    with multiprocessing.get_context("forkserver").Pool(jobs) as pool:
        for done, (found, lines) in enumerate(pool.imap_unordered(_part, tasks), 1):
            counts, silent = counts + found, silent + lines
            for line in lines[:5]:
                print(line, flush=True)
            print(f"{done}/{len(tasks)}, {time.monotonic() - began:.0f} s, {len(silent)} silent", flush=True)
    for row in sorted(counts):
        print(f"{row[0]:36} {row[1]:5} {row[2]:6} {row[3]:11} {counts[row]:8}")
    for outcome in ("same", "error", "quarantine", "warning", "epoch", "SILENT"):
        print(f"{outcome:11} {sum(number for row, number in counts.items() if row[3] == outcome)}")
    size = sum(map(len, tree.values()))
    print(f"{len(tree)} files, {size} bytes, {sum(counts.values())} looks in {time.monotonic() - began:.0f} s")
    return len(silent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", type=int, help="how many damages to try")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", type=int, default=16, help="open and look once more for every so many")
    given = parser.parse_args()
    silent = 0
    for how in HOW:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), how)
            tree = tree_of(Path(folder))
        print(how, flush=True)
        files = promised(tree) if how == "lazy" else tree
        sample = max(1, len(HOW) * count(files) // max(given.budget, 1))
        silent += campaign(tree, files, given.jobs, sample, given.again)
    return int(silent > 0)


if __name__ == "__main__":
    sys.exit(main())
