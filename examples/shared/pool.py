"""A pool of processes that share a log with whoever else has it open.

    python -m examples.shared.pool

The log is opened once and inherited: in each child that is forked, it is attached anew at its first use. A child that
is spawned opens it by its path.
"""

import multiprocessing
import os
import sys

import pylog

TOPIC = "squares"
log: pylog.Log


def begin(path: str) -> None:
    """Open the log in a process of the pool."""
    global log  # noqa: PLW0603
    log = pylog.open(path)


def square(number: int) -> int:
    """Put a square into the log; gives the process that did."""
    with log.producer(linger_ms=0) as producer:
        producer.send(TOPIC, str(number**2).encode()).result()
    return os.getpid()


def main(path: str = os.environ.get("SHARED_LOG", "shared-log"), count: int = 20) -> None:
    """Put squares into the log, by four processes."""
    with pylog.open(path) as here:
        here.create_topic(TOPIC, exist_ok=True)
        with multiprocessing.get_context("spawn").Pool(4, begin, [path]) as pool:
            processes = set(pool.map(square, range(count), chunksize=1))
        print(f"{len(processes)} processes put {count} squares into {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
