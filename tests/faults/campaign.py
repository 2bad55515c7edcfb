"""Let one thing go wrong at every step of everything, as often as one wants: what `make steps` runs.

python -m tests.faults.campaign 20000 --jobs 2              so many attempts
python -m tests.faults.campaign 500 --only repair           at one step
python -m tests.faults.campaign --replay send call-EIO 17 1 sync    one that a failure has named

call-ERROR    a call of the system fails, below Python (failing.c), once, or with "+" as every one after it; "half"
              takes half of what is written first
signal        a signal's handler raises behind a call of the system; signals: two of them, at once
line, lines   the same before a line of pylog
"""

import argparse
import ctypes
import errno
import faulthandler
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import NamedTuple

from .steps import STEPS, Attempts, StruckError, struck_at

SOURCE = Path(__file__).with_name("failing.c")
ROOT = "PYLOG_FAIL_ROOT"
MODES = ("sync", "sync", "interval")
ROUND = 100
"""How many attempts are made on one log."""
HANGS_S = 150
"""An attempt that takes longer never ends."""


class Way(NamedTuple):
    """How a call of the system goes wrong: see failing.c."""

    number: int
    how: int


CALLS = {
    "call-EIO": Way(errno.EIO, 0),
    "call-EIO+": Way(errno.EIO, 1),
    "call-ENOSPC": Way(errno.ENOSPC, 0),
    "call-ENOSPC+": Way(errno.ENOSPC, 1),
    "call-EINTR": Way(errno.EINTR, 0),
    "call-half": Way(errno.ENOSPC, 2),
    "call-EMFILE": Way(errno.EMFILE, 0),
    "signal": Way(signal.SIGTERM, 3),
    "signals": Way(signal.SIGTERM, 4),
}
LINES = {"line": 1, "lines": 2}
WAYS = (*CALLS, *LINES)


def build(folder: Path) -> Path:
    """The library that lets calls fail, compiled into `folder`."""
    library = folder / "failing.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


class Breaking:
    """Attempts at a step in which something goes wrong, in a process that has the library."""

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        self._library = ctypes.CDLL(None)
        self._steps: dict[str, int] = {}

    def places(self, way: str) -> int:
        """At how many places it can go wrong in that way."""
        kind = "call" if way in CALLS else "line"
        if kind not in self._steps:
            wrong = self.attempt(way, 0)
            if wrong:
                raise AssertionError(f"{self.attempts.step} is wrong although nothing goes wrong: {wrong}")
            self._steps[kind] = self._count
        return self._steps[kind]

    def attempt(self, way: str, place: int) -> str:
        """What is wrong after an attempt in which it goes wrong there."""
        return self.attempts.attempt(lambda step: (self._calling if way in CALLS else self._tracing)(way, place, step))

    def _calling(self, way: str, place: int, step: Callable[[], None]) -> None:
        number, how = CALLS[way]
        before = signal.signal(signal.SIGTERM, _strike)
        self._library.pylog_fail(ctypes.c_long(place), number, how)
        try:
            step()
        finally:
            self._count = self._library.pylog_calls()
            self._library.pylog_fail(ctypes.c_long(0), 0, 0)
            signal.signal(signal.SIGTERM, before)

    def _tracing(self, way: str, place: int, step: Callable[[], None]) -> None:
        with struck_at(place, LINES[way]) as lines:
            step()
        self._count = len(lines)


def _strike(number: int, frame: object) -> None:
    raise StruckError


def tell_round(name: str, mode: str, seed: int, attempts: int) -> None:
    """Some attempts at one step of one log. Of each, a line of JSON before it, and one after it: the words that replay
    it, and what is wrong.
    """
    chance = random.Random(f"{seed}/{name}/{mode}")
    with tempfile.TemporaryDirectory(dir=os.environ[ROOT]) as folder:
        breaking = Breaking(Attempts(Path(folder), name, mode=mode, seed=seed))
        for _ in range(attempts):
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            way = chance.choice(WAYS)
            place = chance.randint(1, max(breaking.places(way), 1))
            replay = f"{name} {way} {place} {seed} {mode}"
            print(json.dumps([replay, None]), flush=True)
            print(json.dumps([replay, breaking.attempt(way, place)]), flush=True)
    faulthandler.cancel_dump_traceback_later()


def attempt_round(task: tuple[str, str, int, int]) -> tuple[str, int, list[str]]:
    """The same in a process of its own, which ends where an attempt hangs: how many were made, and what was wrong."""
    command = [sys.executable, "-m", f"{__package__}.campaign", "--round", *map(str, task)]
    ran = subprocess.run(command, capture_output=True, text=True)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    wrong = [(replay, words) for replay, words in told if words]
    if ran.returncode != 0:
        wrong.append((told[-1][0] if told else "", f"it hangs, or the process ends\n{ran.stderr[-4000:]}"))
    failures = [f"{replay}: {words}\n    python -m tests.faults.campaign --replay {replay}" for replay, words in wrong]
    return task[0], sum(words is not None for _, words in told), failures


def campaign(steps: Sequence[str], budget: int, jobs: int, seed: int) -> int:
    """Attempts until there are enough; gives how many were wrong."""
    began, made, wrong = time.monotonic(), Counter[str](), 0
    tasks = [
        (steps[number % len(steps)], MODES[number // len(steps) % len(MODES)], seed + number // len(steps), attempts)
        for number, attempts in enumerate(min(ROUND, budget - at) for at in range(0, budget, ROUND))
    ]
    with ThreadPool(jobs) as pool:
        for name, attempts, failures in pool.imap_unordered(attempt_round, tasks):
            made[name] += attempts
            wrong += len(failures)
            for failure in failures[:3]:
                print(f"FAILED {failure}", flush=True)
            print(f"{made.total()} attempts, {time.monotonic() - began:.0f} s, {wrong} wrong ({name})", flush=True)
    print(f"{made.total()} steps with a fault in {time.monotonic() - began:.0f} s: {wrong} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", nargs="?", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=STEPS, help="this step alone")
    parser.add_argument("--replay", nargs=5, metavar=("STEP", "WAY", "PLACE", "SEED", "MODE"))
    parser.add_argument("--round", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if ROOT not in os.environ:
        return preloaded(sys.argv[1:])
    logging.disable(logging.CRITICAL)
    if given.round:
        name, mode, seed, attempts = given.round
        tell_round(name, mode, int(seed), int(attempts))
        return 0
    if given.replay:
        name, way, place, seed, mode = given.replay
        with tempfile.TemporaryDirectory(dir=os.environ[ROOT]) as folder:
            breaking = Breaking(Attempts(Path(folder), name, mode=mode, seed=int(seed)))
            wrong = breaking.attempt(way, int(place))
        print(wrong or "nothing is wrong with it")
        return int(bool(wrong))
    steps = (given.only,) if given.only else STEPS
    return int(campaign(steps, given.budget, given.jobs, given.seed) > 0)


def preloaded(arguments: list[str]) -> int:
    """The same in a process that has the library, in memory where there is a file system of it."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        root = Path(folder).resolve()
        library = build(root)
        # LD_PRELOAD is cut at spaces, LD_LIBRARY_PATH is not.
        where = {"LD_PRELOAD": library.name, "LD_LIBRARY_PATH": str(root), ROOT: str(root)}
        environment = os.environ | where
        return subprocess.run([sys.executable, "-m", f"{__package__}.campaign", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
