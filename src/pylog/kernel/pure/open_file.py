"""A file on a disk, as far as reading and writing most often go."""

from abc import abstractmethod
from typing import NoReturn, Protocol


class Writable(Protocol):
    """A file as its writer needs it."""

    def size(self) -> int: ...
    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None: ...


class OpenFile:
    """A file on a disk: its descriptor, if it has one now, and what is known of it.

    Any number of threads read, sync, and write within its size at once; one at a time makes it longer or shorter.

    `pins` counts all calls that use the descriptor, whatever they do with it. A call counts itself before it looks at
    the descriptor. A close takes the descriptor away before it looks at the count, and puts it back where that is not
    0. So one of the two sees the other, and a number that is in use is never given away. Every change of a count is one
    step: the compiled kernel makes it under the interpreter's lock, the pure one under the lock of all descriptors.
    """

    __slots__ = (
        "closed", "descriptor", "failed", "logical_size", "physical_size", "pins", "read_only", "synced", "was_used",
        "writes",
    )  # fmt: skip

    descriptor: int
    """-1 while it is closed."""
    read_only: bool
    was_used: bool
    """Whether a call has used the file since the last look for descriptors to close. A hint: a use that is not noted
    costs another open of the file.
    """
    pins: int
    """How many calls use the descriptor now: reads, writes, syncs, maps, and any caller of `pin`."""
    closed: bool
    failed: str | None
    """Why nothing can be written any more."""
    logical_size: int
    physical_size: int
    """With what was reserved."""
    writes: int
    """How many there were, with what is no write and needs a sync as well."""
    synced: int
    """At least so many of these are durable: of two syncs at once the later one may note fewer, which costs a sync."""

    def pinned(self, more: int) -> None:
        """Count so many calls more that use the descriptor, in one step."""
        self.pins += more

    def wrote(self, end: int) -> None:
        """Note a write of bytes up to `end`, in one step."""
        self.physical_size = max(self.physical_size, end)
        self.logical_size = max(self.logical_size, end)
        self.writes += 1

    def size(self) -> int:
        """Bytes of the file."""
        return self.measured() if self.read_only else self.logical_size

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position` on, fewer at the end of the file. Raises what the other methods do."""
        if self.physical_size > self.logical_size:
            size = min(size, max(0, self.logical_size - position))
        return self.read_on(position, size)

    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None:
        """Write buffers one behind the other, not behind the end of the file. Raises what the other methods do."""
        if self.closed or self.read_only or self.failed is not None or not 0 <= position <= self.logical_size:
            self.check_writable("write to", position)
        self.write_on(position, buffers)

    def sync(self) -> None:
        """Make what was written durable. Raises what the other methods do."""
        self.check_writable("sync", 0)
        if self.synced < self.writes:
            self.sync_on()

    @abstractmethod
    def measured(self) -> int:
        """The length that the disk knows."""

    @abstractmethod
    def opened(self) -> int:
        """The descriptor, opened if need be, for a call that is counted in `pins`."""

    @abstractmethod
    def check_writable(self, doing: str, position: int) -> None:
        """Raise what keeps a file from being written."""

    @abstractmethod
    def read_on(self, position: int, size: int) -> bytes:
        """Read; reopen the file first if its descriptor was closed."""

    @abstractmethod
    def write_on(self, position: int, buffers: tuple[bytes | bytearray | memoryview, ...]) -> None:
        """Write to a file that can be written; reopen it first if its descriptor was closed."""

    @abstractmethod
    def take_back(self, end: int) -> None:
        """Give the file the length that it had before a write up to `end` that was given up, wherever it was."""

    @abstractmethod
    def sync_on(self) -> None:
        """Make what was written durable; reopen the file first if its descriptor was closed."""

    @abstractmethod
    def sync_refused(self, number: int) -> NoReturn:
        """Raise what follows from a sync that the system has refused, with this errno: nothing is written any more."""

    @abstractmethod
    def give_up(self) -> None:
        """Close the descriptor, unless a call uses it still: then that call closes it."""
