"""Changes beside 10,000 topics, against the same changes beside ten: a topic made, a topic deleted, a config set.

The log is in memory, so the figures are the work of the node alone. Each change commits a batch to the metadata log,
and gives an image of all topics that readers may look at while later ones are made.
"""

from collections.abc import Callable

import pylog
from harness import at_most, measure, report, scaled, stopwatch

MANY = scaled(usual=10_000, quick=200)
FEW = 10
CHANGES = scaled(usual=200, quick=20)
ROUNDS = scaled(usual=7, quick=2)


def filled(count: int) -> pylog.Log:
    log = pylog.open(":memory:")
    for number in range(count):
        log.create_topic(f"there-{number}")
    return log


def making(log: pylog.Log) -> float:
    names = [f"made-{number}" for number in range(CHANGES)]
    taken = stopwatch()
    for name in names:
        log.create_topic(name)
    seconds = taken()
    for name in names:
        log.delete_topic(name)
    return seconds / CHANGES


def deleting(log: pylog.Log) -> float:
    names = [f"made-{number}" for number in range(CHANGES)]
    for name in names:
        log.create_topic(name)
    taken = stopwatch()
    for name in names:
        log.delete_topic(name)
    return taken() / CHANGES


def altering(log: pylog.Log) -> float:
    taken = stopwatch()
    for number in range(CHANGES):
        log.alter_config("there-0", {"retention.ms": number + 1})
    return taken() / CHANGES


WAYS: dict[str, Callable[[pylog.Log], float]] = {
    "a topic made": making,
    "a topic deleted": deleting,
    "a config set": altering,
}


def main() -> None:
    with filled(FEW) as few, filled(MANY) as many:
        ways = {}
        for name, way in WAYS.items():
            ways[f"{name}, {MANY:,} topics"] = lambda way=way: way(many)
            ways[f"{name}, {FEW} topics"] = lambda way=way: way(few)
        measured = measure(ways, ROUNDS, "change")
    report(
        "topics",
        [
            measured.time(f"{name}, {MANY:,} topics", f"{name}, {MANY:,} topics", f"{name}, {FEW} topics", at_most(2))
            for name in WAYS
        ],
        topics=MANY,
    )


if __name__ == "__main__":
    main()
