"""`pylog user list | set | delete`."""

import json
import sys
from pathlib import Path

import pytest

import pylog
from pylog.cli import main
from support.command_line import Run, run

__all__ = ["run"]


def test_users_are_added_listed_and_deleted(run: Run) -> None:
    assert run("user", "list").code == 1, "there is no log"
    done = run("user", "set", "alice", stdin=b"secret\n")
    assert (done.code, done.out, done.err) == (0, "alice has a password\n", "")
    assert run("user", "set", "bob", "--iterations", "8192", stdin=b"secret").code == 0

    listed = run("user", "list")
    assert [line.split() for line in listed.lines[1:]] == [
        ["alice", "SCRAM-SHA-256,", "SCRAM-SHA-512", "4096"], ["bob", "SCRAM-SHA-256,", "SCRAM-SHA-512", "8192"],
    ]  # fmt: skip
    assert json.loads(run("user", "list", "--json").lines[0]) == {
        "user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
    }  # fmt: skip
    assert run("user", "delete", "alice").out == "alice is deleted\n"
    assert run("user", "delete", "bob").code == 0
    assert "pylog user set NAME" in run("user", "list").err


def test_a_password_from_a_closed_stdin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["user", "set", "alice", "--log", str(tmp_path / "data")]) == 1
    assert "stdin is closed" in capsys.readouterr().err


def test_what_is_no_user_or_password_is_refused(run: Run) -> None:
    assert "a password is not empty" in run("user", "set", "alice").err
    assert "Too few iterations" in run("user", "set", "alice", "--iterations", "1", stdin=b"x\n").err
    assert "there is no user 'bob'" in run("user", "delete", "bob").err


def test_the_users_of_a_server_are_changed_while_it_runs(run: Run) -> None:
    with pylog.serve(":memory:") as server:
        where = ("--bootstrap", server.bootstrap_servers)
        assert run("user", "set", "alice", *where, stdin=b"secret\n").code == 0
        assert [line.split()[0] for line in run("user", "list", *where).lines[1:]] == ["alice"]
        assert run("user", "delete", "alice", *where).code == 0
        assert "pylog user set NAME" in run("user", "list", *where).err
