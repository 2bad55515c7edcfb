"""The files of one segment: the `.log`, its indexes and its seal, which is held against them when they are opened.

Every file is opened when it is first used. `segment` says what is written to them; `SegmentPaths` where they are, and
`SegmentFiles` whether they are what they were when the segment was sealed.

Invariant: an index that is not what was sealed is never believed (`believed`); a transaction index then raises.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, DiskFull
from pylog.files import File, Files, join
from pylog.files.index_file import Vouch
from pylog.index import OffsetIndex, TimeIndex
from pylog.kernel import Tail
from pylog.storage.file_ranges import DamagedRange
from pylog.storage.log_file import LogFile, first
from pylog.storage.pending_syncs import sync_new
from pylog.storage.segment_checksum import SEAL, Identity, Mark, Seal, SealFile
from pylog.storage.transaction_index import TransactionIndex

LOG = ".log"
SUFFIXES = (LOG, ".index", ".timeindex", ".txnindex", SEAL)
CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"


def rename_or_remove(files: Files, source: str, target: str) -> None:
    """Rename a file that is on its way out, or remove it where a full disk has no room for the new name."""
    try:
        files.rename(source, target)
    except DiskFull:
        files.remove(source)


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment file: Kafka pads the base offset to 20 digits (LogFileUtils)."""
    return f"{base_offset:020d}{suffix}"


def remove_files(files: Files, directory: str, base_offset: int, suffix: str = "") -> None:
    """Remove the files of a segment that are there, the log last."""
    for kind in reversed(SUFFIXES):
        path = join(directory, file_name(base_offset, kind) + suffix)
        if files.stat(path) is not None:
            files.remove(path)


class SegmentPaths:
    """Where the files of one segment are, by the suffixes of their kinds; `suffix` is behind their names."""

    def __init__(self, files: Files, directory: str, base_offset: int, suffix: str) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix

    def of(self, kind: str) -> str:
        """Where the file of one kind is, or would be."""
        return join(self.directory, file_name(self.base_offset, kind) + self.suffix)


