"""A topic goes to Parquet files, a folder for each day: `pylog pipeline run archive` against Spark's own writer.

Two local cores, two partitions, 100-byte values, 8-byte keys. The archive's workers write the files from pylog's Arrow
batches, so that no row goes through the JVM; "Parquet by day" reads `format("pylog")` and writes by
`df.write.partitionBy("day")`. Each goes into a new folder.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from harness import at_least, measure, report, scaled, scratch, stopwatch
from pylog.spark.pipelines.archive import archive
from spark_scan import COUNT, PARTITIONS, session, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = scaled(usual=7, quick=1)


def archived(spark: "SparkSession", folder: Path) -> float:
    taken = stopwatch()
    assert archive(spark, str(folder / "log"), "bench", str(folder / uuid4().hex)).records == COUNT
    return taken() / COUNT


def by_day(spark: "SparkSession", folder: Path) -> float:
    taken = stopwatch()
    rows = spark.read.format("pylog").option("subscribe", "bench").load(str(folder / "log"))
    rows.selectExpr("*", "to_date(timestamp) AS day").write.partitionBy("day").parquet(str(folder / uuid4().hex))
    return taken() / COUNT


def main() -> None:
    with scratch() as folder:
        write_log(folder)
        spark = session(folder)
        measured = measure(
            {"archive": lambda: archived(spark, folder), "Parquet by day": lambda: by_day(spark, folder)}, ROUNDS
        )
        spark.stop()
    report(
        "spark_archive",
        [measured.speed("archive", "archive", "Parquet by day", at_least(3))],
        records=COUNT,
        partitions=PARTITIONS,
        spark=f"local[{PARTITIONS}]",
    )


if __name__ == "__main__":
    main()
