"""`examples/declarative_pipeline`, run by `spark-pipelines run` as its page says."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pandas

import pylog

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative_pipeline"
BIN = Path(sys.executable).parent
MISSING = [name for name in ("grpc", "grpc_status", "yaml", "zstandard") if importlib.util.find_spec(name) is None]


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(MISSING), reason="DECLARATIVE PIPELINES SKIPPED: pip install 'pyspark[pipelines]'")
def test_the_tables_of_the_pipeline_have_what_the_topic_has(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("file:///tmp/pylog-clicks", (tmp_path / "storage").as_uri()), encoding="utf-8")
    paths = [str(Path(pylog.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ, "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]), "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    subprocess.run([sys.executable, "clicks.py", "data"], cwd=tmp_path, env=environment, check=True)
    words = ("spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive")
    quick = ("--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false")
    ran = subprocess.run([*words, *quick], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]

    clicks = pandas.read_parquet(tmp_path / "spark-warehouse" / "clicks")
    views = pandas.read_parquet(tmp_path / "spark-warehouse" / "views").sort_values("page", ignore_index=True)
    with pylog.open(tmp_path / "data", mode="read") as log:
        expected = log.topic("clicks").to_pandas()
    places = ["partition", "offset"]
    assert sorted(clicks[places].values.tolist()) == sorted(expected[places].values.tolist())
    counted = clicks.groupby("page", as_index=False).agg(views=("user", "size"), users=("user", "nunique"))
    assert views.to_dict() == counted.to_dict()
