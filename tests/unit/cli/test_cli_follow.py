"""`pylog follow`."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import pylog
from pylog.cli.follow import lines
from pylog.errors import NetworkError, PylogError
from support.command_line import Run, failed, misused, run
from support.patience import HANG_SECONDS

__all__ = ["run"]

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYLOG_LOG"}


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "leader") as log:
        log.create_topic("t")[0].append([pylog.Record(b"%d" % i) for i in range(10)])
        log.create_topic("u")
        yield log


def started(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pylog", "follow", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def followed(tmp_path: Path, address: str, *words: str) -> str:
    """Follow until the copy has caught up, and end by Ctrl-C; gives what was said."""
    with started("--log", str(tmp_path / "copy"), "--from", address, *words) as process:
        assert process.stderr is not None
        said = ""
        while "caught up" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=HANG_SECONDS)[1]
    assert process.returncode == 0, said
    return said


def test_a_copy_catches_up_ends_by_ctrl_c_and_goes_on_when_started_again(tmp_path: Path, leader: pylog.Log) -> None:
    with leader.serve() as server:
        said = followed(tmp_path, server.bootstrap_servers, "t")
        assert f"following {server.bootstrap_servers} into {tmp_path / 'copy'}, topics t; Ctrl-C ends it" in said
        assert "stopped: 1 partition, 0 records behind" in said
        leader.topic("t")[0].append([pylog.Record(b"more")])
        assert "caught up: 2 partitions" in followed(tmp_path, server.bootstrap_servers)
    with pylog.open(tmp_path / "copy", mode="read") as copy:
        assert [record.value for record in copy.topic("t")[0].records()][-1] == b"more"


def test_a_terminal_shows_how_far_each_partition_is(tmp_path: Path, leader: pylog.Log) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with leader.serve() as server:
        words = ["--log", str(tmp_path / "copy"), "--from", server.bootstrap_servers, "t"]
        command = [sys.executable, "-m", "pylog", "follow", *words]
        with subprocess.Popen(command, stderr=slave, env={**ENVIRONMENT, "TERM": "xterm"}) as process:
            os.close(slave)
            said = b""
            try:
                while b"0 behind" not in said:
                    said += os.read(master, 1 << 16)
                process.send_signal(signal.SIGINT)
                assert process.wait(HANG_SECONDS) == 0
            finally:
                process.kill()
    os.close(master)
    assert b"t-0  offset 10  leader 10  0 behind" in said


def test_the_same_node_id_is_refused_with_what_to_do(tmp_path: Path, leader: pylog.Log, run: Run) -> None:
    with leader.serve() as server:
        done = run("follow", "--log", str(tmp_path / "copy"), "--from", server.bootstrap_servers, "--node-id", "1")
        failed(done, "another node_id")


def test_a_leader_that_is_not_there_is_an_error(tmp_path: Path, run: Run) -> None:
    failed(run("follow", "--log", str(tmp_path / "copy"), "--from", "127.0.0.1:1"), "127.0.0.1:1")


def test_a_follower_needs_a_leader_and_files(run: Run) -> None:
    misused(run("follow"), "--from")
    misused(run("follow", "--from", "a:1", "--bootstrap", "a:1"), "needs the files")


def lag(end: int, leader_end: int, error: PylogError | None = None) -> pylog.ReplicaLag:
    return pylog.ReplicaLag(
        next_offset=end,
        high_watermark=leader_end,
        leader_end=leader_end,
        leader=1,
        leader_epoch=0,
        is_in_sync=False,
        error=error,
    )


def test_lines_say_what_is_wrong_first_then_who_is_behind() -> None:
    keys = [pylog.TopicPartition("t", number) for number in range(4)]
    lags = dict(zip(keys, [lag(5, 5), lag(5, 1005), lag(7, -1), lag(9, 9, NetworkError("it is away"))], strict=True))
    assert lines(lags, {keys[1]: lag(3, 3)}, 1000) == [
        "t-3  offset 9  it is away",
        "t-1  offset 5  leader 1,005  1,000 behind  2 records/s",
        "t-0  offset 5  leader 5  0 behind  0 records/s",
        "t-2  offset 7  waiting  0 records/s",
    ]


def test_many_lines_are_cut() -> None:
    lags = {pylog.TopicPartition("t", number): lag(0, 0) for number in range(40)}
    assert lines(lags, {}, 1)[-1] == "and 10 more"
