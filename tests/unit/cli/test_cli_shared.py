"""Commands that change a log which other processes use, or which no process owns."""

import os
import subprocess
import sys
from pathlib import Path

import pylog
from pylog.cli.opening import changing
from pylog.cli.place import LogPlace
from support.other_process import other_process

AT_ONCE = 4
ROUNDS = 1


def test_a_command_goes_on_where_the_owner_that_it_found_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with other_process(path) as owner:
        owner.does("log.create_topic('t')")
        with changing(LogPlace(log=os.fspath(path))) as log:
            assert isinstance(log, pylog.Log) and log.mode == "attach"
            owner.kill()
            log.create_topic("u")
            with log.producer() as producer:
                assert producer.send("t", b"a").result().offset == 0
            assert log.mode == "own" and sorted(log.topics()) == ["t", "u"]


def test_commands_that_run_at_once_without_an_owner_all_do_their_work(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "log")
    with pylog.open(path) as log:
        log.create_topic("t")
    command = [sys.executable, "-m", "pylog", "produce", "t", "-q", "--log", path]
    sent = []
    for round_ in range(ROUNDS):
        running = []
        for number in range(AT_ONCE):
            sent.append(b"%d of %d" % (number, round_))
            running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE))
        told = [one.communicate(value)[1] for one, value in zip(running, sent[-AT_ONCE:], strict=True)]
        assert [one.returncode for one in running] == [0] * AT_ONCE, told
    with pylog.open(path, mode="read") as log:
        assert sorted(record.value or b"" for record in log.topic("t")[0].records()) == sorted(sent)
