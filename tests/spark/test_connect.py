"""The jobs over Spark Connect, whose sessions have no context: in a process of its own, with a local server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")
pytest.importorskip("grpc", reason="SPARK TESTS SKIPPED: pip install 'pyspark[connect]'")

import pylog
from pylog import Record

JOB = Path(__file__).parent / "on_connect.py"


@pytest.mark.timeout(900)
def test_jobs_over_spark_connect(tmp_path: Path) -> None:
    for name in ("data", "other"):
        with pylog.open(tmp_path / name, flush="none") as log:
            if name == "data":
                topic = log.create_topic("in", partitions=2)
                for number in range(40):
                    topic[number % 2].append([Record(b"%d" % number, b"k%d" % (number % 7))])
    paths = [str(Path(pylog.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    # Into files: the server's processes hold what they inherit for longer than the job runs.
    with (tmp_path / "out").open("w") as out, (tmp_path / "errors").open("w") as errors:
        words = [sys.executable, str(JOB), str(tmp_path)]
        ran = subprocess.run(words, stdout=out, stderr=errors, env=environment, check=False)
    assert ran.returncode == 0, (tmp_path / "errors").read_text()[-4000:]
    found = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert {name: one["records"] for name, one in found.items()} == {
        "archive": 40, "restore": 40, "cdc": 40, "compact": 7, "mirror": 40,
    }  # fmt: skip
    assert found["cdc"]["rows"] == 7
    with pylog.open(tmp_path / "other", mode="read") as log:
        assert sorted(int(r.value or b"") for part in log.topic("in") for r in part.records()) == list(range(40))
