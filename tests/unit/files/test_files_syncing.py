"""How what was written is made durable, where the drive itself can be told to."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from pylog.files.syncing import FULL, sync_all, sync_data

F_FULLFSYNC = 51
"""Its number on macOS; other systems know no command of it."""
ACCEPTED = fcntl.F_GETFD
"""A command that every system takes."""


@pytest.mark.parametrize("sync", [sync_data, sync_all])
def test_a_drive_that_cannot_be_told_gets_an_ordinary_sync(sync: object, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        for command in (F_FULLFSYNC, ACCEPTED, None, FULL):
            sync(descriptor, command)  # type: ignore[operator]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("sync", [sync_data, sync_all])
@pytest.mark.parametrize("command", [F_FULLFSYNC, ACCEPTED, None])
def test_a_sync_that_was_not_made_is_no_success(sync: object, command: int | None) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    os.close(reading)
    with pytest.raises(OSError) as raised:
        sync(reading, command)  # type: ignore[operator]
    assert raised.value.errno == errno.EBADF


def test_macos_is_told_to_empty_the_cache_of_the_drive() -> None:
    assert getattr(fcntl, "F_FULLFSYNC", None) == FULL
