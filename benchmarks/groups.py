"""Groups: how long a large one takes to become stable, and what being in one costs a reader.

"rebalance" is 100 members over 1,000 partitions, from the first join until each of them has its partitions: consumers
of one process, polled in turn by one thread, which is the most work that can be in the way. Reading with a group and
without one is the same `poll` of 500 records at a time, positions committed at the end of each; the group's own work
goes on beside it.
"""

from collections.abc import Callable
from pathlib import Path

import pylog
from harness import fresh, keys_and_values, measure, report, scaled, stopwatch

MEMBERS = scaled(usual=100, quick=4)
PARTITIONS = scaled(usual=1_000, quick=12)
COUNT = scaled(usual=300_000, quick=2_000)
ROUNDS = scaled(usual=5, quick=2)
ROWS = keys_and_values(10_000)


def rebalance(strategy: str) -> Callable[[], float]:
    def way() -> float:
        # In memory: on a disk a thousand folders would be made at their first use.
        with pylog.open(":memory:") as log:
            log.create_topic("bench", partitions=PARTITIONS)
            members = [
                log.consumer(
                    "bench", group_id="g", partition_assignment_strategy=strategy, auto_offset_reset="earliest",
                    enable_auto_commit=False,
                )
                for _ in range(MEMBERS)
            ]  # fmt: skip
            taken = stopwatch()
            while not is_stable(members):
                for member in members:
                    member.poll(timeout_ms=0)
            return taken()

    return way


def is_stable(members: list[pylog.Consumer]) -> bool:
    sizes = [len(member.assignment()) for member in members]
    return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1


def reading(group_id: str | None) -> Callable[[Path], float]:
    def way(folder: Path) -> float:
        with pylog.open(folder / "log", flush="none") as log:
            log.create_topic("bench")
            records = [pylog.Record(value, key) for key, value in ROWS]
            for start in range(0, COUNT, 1000):
                log.topic("bench")[0].append(records[start % 10_000 : start % 10_000 + 1000])
            config = {} if group_id is None else {"enable_auto_commit": True}
            with log.consumer("bench", group_id=group_id, auto_offset_reset="earliest", **config) as consumer:
                read = len(consumer.poll(timeout_ms=5_000, max_records=500))
                taken = stopwatch()
                while read < COUNT:
                    read += len(consumer.poll(timeout_ms=1_000, max_records=500))
                return taken() / COUNT

    return way


def main() -> None:
    joining = measure({name: rebalance(name) for name in ("range", "cooperative-sticky")}, ROUNDS, "rebalance")
    polling = measure({"in a group": fresh(reading("g")), "without": fresh(reading(None))}, ROUNDS)
    report(
        "groups",
        [
            joining.time("cooperative-sticky, 100 members, 1,000 partitions", "cooperative-sticky", "range"),
            polling.speed("poll in a group", "in a group", "without"),
        ],
        members=MEMBERS,
        partitions=PARTITIONS,
    )


if __name__ == "__main__":
    main()
