"""The README's block for Spark does what it says."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.sql import SparkSession

import pylog

README = Path(__file__).parents[2] / "README.md"


def test_the_block_of_the_readme_counts_clicks(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "data")
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks")[0].append([pylog.Record(b"v")] * 7)
    (block,) = re.findall(r"```python\n(from pyspark.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    # The session of the suite was started in another working directory.
    exec(compile(block.replace('"data"', repr(path)), str(README), "exec"), {})
    assert re.search(r"\|\s+0\|\s+7\|", capsys.readouterr().out)
