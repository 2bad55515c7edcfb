"""The process that step 2 kills: appends for ever and reports each acknowledged record, as a line on standard output.

    python -m flights.writer DIRECTORY RUN      ->      "<number> <offset>\n", once a record is acknowledged

A record's value is `run <RUN> record <number>`, padded, so that the parent can tell what it ought to find.
"""

import itertools
import os
import sys

import pylog

TOPIC = "killed"
BURST = 64
VALUE_BYTES = 1024


def value_of(run: int, number: int) -> bytes:
    """The value of a record."""
    return f"run {run} record {number} ".encode().ljust(VALUE_BYTES, b".")


def write_for_ever(path: str, run: int) -> None:
    """Send bursts of records; wait for each burst, and report its records."""
    with pylog.open(path, flush="sync") as log, log.producer(linger_ms=1000, batch_size=1 << 20) as producer:
        for first in itertools.count(0, BURST):
            numbers = range(first, first + BURST)
            futures = [producer.send(TOPIC, value_of(run, number), partition=0) for number in numbers]
            producer.flush()
            lines = [f"{number} {future.result().offset}\n" for number, future in zip(numbers, futures, strict=True)]
            os.write(sys.stdout.fileno(), "".join(lines).encode())


if __name__ == "__main__":
    write_for_ever(sys.argv[1], int(sys.argv[2]))
