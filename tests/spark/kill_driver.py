"""A stream of Spark's that copies topic `in` of a log into topic `out`, until it is killed.

python kill_driver.py FOLDER [--last] [--start OFFSETS] [--kafka SERVERS]

`--last`: end when all that is there is written. `--start`: the startingOffsets of a new checkpoint.
"""

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SOURCE = {"subscribe": "in", "maxOffsetsPerTrigger": "5000", "kafka.isolation.level": "read_committed"}
CONNECTOR = Path(__file__).parents[2] / "build" / "spark-kafka"


def main() -> None:
    """Run the stream."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--start", default="earliest")
    parser.add_argument("--kafka")
    asked = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A task is tried twice: a worker that was killed need not end the query.
    builder = SparkSession.builder.master("local[2,2]").config("spark.local.dir", str(asked.folder / "local"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if asked.kafka:
        kind, place = "kafka", {"kafka.bootstrap.servers": asked.kafka}
        spark = builder.config("spark.jars", ",".join(map(str, CONNECTOR.glob("*.jar")))).getOrCreate()
    else:
        from pylog.spark.source import PylogDataSource

        kind, place = "pylog", {"path": str(asked.folder / "data")}
        spark = builder.getOrCreate()
        spark.dataSource.register(PylogDataSource)
    numbers = spark.readStream.format(kind).options(**SOURCE, **place, startingOffsets=asked.start).load()
    writer = numbers.select("key", "value").writeStream.format(kind).options(**place, topic="out")
    writer = writer.option("checkpointLocation", str(asked.folder / "checkpoint"))
    writer = writer.trigger(availableNow=True) if asked.last else writer.trigger(processingTime="0 seconds")
    query = writer.start()
    print("running", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
