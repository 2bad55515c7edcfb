"""Spark reads, streams and writes the same records by `format("pylog")` and by Spark's own `format("kafka")`.

"directory" is a log that Spark's workers read and write themselves, "server" one that `pylog serve` has, "Kafka" a
broker of Kafka's (one node, warm). 100-byte values, 8-byte keys, two partitions, two local cores. "read" is an
aggregate of key, value and offset; "stream" is a record in batches of 200,000, to a sink that throws all away, without
the first batch; "trigger" is a batch of few records. "write" goes from Parquet: pylog writes all or nothing and syncs,
Kafka's sink writes at least once and syncs nothing.

The connector fits one Spark, which may be another than pylog's tests have: `make spark-kafka` puts both into build.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import kafka_node
import pylog
from harness import Skipped, Way, at_least, measure, report, scaled, scratch, skipping
from nodes import served
from results import KAFKA_JARS

BUILD = KAFKA_JARS.parent
CONNECTOR, SPARK = sorted((BUILD / "spark-kafka").glob("*.jar")), BUILD / "pyspark"
if CONNECTOR and not scaled(usual=False, quick=True):
    # Before anything imports the other Spark.
    sys.path.insert(0, str(SPARK))
    os.environ |= {"SPARK_HOME": str(SPARK / "pyspark"), "PYTHONPATH": str(SPARK)}

from spark_scan import COUNT, PARTITIONS, aggregate, session, write_log, write_parquet  # noqa: E402
from spark_sink import write  # noqa: E402
from spark_stream import FEW, MANY, TRIGGERS, stream, trigger  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = scaled(usual=5, quick=1)
Options = dict[str, str]
KINDS = ("read", "stream", "trigger", "write")


def require() -> None:
    """Raise Skipped where there is no broker, or no connector."""
    kafka_node.require()
    if not CONNECTOR:
        raise Skipped('Spark\'s format("kafka") needs its jars: make spark-kafka')


def fill(servers: str, log: Path, topic: str) -> None:
    """Send the records of a log to a server."""
    with pylog.open(log, mode="read") as source, pylog.connect(servers) as far:
        far.create_topic(topic, partitions=PARTITIONS)
        with far.producer(linger_ms=50) as producer:
            for partition in source.topic("bench"):
                for record in partition.records():
                    producer.send(
                        topic, record.value, record.key, partition=record.partition, timestamp_ms=record.timestamp
                    )


def ways_of(spark: "SparkSession", name: str, kind: str, options: Options, folder: Path) -> dict[str, Way]:
    """What is measured of one place."""

    def frame() -> "DataFrame":
        return spark.read.format(kind).options(**options, subscribe="bench", startingOffsets="earliest").load()

    def streamed(topic: str, most: int) -> "DataFrame":
        found = {**options, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
        return spark.readStream.format(kind).options(**found).load()

    given = spark.read.parquet(str(folder / "parquet")).select("key", "value")
    sink: Callable[..., float] = partial(write, given, kind, topic="out", **options)
    return {
        f"read, {name}": lambda: aggregate(frame),
        f"stream, {name}": lambda: stream(streamed("bench", MANY), folder),
        f"trigger, {name}": lambda: trigger(streamed("few", FEW), folder),
        f"write, {name}": sink,
    }


def main() -> None:
    with scratch() as folder, contextlib.ExitStack() as stack:
        print("  writing the records", file=sys.stderr)
        write_log(folder)
        write_parquet(folder)
        (folder / "small").mkdir()
        write_log(folder / "small", TRIGGERS * FEW)
        places: dict[str, tuple[str, Options]] = {
            "directory": ("pylog", {"path": str(folder / "own")}),
            "server": ("pylog", {"kafka.bootstrap.servers": stack.enter_context(served(folder / "served")).servers}),
        }
        missing: dict[str, Way] = {}
        try:
            require()
            broker = stack.enter_context(kafka_node.broker(folder / "kafka", folder, {}))
            places["Kafka"] = "kafka", {"kafka.bootstrap.servers": broker.servers}
        except Skipped as reason:
            missing = skipping([f"{kind}, Kafka" for kind in KINDS], reason)
        for _, options in places.values():
            with contextlib.ExitStack() as there:
                servers = (
                    options.get("kafka.bootstrap.servers")
                    or there.enter_context(pylog.serve(options["path"], flush="none")).bootstrap_servers
                )
                fill(servers, folder / "log", "bench")
                fill(servers, folder / "small" / "log", "few")
                with pylog.connect(servers) as log:
                    log.create_topic("out", partitions=PARTITIONS)
        spark = session(folder, {"spark.jars": ",".join(map(str, CONNECTOR))} if "Kafka" in places else {})
        ways: dict[str, Way] = {}
        for name, (kind, options) in places.items():
            ways |= ways_of(spark, name, kind, options, folder)
        ways |= missing
        triggers = measure({name: ways.pop(name) for name in list(ways) if name.startswith("trigger")}, ROUNDS, "batch")
        measured = measure(ways, ROUNDS)
        version = spark.version
        spark.stop()
    faster = at_least(1)
    report(
        "spark_kafka",
        [
            *(
                measured.speed(kind, f"{kind}, directory", f"{kind}, Kafka", faster)
                for kind in ("read", "stream", "write")
            ),
            *(
                measured.speed(f"{kind}, server", f"{kind}, server", f"{kind}, Kafka")
                for kind in ("read", "stream", "write")
            ),
            triggers.time("trigger", "trigger, directory", "trigger, Kafka"),
            triggers.time("trigger, server", "trigger, server", "trigger, Kafka"),
        ],
        records=COUNT,
        partitions=PARTITIONS,
        spark=f"local[{PARTITIONS}], Spark {version}",
    )


if __name__ == "__main__":
    main()
