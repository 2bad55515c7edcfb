"""A follower takes a leader's log, in process: fetch, check, index, write; against a bare copy of the same bytes.

The follower's loop without its thread: it asks for a MiB, the leader answers with bytes, the follower appends them
unchanged, with its own CRC check and its own indexes. Neither syncs.
"""

from pathlib import Path

import storage
from harness import MIB, at_least, fresh, measure, report, scaled, scratch, stopwatch
from pylog.partition import Partition
from pylog.replica import Follower, Leader

SIZE = scaled(usual=256 * MIB, quick=2 * MIB)
ROUNDS = scaled(usual=7, quick=2)
BATCH = 1000
FOLLOWER = 2


def replicate(partition: Partition, folder: Path) -> float:
    copy = storage.created(folder)
    leader = Leader(partition, epoch=0, followers=frozenset({FOLLOWER}), visible_when_durable=False, now_ms=0)
    follower = Follower(copy, leader=1, epoch=0)
    taken = stopwatch()
    while copy.next_offset < partition.next_offset:
        part = follower.next_fetch(MIB)
        follower.apply(leader.fetch(part, replica_id=FOLLOWER, max_bytes=MIB, now_ms=0), storage.NOW_MS)
    seconds = taken()
    assert copy.size == partition.size
    copy.abandon()
    return seconds / (partition.size / MIB)


def main() -> None:
    with scratch() as folder:
        partition = storage.created(folder)
        storage.fill(partition, SIZE, BATCH)
        paths = sorted((folder / "bench-0").glob("*.log"))
        measured = measure(
            {
                "follower": fresh(lambda place: replicate(partition, place)),
                "raw copy": fresh(lambda place: storage.copy_files(paths, place, sync=False) / (SIZE / MIB)),
            },
            ROUNDS,
            "MiB",
        )
        partition.abandon()
    report(
        "replication",
        [measured.speed("leader to follower, batches of 1000", "follower", "raw copy", at_least(0.6))],
        bytes=SIZE,
    )


if __name__ == "__main__":
    main()
