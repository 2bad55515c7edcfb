"""Cleaning a compacted partition against copying its bytes, and against Kafka's LogCleaner on the same files.

Nine records a key, and all of it is dirty. Both passes count: noting the keys of the whole log, and writing it anew,
with its indexes, synced and swapped in. The raw copy reads and writes the same files in pieces of a MiB (`pread`,
`pwrite`) and syncs them. pylog cleans a copy of its own in each round.

Kafka's broker starts on a log directory of pylog's that has the same files in a topic a round, and cleans one when its
`cleanup.policy` is set to compact: its time is that between "Beginning cleaning of log" and "cleaned log" in what it
logs. It has one cleaner thread and 128 MiB for keys, as pylog has, and the first cleaning, with a cold JVM, does not
count. Memory is what one cleaning adds to a process of its own at most.
"""

import random
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import kafka_node
import pylog
import storage
from harness import (
    MIB,
    VALUE_BYTES,
    Skipped,
    Way,
    at_least,
    at_most,
    figure,
    fresh,
    growth_mib,
    measure,
    mode,
    report,
    scaled,
    scratch,
    skipping,
    stopwatch,
)
from pylog.broker.log_cleaner import clean
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import encode
from storage import NOW_MS

BATCH = 1000
KEYS = scaled(usual=110_000, quick=5_000, full=1_000_000)
COUNT = 9 * KEYS // BATCH * BATCH
ROUNDS = scaled(usual=5, quick=2)
BUFFER_BYTES = 128 * MIB
SEGMENT_BYTES = 16 * MIB
CLEANER = "Kafka's LogCleaner"
TOPICS = [f"bench{turn}" for turn in range(ROUNDS + 1)]
# The second one has a line of its own, behind that with the time.
SAID = re.compile(r"^(\d\S+ \S+) .*(?:Beginning cleaning of|\n\t.* cleaned) log (\S+)-0\b", re.MULTILINE)


def fill(partition: Partition) -> None:
    draw = random.Random(1)
    text = draw.randbytes(COUNT + VALUE_BYTES)
    for start in range(0, COUNT, BATCH):
        rows = [
            (text[index : index + VALUE_BYTES], b"%08d" % draw.randrange(KEYS), NOW_MS, ())
            for index in range(start, start + BATCH)
        ]
        partition.append(encode(rows, now_ms=NOW_MS), epoch=0, now_ms=NOW_MS)
    partition.roll(NOW_MS)


def make(folder: Path) -> Path:
    """A partition's folder with the records, closed cleanly."""
    partition = storage.created(folder, segment_bytes=str(SEGMENT_BYTES))
    fill(partition)
    partition.close()
    return folder / "bench-0"


def opened(folder: Path, source: Path) -> Partition:
    shutil.copytree(source, folder / "bench-0")
    partition = storage.partition_at(folder, segment_bytes=str(SEGMENT_BYTES), cleanup_policy="compact")
    partition.open(Checkpoint(high_watermark=COUNT), NOW_MS)
    return partition


def cleaning(folder: Path, source: Path) -> float:
    partition = opened(folder, source)
    taken = stopwatch()
    cleaned = clean(partition, checkpoint=None, now_ms=NOW_MS, buffer_bytes=BUFFER_BYTES)
    seconds = taken()
    assert cleaned is not None and cleaned.records_read == COUNT and cleaned.records_kept == cleaned.keys
    partition.close()
    return seconds / COUNT


def memory(source: Path) -> float:
    with scratch() as folder:
        partition = opened(folder, source)
        grown = growth_mib()
        clean(partition, checkpoint=None, now_ms=NOW_MS, buffer_bytes=BUFFER_BYTES)
        return grown()


# --- Kafka -----------------------------------------------------------------------------------------------------------


def make_for_kafka(folder: Path, source: Path) -> None:
    """A log directory with a topic a round, each with the same files."""
    with pylog.open(folder, flush="none") as log:
        for name in TOPICS:
            topic = log.create_topic(name, config={"segment.bytes": SEGMENT_BYTES, "min.cleanable.dirty.ratio": 0.0})
            fill_like(log.broker.partition(topic.name, 0), source)


def fill_like(partition: Partition, source: Path) -> None:
    """Append what lies in `source`, unchanged."""
    for path in sorted(source.glob("*.log")):
        if path.stat().st_size:
            partition.append_follower(path.read_bytes(), epoch=0, now_ms=NOW_MS)
    partition.roll(NOW_MS)
    partition.advance_high_watermark(partition.next_offset)


class LogCleaner:
    """A broker that cleans the next topic each time it is called."""

    def __init__(self, servers: str, log: Path) -> None:
        self.servers = servers
        self.log = log
        self.topics = iter(TOPICS)

    def __call__(self) -> float:
        topic = next(self.topics)
        kafka_node.set_config(self.servers, topic, "cleanup.policy", "compact")
        until = time.monotonic() + 120
        while True:
            moments = [said[1] for said in SAID.finditer(self.log.read_text()) if said[2] == topic]
            if len(moments) >= 2:
                begun, done = (datetime.fromisoformat(moment) for moment in moments[:2])
                return (done - begun).total_seconds() / COUNT
            assert time.monotonic() < until, f"Kafka did not clean {topic}: {self.log.read_text()[-3000:]}"
            time.sleep(0.05)


def kafka_ways(stack: ExitStack, folder: Path, source: Path) -> dict[str, Way]:
    """The cleaner of a broker that runs as long as `stack` lasts."""
    try:
        kafka_node.require()
    except Skipped as reason:
        return skipping([CLEANER], reason)
    make_for_kafka(folder / "kafka", source)
    settings = {"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": str(BUFFER_BYTES)}
    node = stack.enter_context(kafka_node.broker(folder / "kafka", folder, settings))
    return {CLEANER: LogCleaner(node.servers, folder / "broker.log")}


def main() -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        source = make(folder)
        paths = sorted(source.glob("*.log"))
        size = storage.size_of(paths)
        words = [sys.executable, __file__, *mode(), "child", str(source)]
        grown = float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        measured = measure(
            {
                "clean": fresh(lambda place: cleaning(place, source)),
                "raw copy": fresh(lambda place: storage.copy_files(paths, place, sync=True) / COUNT),
                **kafka_ways(stack, folder, source),
            },
            ROUNDS,
        )
    report(
        "compaction",
        [
            measured.speed("clean", "clean", "raw copy", at_least(0.15)),
            measured.speed("clean", "clean", CLEANER, at_least(1)),
            figure("memory of a cleaning", grown, "MiB", at_most(BUFFER_BYTES // MIB + 64), "128 MiB of them for keys"),
        ],
        bytes=size,
        records=COUNT,
        keys=KEYS,
    )


if __name__ == "__main__":
    if "child" in sys.argv:
        print(memory(Path(sys.argv[sys.argv.index("child") + 1])))
    else:
        main()
