"""Copies of log directories, as they lie on the disk in the middle of everything."""

import shutil
from os import PathLike
from pathlib import Path

from pylog.logdirs.log_directory import SOCKET


def copy_log(source: str | PathLike[str], target: str | PathLike[str], *, into: bool = False) -> Path:
    """Copy a log directory without its owner's socket, which is no file. `into` a directory that is there."""
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns(SOCKET), dirs_exist_ok=into))
