"""Parts of a `.log` file: what is asked of it, what is found in it, and where it makes no sense."""

from collections.abc import Callable
from typing import NamedTuple

from pylog.kernel import Spans
from pylog.storage.file_region import FileExtent


class Slice(NamedTuple):
    """Whole batches of one file."""

    data: memoryview
    """Their bytes; none where `extent` has them."""
    path: str
    position: int
    """Where in the file they begin."""
    next_offset: int
    """Behind their last offset, and at most where the next batch begins."""
    extent: FileExtent | None = None
    """Where they lie, if they were not read."""


class Fault(NamedTuple):
    """Where a file stops making sense: everything before `position` is good."""

    path: str
    position: int
    offset: int
    """The offset the bad batch should have begun with, or a later one."""
    reason: str


class DamagedRange(NamedTuple):
    """A part of a file that cannot be read, and the offsets that were in it; both half-open."""

    position: int
    end: int
    offset: int
    next_offset: int


class Window(NamedTuple):
    """Some bytes of a walk, where they begin in the file, the whole batches in them, and what ended the walk."""

    data: bytes
    position: int
    spans: Spans
    fault: Fault | None


class WantedBatches(NamedTuple):
    """A reader's request to a file: batches from `offset` on that begin below `upto`.

    `end` is above every offset that the file can hold, as far as its reader knows; what begins below `written` was
    whole when that was the end of the log, and ends there at the latest. With `lookup`, that of the offset index, their
    bytes may stay in the file: it leads from the first batches to the last ones, and nobody looks at what lies between.
    """

    offset: int
    upto: int
    end: int
    max_bytes: int
    written: int
    lookup: Callable[[int, int], tuple[int, int]] | None = None
