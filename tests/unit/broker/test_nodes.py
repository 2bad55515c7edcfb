import os
import signal
from pathlib import Path
from types import FrameType

import pytest

import pylog
from pylog.broker.nodes import checked_paths, made_whole, once_free
from pylog.errors import DirectoryLocked


class Made:
    """What is made, and may be closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_directories_are_named_once_and_memory_is_alone(tmp_path: Path) -> None:
    assert checked_paths(tmp_path) == checked_paths([tmp_path]) == [str(tmp_path)]
    for wrong in ("", [], ["a", ""]):
        with pytest.raises(ValueError, match="path is empty"):
            checked_paths(wrong)
    with pytest.raises(ValueError, match="cannot be one of several"):
        checked_paths(["a", ":memory:"])
    with pytest.raises(ValueError, match="named twice"):
        checked_paths(["a", "./a"])


def test_a_log_in_memory_is_not_read_by_others() -> None:
    with pytest.raises(ValueError, match="belongs to the process that opens it"):
        pylog.open(":memory:", mode="read")


def test_what_is_made_while_a_signal_strikes_is_closed() -> None:
    made = Made()

    def make() -> Made:
        os.kill(os.getpid(), signal.SIGUSR1)
        return made

    def strike(number: int, frame: FrameType | None) -> None:
        raise ZeroDivisionError

    before = signal.signal(signal.SIGUSR1, strike)
    try:
        with pytest.raises(ZeroDivisionError):
            made_whole(make)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert made.is_closed


def test_a_directory_that_was_dropped_open_is_free_again(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="was dropped without close"):
        pylog.open(tmp_path, mode="own")
    once_free(lambda: pylog.open(tmp_path, mode="own")).close()
    with pylog.open(tmp_path, mode="own"), pytest.raises(DirectoryLocked):
        once_free(lambda: pylog.open(tmp_path, mode="own"))
