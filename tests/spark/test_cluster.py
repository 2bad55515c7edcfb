"""Spark reads from servers, on executors that share nothing with the driver but the network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pylog
from pylog import Record

JOB = Path(__file__).parent / "on_a_cluster.py"
MANY = 3_000


def test_a_batch_and_a_stream_on_two_executors(tmp_path: Path) -> None:
    paths = [str(Path(pylog.__file__).parents[1]), str(JOB.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1"}
    with pylog.open(":memory:") as log, log.serve("127.0.0.1:0") as server:
        topic = log.create_topic("t", partitions=2)
        for partition in topic:
            partition.append([Record(b"%d" % n) for n in range(MANY // 2)])
        ran = subprocess.run(
            [sys.executable, str(JOB), server.bootstrap_servers, str(tmp_path)],
            capture_output=True, text=True, timeout=280, env=environment, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["batch"] == [MANY, 2 * sum(range(MANY // 2))]
    assert found["tasks"] == 4
    assert found["stream"] == [1000, 1000, 1000]
