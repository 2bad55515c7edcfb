"""Forged files in a log directory: whatever they say, a call gives records or a typed error, soon, in little memory.

python -m tests.crash.forge 100000 --jobs 2      so many cases (`make forge`)
python -m tests.crash.forge --case 4711          one of them, with what it raises

A small log with everything that a directory can hold is made once, closed and as a kill leaves it. In a copy of it one
file is forged (`forging`), and the copy is checked, dumped, owned and read. One case of ten is looked at in every way:
another process's reader reads it, its owner appends, transacts and cleans, and opens it again. Demanded are, of each
case:

- errors are pylog's own, and so are the answers of the command, which print;
- at most 5 seconds of the processor, and memory of 16 times the forged file beside a fixed room;
- what an owner has acknowledged after that is there when it is opened again, unless an error, or `pylog verify` before,
  says that the log is damaged.
"""

import argparse
import contextlib
import faulthandler
import io
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pylog
from pylog import TopicPartition
from pylog.cli import main as command
from pylog.errors import PylogError
from tests.crash import kinds
from tests.crash.forging import Forged, Tree, forge, partitions_of

SECONDS_MAX = 5.0
GROWTH_MAX = 16
WHOLE = 10
"""One case of so many is looked at in every way."""
ROOM = 96 << 20
"""What a case takes whatever is in its file: caches, code that is loaded at first use, what the allocator keeps."""
HANGS_AFTER = 120
QUICK = {"request_timeout_ms": 500, "delivery_timeout_ms": 1000, "max_block_ms": 1000}
PATHS = ("log", "log-killed")
OWN = (".pylog-", "pylog-", ".kafka_cleanshutdown", "-checkpoint")
"""What is in the names of the files without which a log is as if another program had written it."""


def make_logs(place: Path) -> list[Tree]:
    """The files of the log: closed, killed, and without those that only an owner of pylog leaves. Its metadata log has
    a snapshot, and users.
    """
    config = {
        "metadata.log.max.record.bytes.between.snapshots": 1, "offsets.topic.num.partitions": 2,
        "transaction.state.log.num.partitions": 2,
    }  # fmt: skip
    with pylog.open(place / "log", config=config) as log:
        log.admin.set_password("alice", "secret")
        log.create_topic("m")
        log.admin.alter_offsets("gone", {TopicPartition("m", 0): 0})
        with log.producer(transactional_id="x") as producer, producer.transaction():
            producer.send("m", b"v")
    kinds.make_log(str(place / "log"))
    trees = [tree_of(place / name) for name in PATHS]
    for name in PATHS:
        shutil.rmtree(place / name)
    bare = {name: data for name, data in trees[1].items() if not any(word in name for word in OWN)}
    return [*trees, bare]


def tree_of(path: Path) -> Tree:
    """All files but the lock, whose content says nothing."""
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


