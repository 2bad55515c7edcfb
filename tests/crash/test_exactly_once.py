"""The job of `make exactly-once`, small."""

from pathlib import Path

import pytest

from .exactly_once import check, fill, run


@pytest.mark.usefixtures("fork_server")
def test_a_job_that_is_killed_writes_every_record_once(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    fill(path, 10_000)
    run(path, 10_000, kills=3, seed=1)
    check(path, 10_000)
