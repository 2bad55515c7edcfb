"""What a shell gets when it completes, and the words that it runs for that."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pylog
from pylog.cli import COMMANDS
from support.command_line import Run, misused, run

__all__ = ["run"]


@pytest.fixture
def completed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Completes the last word, with topics, a group, a transactional id and a user in the log."""
    with pylog.open(tmp_path / "data", flush="none") as log:
        for name in ("clicks", "clients", "orders"):
            log.create_topic(name)
        log.admin.alter_offsets("billing", {pylog.TopicPartition("orders", 0): 0})
        log.admin.alter_share_offsets("builders", {pylog.TopicPartition("orders", 0): 0})
        log.producer(transactional_id="payments").close()
        log.admin.set_password("alice", "secret")

    def call(*words: str, stdin: bytes = b"") -> list[str]:
        with monkeypatch.context() as shell:
            shell.setenv("_PYLOG_COMPLETE", "bash_complete")
            shell.setenv("COMP_WORDS", "\n".join(map(quoted, ["pylog", *words])))
            shell.setenv("COMP_CWORD", str(len(words)))
            done = run()
        assert (done.code, done.err) == (0, "")
        return [line.removeprefix("plain,") for line in done.lines if line]

    return call  # type: ignore[return-value]


def quoted(word: str) -> str:
    """A word as a user types it: its path may have a space."""
    return shlex.quote(word) if word else ""


def test_commands_and_options_are_completed(completed: Run) -> None:
    assert completed("") == list(COMMANDS)
    assert completed("topic", "de") == ["describe", "delete"]
    assert completed("consume", "--fro") == ["--from-beginning"]
    assert completed("consume", "clicks", "--isolation-level", "read_c") == ["read_committed"]


def test_names_in_the_log_are_completed(completed: Run) -> None:
    assert completed("consume", "cl") == ["clicks", "clients"]
    assert completed("consume", "orders", "cl") == ["clicks", "clients"]
    assert completed("topic", "describe", "") == ["clicks", "clients", "orders"]
    assert completed("topic", "describe", "__c") == ["__consumer_offsets"]
    assert completed("group", "describe", "b") == ["billing", "builders"]
    assert completed("share", "describe", "b") == completed("consume", "orders", "--share", "") == ["builders"]
    assert completed("group", "seek", "billing", "--topic", "o") == ["orders"]
    assert completed("txn", "abort", "") == ["payments"]
    assert completed("user", "delete", "") == ["alice"]


def test_configs_are_completed(completed: Run) -> None:
    assert completed("topic", "create", "x", "--config", "retention.") == ["retention.bytes", "retention.ms"]
    assert completed("config", "alter", "--config", "max.connections.") == ["max.connections.per.ip"]
    assert completed("config", "alter", "--group", "g", "--config", "consumer.h") == ["consumer.heartbeat.interval.ms"]
    assert completed("serve", "-c", "num.part") == ["num.partitions"]


def test_the_place_of_the_log_is_where_the_words_say(completed: Run, tmp_path: Path) -> None:
    assert completed("--log", str(tmp_path / "none"), "consume", "cl") == []
    assert completed("topic", "--log", str(tmp_path / "data"), "describe", "o") == ["orders"]
    with pylog.serve(":memory:") as server:
        with pylog.connect(server.bootstrap_servers) as log:
            log.create_topic("elsewhere")
        assert completed("--bootstrap", server.bootstrap_servers, "consume", "e") == ["elsewhere"]
    assert completed("--bootstrap", "127.0.0.1:1", "consume", "e") == []
    assert completed("--bootstrap", "127.0.0.1:1", "--log", "x", "consume", "e") == []


def test_each_shell_gets_its_own_words(run: Run) -> None:
    for shell, word in (("bash", "complete -o nosort"), ("zsh", "#compdef pylog"), ("fish", "complete --no-files")):
        done = run("completion", shell)
        assert done.code == 0 and word in done.out, done
        assert "_PYLOG_COMPLETE" in done.out
    misused(run("completion", "tcsh"), "'tcsh' is not one of")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_topics(completed: Run, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pylog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pylog "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(pylog completion bash)"; COMP_WORDS=(pylog consume cl); COMP_CWORD=2; _pylog_completion pylog; '
        'echo "${COMPREPLY[@]}"'
    )
    source = str(Path(pylog.__file__).parents[1])
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": source}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, check=True)
    assert done.stdout.split() == [b"clicks", b"clients"], done
