"""Spark counts and aggregates records: pylog's source against the same rows in Parquet and a bare Python source.

Two local cores, two partitions each; 100-byte values, 8-byte keys. "count" asks for the number of rows, "aggregate" for
the sum of the sizes of values, the largest offset and the number of keys per last digit of the key: it touches key,
value and offset. pylog and the bare source hand Arrow batches to the JVM; Parquet (snappy) is read by Spark's own
vectorised reader in the JVM, which leaves out columns that nobody asks for and counts from the footers alone.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bare_source
import pylog
from harness import KEY_BYTES, VALUE_BYTES, Way, at_least, measure, report, scaled, scratch, stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2
COUNT = scaled(usual=1_000_000, quick=10_000)
ROUNDS = scaled(usual=5, quick=1)
JAVA = scaled(usual="", quick="-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
"""What a JVM that compiles less begins sooner with."""
APPEND = 1000


def values(partition: int, count: int) -> tuple[bytes, bytes]:
    """All keys and all values of a partition of `count` records, one after another."""
    text = np.random.default_rng(partition).integers(97, 123, count * VALUE_BYTES, dtype=np.uint8).tobytes()
    return b"".join(b"%08d" % index for index in range(count)), text


def write_log(folder: Path, records: int = COUNT) -> None:
    count = records // PARTITIONS
    with pylog.open(folder / "log", flush="none") as log:
        topic = log.create_topic("bench", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            keys, text = values(partition, count)
            for start in range(0, count, APPEND):
                topic[partition].append(
                    [
                        pylog.Record(
                            text[index * VALUE_BYTES : (index + 1) * VALUE_BYTES],
                            keys[index * KEY_BYTES : (index + 1) * KEY_BYTES],
                            bare_source.START_US // 1000 + index,
                        )
                        for index in range(start, min(start + APPEND, count))
                    ]
                )


def write_parquet(folder: Path) -> None:
    (folder / "parquet").mkdir()
    for partition in range(PARTITIONS):
        count = COUNT // PARTITIONS
        keys, text = values(partition, count)
        offsets = np.arange(count, dtype=np.int64)
        columns = [
            bare_source.fixed(keys, KEY_BYTES, count),
            bare_source.fixed(text, VALUE_BYTES, count),
            pa.repeat(pa.scalar("bench"), count),
            pa.array(np.full(count, partition, dtype=np.int32)),
            pa.array(offsets),
            pa.array(bare_source.START_US + offsets * 1000).cast(pa.timestamp("us", tz="UTC")),
            pa.array(np.zeros(count, dtype=np.int32)),
        ]
        pq.write_table(
            pa.Table.from_arrays(columns, schema=bare_source.ARROW), folder / "parquet" / f"{partition}.parquet"
        )


def session(folder: Path, more: Mapping[str, str] | None = None) -> "SparkSession":
    here = Path(__file__).parent
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(here), str(here.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.ERROR)
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    builder = SparkSession.builder.master(f"local[{PARTITIONS}]").appName("pylog benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(bare_source.BareSource)
    return spark


def count(frame: "Callable[[], DataFrame]") -> float:
    taken = stopwatch()
    assert frame().count() == COUNT
    return taken() / COUNT


def aggregate(frame: "Callable[[], DataFrame]") -> float:
    from pyspark.sql import functions as f

    taken = stopwatch()
    rows = (
        frame()
        .groupBy(f.substring("key", KEY_BYTES, 1).alias("digit"))
        .agg(f.count("key").alias("keys"), f.sum(f.length("value")).alias("size"), f.max("offset").alias("last"))
        .collect()
    )
    seconds = taken()
    assert sum(row["keys"] for row in rows) == COUNT
    assert sum(row["size"] for row in rows) == COUNT * VALUE_BYTES
    assert max(row["last"] for row in rows) == COUNT // PARTITIONS - 1
    return seconds / COUNT


def main() -> None:
    with scratch() as folder:
        print("  writing the records", file=sys.stderr)
        write_log(folder)
        write_parquet(folder)
        spark = session(folder)
        bare = {"rows": str(COUNT), "partitions": str(PARTITIONS), "valueBytes": str(VALUE_BYTES)}
        frames: dict[str, Callable[[], DataFrame]] = {
            "pylog": lambda: spark.read.format("pylog").option("subscribe", "bench").load(str(folder / "log")),
            "Parquet": lambda: spark.read.parquet(str(folder / "parquet")),
            "bare Arrow source": lambda: spark.read.format("bare").options(**bare).load(),
        }
        ways: dict[str, Way] = {}
        for name, frame in frames.items():
            ways[f"aggregate, {name}"] = lambda frame=frame: aggregate(frame)
        for name in ("pylog", "Parquet"):
            ways[f"count, {name}"] = lambda frame=frames[name]: count(frame)
        measured = measure(ways, ROUNDS)
        spark.stop()
    report(
        "spark_scan",
        [
            measured.speed("aggregate", "aggregate, pylog", "aggregate, bare Arrow source", at_least(0.9)),
            measured.speed("aggregate", "aggregate, pylog", "aggregate, Parquet"),
            measured.speed("count", "count, pylog", "count, Parquet"),
        ],
        records=COUNT,
        partitions=PARTITIONS,
        parquet="snappy",
        spark=f"local[{PARTITIONS}]",
    )


if __name__ == "__main__":
    main()
