"""How much memory consuming a large partition takes, and producing without ever waiting.

Each in a process of its own: the most that it had resident, less what it had when the log was open and one record had
gone through. A producer may have `buffer_memory` of records waiting (32 MiB); the bound is on what it takes beside
that.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pylog
import storage
from harness import MIB, VALUE_BYTES, at_most, figure, growth_mib, mode, report, scaled, scratch

SIZE = scaled(usual=256 * MIB, quick=4 * MIB, full=1024 * MIB)
SENT = scaled(usual=1_000_000, quick=20_000, full=9_000_000)
BUFFER_MIB = 32


def fill(path: Path) -> None:
    with pylog.open(path, flush="none") as log:
        log.create_topic("bench")[0].append([pylog.Record(b"first")])
        partition = log.broker.partition("bench", 0)
        storage.fill(partition, SIZE, 1000)


def consume(path: Path) -> float:
    with pylog.open(path, flush="none") as log:
        end = log.topic("bench")[0].next_offset
        with log.consumer("bench", auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
            assert len(consumer.poll(timeout_ms=1000, max_records=1)) == 1
            grown, left = growth_mib(), end - 1
            while left:
                left -= len(consumer.poll(timeout_ms=10_000))
            return grown()


def arrow(path: Path) -> float:
    with pylog.open(path, flush="none") as log:
        partition = log.topic("bench")[0]
        next(partition.columns(end=1))
        grown, rows = growth_mib(), 0
        for batch in partition.columns():
            rows += batch.num_rows
        assert rows == partition.next_offset
        return grown()


def produce(path: Path) -> float:
    value = bytes(VALUE_BYTES)
    with pylog.open(path / "sent", flush="none") as log:
        log.create_topic("bench")
        with log.producer() as producer:
            producer.send("bench", value).result()
            grown = growth_mib()
            for number in range(SENT):
                producer.send("bench", value, b"%08d" % number)
        assert log.topic("bench")[0].next_offset == SENT + 1
        return grown()


WORK: dict[str, Callable[[Path], float]] = {
    "lists": consume,
    "arrow": arrow,
    "produce": produce,
}


def measured(work: str, path: Path) -> float:
    words = [sys.executable, __file__, *mode(), "child", work, str(path)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    with scratch() as folder:
        fill(folder / "log")
        found = {work: measured(work, folder / "log") for work in WORK}
    consumed = f"consuming {SIZE // MIB} MiB"
    report(
        "memory",
        [
            figure(f"{consumed}, lists of 10,000", found["lists"], "MiB", at_most(64)),
            figure(f"{consumed}, Arrow", found["arrow"], "MiB", at_most(64)),
            figure(
                f"producing {SENT:,} records, never waiting", found["produce"], "MiB", at_most(64 + BUFFER_MIB),
                f"{BUFFER_MIB} MiB of them for buffer_memory",
            ),
        ],
        bytes=SIZE,
    )  # fmt: skip


if __name__ == "__main__":
    if "child" in sys.argv:
        at = sys.argv.index("child")
        print(WORK[sys.argv[at + 1]](Path(sys.argv[at + 2])))
    else:
        main()
