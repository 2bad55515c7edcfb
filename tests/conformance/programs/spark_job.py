"""A Spark job on a Kafka server: it writes and reads batches, and a stream from topic to topic.

    python spark_job.py BOOTSTRAP_SERVERS IN OUT CHECKPOINT JARS

It prints one line of JSON: how many rows the batch read, and the rows of the stream's topic.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession

ROWS = 1000
SECONDS = 120


def main(servers: str, source: str, sink: str, checkpoint: str, jars: str) -> None:
    configs = {"spark.jars": jars, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    spark = SparkSession.builder.master("local[1]").config(map=configs).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}

    def read(topic: str) -> DataFrame:
        return spark.read.format("kafka").options(**options, subscribe=topic).load()

    def stream(rows: int) -> None:
        """Write so many rows, and stream all that is new."""
        made = spark.range(rows).selectExpr("cast(id as string) key", "concat('row ', id) value")
        made.write.format("kafka").options(**options, topic=source).save()
        lines = spark.readStream.format("kafka").options(**options, subscribe=source).load()
        changed = lines.selectExpr("key", "upper(cast(value as string)) value")
        query = (
            changed.writeStream.format("kafka").options(**options, topic=sink, checkpointLocation=checkpoint)
            .trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(SECONDS), "the stream has not ended"

    stream(ROWS)
    stream(10)
    found = read(sink).orderBy("offset").selectExpr("cast(key as string)", "cast(value as string)", "offset")
    print(json.dumps({"read": read(source).count(), "streamed": [tuple(row) for row in found.collect()]}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
