"""Copies of log directories, as they lie on the disk in the middle of everything."""

import shutil
from contextlib import suppress
from os import PathLike
from pathlib import Path

from pylog.logdirs.log_directory import SOCKET


def copy_log(source: str | PathLike[str], target: str | PathLike[str], *, into: bool = False) -> Path:
    """Copy a log directory without its owner's socket, which is no file. `into` a directory that is there.

    The owner may work on: a file that has got another name since it was listed is left out.
    """
    left_out = shutil.ignore_patterns(SOCKET)
    return Path(shutil.copytree(source, target, ignore=left_out, copy_function=_copy, dirs_exist_ok=into))


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)
