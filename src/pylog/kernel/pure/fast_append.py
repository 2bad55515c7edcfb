"""The numbers of one partition that an append reads and changes, which both kernels declare field by field.

The compiled kernel appends a batch that needs no decision in one step, and looks at nothing but these fields, the
`Tail` of the active segment and its file. The pure kernel has no such step: in Python it would be the general way.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from pylog.kernel.format import NO_EPOCH, NO_OFFSET
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.tail import Appended, PlainRules, Tail

TIME_CLASSES = 28
"""How many classes a histogram of times has: see `metrics.histogram`."""

Numbers = tuple[int, int, int, int, int, int, int, int, bool, int, int]


class Lock(Protocol):
    """A lock that one thread holds at a time."""

    def acquire(self, blocking: bool = ...) -> bool: ...
    def release(self) -> None: ...


class Latch(Protocol):
    """The object that is told of a refusal of the system, and that syncs where a sync takes more than one file."""

    def interrupted(self, error: BaseException) -> NoReturn: ...
    def give_up(self, error: BaseException) -> NoReturn: ...
    def not_synced(self, error: BaseException) -> None: ...
    def sync(self) -> int: ...


class Publisher(Protocol):
    """The object that publishes a state to other processes; for the compiled kernel it is a `Slots`."""

    def publish(self, state: Numbers) -> None: ...


class Syncable(Protocol):
    """A file that a sync makes durable."""

    def sync(self) -> None: ...
    def close(self) -> None: ...


class AppendState:
    """The state of one partition. One part of the partition writes each field, under `lock`; so do the steps here."""

    # --- Watermarks: what may be seen ------------------------------------------------------------------------------
    start_offset: int = 0
    high_watermark: int = 0
    generation: int = 0
    """Rises when files change that a reader may know, and is odd while they do."""
    cuts: int = 0
    """How often something was taken away from the end."""

    # --- Appender: what comes in -----------------------------------------------------------------------------------
    next_offset: int = 0
    appends: int = 0
    records_appended: int = 0
    bytes_appended: int = 0
    """How many batches were appended by a leader since the partition was opened, their records, their bytes."""
    rules: PlainRules
    """What decides whether an append goes the short way. Written under `lock`."""

    # --- Durability: what is safe ----------------------------------------------------------------------------------
    durable_offset: int = 0
    """Everything below is on the disk, whatever `flush` says: `storage.pending_syncs` raises it."""
    sync_counts: list[int]
    sync_ns: int = 0
    """How often syncs took how long, and how long in all: the fields of `metrics.histogram.Times`."""
    is_closed: bool = False
    failure: BaseException | None = None
    """What has latched the partition."""
    lock: Lock
    syncing: Lock
    """Held around a sync, and taken before `lock`."""
    latch: Latch
    entry: Publisher | None = None
    """The place of the partition among the published ones."""

    # --- PendingSyncs: what a sync of the active segment's file leaves out -----------------------------------------
    owed: list[Syncable]
    """Files that the next sync makes durable, and closes."""
    name_changes: int = 0
    """How often names have come or gone in the directory."""
    synced_name_changes: int = 0
    """How many of these changes are durable. Written under `syncing`, or `lock`."""

    # --- LocalLog: where it goes -----------------------------------------------------------------------------------
    tail: Tail | None = None
    """The end of the active segment; None before the partition is open."""
    aborted_entries: int = 0
    """How many entries the transaction index of the active segment has."""
    aborted_crc: int = 0
    """The crc32c of these entries."""

    # --- LeaderEpochs ----------------------------------------------------------------------------------------------
    latest_epoch: int = NO_EPOCH
    latest_epoch_start: int = 0
    """Where it starts: beyond the end of the log where the append that began it was refused."""

    # --- Producers -------------------------------------------------------------------------------------------------
    first_unstable_offset: int = NO_OFFSET
    """Where the first transaction begins that is open, or whose marker the high watermark has not passed; -1: none."""
    producer_entries: dict[int, Any]
    """The state of each producer, by its id: (epoch, coordinator epoch, last timestamp, first offset of the open
    transaction, batches), and of each of its last batches (first sequence, last sequence, first offset, last offset,
    timestamp). The kernel replaces one where it appends the next batch.
    """
    batch_metadata: type[tuple[Any, ...]]
    """The type of what is known of a batch."""
    open_verifications: Mapping[int, object]
    """The producers whose transactions are being verified, by their ids."""
    ongoing: Mapping[int, int]
    """The producers of open transactions, by the first offset, rising."""
    unreplicated: dict[int, int]
    """The ended transactions whose markers are at the high watermark or above: the first offset, and the marker's."""

    def __init__(self) -> None:
        self.rules = PlainRules()
        self.owed = []
        self.sync_counts = [0] * TIME_CLASSES
        self.producer_entries, self.open_verifications = {}, {}
        self.ongoing, self.unreplicated = {}, {}

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed sees: the first offset of an open transaction, or the high watermark."""
        if self.first_unstable_offset < 0:
            return self.high_watermark
        return min(self.high_watermark, max(self.first_unstable_offset, self.start_offset))

    @property
    def data_end(self) -> int:
        """Behind the last record in the files: only a truncation inside a batch leaves it below `next_offset`."""
        return 0 if self.tail is None else self.tail.next_offset

    @property
    def written_end(self) -> int:
        """The end of the bytes that a sync makes durable: a gap that a truncation has left at the end is nothing that
        could be missed.
        """
        return min(self.next_offset, self.data_end)

    @property
    def data_end_max(self) -> int:
        """Above every offset that the active segment can hold now: this process alone writes, so it knows."""
        return self.next_offset if self.tail is None else max(self.next_offset, self.tail.next_offset)

    def numbers(self) -> Numbers:
        """The numbers to publish: the fields of `storage.published.PublishedState`, in its order."""
        tail = self.tail
        data_end, last_base = (0, 0) if tail is None else (tail.next_offset, tail.base_offset)
        return (
            self.generation, self.start_offset, self.next_offset, self.high_watermark, self.last_stable_offset,
            self.durable_offset, data_end, last_base, self.failure is not None, self.aborted_entries, self.aborted_crc,
        )  # fmt: skip

    def publish(self) -> None:
        """Let other processes see the state. Raises what the file does."""
        if self.entry is not None:
            self.entry.publish(self.numbers())

    def note_append(self, batch: BatchHeader) -> None:
        """Count a batch that was appended. Called under `lock`."""
        self.appends += 1
        self.records_appended += batch.last_offset_delta + 1
        self.bytes_appended += batch.size

    def note_sync(self, ns: int) -> None:
        """Count a sync that took so many nanoseconds. Called under `syncing`."""
        self.sync_counts[min((ns // 1000).bit_length(), TIME_CLASSES - 1)] += 1
        self.sync_ns += ns

    def fast_append(
        self, batch: BatchHeader, epoch: int, now_ms: int, at_once: bool = False, guard: object = None,
        is_coordinator: bool = False,
    ) -> Appended | None:  # fmt: skip
        """Append a batch of this process as the leader of `epoch`, and let everybody see it where `rules` say so.

        None where something has to be decided, opened, or done besides: then nothing was done. `at_once`: no Python
        code may run meanwhile, as a signal's handler could. `guard`: see `Appender.append`. `is_coordinator`: the batch
        may be the marker of a commit. Raises what the partition raises when its write or its publishing failed.
        """
        return None

    def fast_sync(self, upto: int) -> bool:
        """Make what lies below `upto` durable, where that is one sync of the active segment's file. Called where no
        signal's handler runs.

        False where something has to be done besides, or `latch` was told of a refusal.
        """
        return False

    def fast_advance(self, offset: int) -> bool | None:
        """Let everybody see what is below `offset`; gives whether that is more than before.

        None where something has to be done besides: then nothing was done.
        """
        return None
