"""A job for a cluster of two executors: reads a topic from servers, as a batch and as a stream, and prints what it saw.

Arguments: the servers, a folder for the checkpoint. It is a process of its own, as a process has one Spark.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from conftest import settings


def main(servers: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("pylog cluster test")
    for key, value in settings(folder).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    options = {"kafka.bootstrap.servers": servers, "subscribe": "t"}
    batch = spark.read.format("pylog").options(**options, minPartitions="4").load()
    row = batch.agg(sql.count("*"), sql.sum(sql.col("value").cast("string").cast("long"))).first()
    executors = batch.select(sql.spark_partition_id()).distinct().count()
    seen = []
    stream = spark.readStream.format("pylog").options(**options, maxOffsetsPerTrigger="1000").load()
    query = (
        stream.writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
        .option("checkpointLocation", str(folder / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps({"batch": list(row or ()), "tasks": executors, "stream": seen}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
