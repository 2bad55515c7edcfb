"""The streaming job of step 7, in a process of its own: it reads flights while they come, and keeps windows of them.

Each batch replaces the windows in their topic (output mode `complete`), exactly once. It runs until it is killed.
"""

import os
import sys

from .data import LIVE_TOPIC, WINDOWS_TOPIC
from .spark import SETTINGS, per_day

OFFSETS_PER_TRIGGER = 40_000


def main(path: str, folder: str) -> None:
    """Stream from and to the log at `path`; `folder` keeps the checkpoint, by which a restart goes on."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": os.path.join(folder, "warehouse")}.items():
        builder = builder.config(name, value)
    flights = (
        builder.getOrCreate()
        .readStream.format("pylog")
        .option("subscribe", LIVE_TOPIC)
        .option("columns", "value,timestamp")
        .option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
        .load(path)
    )
    windows = per_day(flights).selectExpr("concat(day, ' ', origin) AS key", "to_json(struct(*)) AS value")
    query = (
        windows.writeStream.outputMode("complete")
        .format("pylog")
        .option("topic", WINDOWS_TOPIC)
        .option("checkpointLocation", os.path.join(folder, "checkpoint"))
        .start(path)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
