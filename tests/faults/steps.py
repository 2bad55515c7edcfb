"""One step of a log's life, in which one thing goes wrong: a call of the system fails, or a signal's handler raises.

A `Writer` of the power cuts does the step; what went wrong is over after it. Then the log has to hold what was promised
by then, twice: in a copy of the files as they are, which is what a kill leaves, and after a close.

The step "repair" begins with a damaged batch; a repair that went wrong can be done again.
"""

import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pylog
from pylog.broker.sweeps import HOUSEKEEPING
from pylog.errors import PylogError
from pylog.files import DiskFiles
from pylog.runtime.signals import WHOLE
from tests.powercut.judge import judged_files, promises
from tests.powercut.writer import BURST, SPOILED, Writer
from tests.support.log_copies import copy_log

STEPS = (
    "send", "burst", "pairs", "transaction", "delete_records", "clean", "roll", "move", "commit", "flush", "reopen",
    "replace_topic", "retain", "group", "repair",
)  # fmt: skip
HISTORY = ("send", "pairs", "transaction", "delete_records", "roll", "pairs", "commit", "transaction", "send")
SOURCE = str(Path(pylog.__file__).parent)


class StruckError(BaseException):
    """What the handler of a signal raises."""


class Attempts:
    """Attempts at one step, each on a copy of the same log. `folder` is new and its own."""

    def __init__(self, folder: Path, step: str, *, mode: str = "sync", seed: int = 1) -> None:
        self.folder = folder
        self.step = step
        self.mode = mode
        self.seed = seed
        self.template = folder / "template"
        self.template.mkdir()
        self.before: list[bytes] = []
        writer = Writer(self.template, mode, seed, self.before.append)
        writer.begin()
        for name in HISTORY:
            getattr(writer, name)()
        if step == "repair":
            _spoil(writer)
        writer.log.close()
        # Every attempt is due to do what short opens have left, at its first append, or in its close.
        (self.template / "one" / HOUSEKEEPING).write_text('{"retention":{"ms":0},"offsets":{"ms":0}}')
        self.number, self.transactions = writer.number, writer.transactions

    def attempt(self, doing: Callable[[Callable[[], None]], None]) -> str:
        """The step under `doing`, which calls it; gives what is wrong afterwards, "" when nothing is."""
        root, copy = self.folder / "log", self.folder / "copy"
        for old in (root, copy):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.template, root)
        notes = list(self.before)
        writer = Writer(root, self.mode, self.seed, notes.append)
        writer.number, writer.transactions = self.number, self.transactions
        wrong = _tried(lambda: doing(getattr(writer, self.step)))
        wrong = wrong or _tried(_let_go)
        _settle()
        _copy(root, copy)
        wrong = wrong or _judged("after a kill", copy, notes)
        wrong = wrong or _tried(writer.log.close)
        return wrong or _judged("after a close", root, notes)


def _spoil(writer: Writer) -> None:
    """Damage a batch in the middle of a segment. Close the log: as long as it is open, it knows better."""
    writer.topic(SPOILED, 1)
    for _ in range(3):
        with writer.log.producer() as producer:
            writer.acknowledged(*writer.sent(producer, SPOILED))
    writer.log.broker.partition(SPOILED, 0).roll(0)
    view = writer.log.topic(SPOILED)[0]
    file, victim = Path(view.segments[0].path), b"%08d" % (writer.number - 1)
    writer.log.close()
    writer.note("spoiled", SPOILED, 0, 1)
    content = file.read_bytes()
    assert content.count(victim) == 1
    file.write_bytes(content.replace(victim, b"spoiled!"))


def _let_go() -> None:
    """End a block that holds signals: the first of two may still wait, which else strikes the judge."""
    with WHOLE:
        pass


def _settle() -> None:
    """Wait for the threads of a burst: where a signal has ended the wait for them, they still run.

    Not by their `join`: one that was interrupted takes its thread for ended from then on.
    """
    until = time.monotonic() + 60
    while any(thread.name == BURST for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.001)


def _copy(root: Path, copy: Path) -> None:
    """What a kill would leave. Files that housekeeping removes meanwhile make it begin again."""
    while True:
        try:
            copy_log(root, copy)
            return
        except shutil.Error:
            shutil.rmtree(copy)


def _tried(call: Callable[[], None]) -> str:
    """What is wrong with what `call` raises: errors have a type, and what a handler raises comes through. TimeoutError
    is what the calls that wait say, of a disk that goes on refusing.
    """
    try:
        call()
    except (PylogError, StruckError, TimeoutError):
        return ""
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is wrong
        return "an error without a type: " + "".join(traceback.format_exception(error, limit=-4))
    return ""


def _judged(when: str, root: Path, notes: list[bytes]) -> str:
    # Nothing was lost but the process: what was acknowledged is there in every flush mode.
    said, kept = promises(notes, "sync")
    try:
        found = judged_files(DiskFiles(), [str(root / name) for name in ("one", "two")], said, kept, "sync")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
        found = ["".join(traceback.format_exception(error, limit=-4))]
    return f"{when}: {'; '.join(found[:3])}" if found else ""


@contextmanager
def struck_at(step: int, times: int) -> Iterator[list[tuple[str, int]]]:
    """Let a signal come before the line number `step` (from 1; 0: never) of those of pylog that are new, so many times.

    Gives the lines that were new.
    """
    lines: list[tuple[str, int]] = []
    known: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in known:
            known.add(place)
            lines.append(place)
            if len(lines) == step:
                sys.settrace(None)
                for _ in range(times):
                    signal.raise_signal(signal.SIGTERM)
        return trace

    def strike(number: int, frame: FrameType | None) -> None:
        raise StruckError

    before = signal.signal(signal.SIGTERM, strike)
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGTERM, before)
