"""Spark's own Kafka connector, `format("kafka")`, reads and writes batches and a stream.

The connector fits one Spark, which may be another than pylog's tests have: `make programs` puts both into build.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.wire.conftest import Topics
from conformance.wire.servers import Server

BUILD = Path(__file__).parents[3] / "build"
JARS, SPARK = sorted((BUILD / "spark-kafka").glob("*.jar")), BUILD / "pyspark"
SECONDS = 240.0


@pytest.mark.skipif(not JARS or not SPARK.exists(), reason="Spark's Kafka connector is absent: run `make programs`")
@pytest.mark.timeout(300)
def test_stream_of_spark_goes_from_topic_to_topic(server: Server, topics: Topics, tmp_path: Path) -> None:
    source, sink = topics.create(2), topics.create(1)
    job = Path(__file__).with_name("spark_job.py")
    command = [sys.executable, str(job), server.bootstrap_servers, source, sink, str(tmp_path / "checkpoint")]

    ran = subprocess.run(
        [*command, ",".join(map(str, JARS))], capture_output=True, text=True, timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(SPARK), "SPARK_HOME": str(SPARK / "pyspark")},
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["read"] == 1010
    assert [offset for *_, offset in told["streamed"]] == list(range(1010))
    first, last = told["streamed"][:1000], told["streamed"][1000:]
    for rows, count in ((first, 1000), (last, 10)):
        assert sorted((int(key), value) for key, value, _ in rows) == [(n, f"ROW {n}") for n in range(count)]
