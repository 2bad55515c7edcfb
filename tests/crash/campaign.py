"""Enumerate crashes for as many states as one wants: what `make crash` runs.

python -m tests.crash.campaign 1000000 --jobs 2           so many distinct states, spread over all workloads
python -m tests.crash.campaign --replay roll_by_size power 1207 2 0     one state that a failure has named
"""

import argparse
import logging
import multiprocessing
import sys
import tempfile
import time
from itertools import count

from tests.support.canaries import Canaries, touched

from .engine import Enumeration, Result
from .workloads import WORKLOADS

SAMPLES = 4
# The workloads that take longest come first, so that no process waits for them in the end.
ORDER = sorted(WORKLOADS, key=lambda name: not name.startswith(("compaction", "retention", "delete", "topic")))


def enumerate_workload(task: tuple[str, int]) -> Result:
    """All states of one workload, varied by a seed."""
    logging.disable(logging.CRITICAL)
    name, seed = task
    with tempfile.TemporaryDirectory() as folder:
        with Canaries(folder):
            result = Enumeration(WORKLOADS[name], seed=seed, failures_max=3).finish(samples=SAMPLES)
        result.failures += [f"{name}, seed {seed}: a canary was touched: {line}" for line in touched(folder)]
    return result


def campaign(budget: int, jobs: int, seed: int, names: list[str]) -> int:
    """Enumerate all workloads, with ever other seeds, until there are enough states; gives the number of failures."""
    began, states, judged, again, failures = time.monotonic(), 0, 0, 0, 0
    with multiprocessing.get_context("forkserver").Pool(jobs) as pool:
        for result in (one for at in count(seed) for one in pool.imap_unordered(enumerate_workload, _tasks(names, at))):
            states, judged, again = states + result.states, judged + result.judged, again + result.again
            failures += len(result.failures)
            for failure in result.failures:
                print(f"FAILED {failure}", flush=True)
            seconds = time.monotonic() - began
            print(f"{states + again} states, {seconds:.0f} s: {result.name} {result.states}", flush=True)
            if states + again >= budget:
                break
    print(
        f"{states + again} states ({states} of workloads, judged {judged} times; {again} of crashes during recovery) "
        f"in {seconds:.0f} s, {(states + again) / seconds:.0f}/s: {failures} failures"
    )
    return failures


def _tasks(names: list[str], seed: int) -> list[tuple[str, int]]:
    return [(name, seed) for name in names]


def replay(name: str, way: str, number: int, samples: int, seed: int) -> int:
    """Show one state and what is wrong with it."""
    state, wrong = Enumeration(WORKLOADS[name], seed=seed).state(way, number, samples=samples)
    for path, content in state.tree.items():
        print(f"{path}  {'directory' if content is None else f'{len(content)} bytes'}")
    print(f"after operation {state.operation}; {state.notes[-3:]}\n{wrong or 'nothing is wrong with it'}")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("budget", nargs="?", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(WORKLOADS))
    parser.add_argument("--replay", nargs=5, metavar=("WORKLOAD", "WAY", "NUMBER", "SAMPLES", "SEED"))
    given = parser.parse_args()
    if given.replay:
        name, way, *numbers = given.replay
        return replay(name, way, *map(int, numbers))
    return int(campaign(given.budget, given.jobs, given.seed, given.only or ORDER) > 0)


if __name__ == "__main__":
    sys.exit(main())