class Case:
    """One forged file in a directory; `wrong` collects what was not to be."""

    def __init__(self, trees: list[Tree], number: int, folder: Path) -> None:
        self.tree = trees[number % len(trees)]
        self.path = str(folder)
        self.is_whole = number // len(trees) % WHOLE == 0
        self.kind, self.forged = forge(self.tree, number // len(trees))
        self.wrong: list[str] = []
        self.errors = 0

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:
        """What a call gives; None where it raises an error of pylog's, or had no answer in its time."""
        try:
            return call()
        except (PylogError, TimeoutError):
            self.errors += 1
        except Exception:  # noqa: BLE001 - what was not to be raised is what is looked for
            last = traceback.format_exc().strip().splitlines()
            self.wrong.append(f"{what}: {last[-1][:200]}\n" + "\n".join(last[-14:-1]))
        return None

    def put(self) -> None:
        """The directory, with the forged file in it."""
        for name, data in {**self.tree, self.forged.name: self.forged.data}.items():
            path = Path(self.path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def run(self) -> None:
        """Look at it. Raises nothing."""
        self.put()
        is_sound = self._command("verify", "--notes", "--log", self.path) == 0
        self._command("segment", "dump", "--records", str(Path(self.path, self.forged.name)))
        if self.is_whole:
            self._look_in_every_way(is_sound)
            return
        with self._opened("own") as log:
            if log is not None:
                for key in partitions_of(self.tree):
                    self.attempt(f"own: consume {key}", partial(self._consume, log, key, "read_committed"))
                for number, call in enumerate((log.topics, log.admin.list_groups, log.admin.list_transactions)):
                    self.attempt(f"own: call {number}", call)

    def _look_in_every_way(self, is_sound: bool) -> None:
        self._command("verify", "--json", "--log", self.path)
        self._command("segment", "dump", "--json", "--records", str(Path(self.path, self.forged.name)))
        with self._opened("read") as log:
            if log is not None:
                self._look(log, "read")
        acknowledged: dict[TopicPartition, tuple[int, bytes]] = {}
        made = False
        with self._opened("own") as log:
            if log is not None:
                self._look(log, "own")
                acknowledged = self._append(log)
                self._use(log)
                made = self.attempt("create", lambda: log.create_topic("made").name == "made") is True
        with self._opened("own") as log:
            if log is not None:
                self._look(log, "again")
                if made and "made" not in log.topics():
                    self.wrong.append("again: a topic that was made is not there")
                for key, (offset, value) in acknowledged.items():
                    found = self.attempt("again: records", partial(self._found, log, key, offset))
                    if is_sound and found not in (None, [value]):
                        self.wrong.append(f"again: {key} has {found} where {value!r} was acknowledged, at {offset}")

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator[pylog.Log | None]:
        log = self.attempt(
            f"{mode}: open", lambda: pylog.open(self.path, mode=mode, flush="none" if mode == "own" else None)
        )
        yield log
        if log is not None:
            self.attempt(f"{mode}: close", log.close)

    def _command(self, *words: str) -> int | None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = self.attempt(" ".join(words[:2]), lambda: command(list(words)))
        if code not in (0, 1, None) or not all(map(str.isprintable, out.getvalue().splitlines())):
            self.wrong.append(f"{words[:2]}: exit code {code}, {out.getvalue()[:200]!r}")
        return code

    def _look(self, log: pylog.Log, how: str) -> None:
        admin = log.admin
        for isolation in ("read_uncommitted", "read_committed"):
            for key in partitions_of(self.tree):
                self.attempt(f"{how}: consume {key}", partial(self._consume, log, key, isolation))
        for key in partitions_of(self.tree):
            topic = self.attempt(f"{how}: topic", partial(log.topic, key.topic))
            if topic is not None and key.partition < len(topic):
                view = topic[key.partition]
                self.attempt(f"{how}: check", view.check)
                self.attempt(f"{how}: columns", lambda view=view: list(view.columns()))
                if how != "read":
                    self.attempt(f"{how}: producers", partial(admin.describe_producers, [key]))
                self.attempt(f"{how}: times", partial(admin.list_offsets, {key: 1_700_000_000_000}))
        calls: tuple[Callable[[], Any], ...] = (
            log.topics, admin.users, admin.list_groups, admin.list_transactions, log.metrics, admin.describe_log_dirs,
            admin.topics,
            lambda: [admin.describe_group(one.group_id) for one in admin.list_groups()],
            lambda: [admin.lag(one.group_id) for one in admin.list_groups()],
            lambda: [admin.describe_transaction(one.transactional_id) for one in admin.list_transactions()],
            lambda: [admin.describe_topic_config(name) for name in log.topics(internal=True)],
        )  # fmt: skip
        for number, call in enumerate(calls):
            self.attempt(f"{how}: call {number}", call)

    def _consume(self, log: pylog.Log, key: TopicPartition, isolation: Any) -> None:
        with log.consumer(isolation_level=isolation, auto_offset_reset="earliest") as consumer:
            consumer.assign([key])
            consumer.seek_to_beginning(key)
            for _ in range(1000):
                if not consumer.poll(timeout_ms=0):
                    break

    def _append(self, log: pylog.Log) -> dict[TopicPartition, tuple[int, bytes]]:
        done: dict[TopicPartition, tuple[int, bytes]] = {}
        producer = self.attempt("own: producer", lambda: log.producer(**QUICK))
        if producer is None:
            return done
        for key in partitions_of(self.tree):
            value = b"after %d" % key.partition
            sent = self.attempt(f"own: send {key}", partial(self._sent, producer, key, value))
            if sent is not None:
                done[key] = sent.offset, value
        self.attempt("own: close producer", producer.close)
        return done

    @staticmethod
    def _sent(producer: Any, key: TopicPartition, value: bytes) -> Any:
        return producer.send(key.topic, value, b"k", partition=key.partition).result()

    @staticmethod
    def _found(log: pylog.Log, key: TopicPartition, offset: int) -> list[bytes | None] | None:
        """The values at an offset; None where it was deleted."""
        topic = log.topic(key.topic)
        view = topic[key.partition] if key.partition < len(topic) else None
        return (
            None
            if view is None or offset < view.start_offset
            else [one.value for one in view.records(offset, offset + 1)]
        )

    def _use(self, log: pylog.Log) -> None:
        def commit() -> None:
            with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.poll(timeout_ms=0)
                consumer.commit({TopicPartition("t", 1): 3})

        def transact() -> None:
            with log.producer(transactional_id="x", **QUICK) as producer, producer.transaction():
                producer.send("t", b"in a transaction", partition=0)

        calls: tuple[Callable[[], Any], ...] = (
            commit, transact, log.apply_retention, log.flush, log.clean, log.find_damage,
            lambda: log.delete_records({TopicPartition("t", 1): 3}), lambda: log.admin.set_password("bob", "hush"),
            lambda: log.admin.delete_groups(["g"]), log.admin.find_hanging_transactions,
        )  # fmt: skip
        for number, call in enumerate(calls):
            self.attempt(f"own: use {number}", call)


# --- many -----------------------------------------------------------------------------------------------------------


def memory(field: str) -> int:
    """The bytes of this process that the system has under a name."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0


def judge(trees: list[Tree], number: int, folder: Path) -> tuple[str, Forged, list[str], int]:
    """What is wrong with a case: its kind, the forged file, and a line for each."""
    case = Case(trees, number, folder)
    with contextlib.suppress(OSError):
        # The highest mark begins anew (Linux).
        Path("/proc/self/clear_refs").write_text("5")
    before, spent = memory("VmRSS"), time.process_time()
    faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
    try:
        case.run()
    finally:
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(folder, ignore_errors=True)
    spent, grown = time.process_time() - spent, memory("VmHWM") - before
    if spent > SECONDS_MAX:
        case.wrong.append(f"it took {spent:.1f} s")
    if grown > GROWTH_MAX * len(case.forged.data) + ROOM:
        case.wrong.append(f"it took {grown >> 20} MiB for {len(case.forged.data)} bytes")
    return case.kind, case.forged, case.wrong, case.errors


def ram() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _part(task: tuple[list[Tree], range]) -> tuple[Counter[str], list[str]]:
    trees, numbers = task
    logging.disable(logging.CRITICAL)
    counts: Counter[str] = Counter()
    lines = []
    with tempfile.TemporaryDirectory(dir=ram()) as place:
        # What is loaded on first use is loaded before anything is measured.
        judge(trees, numbers[0], Path(place, "first"))
        for number in numbers:
            print(f"\r{number} ", end="", file=sys.stderr, flush=True)
            kind, forged, wrong, errors = judge(trees, number, Path(place, str(number)))
            counts[kind] += 1
            counts[f"{kind}, refused"] += bool(errors)
            lines += [f"case {number} ({kind}, {forged.name}: {forged.how}): {one}" for one in wrong]
    return counts, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("budget", type=int, nargs="?", default=1000, help="how many cases")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", type=int, help="this one alone")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir=ram()) as place:
        trees = make_logs(Path(place))
        if given.case is not None:
            kind, forged, wrong, errors = judge(trees, given.case, Path(place, "case"))
            print(kind, forged.name, forged.how, f"{errors} errors", *wrong, sep="\n")
            return int(bool(wrong))
    counts: Counter[str] = Counter()
    failures = 0
    upto = given.first + given.budget
    tasks = [(trees, range(first, min(first + 50, upto))) for first in range(given.first, upto, 50)]
    began = time.monotonic()
    with multiprocessing.get_context("forkserver").Pool(given.jobs) as pool:
        for done, (found, lines) in enumerate(pool.imap_unordered(_part, tasks), 1):
            counts, failures = counts + found, failures + len(lines)
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
            if done % 10 == 0 or done == len(tasks):
                print(f"{done}/{len(tasks)}, {time.monotonic() - began:.0f} s, {failures} failures", flush=True)
    for name, number in sorted(counts.items()):
        print(f"{name:24} {number:8}")
    print(f"{given.budget} cases: {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