class SegmentFiles:
    """The files of one segment. `is_active`: they are being written, or are about to be; else they are sealed.

    It opens the indexes of `tail`.
    """

    def __init__(
        self, paths: SegmentPaths, config: TopicConfig, tail: Tail, *, active: bool, create: bool,
        damages: tuple[DamagedRange, ...], identity: Identity,
    ) -> None:  # fmt: skip
        self.files = files = paths.files
        self.base_offset = paths.base_offset
        self.config = config
        self.is_active = self.is_touched = active
        """`is_touched`: something was written since it was opened, so a sync has to reach it."""
        self._paths = paths
        self._tail = tail
        self._hidden = ""
        self.log = tail.log = LogFile(files, paths.of(LOG), paths.base_offset, create=create, damages=damages)
        self._aborted: TransactionIndex | None = None
        self._kept: dict[str, OffsetIndex | TimeIndex | TransactionIndex] = {}
        self.identity = identity
        self._seal = SealFile(files, paths.of, identity, paths.base_offset, is_new=active and not files.read_only)
        self.log.sealed_bytes = self._seal.log_size

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self.log.path

    @property
    def offsets(self) -> OffsetIndex:
        # Another thread may forget the indexes at any moment.
        found = self._tail.offset_index
        return cast(OffsetIndex, found) if found is not None else self._open_offsets()

    def _open_offsets(self) -> OffsetIndex:
        # Another thread may make one as well just now, and write to it.
        kept, vouch = self._kept, self._voucher(".index")
        limit, path = self.config.segment_index_bytes, self._paths.of(".index") + self._hidden
        made = OffsetIndex(
            self.files, path, self.base_offset, limit, active=self.is_active, vouch=vouch, log_size=self.log.size
        )  # fmt: skip
        self._tail.offset_index = found = first(kept, ".index", made)
        return found

    @property
    def times(self) -> TimeIndex:
        found = self._tail.time_index
        return cast(TimeIndex, found) if found is not None else self._open_times()

    def _open_times(self) -> TimeIndex:
        kept, vouch = self._kept, self._voucher(".timeindex")
        limit, path = self.config.segment_index_bytes, self._paths.of(".timeindex")
        made = TimeIndex(
            self.files, path, self.base_offset, limit, active=self.is_active, vouch=vouch, log_size=self.log.size
        )  # fmt: skip
        self._tail.time_index = found = first(kept, ".timeindex", made)
        return found

    @property
    def aborted(self) -> TransactionIndex:
        """The aborted transactions whose markers lie here. Raises CorruptBatch when they are not what was sealed."""
        found = self._aborted
        if found is None:
            kept, path, vouch = self._kept, self._paths.of(".txnindex"), self._voucher(".txnindex")
            found = TransactionIndex(self.files, path, self.base_offset, vouch=vouch, log_size=self.log.size)
            if not found.believed:
                raise CorruptBatch(
                    "the transaction index is not what it was when its segment was sealed; `pylog repair` writes it "
                    "again from the log", path=path, position=0, offset=self.base_offset,
                )  # fmt: skip
            self._aborted = found = first(kept, ".txnindex", found)
        return found

    def _voucher(self, kind: str) -> Vouch:
        """A function that gives the state of an index file when the segment was sealed."""
        self.refuse_anothers()
        return partial(self._seal.vouches, kind)

    @property
    def sealed(self) -> Seal | None:
        """The seal of the segment, if it has one; it may belong to another segment's files."""
        if not self._seal.is_read:
            is_rewritten = "compact" in self.config.cleanup_policy
            self._seal.read(self.log.size(), is_rewritten=is_rewritten)
        return self._seal.known()

    def ignore_seal(self) -> None:
        """Another program has had the log since it was sealed."""
        self._seal.ignore()

    def refuse_anothers(self) -> None:
        """Raise CorruptBatch for a segment that was sealed as one of another partition."""
        seal = self.sealed
        if seal is not None and self._seal.is_anothers():
            raise CorruptBatch(
                f"it was sealed as a segment of partition {seal.identity.partition} of topic id "
                f"{seal.identity.topic_id}, and this is partition {self.identity.partition} of "
                f"{self.identity.topic_id}: put it back where it belongs. If it was put here on purpose, remove "
                f"{self._paths.of(SEAL)}", path=self.path, position=0, offset=self.base_offset,
            )  # fmt: skip

    @property
    def sealed_end(self) -> int | None:
        """Where the next segment began when this one was sealed, or the log ended; None where that is not known."""
        seal = self.sealed
        return seal.next_offset if seal is not None and seal.log.size == self.log.size() else None

    def lacks_follower(self, end: int) -> int | None:
        """Where a segment began that is missing between this one and the next one, which begins at `end`."""
        sealed_end = self.sealed_end
        if sealed_end is None or sealed_end >= end:
            return None
        if self.files.read_only:
            # The owner may have written on, or may have begun the next segment behind a gap, since it was read.
            self._seal.forget()
            sealed_end = self.sealed_end
        return sealed_end if sealed_end is not None and sealed_end < end else None

    def is_cut(self) -> bool:
        """Whether the `.log` is shorter than it was when it was sealed."""
        seal = self.sealed
        return seal is not None and self.log.size() < seal.log.size

    def is_as_sealed(self) -> bool:
        """Whether all files are what they were when the segment was sealed, as far as that is known.

        Raises CorruptBatch for one of another partition.
        """
        self.refuse_anothers()
        try:
            same = self.aborted.believed and self.offsets.believed and self.times.believed
        except CorruptBatch:
            return False
        seal = self.sealed
        return same and (seal is None or seal.log.size == self.log.size())

    def write_seal(self, next_offset: int) -> None:
        """Write down what the files are: nothing will be written to them for now, and what follows begins at
        `next_offset`. A full disk leaves it unsaid.
        """
        self._seal.write(next_offset, self.log.size())

    def note_read(self, log: Mark, read_ms: int) -> None:
        """Add to the seal what the bytes of the `.log` are, all of which were read and found good."""
        self._seal.note_read(log, read_ms)

    def remove_seal(self) -> None:
        self._seal.remove()

    def open_indexes(self) -> None:
        """Open what is being written at once: two threads that each did so at its first use would have two of them
        (KAFKA-9156).
        """
        _ = self.offsets, self.times, self.aborted

    def remove_indexes(self) -> None:
        for path in (self._paths.of(".index") + self._hidden, self._paths.of(".timeindex")):
            if self.files.stat(path) is not None:
                self.files.remove(path)

    def forget_indexes(self) -> None:
        """Close the index files; the next look-up opens them as they are then."""
        for index in list(self._kept.values()):
            index.close()
        self._kept = {}
        self._tail.offset_index = self._tail.time_index = self._aborted = None

    def hide_index(self) -> None:
        """Have no offset index while the indexes are rebuilt: where a crash ends that, it is begun again."""
        self.forget_indexes()
        self._hidden = ".tmp"
        if self.files.stat(self._paths.of(".index")) is not None:
            self.files.remove(self._paths.of(".index"))

    def show_index(self) -> None:
        """The indexes are whole: put the offset index in its place, behind the others."""
        sync_new(self.to_sync(whole=True))
        self.forget_indexes()
        self._hidden = ""
        self.files.rename(self._paths.of(".index") + ".tmp", self._paths.of(".index"))
        self.files.sync_dir(self._paths.directory)

    # --- the disk ---------------------------------------------------------------------------------------------------

    def to_sync(self, *, whole: bool) -> Iterator[File]:
        """The files that are to be made durable: the batches, and which transactions were aborted, as they could not be
        made again; of a `whole` segment the indexes, which point into these, and the seal.

        What was sealed when it was opened, and still is, was durable then. Raises Closed, of what is closed.
        """
        if self.is_touched:
            yield self.log.to_sync()
            yield from self.aborted.to_sync()
            if whole:
                yield from self.offsets.to_sync()
                yield from self.times.to_sync()
                yield from self._seal.to_sync()

    def retire(self) -> None:
        """Let nothing be written any more. Who reads on may do so beside the next owner, and opens what is there."""
        self.is_active = False
        self.forget_indexes()

    def close(self) -> None:
        """Give the descriptors back."""
        self.log.close()
        self.retire()
        self._seal.close()

    def rename(self, suffix: str) -> None:
        """Give all files of the segment another suffix, the log first. Durable after the directory's sync.

        Raises DiskFull where the directory has no room for the new names; called again, it goes on.
        """
        self._rename(suffix, self.files.rename)

    def discard(self) -> None:
        """Give the files the suffix `.deleted`; those that a full disk has no room to rename are removed at once."""
        self._rename(DELETED, partial(rename_or_remove, self.files))

    def _rename(self, suffix: str, rename: Callable[[str, str], object]) -> None:
        self.forget_indexes()
        for kind in SUFFIXES:
            source = self._paths.of(kind)
            if self.files.stat(source) is not None:
                rename(source, join(self._paths.directory, file_name(self.base_offset, kind) + suffix))
        self._paths.suffix = suffix
        self.log.path = self._paths.of(LOG)

    def remove(self) -> None:
        """Delete the files, the log last: an index without a log is an orphan that the next open removes."""
        self.close()
        remove_files(self.files, self._paths.directory, self.base_offset, self._paths.suffix)
