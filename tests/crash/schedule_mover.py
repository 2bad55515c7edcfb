"""A process that moves the jobs of a schedule until it goes: `schedule_kill` lets it go.

    python -m tests.crash.schedule_mover DIRECTORY HISTORY

A line of the history: ["moved", how many], at its end, or ["error", text].
"""

import faulthandler
import logging
import signal
import sys
import time
from contextlib import suppress

import pylog
from pylog.errors import NetworkError
from pylog.schedule import Scheduler
from tests.crash.attach_worker import Asked, History


def begun(log: pylog.Log) -> Scheduler:
    """A scheduler. An owner that is killed in the middle of a call fails it."""
    while True:
        with suppress(NetworkError):
            return Scheduler(log)


def main() -> int:
    faulthandler.register(signal.SIGUSR1)
    logging.disable(logging.CRITICAL)
    directory, path = sys.argv[1:]
    history, asked = History(path), Asked()
    try:
        with pylog.open(directory, flush="none") as log, begun(log) as scheduler:
            while not asked and not scheduler.has_ended:
                time.sleep(0.02)
            scheduler.close()
            scheduler.run()
            history.note("moved", scheduler.moved)
    except BaseException as error:
        history.note("error", f"{type(error).__name__}: {error}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
