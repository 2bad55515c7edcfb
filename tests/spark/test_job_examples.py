"""The examples of the jobs: each function has one, and each is true."""

import asyncio
import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pylog.spark.pipelines.table import JOBS, Job
from support.prompt import Prompt, ends_with_example

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs/howto/pipelines.md"


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_example_of_a_job_is_true(
    job: Job, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    docstring = inspect.getdoc(job.function) or ""
    assert ends_with_example(docstring)
    with asyncio.Runner() as loop:
        prompt = Prompt(PAGE, loop, spark=spark)
        try:
            wrong = list(prompt.wrong(job.name, docstring))
        finally:
            prompt.close()
    assert not wrong, "\n".join(wrong)
