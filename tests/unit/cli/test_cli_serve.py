"""`pylog serve`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pylog
from pylog.cli import main
from support.wire_client import WireClient

READY = "pylog: serving "


def served(*words: str) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYLOG_LOG"}
    return subprocess.Popen(
        [sys.executable, "-m", "pylog", "serve", "--listen", "127.0.0.1:0", *words], stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(READY), line
    return line.partition(" at ")[2].partition(";")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_and_closes_the_log(tmp_path: Path, number: int) -> None:
    with served("--log", str(tmp_path / "log"), "--config", "num.partitions=3") as process:
        with WireClient(address(process)) as client:
            topics = client.ask("Metadata", 12, {"topics": [{"name": "t"}]})["topics"]
            process.send_signal(number)
            assert client.is_closed()
        _, rest = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "stopped after 1 connection and 1 request" in rest
    assert len(topics[0]["partitions"]) == 3
    with pylog.open(tmp_path / "log") as log:
        assert (log.topics(), log.recovered) == (["t"], ())


def test_a_log_in_memory_is_served() -> None:
    with served("--log", ":memory:") as process:
        with WireClient(address(process)) as client:
            assert client.ask("Metadata", 12, {"topics": None})["topics"] == []
        process.terminate()
        process.communicate(timeout=30)

    assert process.returncode == 0


def test_listening_everywhere_without_an_address_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", "--log", str(tmp_path / "log"), "--listen", "0.0.0.0:0"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)

    assert "--advertise" in capsys.readouterr().err
