"""A file on a disk, as far as reading and writing most often go."""

from abc import abstractmethod
from typing import NoReturn, Protocol


class Writable(Protocol):
    """What somebody needs who writes to a file, whatever it is."""

    def size(self) -> int: ...
    def write(self, position: int, *buffers: bytes | bytearray | memoryview) -> None: ...


class OpenFile:
    """A file on a disk, written by one thread at a time: its descriptor, if it has one now, and what is known of it.

    Who reads or writes takes no lock, but says so, by `pins` or `writing`, before it looks at the descriptor: whoever
    closes that takes it away before it looks at these.
    """

    __slots__ = (
        "closed", "descriptor", "failed", "logical_size", "physical_size", "pins", "read_only", "synced", "was_used",
        "writes", "writing",
    )  # fmt: skip

    descriptor: int
    """-1 while it is closed."""
    read_only: bool
    writing: bool
    was_used: bool
    """Since somebody who needs a descriptor has looked at it last."""
    pins: int
    """By how many it is being read."""
    closed: bool
    failed: str | None
    """Why nothing can be written any more."""
    logical_size: int
    physical_size: int
    """With what was reserved."""
    writes: int
    """How many there were, with what is no write and needs a sync as well."""
    synced: int
    """How many of these are durable."""

    def pinned(self, more: int) -> None:
        """So many read it more."""
        self.pins += more

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
        """The descriptor, opened if need be, for who has said that he reads or writes."""

    @abstractmethod
    def check_writable(self, doing: str, position: int) -> None:
        """Raise what keeps a file from being written."""

    @abstractmethod
    def read_on(self, position: int, size: int) -> bytes:
        """Read, whatever it takes."""

    @abstractmethod
    def write_on(self, position: int, buffers: tuple[bytes | bytearray | memoryview, ...]) -> None:
        """Write, whatever it takes, to a file that can be written."""

    @abstractmethod
    def take_back(self) -> None:
        """Give the file the length that it had before a write that was given up, wherever it was."""

    @abstractmethod
    def sync_on(self) -> None:
        """Make what was written durable, whatever it takes."""

    @abstractmethod
    def sync_refused(self, number: int) -> NoReturn:
        """Raise what follows from a sync that the system has refused, with this errno: nothing is written any more."""

    @abstractmethod
    def give_up(self) -> None:
        """Close the descriptor of a file that was closed meanwhile."""
