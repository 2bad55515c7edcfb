"""Step 4: a second instance follows the first over an in-memory transport until both hold the same bytes.

Roles are given by hand here: node 1 leads every partition with replicas 1 and 2, node 2 follows it.
"""

import hashlib
import os
import time

import pylog
from pylog.handles.views import PartitionView

from .data import TOPIC
from .report import Report, bytes_text, expect

NODE = 2
CATCH_UP_SECONDS_MAX = 30.0


def follow_leader(report: Report, leader: pylog.Log, transport: pylog.Transport, path: str) -> None:
    """Open a follower, let it catch up, compare offsets and files."""
    report.step("Replicate to a second instance")
    report.say(
        f"A second log, node {NODE}, opens in its own directory and follows node {leader.node_id} in every partition. "
        "It fetches whole batches and stores them as they are, so its files must be the leader's, byte for byte."
    )
    with pylog.open(path, node_id=NODE, transport=transport) as follower:
        began = time.perf_counter()
        _give_roles(leader, follower)
        _wait(report, leader, follower)
        seconds = time.perf_counter() - began
        rows = [
            (
                str(partition.partition),
                f"{partition.high_watermark:,}",
                f"{partition.next_offset:,}",
                f"{follower.topic(TOPIC)[partition.partition].next_offset:,}",
                _same_files(partition, follower.topic(TOPIC)[partition.partition]),
            )
            for partition in leader.topic(TOPIC)
        ]
        size = sum(partition.size for partition in follower.topic(TOPIC))
    report.table(("partition", "high watermark", "leader's end", "follower's end", "SHA-256 of both"), rows)
    report.figure("caught up in", f"{seconds:.2f} s: {bytes_text(size)}, {size / seconds / 1e6:,.0f} MB/s")
    report.proved("both ends and the high watermark agree; all segment files are the same, byte for byte")


def _give_roles(leader: pylog.Log, follower: pylog.Log) -> None:
    topic = leader.topic(TOPIC)
    for partition in topic:
        epoch = partition.leader_epoch + 1
        leader.broker.apply(
            pylog.Lead(
                topic=TOPIC,
                partition=partition.partition,
                leader_epoch=epoch,
                replicas=(leader.node_id, follower.node_id),
            )
        )
        follower.broker.apply(
            pylog.Follow(
                topic=TOPIC,
                topic_id=topic.id,
                partition=partition.partition,
                partitions=len(topic),
                leader=leader.node_id,
                leader_epoch=epoch,
                config=topic.overrides,
            )
        )


def _wait(report: Report, leader: pylog.Log, follower: pylog.Log) -> None:
    """Until the follower has everything and knows that everything is committed."""
    ends = [partition.next_offset for partition in leader.topic(TOPIC)]
    copies = list(follower.topic(TOPIC))
    deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
    shown = 0
    with report.progress("following", sum(ends)) as advance:
        while [copy.high_watermark for copy in copies] != ends:
            expect(time.monotonic() < deadline, f"the follower did not catch up within {CATCH_UP_SECONDS_MAX:.0f} s")
            time.sleep(0.01)
            there = sum(copy.next_offset for copy in copies)
            advance(there - shown)
            shown = there
        advance(sum(ends) - shown)


def _same_files(one: PartitionView, other: PartitionView) -> str:
    """The hash of a partition's `.log` files, if both have the same ones."""
    expect(
        one.next_offset == other.next_offset and one.high_watermark == other.high_watermark,
        f"{one.topic}-{one.partition}: offsets differ between leader and follower",
    )
    ours, theirs = _hash_segments(one.path), _hash_segments(other.path)
    expect(ours == theirs, f"{one.topic}-{one.partition}: the files in {one.path} and {other.path} differ")
    whole = hashlib.sha256(repr(sorted(ours.items())).encode()).hexdigest()
    return f"{whole[:16]}…  ({len(ours)} files)"


def _hash_segments(folder: str) -> dict[str, str]:
    hashes = {}
    for name in os.listdir(folder):
        if name.endswith(".log"):
            with open(os.path.join(folder, name), "rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
