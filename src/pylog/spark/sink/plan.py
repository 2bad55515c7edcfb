"""The plan of a batch in Spark's checkpoint, which tells a replay from another batch.

    <checkpointLocation>/offsets/<batch>     v1 | metadata, among it when the batch was planned | the end of each source

Spark writes the file before the batch runs, and whatever runs again goes by it. A checkpoint that was restored, or that
has lost the file, has the batch planned again: the number is the same, and the file is another one.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import unquote, urlsplit

from pylog.spark.folder import Folder

_FOLDER: Final = "offsets"
_ENDS: Final = 2
"""The line of the first source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The plan of a batch."""

    digest: str
    """Of the file that has the plan."""
    ends: tuple[str, ...] = ()
    """Where the batch ends in each source, as JSON; "-" for a source that had nothing yet."""

    @classmethod
    def of(cls, text: bytes, ends: tuple[str, ...] = ()) -> "BatchPlan":
        """The plan that a file has."""
        return cls(digest=sha256(text).hexdigest(), ends=ends)


def plan_of(checkpoint: str | None, batch: int) -> BatchPlan | None:
    """The plan of a batch of a stream. None where Spark does not say where the checkpoint is, as it was given by the
    session and not by the option `checkpointLocation`, and where pyarrow cannot read it.
    """
    if checkpoint is None:
        return None
    url = urlsplit(checkpoint)
    try:
        text = Folder(unquote(url.path) if url.scheme == "file" else checkpoint).read(f"{_FOLDER}/{batch}")
    except (ValueError, OSError):
        return None
    return BatchPlan.of(text, tuple(text.decode(errors="replace").splitlines()[_ENDS:]))
