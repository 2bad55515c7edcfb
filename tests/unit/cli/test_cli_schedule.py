"""`pylog schedule`: what it prints, which jobs wait, and how `run` ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pylog
from support.command_line import Run, failed, misused, run

__all__ = ["run"]

SOURCE = str(Path(pylog.__file__).parents[1])


@pytest.fixture
def jobs(run: Run, tmp_path: Path) -> Run:
    """With a topic for jobs."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("jobs")
    return run


def test_jobs_wait_in_the_order_of_their_times(jobs: Run) -> None:
    assert jobs("schedule", "list").err == "pylog: no job waits\n"
    assert jobs("schedule", "list", "--json").out == ""
    sent = ("schedule", "send", "jobs")
    assert jobs(*sent, "late", "--at", "2999-01-01T00:00", "--id", "a", "--key", "k").out == "job a waits\n"
    again = (*sent, "often", "--cron", "0 3 * * *", "--id", "b", "--timezone", "Europe/Berlin", "--headers", "x=1")
    assert json.loads(jobs(*again, "--json").out) == {"id": "b", "topic": "jobs"}
    assert jobs(*sent, "soon", "--delay", "1h").code == 0
    soon, often, late = (json.loads(line) for line in jobs("schedule", "list", "--json").lines)
    assert soon["value"] == "soon"
    assert late == {
        "id": "a", "due_ms": 32_472_144_000_000, "topic": "jobs", "cron": None, "timezone": None, "key": "k",
        "value": "late",
    }  # fmt: skip
    assert (often["cron"], often["timezone"]) == ("0 3 * * *", "Europe/Berlin")
    assert jobs("schedule", "list").lines[-1].split() == ["2999-01-01T00:00:00.000+00:00", "jobs", "a", "-", "4"]
    cancelled = jobs("schedule", "cancel", "a", "b", "c")
    assert (cancelled.code, cancelled.lines) == (1, ["cancelled job a", "cancelled job b"])
    assert "no job waits with the id c" in cancelled.err
    assert len(jobs("schedule", "list").lines) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "one of --delay, --at, --cron is required"),
        (("--delay", "1h", "--at", "2999-01-01"), "not allowed with --delay"),
        (("--delay", "soon"), "'soon' is not a span of time"),
        (("--delay", "h"), "'h' is not a span of time"),
        (("--at", "2h"), "give --delay"),
        (("--cron", "* * * * *"), "--cron needs --id"),
    ],
)
def test_a_job_without_a_valid_time_is_not_sent(jobs: Run, words: tuple[str, ...], says: str) -> None:
    misused(jobs("schedule", "send", "jobs", "x", *words), says)


def test_a_job_that_cannot_come_is_not_sent(jobs: Run) -> None:
    failed(jobs("schedule", "send", "nowhere", "x", "--delay", "1s"), "nowhere")
    failed(jobs("schedule", "send", "jobs", "x", "--cron", "* *", "--id", "a"), "is no cron line")
    failed(jobs("schedule", "send", "jobs", "x", "--delay", "1s", "--schedule", "jobs"), "a schedule needs compact")


def test_run_moves_what_is_due_until_it_is_told_to_stop(jobs: Run, tmp_path: Path) -> None:
    assert jobs("schedule", "send", "jobs", "now", "--delay", "0s").code == 0
    command = [sys.executable, "-m", "pylog", "--log", str(tmp_path / "data"), "schedule", "run"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SOURCE}
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "pylog: moving the jobs of schedule when they are due; Ctrl-C ends it\n"
        with pylog.open(tmp_path / "data") as log, log.consumer("jobs", auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"now"
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "pylog: stopped: 1 job moved\n"
        assert process.wait() == 0
