"""A partition as a process sees it that does not write it: without a lock, as far as its owner has published it.

The offsets come from `.pylog-published` (published.py), and so does a generation, which is odd while the owner changes
files that a reader may know: cuts, drops or replaces them. Whatever is found is looked at only when the generation is
the same as before; where it is odd, an owner may have died at that, so the names of the files have to be the same, too.
The segments are listed when the generation or the last one's base offset has changed, never for a mere append.

Without published offsets (a directory that Kafka wrote, say) the files are read as they lie there: up to the last whole
batch, with the transactions that are open by then.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from pylog.commitlog.partition_reader import PartitionReader
from pylog.commitlog.producer_replay import producers_at
from pylog.commitlog.segments import Segments, logs_among
from pylog.config import TopicConfig
from pylog.errors import Closed, CorruptBatch, LogNotFound, OffsetOutOfRange, ReadOnly
from pylog.files import Files, MemoryFiles
from pylog.kernel.format import OFFSET_MAX
from pylog.runtime.signals import WholeLock
from pylog.segment import Segment
from pylog.storage.checkpoint import read_damages
from pylog.storage.file_ranges import DamagedRange, Slice
from pylog.storage.producer_state import Snapshots, snapshot_offsets
from pylog.storage.published import PublishedEntry, PublishedState
from pylog.storage.segment_checksum import NO_TOPIC, Identity
from pylog.storage.segment_files import LOG, SWAP, SegmentPaths
from pylog.storage.segment_reader import TimestampAndOffset
from pylog.storage.transaction_index import AbortedTxn

LIST_ATTEMPTS = 10
MEASURED: tuple[int, tuple[str, ...]] = (-1, ())

T = TypeVar("T")


class SwappedPaths(SegmentPaths):
    """The files of a segment as they lie there now: its owner may be renaming them, or may have died at that.

    The files of a replacement have the suffix `.swap` until the log, and then its indexes, get their names; a power cut
    may have kept these renames in any order.
    """

    def of(self, kind: str) -> str:
        log, path = super().of(LOG), super().of(kind)
        return path + SWAP if self._lacks(path) or (self._lacks(log) and self._has(path + SWAP)) else path

    def _lacks(self, path: str) -> bool:
        return not self._has(path) and self._has(path + SWAP)

    def _has(self, path: str) -> bool:
        return self.files.stat(path) is not None


class ReadOnlyPartition:
    """A partition whose files another process may be writing. `refresh` looks at what is published now.

    Its offsets are those that were published last, or measured. `is_sealed`: its seals mean something. Not where
    another program has had it since they were written.
    """

    start_offset = 0
    next_offset = 0
    high_watermark = 0
    last_stable_offset = 0
    """What the owner has published; without an owner, the transactions in the log."""
    durable_offset = 0
    data_end = 0
    """Behind the last record in the files."""
    data_end_max = OFFSET_MAX
    """The active segment may be growing."""

    def __init__(
        self, files: Files, directory: str, topic: str, number: int, config: TopicConfig, *,
        find_entry: Callable[[], PublishedEntry | None], find_start: Callable[[], int] = lambda: 0,
        topic_id: UUID = NO_TOPIC, is_sealed: bool = True,
    ) -> None:  # fmt: skip
        self.directory = directory
        self.topic = topic
        self.number = number
        self._files = files
        self._config = config
        self.topic_id = topic_id
        self._is_sealed = is_sealed
        self._damages: dict[int, list[tuple[int, int, int, int]]] = {}
        self._segments = Segments(self._segment)
        self._reader = PartitionReader(directory, f"{topic}-{number}", self, self._segments, is_foreign=True)
        self._find_entry = find_entry
        self._find_start = find_start
        self._entry: PublishedEntry | None = None
        # The generation, and the names of the files where it is odd.
        self._moment: tuple[int, tuple[str, ...]] | None = None
        self._state: PublishedState | None = None
        self._lock = WholeLock()
        self.refresh()

    def follow(self) -> bool:
        """Take over what is published if it is no more than records that came to the end of the last segment; gives
        whether it is. Else nothing was done: a `refresh` is due.
        """
        with self._lock:
            before = self._state
            state = self._entry.read() if self._entry is not None else None
            if state is None or before is None or state.generation % 2 == 1:
                return False
            same = state.generation == before.generation and state.last_base == before.last_base
            if same and state.high_watermark > before.high_watermark:
                self._take_over(state)
                return True
            return False

    def refresh(self) -> None:
        """Take over the published offsets. Without any, the files themselves say where the log ends."""
        with self._lock:
            state = self._entry.read() if self._entry is not None else self._find_published()
            if state is None and self._moment is None:
                self._measure()
                # An owner may have made it just now: what it has appended and not published yet was measured, too.
                state = self._find_published()
            if state is not None and (state is not self._state or state.generation % 2 == 1):
                self._take_over(state)

    def _take_over(self, state: PublishedState) -> None:
        changing = state.generation % 2 == 1
        moment = state.generation, tuple(self._files.list_dir(self.directory)) if changing else ()
        if moment != self._moment:
            self._load_segments(anew=True)
        elif self._state is None or state.last_base != self._state.last_base:
            # One readdir a roll, and none for what is appended: the last segment follows its file by itself.
            self._load_segments(anew=False)
        # In this order: a thread without the lock may look meanwhile, and is not to find an end below the start.
        self.next_offset = state.next_offset
        self.start_offset = state.start_offset
        self.high_watermark = state.high_watermark
        self.durable_offset = state.durable_offset
        self.last_stable_offset = state.last_stable_offset
        self.data_end = state.data_end
        self._moment = moment
        self._state = state

    def _find_published(self) -> PublishedState | None:
        # An owner may have come since the last look.
        self._entry = self._find_entry()
        return self._entry.read() if self._entry is not None else None

    def _segment(self, base_offset: int) -> Segment:
        damages = tuple(DamagedRange(*part) for part in self._damages.get(base_offset, ()))
        segment = Segment(
            self._files, self.directory, base_offset, self._config, active=True, damages=damages,
            identity=Identity(self.topic_id, self.number), paths=SwappedPaths,
        )  # fmt: skip
        if not self._is_sealed:
            segment.on_disk.ignore_seal()
        return segment

    def _load_segments(self, *, anew: bool) -> None:
        """List the segments; each follows the growth of its files by itself."""
        for _ in range(LIST_ATTEMPTS - 1):
            # A replacement may get its name after it was listed.
            with suppress(LogNotFound, ReadOnly):
                self._list_segments(anew=anew)
                return
        self._list_segments(anew=anew)

    def _list_segments(self, *, anew: bool) -> None:
        names = self._files.list_dir(self.directory)
        bases = logs_among(names)
        before = self._segments
        if not anew and bases[: len(before)] == before.bases:
            for base in bases[len(before) :]:
                before.add(self._segment(base))
            return
        self._damages = read_damages(self._files, self.directory)
        for base in logs_among(name.removesuffix(SWAP) for name in names if name.endswith(SWAP)):
            if base not in bases:
                bases = self._swapped_in(base, bases)
        for segment in before.load(bases):
            segment.close()

    def _swapped_in(self, base_offset: int, bases: list[int]) -> list[int]:
        """With a replacement that has not got its name yet, instead of what is left of the segments it replaces."""
        segment = self._segment(base_offset)
        segment.load()
        segment.close()
        kept = [base for base in bases if not base_offset <= base < segment.next_offset]
        return sorted([*kept, base_offset])

    def _measure(self) -> None:
        self._load_segments(anew=True)
        self._moment = MEASURED
        if len(self._segments) == 0:
            return
        active = self._segments.active
        active.load()
        self.start_offset = max(self._find_start(), self._segments.start)
        self.next_offset = self.high_watermark = self.durable_offset = self.data_end = active.next_offset
        self.last_stable_offset = self._measure_stable_offset()

    def _measure_stable_offset(self) -> int:
        """Where the first open transaction begins: by the newest good snapshot, and the log behind it."""
        snapshots = Snapshots(self._files, self.directory, snapshot_offsets(self._files, self.directory))
        name = f"{self.topic}-{self.number}"
        producers = producers_at(snapshots, list(self._segments), name, self.start_offset, self.next_offset)
        producers.advance(self.next_offset)
        unstable = producers.first_unstable_offset
        return self.next_offset if unstable is None else max(unstable, self.start_offset)

    # --- reading ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<ReadOnlyPartition {self.topic}-{self.number} [{self.start_offset}, {self.next_offset})>"

    @property
    def segments(self) -> list[tuple[Segment, int]]:
        """See `PartitionReader.segments`."""
        return self._reader.segments

    @property
    def size(self) -> int:
        """See `PartitionReader.size`."""
        return self._reader.size

    def _steadily(self, look: Callable[[], T]) -> T:
        """The result of `look`, or its error, from a moment in which the owner has not changed files: else it looks
        again.
        """
        while True:
            moment = self._moment
            try:
                found = look()
            except (Closed, CorruptBatch, LogNotFound, OffsetOutOfRange, ReadOnly):
                self.refresh()
                if moment == self._moment:
                    raise
                continue
            self.refresh()
            if moment == self._moment:
                return found

    def read(self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False) -> Slice | None:
        """See `PartitionReader.read`. Always in memory: what is read later could be anything by then."""
        return self._steadily(lambda: self._read(offset, max_bytes, min(upto, self.high_watermark)))

    def _read(self, offset: int, max_bytes: int, upto: int) -> Slice | None:
        reader = self._reader
        return reader.read_on(offset, max_bytes, upto) or reader.read(offset, max_bytes, upto=upto)

    def read_stable(
        self, offset: int, max_bytes: int, *, upto: int, as_extent: bool = False
    ) -> tuple[Slice | None, list[AbortedTxn]]:
        """See `Partition.read_stable`; in memory, as what `read` gives."""

        def look() -> tuple[Slice | None, list[AbortedTxn]]:
            found = self.read(offset, max_bytes, upto=min(upto, self.last_stable_offset))
            return found, self._aborted(offset, found.next_offset) if found is not None else []

        return self._steadily(look)

    def _aborted(self, start: int, upto: int) -> list[AbortedTxn]:
        """See `PartitionReader.aborted`. Raises CorruptBatch where the index is not what its owner has published."""
        segment, state = self._segments.active, self._state
        is_published = state is not None and segment.base_offset == state.last_base
        if state is not None and is_published and not segment.aborted.matches(state.aborted_entries, state.aborted_crc):
            raise CorruptBatch(
                "the transaction index is not what its owner has published; `pylog repair` writes it again from "
                "the log", path=segment.aborted.path, position=0, offset=start,
            )  # fmt: skip
        return self._reader.aborted(start, upto)

    def max_timestamp(self, upto: int) -> TimestampAndOffset | None:
        """See `PartitionReader.max_timestamp`."""
        return self._steadily(lambda: self._reader.max_timestamp(upto, self._largest_timestamp))

    def _largest_timestamp(self, segment: Segment) -> int:
        if segment is not self._segments.active:
            return segment.largest_timestamp
        # Its index is behind: the owner has the newest timestamps in memory until it rolls.
        return segment.end_finder.find().timestamp

    def offset_for_time(self, timestamp: int, *, upto: int) -> TimestampAndOffset | None:
        """See `PartitionReader.offset_for_time`."""
        return self._steadily(lambda: self._reader.offset_for_time(timestamp, upto=upto))

    def check(self) -> None:
        """See `PartitionReader.check`."""
        self._steadily(self._reader.check)

    def close(self) -> None:
        """Give the descriptors back."""
        for segment in self._segments.made:
            segment.close()


def without_files(directory: str, topic: str, number: int, config: TopicConfig) -> ReadOnlyPartition:
    """A partition that nothing was written to: what lies in its directory, if anything does, is not of it."""
    files = MemoryFiles()
    files.make_dir(directory)
    return ReadOnlyPartition(files, directory, topic, number, config, find_entry=lambda: None)
