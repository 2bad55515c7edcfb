"""Every limit at its least, in many threads: what `make limits` runs.

    python -m tests.limits.campaign 200 --seconds 30 --jobs 2      so many runs, of so many seconds each
    python -m tests.limits.campaign 1 --seed 17 --seconds 30       one of them again (the turns of the threads are not)

A run is a process with the limits that its seed draws (`limits`): files, descriptors, segments, caches, buffers,
memory for the stacks of threads, disk, or several at once; both kernels and all flush modes take turns. It does what
`play` says, with a canary in the place of each descriptor that the log closes. Then the limits are lifted, and it is
judged:

    records        nothing acknowledged is lost, or at another offset, or twice; each writer's are in order
    files          `find_damage`, `check` and `verify` find nothing
    descriptors    as many as before are open, and no byte has reached a canary
    errors         only where the system itself refuses calls, and of pylog's types
"""

import argparse
import faulthandler
import gc
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path

from tests.support.canaries import Canaries, touched

from .limits import CANARIES, KINDS, Limits, can_mount, draw, lift_disk, within
from .play import PATIENCE_SECONDS, Play

STUCK_SECONDS = 240
MODULE = "tests.limits.campaign"


def one(seed: int, seconds: float, folder: Path) -> int:
    """One run in this process, which may get stuck; says what it has done, and what was wrong."""
    logging.disable(logging.CRITICAL)
    faulthandler.dump_traceback_later(seconds + STUCK_SECONDS, exit=True)
    wrong = run(draw(seed), seconds, folder)
    faulthandler.cancel_dump_traceback_later()
    for line in wrong:
        print(line)
    sys.stdout.flush()
    return int(bool(wrong))


def run(limits: Limits, seconds: float, folder: Path) -> list[str]:
    """What is wrong with one run."""
    warm_up(folder)
    unhandled: list[str] = []
    threading.excepthook = lambda told: unhandled.append(f"a thread ended: {told.exc_value!r}")
    before = open_files()
    play = Play(limits, folder / "log", seconds)
    with Canaries(folder / "canaries", held=CANARIES) as canaries:
        with within(limits):
            play.run()
        gc.collect()
        try:
            lift_disk(limits, str(folder / "log"))
            if (folder / "log").exists() and os.listdir(folder / "log"):
                play.judge()
        except AssertionError as error:
            play.say(str(error))
        except Exception as error:  # noqa: BLE001 - it is what is wrong
            play.say(f"the judgement: {type(error).__name__}: {error}")
    print(f"{limits.kind}: {play.told()}, {canaries.taken} canaries")
    wrong = [*play.wrong, *unhandled] + [
        f"bytes went to files that are not the log's: {line}" for line in touched(folder / "canaries")
    ]
    gc.collect()
    left = sorted(set(open_files().items()) - set(before.items()))
    if left:
        wrong.append(f"descriptors are left open: {left[:5]}")
    if not limits.may_refuse and not all(play.calls[name] for name in ("a", "r", "c", "commits", "positions")):
        wrong.append("a kind of call was never acknowledged")
    return wrong


def warm_up(folder: Path) -> None:
    """Load what a log loads, and begin what it begins once a process, before anything is counted."""
    play = Play(Limits(0, "none", pure=False, flush="none"), folder / "first", 0.3)
    play.run()
    play.judge()


def open_files() -> dict[int, str]:
    """The descriptors of this process, and where they lead."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the listing's own
    return found


def task(seed: int, seconds: float) -> tuple[Limits, str, bool]:
    """The same in a process of its own: what it has said, and whether something was wrong."""
    limits = draw(seed)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="pylog-limits-", dir=memory, ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", MODULE, "1", "--seconds", f"{seconds}", "--one", f"{seed}", folder]
        if limits.disk_bytes is not None:
            if not can_mount():
                return limits, "SKIPPED: only root may mount a small file system", False
            disk = f"{folder}/log"
            os.mkdir(disk)
            mount = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", mount, "sh", f"{limits.disk_bytes}", disk, *command]
        # Each heap of malloc's takes 64 MiB of address space.
        env = os.environ | {"PYLOG_PURE": str(int(limits.pure)), "MALLOC_ARENA_MAX": "2"}
        patience = seconds + STUCK_SECONDS + PATIENCE_SECONDS
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=patience)
        except subprocess.TimeoutExpired:
            return limits, "it does not end, and does not say where it stands", True
        return limits, done.stdout + (done.stderr[-8000:] if done.returncode else ""), done.returncode != 0


def campaign(runs: int, jobs: int, seed: int, seconds: float, kinds: Sequence[str] = KINDS) -> list[str]:
    """So many runs of these kinds; gives what was wrong, with the command that replays it."""
    seeds = islice((number for number in count(seed) if draw(number).kind in kinds), runs)
    began, wrong = time.monotonic(), []
    with ThreadPoolExecutor(jobs) as pool:
        for number, (limits, said, is_wrong) in enumerate(pool.map(lambda n: task(n, seconds), seeds)):
            kernel = "pure" if limits.pure else "compiled"
            print(
                f"{number + 1} runs, {time.monotonic() - began:.0f} s: {kernel}, {limits.flush}, {said.strip()}",
                flush=True,
            )
            if is_wrong:
                replay = f"PYTHONPATH=src python -m {MODULE} 1 --seed {limits.seed} --seconds {seconds:g}"
                wrong.append(f"FAILED {limits}\n{said}    {replay}")
                print(wrong[-1], flush=True)
    print(f"{runs} runs of {seconds:g} s, {time.monotonic() - began:.0f} s: {len(wrong)} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=16)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--one", nargs=2, metavar=("SEED", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return one(int(given.one[0]), given.seconds, Path(given.one[1]))
    return int(bool(campaign(given.runs, given.jobs, given.seed, given.seconds, given.kinds)))


if __name__ == "__main__":
    sys.exit(main())
