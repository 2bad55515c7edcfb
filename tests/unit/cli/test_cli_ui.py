"""`pylog ui`. `make ui-test` visits its pages in a browser."""

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import pylog
from support.command_line import Run, failed, misused, run

__all__ = ["run"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_log_is_shown_until_a_signal_beside_its_owner(tmp_path: Path, number: int) -> None:
    with pylog.open(tmp_path / "data") as log:
        log.create_topic("clicks")
        command = [sys.executable, "-m", "pylog", "ui", "--log", log.path, "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith(f"pylog: {log.path} is shown at http://127.0.0.1:"), line
            url = line.partition(" is shown at ")[2].partition(";")[0]
            with urllib.request.urlopen(url, timeout=240) as answer:
                assert b"clicks" in answer.read()
            process.send_signal(number)
            assert process.communicate()[1] == "pylog: stopped\n"
        assert process.returncode == 0


def test_a_log_that_there_is_not_is_not_made(run: Run, tmp_path: Path) -> None:
    failed(run("ui"), "there is no log directory")
    assert not (tmp_path / "data").exists()


def test_an_address_that_cannot_be_is_refused(run: Run, tmp_path: Path) -> None:
    pylog.open(tmp_path / "data").close()
    failed(run("ui", "--listen", "8080"), "give HOST:PORT")
    failed(run("ui", "--listen", "0.0.0.0:0"), "no TLS", "--allow-plaintext")
    misused(run("ui", "--bootstrap", "127.0.0.1:1", "--log", "x"), "not both")
