"""--json means the same for every command: what it prints is JSON, one object a line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import pylog
from pylog.cli import root
from support.command_line import Run, misused, run

__all__ = ["run"]

Told = Callable[..., list[dict[str, Any]]]
# They print no facts: records, text for a shell, or nothing.
OTHERS = {"serve", "follow", "schedule run", "ui", "completion"}


@pytest.fixture
def told(run: Run, tmp_path: Path) -> Told:
    """The objects that a command prints; with a compacted topic `users`, and a group that has committed in it."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("users", config={"cleanup.policy": "compact"})
        for number in range(20):
            log.topic("users")[0].append([pylog.Record(b"%d" % number, key=b"k%d" % (number % 3))])
        log.admin.alter_offsets("g", {pylog.TopicPartition("users", 0): 5})

    def call(*words: str, stdin: bytes = b"") -> list[dict[str, Any]]:
        done = run(*words, "--json", stdin=stdin)
        assert done.code == 0, done
        return [json.loads(line) for line in done.lines]

    return call


def leaves(command: click.Command = root, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that has none below it, by its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        below = command.get_command(ctx, name)
        assert below is not None, name
        yield from leaves(below, f"{path} {name}".strip())


def test_every_command_that_prints_facts_takes_json() -> None:
    without = {path for path, one in leaves() if not any("--json" in param.opts for param in one.params)}
    assert without == OTHERS


def test_every_command_says_what_it_and_each_of_its_options_is_for(run: Run) -> None:
    assert {"produce", "topic create", "txn abort"} <= {path for path, _ in leaves()}
    for path, one in leaves():
        assert one.short_help and one.help and one.help.rstrip().endswith("."), path
        for param in one.params:
            assert getattr(param, "hidden", False) or getattr(param, "words", None) or getattr(param, "help", None), (
                path, param.name,
            )  # fmt: skip
        done = run(*path.split(), "--help")
        assert done.code == 0 and done.out.startswith(f"Usage: pylog {path} "), path


def test_what_changes_topics_says_what_it_did(told: Told, tmp_path: Path) -> None:
    assert told("topic", "create", "t", "-p", "2") == [{"topic": "t", "partitions": 2, "created": True}]
    again = told("topic", "create", "t", "-p", "5", "--if-not-exists")
    assert again == [{"topic": "t", "partitions": 2, "created": False}]
    assert told("topic", "alter", "t", "-c", "retention.ms=5", "-p", "3") == [
        {"topic": "t", "set": {"retention.ms": "5"}, "deleted": []}, {"topic": "t", "partitions": 3},
    ]  # fmt: skip
    (cleaned,) = told("topic", "clean", "users")
    assert (cleaned["topic"], cleaned["records_read"], cleaned["records_kept"]) == ("users", 20, 3)
    told("topic", "alter", "users", "-c", "cleanup.policy=delete")
    assert told("topic", "trim", "users", "--partition", "0", "--before-offset", "7", "-y") == [
        {"topic": "users", "partition": 0, "start": 7}
    ]
    assert told("topic", "delete", "t", "-y") == [{"topic": "t", "deleted": True}]


def test_what_changes_groups_says_what_it_did(told: Told) -> None:
    assert told("group", "seek", "g", "--to", "earliest", "-y") == [
        {"group": "g", "topic": "users", "partition": 0, "before": 5, "after": 0}
    ]
    assert told("group", "delete-offsets", "g", "--topic", "users", "-y") == [
        {"group": "g", "deleted": True, "partitions": [{"topic": "users", "partition": 0}]}
    ]
    told("group", "seek", "h", "--to-offset", "1", "--topic", "users", "-y")
    assert told("group", "delete", "h", "-y") == [{"group": "h", "deleted": True}]


def test_what_ends_transactions_and_changes_users_says_what_it_did(told: Told, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data", mode="own", flush="none") as log:
        producer = log.producer(transactional_id="tx")
        producer.begin()
        producer.send("users", b"x", b"k").result()
        assert told("txn", "abort", "tx", "-y") == [
            {"transactional_id": "tx", "aborted": True, "partitions": [{"topic": "users", "partition": 0}]}
        ]
        with pytest.raises(pylog.PylogError):
            producer.commit()
        producer.close()
    assert told("user", "set", "alice", stdin=b"secret\n") == [{"user": "alice", "iterations": 4096}]
    assert told("user", "delete", "alice") == [{"user": "alice", "deleted": True}]


def test_the_list_of_topics_is_a_table_names_or_json(run: Run, told: Told) -> None:
    run("topic", "create", "empty", "-p", "3")
    head, *rows = (line.split() for line in run("topic", "list").lines)
    assert head == ["topic", "partitions", "records", "size"]
    assert [row[:3] for row in rows] == [["empty", "3", "0"], ["users", "1", "20"]]
    assert run("topic", "list", "--quiet").lines == ["empty", "users"]
    empty, users = told("topic", "list")
    assert empty == {"topic": "empty", "partitions": 3, "records": 0, "bytes": 0}
    assert (users["topic"], users["records"]) == ("users", 20) and users["bytes"] > 0
    misused(run("topic", "list", "--quiet", "--json"), "not allowed with --quiet")
    with pylog.serve(":memory:") as server:
        with pylog.connect(server.bootstrap_servers) as log:
            log.create_topic("far", partitions=2)
        assert run("topic", "list", "--bootstrap", server.bootstrap_servers).lines[1].split()[:3] == ["far", "2", "0"]


def test_a_thing_has_the_same_name_in_each_command(told: Told) -> None:
    """A topic was `name` or `topic`, a file `file` or `path`, and bytes were `size` or `bytes`."""
    lines = [
        *told("topic", "list"), *told("topic", "describe"), *told("topic", "dirs"), *told("group", "list"),
        *told("group", "describe", "g"), *told("verify"), *told("repair", "--dry-run"), *told("top", "-n", "1"),
    ]  # fmt: skip
    assert not [line for line in lines if line.keys() & {"name", "group_id", "size", "file"}]
    assert {"topic", "group", "bytes", "path"} <= {key for line in lines for key in line}


def test_a_topic_is_described_with_the_groups_that_read_it(run: Run, told: Told, tmp_path: Path) -> None:
    """Only each group by itself told its lag."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        log.create_topic("other")
        log.admin.alter_offsets("another", {pylog.TopicPartition("users", 0): 20})

    other, users = told("topic", "describe")

    assert other["groups"] == []
    assert users["groups"] == [
        {"group": "another", "state": "Empty", "members": 0, "lag": 0},
        {"group": "g", "state": "Empty", "members": 0, "lag": 15},
    ]
    lines = [line.split() for line in run("topic", "describe", "users").lines]
    assert lines[-3:] == [
        ["group", "state", "members", "lag"], ["another", "Empty", "0", "0"], ["g", "Empty", "0", "15"],
    ]  # fmt: skip
