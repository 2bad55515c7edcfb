"""What `test_connect.py` runs: jobs over a session of Spark Connect, whose server is local.

python on_connect.py FOLDER      the last line of stdout is JSON: what the jobs have done
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from pylog.spark.pipelines.archive import archive
from pylog.spark.pipelines.cdc import cdc
from pylog.spark.pipelines.compact import compact
from pylog.spark.pipelines.mirror import mirror
from pylog.spark.pipelines.restore import restore


def main() -> None:
    """Run the jobs on topic `in` of FOLDER/data."""
    folder = Path(sys.argv[1])
    data, lake = folder / "data", str(folder / "lake")
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        done = {
            "archive": archive(spark, data, "in", lake),
            "restore": restore(spark, data, lake, topic="again"),
            "cdc": cdc(spark, data, "in", str(folder / "table"), parts=2),
            "compact": compact(spark, data, "in", "last"),
            "mirror": mirror(spark, data, "in", folder / "other", checkpoint=str(folder / "cp")),
        }
        print(json.dumps({name: asdict(found) for name, found in done.items()}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
