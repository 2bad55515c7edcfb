"""A signal at every place of every public call: what `make interrupts` runs.

python -m tests.interrupts.campaign 20000 --jobs 2                      so many places
python -m tests.interrupts.campaign --one send use sync --at 17 17 1    from one to another, in steps: as a failure says
"""

import argparse
import faulthandler
import gc
import logging
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.support.canaries import Canaries, touched

from .calls import CALLS, MODES, USES, World, attempt, recover

FLUSHES = ("sync", "none")
STUCK_SECONDS = 30
JUDGED_EVERY = 25
WRONG_MOST = 5


def places(name: str, mode: str, flush: str, folder: Path, first: int, last: int, step: int) -> tuple[int, list[str]]:
    """Try some places of a call in one mode; gives how many, and what was wrong. One that is stuck ends the process."""
    wrong: list[str] = []
    made = 0
    worlds = iter(range(10**6))
    world: World | None = None
    place = first
    while place <= last:
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        print(f"at {place}", file=sys.stderr, flush=True)
        try:
            if world is None:
                world = World(folder / f"{next(worlds)}", flush)
            seen = attempt(world, name, mode, place)
            recover(world, mode)
            made += 1
            if mode in USES and made % JUDGED_EVERY == 0:
                world.judge()
                world.begin()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
            wrong.append(f"{name}, {mode} at {place}, {flush}: {type(error).__name__}: {error}\n")
            if len(wrong) >= WRONG_MOST:
                break
            world, seen = None, place
        if 0 < seen < place:
            break
        place += step
    if world is not None:
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        world.judge()
        world.close()
    faulthandler.cancel_dump_traceback_later()
    gc.collect()
    return made, wrong


def count(name: str, flush: str, folder: Path) -> int:
    """How many places a call has when it is not the first one."""
    world = World(folder / "count", flush)
    attempt(world, name, "use", 0)
    seen = attempt(world, name, "use", 0)
    world.close()
    return seen


def one(name: str, mode: str, flush: str, some: tuple[int, int, int] | int) -> int:
    """Try the places of a call that are named, or so many of them, in this process."""
    logging.disable(logging.CRITICAL)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        canaries = Path(folder, "canaries")
        with Canaries(canaries):
            if isinstance(some, int):
                last = count(name, flush, Path(folder))
                some = 1, last, max(1, last // some)
            made, wrong = places(name, mode, flush, Path(folder), *some)
        wrong += [f"bytes went to files that are not the log's: {line}" for line in touched(canaries)]
    for line in wrong:
        print(line)
    print(f"made {made}")
    return int(bool(wrong))


def task(name: str, mode: str, flush: str, some: int) -> tuple[str, int, str]:
    """The same in a process of its own, which may get stuck."""
    command = [sys.executable, "-m", f"{__package__}.campaign", f"{some}", "--one", name, mode, flush]
    done = subprocess.run(command, capture_output=True, text=True)
    ended, _, made = done.stdout.rpartition("made ")
    if not ended and not made:
        return f"{name}, {mode}, {flush}", 0, done.stdout + done.stderr[-6000:]
    return f"{name}, {mode}, {flush}", int(made), done.stdout if done.returncode else ""


def campaign(budget: int, jobs: int, names: list[str]) -> int:
    began, made, wrong = time.monotonic(), 0, 0
    tasks = list(product(names, MODES, FLUSHES))
    some = -(-budget // len(tasks))
    with ThreadPoolExecutor(jobs) as pool:
        for what, tried, said in pool.map(lambda one: task(*one, some), tasks):
            made += tried
            wrong += bool(said)
            if said:
                print(f"FAILED {what}\n{said}", flush=True)
            print(f"{made} places, {time.monotonic() - began:.0f} s, {wrong} calls wrong ({what})", flush=True)
    print(f"{made} places of {len(names)} calls, {time.monotonic() - began:.0f} s: {wrong} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", nargs="?", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--calls", nargs="*", default=list(CALLS), choices=list(CALLS))
    parser.add_argument("--one", nargs=3, metavar=("CALL", "MODE", "FLUSH"))
    parser.add_argument("--at", nargs=3, type=int, metavar=("FIRST", "LAST", "STEP"))
    given = parser.parse_args()
    if given.one:
        return one(*given.one, tuple(given.at) if given.at else given.budget)
    return int(campaign(given.budget, given.jobs, given.calls) > 0)


if __name__ == "__main__":
    sys.exit(main())
