"""How the command opens a log that it changes: never among things that belong to something else."""

from collections.abc import Sequence
from typing import Any

import pylog
from pylog.files import DiskFiles
from pylog.logdirs.foreign import refuse_foreign

__all__ = ["owned"]


def owned(paths: Sequence[str], **options: Any) -> pylog.Log:
    """Own the log in these directories; make it if they are empty or missing. Raises StorageError for other ones."""
    for path in paths:
        refuse_foreign(DiskFiles(read_only=True), path)
    return pylog.open(list(paths), mode="own", **options)
