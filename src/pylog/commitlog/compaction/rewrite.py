"""The two passes over files: note the keys of the dirty part, then write a group of segments as one.

    0000...0000.log  0000...0100.log  0000...0200.log        read, window by window, CRCs checked
                \\          |          /
              0000...0000.log.cleaned (.index .timeindex .txnindex)      written, synced, swapped in by the partition

Both are generators: they yield after each window how many bytes they read, and the caller that drives them may wait
there, or stop: a generator that is closed removes what it has written. What a pass holds at a time is a window of about
a MiB (or one batch, where that is larger), what comes out of it, and the key map. Damaged input raises CorruptBatch;
nothing of the log was changed then. (Kafka: Cleaner.buildOffsetMap, cleanSegments.)
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pylog.commitlog.compaction.filter import spans_of
from pylog.commitlog.compaction.offset_map import KeyMap
from pylog.commitlog.compaction.rules import Rules
from pylog.commitlog.compaction.transactions import CleanedTransactionMetadata
from pylog.errors import CorruptBatch, DiskFull
from pylog.kernel import walk
from pylog.protocol.batch import Batch
from pylog.segment import Segment
from pylog.storage.pending_syncs import sync_new
from pylog.storage.segment_files import CLEANED, remove_files
from pylog.storage.transaction_index import AbortedTxn


@dataclass(slots=True)
class CleanerStats:
    """The counts of the second pass."""

    bytes_read: int = 0
    bytes_kept: int = 0
    records_read: int = 0
    records_kept: int = 0


def note_keys(
    keys: KeyMap,
    segments: Sequence[tuple[Segment, int]],
    transactions: CleanedTransactionMetadata,
    *,
    first_offset: int,
) -> Iterator[int]:
    """Put the keys of `segments` (each with the offset at which it ends) into the map, until it is full.

    Afterwards the map's `latest_offset` is the last one that this pass may clean. It steps over gaps in the offsets,
    or a pass would find them dirty for ever (KAFKA-8764). Raises CorruptBatch.
    """
    for segment, end in segments:
        position = segment.offsets.lookup(first_offset, log_size=segment.size)[1]
        for batches, size in _windows(segment, position):
            for batch, at in batches:
                try:
                    if not _note(batch, keys, transactions, first_offset):
                        return
                except CorruptBatch as error:
                    raise _located(error, segment, at) from None
            yield size
        keys.latest_offset = max(keys.latest_offset, end - 1)


def _note(batch: Batch, keys: KeyMap, transactions: CleanedTransactionMetadata, first_offset: int) -> bool:
    if batch.is_control:
        transactions.end(batch)
    elif not transactions.is_aborted(batch) and batch.count and not keys.put(spans_of(batch), first_offset):
        return False
    if batch.last_offset >= first_offset:
        keys.latest_offset = batch.last_offset
    return True


def rewrite(
    group: Sequence[tuple[Segment, int]],
    rules: Rules,
    aborted: Callable[[int, int], Iterable[AbortedTxn]],
    tally: CleanerStats,
) -> Generator[int, None, Segment]:
    """Write what `rules` keep of neighbouring segments into one of the first one's base offset; gives it, synced.

    `aborted` gives the aborted transactions with records in a range of offsets. Raises CorruptBatch, and DiskFull and
    other StorageErrors of the files; nothing is left behind then.
    """
    first = group[0][0]
    try:
        cleaned = Segment(
            first.files, first.directory, first.base_offset, first.config, active=True, create=True, suffix=CLEANED,
            identity=first.on_disk.identity,
        )  # fmt: skip
    except DiskFull:
        remove_files(first.files, first.directory, first.base_offset, CLEANED)
        raise
    try:
        for segment, end in group:
            # Of the whole segment, clean or dirty: its transaction index is rewritten (KAFKA-13727).
            rules.transactions.add(aborted(segment.base_offset, end))
            yield from _copy(segment, cleaned, rules, tally)
        cleaned.seal(group[-1][1])
        sync_new(cleaned.on_disk.to_sync(whole=True))
        # The age of a segment without timestamps, by which retention goes.
        first.files.set_modified(cleaned.path, group[-1][0].modified_ms() * 1_000_000)
    except BaseException:
        cleaned.remove()
        raise
    return cleaned


def _copy(segment: Segment, cleaned: Segment, rules: Rules, tally: CleanerStats) -> Iterator[int]:
    for batches, size in _windows(segment, 0):
        kept = []
        for batch, at in batches:
            try:
                found = rules.apply(batch)
            except CorruptBatch as error:
                raise _located(error, segment, at) from None
            tally.records_read += found.records_read
            tally.records_kept += found.records_kept
            if found.batch is not None:
                kept.append(found.batch)
        if kept:
            data = b"".join([batch.data for batch in kept])
            cleaned.append(data, walk(data, check_crc=False)[0])
            tally.bytes_kept += len(data)
        for entry in rules.aborted:
            cleaned.aborted.append(entry)
        rules.aborted.clear()
        tally.bytes_read += size
        yield size


def _windows(segment: Segment, position: int) -> Iterator[tuple[list[tuple[Batch, int]], int]]:
    """The batches of a segment from `position` on, each with its position, and how many bytes they are."""
    for damage in segment.log.damages:
        raise segment.log.damaged(damage)
    for data, start, spans, fault in segment.scan(position, check_crc=True):
        if fault is not None:
            raise CorruptBatch(fault.reason, path=fault.path, position=fault.position, offset=fault.offset)
        view = memoryview(data)
        batches = [(Batch(view[span.position : span.position + span.size]), start + span.position) for span in spans]
        yield batches, sum(span.size for span in spans)


def _located(error: CorruptBatch, segment: Segment, position: int) -> CorruptBatch:
    return CorruptBatch(error.reason, path=segment.path, position=position, offset=error.offset)
