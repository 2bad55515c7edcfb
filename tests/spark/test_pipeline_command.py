"""`pylog pipeline`: the table of the jobs against their functions, and jobs that are run by the command."""

import inspect
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.sql import SparkSession

import pylog
from pylog import Record
from pylog.spark.pipelines.table import JOBS, Job
from support.command_line import Run, failed, misused, run

__all__ = ["run"]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_table_has_the_parameters_of_the_function(job: Job) -> None:
    expected = {name: one for name, one in inspect.signature(job.function).parameters.items() if name != "progress"}
    spark, place, *others = expected
    assert (spark, place) == ("spark", "log")
    assert {one.name for one in job.parameters} == set(others)
    assert {one.name for one in job.parameters if one.is_required} == {
        name for name in others if expected[name].default is inspect.Parameter.empty
    }


def test_archive_and_restore_by_the_command(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("clicks")[0].append([Record(b"1", timestamp=0), Record(b"2", timestamp=86_400_000)])
    lake, new = tmp_path / "lake", tmp_path / "new"
    done = run("pipeline", "run", "archive", "--topic", "clicks", "--to", str(lake), "--log", str(tmp_path / "data"))
    assert done.lines[0].startswith("archive: 2 records, 2 files, ")
    assert done.lines[0].endswith(", 1 commit")
    with pylog.open(new, flush="none"):
        pass
    words = ("pipeline", "run", "restore", "--archive", str(lake), "--log", str(new), "--topic", "again", "--json")
    assert run(*words).lines == ['{"job":"restore","records":2,"commits":1}']
    with pylog.open(new, mode="read") as log:
        assert [record.value for record in log.topic("again")[0].records()] == [b"1", b"2"]
    # An error of Spark's worker is one line that says what is wrong.
    next(lake.glob("day=1970-01-02/*")).unlink()
    failed(run(*words[:-1], "--topic", "third"), "No such file", "day=1970-01-02")


def test_wrong_words_are_wrong_usage(run: Run) -> None:
    misused(run("pipeline", "run", "archiv"), "did you mean archive?")
    misused(run("pipeline", "run", "archive", "--to", "lake"), "--topic")
    words = ("pipeline", "run", "mirror", "--topic", "t", "--checkpoint", "cp")
    misused(run(*words), "one of --to-log, --to-bootstrap is required")
    misused(run(*words, "--to-log", "a", "--to-bootstrap", "b:1"), "not both")
    assert [line.split()[0] for line in run("pipeline", "list").lines[1:]] == [job.name for job in JOBS]
