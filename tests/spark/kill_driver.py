"""A stream of Spark's that copies topic `in` of a log into topic `out`, until it is killed.

python kill_driver.py FOLDER [last]        `last`: end when all that is there is written
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pylog.spark.source import PylogDataSource

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


def main() -> None:
    """Run the stream."""
    folder, is_last = Path(sys.argv[1]), sys.argv[2:] == ["last"]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A task is tried twice: a worker that was killed need not end the query.
    builder = SparkSession.builder.master("local[2,2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    spark.dataSource.register(PylogDataSource)
    numbers = spark.readStream.format("pylog").options(**SOURCE).load(str(folder / "data"))
    writer = (
        numbers.select("key", "value")
        .writeStream.format("pylog").option("topic", "out").option("checkpointLocation", str(folder / "checkpoint"))
    )  # fmt: skip
    writer = writer.trigger(availableNow=True) if is_last else writer.trigger(processingTime="0 seconds")
    query = writer.start(str(folder / "data"))
    print("running", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
