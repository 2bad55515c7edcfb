"""Spark writes records: pylog's sink against one that throws them away, and against Parquet.

Two local cores, two partitions each; 100-byte values, 8-byte keys, read from Parquet files. "exactly once" stages the
records and commits them in one transaction, synced; "at least once" sends them as they come. The bare sink takes the
same Arrow batches, and counts.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import bare_sink
import pylog
from harness import Way, at_least, measure, report, scaled, scratch, stopwatch
from spark_scan import COUNT, PARTITIONS, session, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUNDS = scaled(usual=5, quick=1)


def write(frame: "DataFrame", kind: str, **options: str) -> float:
    taken = stopwatch()
    frame.write.format(kind).mode("append").options(**options).save()
    return taken() / COUNT


def parquet(frame: "DataFrame", folder: Path) -> float:
    taken = stopwatch()
    frame.write.mode("overwrite").parquet(str(folder / "written"))
    return taken() / COUNT


def main() -> None:
    with scratch() as folder:
        write_parquet(folder)
        with pylog.open(folder / "log") as log:
            log.create_topic("out", partitions=PARTITIONS)
        spark = session(folder)
        spark.dataSource.register(bare_sink.BareSink)
        frame = spark.read.parquet(str(folder / "parquet")).select("key", "value")
        options = {"path": str(folder / "log"), "topic": "out"}
        once: Callable[..., float] = partial(write, frame, "pylog", **options)
        ways: dict[str, Way] = {
            "exactly once": once,
            "exactly once, lz4": partial(once, **{"kafka.compression.type": "lz4"}),
            "at least once": partial(once, deliveryGuarantee="at-least-once"),
            "bare Arrow sink": partial(write, frame, "bare_sink"),
            "Parquet": partial(parquet, frame, folder),
        }
        measured = measure(ways, ROUNDS)
        spark.stop()
        with pylog.open(folder / "log", mode="read") as log:
            written = sum(partition.high_watermark for partition in log.topic("out"))
        print(f"  {written:,} offsets in the log", file=sys.stderr)
    report(
        "spark_sink",
        [
            measured.speed("exactly once", "exactly once", "bare Arrow sink", at_least(0.8)),
            measured.speed("exactly once, lz4", "exactly once, lz4", "bare Arrow sink"),
            measured.speed("at least once", "at least once", "bare Arrow sink"),
            measured.speed("exactly once", "exactly once", "Parquet"),
        ],
        records=COUNT,
        partitions=PARTITIONS,
        spark=f"local[{PARTITIONS}]",
    )


if __name__ == "__main__":
    main()
