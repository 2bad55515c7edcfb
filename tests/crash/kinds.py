"""Every kind of file of a log directory as every kind of thing: what `make kinds` runs.

python -m tests.crash.kinds            all of it, one line a failure
python -m tests.crash.kinds 37         every 37th case
python -m tests.crash.kinds 1 t-0/leader-epoch-checkpoint fifo

A small log is made once, with everything that a directory can hold, closed cleanly and as a killed process leaves it.
In a copy of it one file, or folder, is replaced by one thing, and the copy is opened: by an owner, by a reader, by
`pylog verify`. Demanded are, of each:

- a typed error, or every record that is wanted, or an error where it is read; never another record, and never fewer
  without a word;
- little time of the processor, no waiting, and little memory: the address space is limited while it runs;
- nothing lost: with the original in its place again, the owner finds everything, and its `check` is clean.

All of it runs in one process, as an ordinary user where it was started by root.
"""

import contextlib
import faulthandler
import io
import logging
import os
import resource
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pylog
from pylog import TopicPartition
from pylog.cli import main as command
from pylog.errors import PylogError
from tests.support.log_copies import copy_log

GIANT = 6 << 30
SECONDS_MAX = 1.0
HANGS_AFTER = 60
ROOM = 1 << 30
NOBODY = 65534
OWNER, READER, VERIFY = "owner", "reader", "verify"

Rows = dict[TopicPartition, list[tuple[int, bytes | None]]]


# --- the log ----------------------------------------------------------------------------------------------------------


def make_log(path: str) -> None:
    """A log with transactions, a group, deleted records and a compacted topic, in little segments; left open."""
    log = pylog.open(path)
    now_ms = int(time.time() * 1000)
    log.create_topic("t", partitions=2, config={"segment.ms": 60_000, "index.interval.bytes": 0})
    with log.producer(transactional_id="x") as producer:
        for number in range(4):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                for key in (b"a", b"b", b"c"):
                    value = b"%d of %s" % (number, key)
                    producer.send("t", value, key, partition=0, timestamp_ms=now_ms + number * 100_000).result()
                if number == 1:
                    raise ZeroDivisionError
    with log.producer() as producer:
        for number in range(4):
            producer.send("t", b"plain %d" % number, partition=1, timestamp_ms=now_ms).result()
    log.delete_records({TopicPartition("t", 1): 2})
    with log.consumer("t", group_id="g") as consumer:
        consumer.poll(timeout_ms=100)
        consumer.commit()
    log.create_topic("c", config={"segment.ms": 60_000, "cleanup.policy": "compact"})
    with log.producer() as producer:
        for number in range(4):
            producer.send("c", b"kept", b"k", partition=0, timestamp_ms=now_ms + number * 100_000).result()
    log.clean()
    # A marker is durable a second later. An owner that misses one writes it again at its offset, and the original of
    # its file would not fit any more.
    partition = log.broker.partition("t", 0)
    partition.sync()
    partition.publish()
    copy_log(path, f"{path}-killed")
    log.close()


def read(log: pylog.Log) -> tuple[Rows, list[PylogError]]:
    """What a consumer is given of each partition, read_committed, and what it was refused."""
    rows: Rows = {}
    refused: list[PylogError] = []
    for topic, count in (("t", 2), ("c", 1)):
        for number in range(count):
            key = TopicPartition(topic, number)
            rows[key] = []
            try:
                with log.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
                    consumer.assign([key])
                    consumer.seek_to_beginning(key)
                    while records := consumer.poll(timeout_ms=0):
                        rows[key] += [(record.offset, record.value) for record in records]
            except PylogError as error:
                refused.append(error)
    return rows, refused


# --- what is put in the place of a file -------------------------------------------------------------------------------


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path, _: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def _link(path: Path, original: Path) -> None:
    path.symlink_to(original)


def _dangling(path: Path, _: Path) -> None:
    path.symlink_to("nowhere/at/all")


