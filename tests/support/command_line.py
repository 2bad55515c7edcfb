"""The command, run in the process of a test: the fixture `run`, and how a run has ended."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pylog.cli import main

Run = Callable[..., "Done"]


class Done:
    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.raw = out
        self.err = err.decode()

    def __repr__(self) -> str:
        return f"Done({self.code}, {self.out!r}, {self.err!r})"

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `pylog ARGS...`, with PYLOG_LOG set to a directory of the test and `stdin` as its input."""
    monkeypatch.setenv("PYLOG_LOG", str(tmp_path / "data"))

    def call(*args: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(list(args))
        out, err = capsysbinary.readouterr()
        return Done(code, out, err)

    return call


def failed(done: Done, *words: str) -> None:
    """Ended with one line of error that says all of `words`."""
    assert done.code == 1, done
    assert done.err.startswith("pylog: ") and done.err.count("\n") == 1, done
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err, done


def misused(done: Done, *words: str) -> None:
    """Ended as wrong usage."""
    assert done.code == 2, done
    assert "Usage: pylog" in done.err
    for word in words:
        assert word in done.err, done
