"""`pylog share` and `pylog consume --share`: what they print, what becomes of records, and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pylog
from pylog import TopicPartition
from support.command_line import Run, failed, misused, run

__all__ = ["run"]

SOURCE = str(Path(pylog.__file__).parents[1])
JOBS = TopicPartition("jobs", 0)
WAIT_MS = 60_000


@pytest.fixture
def workers(run: Run, tmp_path: Path) -> Run:
    """With a topic of five jobs, and a share group that has done none of them."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("jobs")
        fill(log, 5)
        log.admin.alter_share_offsets("workers", {JOBS: 0})
        log.admin.alter_offsets("readers", {JOBS: 0})
    return run


def fill(log: pylog.Log, count: int) -> None:
    with log.producer() as producer:
        for number in range(count):
            producer.send("jobs", b"%d" % number, timestamp_ms=1000 + number)


def lag(run: Run) -> int:
    found: int = json.loads(run("share", "offsets", "workers", "--json").out)["lag"]
    return found


def test_a_log_without_share_groups_says_so(run: Run) -> None:
    run("topic", "create", "jobs")
    assert run("share", "list").err.startswith("pylog: there are no share groups")
    assert run("share", "list", "--state", "stable").err == "pylog: there are no such share groups\n"
    for verb in ("describe", "offsets"):
        failed(run("share", verb, "nobody"), "there is no group 'nobody'")


def test_share_groups_are_listed_apart_from_others(workers: Run) -> None:
    assert workers("share", "list").lines[1:] == ["workers  Empty"]
    assert json.loads(workers("share", "list", "--json").out) == {"group": "workers", "state": "Empty"}
    assert [line.split()[:3] for line in workers("group", "list").lines[1:]] == [
        ["readers", "Empty", "Classic"], ["workers", "Empty", "Share"]
    ]  # fmt: skip
    for verb in ("describe", "offsets"):
        failed(workers("share", verb, "readers"), "readers is no share group: see `pylog group describe readers`")
    failed(workers("group", "seek", "workers", "--to", "latest"), "is a share group")


def test_members_and_offsets_are_shown_beside_the_owner(workers: Run, tmp_path: Path) -> None:
    with (
        pylog.open(tmp_path / "data") as log,
        log.share_consumer("jobs", group_id="workers", client_id="one") as consumer,
    ):
        assert len(consumer.poll(WAIT_MS)) == 5
        described = workers("share", "describe", "workers")
        assert described.lines[0] == "share group workers: Stable, 1 member"
        member, _, columns, jobs = described.lines[-4:]
        assert member.split()[1] == "one" and member.endswith("  jobs:0")
        assert columns.split() == ["topic", "partition", "locked", "in", "flight", "deliveries", "oldest", "lock"]
        assert jobs.split()[:5] == ["jobs", "0", "5", "5", "1:5"] and jobs.endswith(("ms", "second", "seconds"))
        told = json.loads(workers("share", "describe", "workers", "--json").out)
        (member,), (part,) = told["members"], told["partitions"]
        assert (part["topic"], part["acquired"], part["in_flight"], part["deliveries"]) == ("jobs", 5, 5, {"1": 5})
        assert (member["client_id"], member["assignment"]) == ("one", [{"topic": "jobs", "partition": 0}])
        assert workers("share", "offsets", "workers").lines[1].split() == ["jobs", "0", "0", "5", "5"]
        failed(workers("share", "delete", "workers", "--yes"), "is not empty")
        failed(workers("share", "reset", "workers", "--to", "latest", "--yes"), "has members")
    assert lag(workers) == 0
    assert json.loads(workers("share", "describe", "workers", "--json").out)["partitions"] is None


def test_a_server_tells_what_members_have(workers: Run, tmp_path: Path) -> None:
    with (
        pylog.open(tmp_path / "data") as log,
        log.serve() as server,
        log.share_consumer("jobs", group_id="workers", client_id="one") as consumer,
    ):
        record = consumer.poll(WAIT_MS)[0]
        consumer.acknowledge(record, "release")
        consumer.commit_sync()
        described = workers("--bootstrap", server.bootstrap_servers, "share", "describe", "workers")
        assert described.lines[-1].split() == ["jobs", "0", "0", "1", "1:1", "-"]


