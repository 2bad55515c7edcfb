"""Kill writers as often as one wants: what `make kill` runs.

python -m tests.crash.kill_campaign 3000 --jobs 2          so many kills, 15 a directory, on disk and in memory
python -m tests.crash.kill_campaign 15 --seed 1207         one directory again (the moments of the kills are not)
"""

import argparse
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from .kill_session import run, sessions

KILLS_EACH = 15


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill writing processes at random moments.")
    parser.add_argument("kills", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began, done, failures = time.monotonic(), 0, 0
    todo = sessions(arguments.kills, KILLS_EACH, arguments.seed)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for session, wrong in zip(todo, pool.map(run, todo), strict=True):
            done += session.kills
            if wrong is not None:
                failures += 1
                print(f"FAILED {wrong}", flush=True)
            print(f"{done} kills, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{done} kills in {len(todo)} directories, {time.monotonic() - began:.0f} s: {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
