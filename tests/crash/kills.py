"""The command of a campaign that kills one thing so many times: `python -m crash.NAME KILLS [--seed N]`."""

import argparse
import logging
import time
from collections.abc import Callable

__all__ = ["command"]


def command(description: str, run: Callable[[int, int], str]) -> int:
    """Let `run(kills, seed)` kill as often as the command line says, and print what it tells; the exit code: 1 after
    an AssertionError.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    try:
        told = run(arguments.kills, arguments.seed)
    except AssertionError as error:
        print(f"FAILED seed {arguments.seed}: {error}")
        return 1
    print(f"{arguments.kills} kills, {time.monotonic() - began:.0f} s: {told}")
    return 0
