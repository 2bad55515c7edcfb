"""Two tables: `clicks` grows by what the topic has got since the last run, `views` is computed from it."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

spark = SparkSession.active()


@dp.table
def clicks() -> DataFrame:
    """The records of the topic, each once: its checkpoint is below `storage`."""
    # Spark's own processes run elsewhere: a path has to be whole.
    log = str(Path(spark.conf.get("spark.clicks.log")).absolute())
    records = spark.readStream.format("pylog").option("subscribe", "clicks").load(log)
    click = sql.from_json(sql.col("value").cast("string"), "user STRING, page STRING").alias("click")
    return records.select("partition", "offset", "timestamp", click).select(
        "partition", "offset", "timestamp", "click.*"
    )


@dp.materialized_view
def views() -> DataFrame:
    """How often each page was seen, and by how many users."""
    seen = spark.read.table("clicks").groupBy("page")
    return seen.agg(sql.count("*").alias("views"), sql.count_distinct("user").alias("users"))
