"""Power cuts below Python, for as many states as one wants: what `make power-cuts` runs.

    python -m tests.powercut.campaign 20000 --jobs 2        so many states, over ever other seeds, in all flush modes
    python -m tests.powercut.campaign --replay TRACE 17     one state of a recorded process, which a failure has named

A process with the compiled kernel works on a real directory while `recorder.c` writes down what it does to its files.
Of that, any prefix may have happened when the power goes, and of what was not synced by then anything may be lost.
"""

import argparse
import json
import logging
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from tests.support.cuts import power_cut
from tests.support.operations import Noted, Operation

from . import trace
from .judge import judged

MODES = ("sync", "interval", "none")
STEPS = 60
STATES = 300
"""How many states of one recorded process are tried."""
KEPT = Path("build/power-cuts")


@dataclass(frozen=True, slots=True)
class Recording:
    """What one process did to its files. Its state number n is always the same."""

    mode: str
    operations: list[Operation]

    def state(self, number: int) -> tuple[dict[str, bytes | None], list[bytes]]:
        """What a power cut at a random moment leaves, and what was promised by then."""
        chance = random.Random(number)
        done = self.operations[: chance.randrange(len(self.operations) + 1)]
        tree = trace.tree_without_locks(power_cut([], {}, done, chance))
        return tree, [one.what for one in done if isinstance(one, Noted) and isinstance(one.what, bytes)]

    def judged(self, number: int) -> str:
        """What is wrong with a state; "" when nothing is."""
        tree, notes = self.state(number)
        try:
            return "; ".join(judged(tree, notes, self.mode)[:3])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
            return "".join(traceback.format_exception(error, limit=-3))


def record(
    library: Path, folder: Path, mode: str, seed: int, steps: int, *, syncs: Callable[[str], bool] = lambda _: True
) -> Recording:
    """Run a writer in `folder`, which is new; beside it lie its trace, FOLDER.trace, and what it was, FOLDER.json."""
    folder.mkdir(parents=True)
    root = folder.resolve()
    file = root.with_suffix(".trace")
    command = [sys.executable, "-m", f"{__package__}.writer", str(root), mode, str(seed), str(steps)]
    subprocess.run(command, check=True, env=os.environ | trace.environment(library, root, file))
    root.with_suffix(".json").write_text(json.dumps({"mode": mode, "root": str(root), "inode": root.stat().st_ino}))
    return load(file, syncs=syncs)


def load(file: Path, *, syncs: Callable[[str], bool] = lambda _: True) -> Recording:
    """A recorded process."""
    facts = json.loads(file.with_suffix(".json").read_text())
    return Recording(facts["mode"], trace.operations(file.read_bytes(), facts["root"], facts["inode"], syncs=syncs))


def attempt(task: tuple[Path, str, int, int]) -> tuple[int, list[str]]:
    """One recorded process, and some of its states: how many, and what is wrong."""
    logging.disable(logging.CRITICAL)
    library, mode, seed, states = task
    folder = Path(tempfile.mkdtemp()) / f"{mode}-{seed}"
    recording = record(library, folder, mode, seed, STEPS)
    wrong = [(number, words) for number in range(states) if (words := recording.judged(number))]
    if wrong:
        KEPT.mkdir(parents=True, exist_ok=True)
        for suffix in (".trace", ".json"):
            shutil.copy(folder.with_suffix(suffix), KEPT)
    shutil.rmtree(folder.parent)
    replay = f"python -m tests.powercut.campaign --replay {KEPT / folder.name}.trace"
    return states, [f"{mode} {seed}, state {number}: {words}\n    {replay} {number}" for number, words in wrong]


def campaign(budget: int, jobs: int, seed: int) -> int:
    """Try states until there are enough; gives how many were wrong."""
    began, states, wrong = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(jobs) as pool:
        library = trace.build(Path(folder))

        every = ((library, mode, at, STATES) for at in count(seed) for mode in MODES)
        tasks = list(islice(every, -(-budget // STATES)))
        for tried, failures in pool.imap_unordered(attempt, tasks):
            states, wrong = states + tried, wrong + len(failures)
            for failure in failures[:3]:
                print(f"FAILED {failure}", flush=True)
            print(f"{states} states, {time.monotonic() - began:.0f} s, {wrong} wrong", flush=True)
    print(f"{states} power cuts below Python, all flush modes, in {time.monotonic() - began:.0f} s: {wrong} wrong")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", nargs="?", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", nargs=2, metavar=("TRACE", "STATE"))
    given = parser.parse_args()
    if given.replay:
        recording = load(Path(given.replay[0]))
        wrong = recording.judged(int(given.replay[1]))
        print(wrong or "nothing is wrong with it")
        return int(bool(wrong))
    return int(campaign(given.budget, given.jobs, given.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