@pytest.mark.parametrize(
    ("how", "after"),
    [(("--to", "latest"), 5), (("--to-offset", "2"), 2), (("--to-time", "1970-01-01T00:00:01.003"), 3)],
)
def test_a_share_group_begins_again_elsewhere(workers: Run, how: tuple[str, ...], after: int) -> None:
    tried = workers("share", "reset", "workers", *how, "--dry-run")
    assert (tried.code, tried.err) == (0, "pylog: nothing was changed: this was a dry run\n")
    assert tried.lines[1].split() == ["jobs", "0", "0", str(after)]
    failed(workers("share", "reset", "workers", *how), "--yes")
    assert lag(workers) == 5
    assert workers("share", "reset", "workers", *how, "--yes").code == 0
    assert lag(workers) == 5 - after


def test_a_share_group_without_a_valid_target_is_not_moved(workers: Run) -> None:
    misused(workers("share", "reset", "workers"), "one of --to, --to-offset, --to-time is required")
    misused(workers("share", "reset", "workers", "--to", "latest", "--to-offset", "1"), "not allowed with --to")
    failed(workers("share", "reset", "workers", "--to", "latest", "--topic", "nowhere"), "nowhere")
    failed(workers("share", "reset", "nobody", "--to", "latest"), "there is no group 'nobody'")
    assert workers("share", "reset", "new", "--to", "earliest", "--topic", "jobs:0", "--json", "--yes").code == 0
    assert [line.split()[0] for line in workers("share", "list").lines[1:]] == ["new", "workers"]


def test_offsets_and_share_groups_are_forgotten_when_that_is_meant(workers: Run) -> None:
    failed(workers("share", "delete-offsets", "workers", "--topic", "jobs"), "--yes")
    failed(workers("share", "delete-offsets", "workers", "--topic", "nowhere", "--yes"), "nowhere")
    assert workers("share", "delete-offsets", "workers", "--topic", "jobs", "--yes").code == 0
    assert workers("share", "offsets", "workers").err == "pylog: share group workers has begun no partition\n"
    failed(workers("share", "delete", "workers"), "--yes")
    both = workers("share", "delete", "workers", "readers", "nobody", "--yes")
    assert (both.code, both.out) == (1, "deleted group workers\n")
    assert "readers is no share group" in both.err and "there is no group 'nobody'" in both.err
    assert workers("group", "list").lines[1].split()[0] == "readers"


def test_a_record_is_accepted_when_it_is_printed(workers: Run) -> None:
    assert workers("consume", "jobs", "--share", "workers", "-n", "2").lines == ["0", "1"]
    assert lag(workers) == 3
    rest = workers("consume", "jobs", "--share", "workers", "--format", "{offset}")
    assert (rest.lines, rest.err) == (["2", "3", "4"], "")
    assert lag(workers) == 0
    none = workers("consume", "jobs", "--share", "new")
    assert (none.code, none.out) == (0, "") and "a new one begins at the end" in none.err


def test_what_does_not_go_with_a_share_group_is_wrong_usage(workers: Run) -> None:
    for words in (
        ("--group", "g"), ("-b",), ("--offset", "1"), ("--until-offset", "1"), ("--since", "1h"), ("--key", "k"),
        ("--grep", "x"), ("-p", "0"), ("--isolation-level", "read_committed"),
    ):  # fmt: skip
        misused(workers("consume", "jobs", "--share", "workers", *words), "is not allowed with --share")
    misused(workers("consume", "jobs", "--share", "workers", "-X", "max.poll.records=1"), "max.poll.records")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_nothing_is_accepted_that_a_full_disk_refused(workers: Run, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pylog", "consume", "jobs", "--share", "workers"]
    env = {**os.environ, "PYLOG_LOG": str(tmp_path / "data"), "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0 and b"No space left" in done.stderr
    assert lag(workers) == 5