def _loop(path: Path, _: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _giant(path: Path, _: Path) -> None:
    path.touch()
    os.truncate(path, GIANT)


def _empty(path: Path, _: Path) -> None:
    path.touch()


def _foreign(path: Path, _: Path) -> None:
    path.write_bytes(bytes(range(255, -1, -1)) * 4)


def _another(path: Path, original: Path) -> None:
    names = sorted(one for one in path.parent.iterdir() if one.is_file() and one.suffix != path.suffix)
    path.write_bytes(names[0].read_bytes() if names else original.name.encode())


def _forbidden(path: Path, original: Path) -> None:
    shutil.copy(original, path) if original.is_file() else shutil.copytree(original, path)
    path.chmod(0)


def _missing(path: Path, _: Path) -> None:
    pass


THINGS: dict[str, Callable[[Path, Path], None]] = {
    "fifo": _fifo, "directory": _directory, "link": _link, "dangling": _dangling, "loop": _loop, "socket": _socket,
    "device": _device, "giant": _giant, "empty": _empty, "foreign": _foreign, "another": _another,
    "forbidden": _forbidden, "missing": _missing,
}  # fmt: skip


# --- a case -----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One thing in the place of one file of one log, and what opens it."""

    log: str
    name: str
    thing: str
    opener: str


def cases(place: str) -> Iterator[Case]:
    """All of them, for the logs in `place`."""
    for log in ("log", "log-killed"):
        root = Path(place, log)
        names = {
            str(path.relative_to(root)) for path in root.rglob("*")
            if path.parent == root or path.parent.name in ("t-0", "__cluster_metadata-0")
        }  # fmt: skip
        for name in sorted(names):
            for thing in THINGS:
                # An owner of a log without the list of topics makes it anew, as the error for a damaged one advises.
                is_adopted = name == "__cluster_metadata-0" and thing in ("missing", "dangling")
                for opener in (READER, VERIFY) if is_adopted else (READER, VERIFY, OWNER):
                    yield Case(log, name, thing, opener)


def judge(case: Case, place: str, wanted: Rows) -> str | None:
    """What is wrong with the outcome of a case, if anything is."""
    root = Path(place, "copy")
    original, path = Path(place, "original"), root / case.name
    shutil.copytree(Path(place, case.log), root)
    path.rename(original)
    try:
        THINGS[case.thing](path, original)
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        before = time.process_time()
        wrong = _OPENERS[case.opener](str(root), wanted)
        spent = time.process_time() - before
        if wrong is None and spent > SECONDS_MAX:
            wrong = f"it took {spent:.1f} s"
        if wrong is None:
            _remove(path)
            shutil.copytree(original, path) if original.is_dir() else shutil.copy(original, path)
            wrong = _restored(str(root), wanted)
        return wrong
    except Exception as error:  # noqa: BLE001 - what was not to be raised is what is looked for
        return f"{type(error).__name__}: {error}"
    finally:
        faulthandler.cancel_dump_traceback_later()
        for one in (root, original):
            _remove(one)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder in (path, *path.rglob("*")):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _open_and_read(path: str, mode: str, wanted: Rows) -> str | None:
    try:
        with pylog.open(path, mode=mode) as log:
            rows, refused = read(log)
            told = bool(refused or log.quarantined or log.recovered)
    except PylogError:
        return None
    for key, found in rows.items():
        if not set(found) <= set(wanted[key]):
            return f"{key} gives {sorted(set(found) - set(wanted[key]))}"
    if rows != wanted and not told:
        return f"records are missing without a word: {rows}"
    return None


def _own(path: str, wanted: Rows) -> str | None:
    return _open_and_read(path, "own", wanted)


def _look(path: str, wanted: Rows) -> str | None:
    before = _tree(path)
    wrong = _open_and_read(path, "read", wanted)
    return wrong or ("a reader has changed something" if _tree(path) != before else None)


def _verify(path: str, _: Rows) -> str | None:
    before = _tree(path)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = command(["verify", "--log", path])
    if code not in (0, 1) or "Traceback" in out.getvalue():
        return f"exit code {code}: {out.getvalue()}"
    return "verify has changed something" if _tree(path) != before else None


_OPENERS = {OWNER: _own, READER: _look, VERIFY: _verify}


def _tree(path: str) -> list[tuple[str, int, int]]:
    found = ((one, one.lstat()) for one in Path(path).rglob("*"))
    return sorted((str(one), stat.st_size, stat.st_mtime_ns) for one, stat in found)


def _restored(path: str, wanted: Rows) -> str | None:
    with pylog.open(path) as log:
        rows, refused = read(log)
        if rows != wanted or refused:
            return f"with the original in its place: {rows} {refused} {log.quarantined}"
        for key in wanted:
            log.topic(key.topic)[key.partition].check()
    return None


# --- all of them ------------------------------------------------------------------------------------------------------


def run(place: str, stride: int = 1, only: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """Judge every `stride`-th case; gives how many there were, and what was wrong."""
    make_log(str(Path(place, "log")))
    with pylog.open(str(Path(place, "log")), mode="read") as log:
        wanted, _ = read(log)
    chosen = [case for case in cases(place) if all(word in case for word in only)][::stride]
    # What is imported on first use is imported before anything is limited.
    judge(Case("log", "meta.properties", "empty", VERIFY), place, wanted)
    if os.geteuid() == 0:
        for found in (Path(place), *Path(place).rglob("*")):
            os.chown(found, NOBODY, NOBODY)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    failures = []
    for case in chosen:
        wrong = judge(case, place, wanted)
        if wrong is not None:
            failures.append(f"{' '.join(case)}: {wrong}")
            print(f"FAILED {failures[-1]}", flush=True)
    return len(chosen), failures


def where() -> str:
    """Where temporary files go; /tmp where root would become a user who may not enter that."""
    given = Path(tempfile.gettempdir())
    is_open = all(one.stat().st_mode & stat.S_IXOTH for one in (given, *given.parents))
    return str(given) if is_open or os.geteuid() != 0 else "/tmp"


def main() -> int:
    """The campaign as a process of its own; gives whether anything was wrong."""
    logging.disable(logging.CRITICAL)
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    place = tempfile.mkdtemp(dir=where())
    try:
        count, failures = run(place, stride, tuple(sys.argv[2:]))
        print(f"{count} cases: {len(failures)} failures")
        return int(bool(failures))
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        shutil.rmtree(place)


if __name__ == "__main__":
    sys.exit(main())
