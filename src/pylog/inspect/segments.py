"""The check of one segment: its batches, and every shortcut into them.

    1042.log         each batch: length, magic, CRC, offsets that rise and stay in the segment, leader epochs that
                     never fall, records that decode and are as many, as high and as new as the header says
    1042.index       each entry names the last offset of a batch and the byte where it starts
    1042.timeindex   each entry names the largest timestamp so far and the batch that brought it; the last one of a
                     sealed segment names the largest of all, or searches by time pass over records
    1042.txnindex    aborted transactions in the order of their markers, within the segment

The index files are read before the log: an owner writes a batch before the entry that points at it, so all entries read
lie within the log that is read afterwards, even while an owner appends.

Invariant: bytes never raise, they are Problems; StorageError is the disk's alone.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from pylog.errors import StorageError
from pylog.files import Files, join
from pylog.inspect.dump import aborted_entries, offset_entries, time_entries
from pylog.inspect.scan import Damage, batches, words
from pylog.inspect.values import AbortedEntry, Checked, Problem
from pylog.kernel.format import MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from pylog.protocol.batch import Batch
from pylog.storage.segment_checksum import INDEX_BYTES_MAX

__all__ = ["Facts", "Span", "check_segment"]

STEP_BYTES = 1 << 20
"""How much of a log is read between two reports of progress."""
REBUILD = "close the log everywhere, then delete the file: the next open for writing builds it again from the log"
RESTORE = (
    "keep a copy of the file and restore it from a replica or a backup; what lies before this place can still be read"
)
WRITER = "the CRC is right, so it was written like this: look at the program that wrote it"
CUT = "the next open for writing cuts it off"


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a segment in its partition.

    `first` is the lowest offset it may hold, `end` the base of the next segment.
    """

    directory: str
    base_offset: int
    first: int
    end: int | None
    acknowledged: int | None
    """The end of the log by its last owner; None if that is not known."""

    def path(self, suffix: str) -> str:
        return join(self.directory, f"{self.base_offset:020d}{suffix}")


@dataclass(slots=True)
class Facts:
    """The facts about the batches of a segment, gathered while they are read."""

    next_offset: int
    batches: int = 0
    records: int = 0
    size: int = 0
    index_entries: int = 0
    leader_epoch: int = -1
    damaged_from: int | None = None
    """Position of the first damage: an index cannot be checked against the bytes behind it."""
    starts: dict[int, int] = field(default_factory=dict)
    """Last offset of a batch -> its position."""
    newest: tuple[int, int] = (-1, -1)
    """The largest timestamp so far and the last offset of the first batch that has it."""
    newest_so_far: set[tuple[int, int]] = field(default_factory=set)


def check_segment(
    files: Files, span: Span, suffixes: frozenset[str], epoch: int
) -> Generator[Problem | Checked, None, Facts]:
    """Check the segment at `span`; `suffixes` are those of its files that exist, `epoch` the leader epoch so far.

    Raises: LogNotFound when the `.log` is gone (an owner's retention removed it meanwhile), StorageError (the disk).
    """
    shortcuts = {
        suffix: files.read_file(span.path(suffix), INDEX_BYTES_MAX)
        for suffix in (".index", ".timeindex", ".txnindex")
        if suffix in suffixes
    }
    facts = Facts(next_offset=span.first, leader_epoch=epoch)
    yield from _check_log(files, span, facts)
    if ".index" in shortcuts:
        yield from _check_index(span, facts, shortcuts[".index"])
    if ".timeindex" in shortcuts:
        yield from _check_times(span, facts, shortcuts[".timeindex"])
    if ".txnindex" in shortcuts:
        yield from _check_aborted(span, facts, shortcuts[".txnindex"])
    yield from _missing(span, facts, suffixes)
    return facts


# --- the log --------------------------------------------------------------------------------------------------------


def _check_log(files: Files, span: Span, facts: Facts) -> Iterator[Problem | Checked]:
    path, told, records = span.path(".log"), 0, 0
    file = files.open(path)
    try:
        facts.size = file.size()
        for found in batches(file):
            if found.position - told >= STEP_BYTES:
                yield Checked(path, found.position - told, facts.records - records)
                told, records = found.position, facts.records
            if isinstance(found, Damage):
                if facts.damaged_from is None:
                    facts.damaged_from = found.position
                yield _damage(path, span, facts, found)
                if found.batch is not None:
                    facts.next_offset = max(facts.next_offset, found.batch.last_offset + 1)
                continue
            for what, advice in _batch_problems(span, facts, found.batch):
                yield Problem(path, found.position, found.batch.base_offset, what, advice)
            _note(facts, found.batch, found.position)
        yield Checked(path, facts.size - told, facts.records - records)
    finally:
        file.close()


def _damage(path: str, span: Span, facts: Facts, damage: Damage) -> Problem:
    offset = facts.next_offset if damage.offset is None else damage.offset
    if not (damage.is_torn and span.end is None):
        return Problem(path, damage.position, offset, damage.what, RESTORE)
    if span.acknowledged is not None and facts.next_offset >= span.acknowledged:
        # Everything that was ever shown to a reader is there: an append is under way, or died with its process.
        return Problem(path, damage.position, offset, damage.what, CUT, harmless=True)
    if span.acknowledged is not None:
        return Problem(path, damage.position, offset, damage.what, RESTORE)
    advice = f"{CUT}, unless it had been made durable; if its records were acknowledged, they are lost"
    return Problem(path, damage.position, offset, damage.what, advice)


def _note(facts: Facts, batch: Batch, position: int) -> None:
    facts.batches += 1
    facts.records += batch.count
    facts.next_offset = max(facts.next_offset, batch.last_offset + 1)
    facts.leader_epoch = max(facts.leader_epoch, batch.leader_epoch)
    if facts.damaged_from is None:
        facts.starts[batch.last_offset] = position
        if batch.max_timestamp > facts.newest[0]:
            facts.newest = (batch.max_timestamp, batch.last_offset)
            facts.newest_so_far.add(facts.newest)


def _batch_problems(span: Span, facts: Facts, batch: Batch) -> Iterator[tuple[str, str]]:
    if batch.base_offset < facts.next_offset:
        yield f"its offsets go back: the batch starts at {batch.base_offset}, and {facts.next_offset} is next", RESTORE
    if span.end is not None and batch.last_offset >= span.end:
        yield f"it ends at offset {batch.last_offset}, in the segment that starts at {span.end}", RESTORE
    if batch.last_offset - span.base_offset > MAX_RELATIVE_OFFSET:
        yield f"offset {batch.last_offset} is more than 2^31 - 1 above the segment's base {span.base_offset}", RESTORE
    if 0 <= batch.leader_epoch < facts.leader_epoch:
        yield (
            f"its leader epoch {batch.leader_epoch} is older than {facts.leader_epoch}, which wrote before it",
            RESTORE,
        )
    try:
        # Decoding checks their number and their offsets.
        newest = max((record.timestamp for group, _ in batch.groups("", -1) for record in group), default=None)
    except StorageError as error:
        yield f"its records cannot be decoded: {words(error)}", WRITER
        return
    # The largest time of records that are all from before 1970 is -1 in the header, as Kafka's is.
    if newest is not None and max(newest, NO_TIMESTAMP) != batch.max_timestamp:
        yield f"its newest record has timestamp {newest}, and its header says {batch.max_timestamp}", WRITER


# --- the shortcuts --------------------------------------------------------------------------------------------------


def _tail(path: str, size: int, entry_size: int, used: int, is_last: bool) -> Iterator[Problem]:
    extra = size - used * entry_size
    if extra and is_last:
        what = f"{extra} bytes of reserved space lie behind the last entry, as an unclean stop leaves them"
        yield Problem(path, used * entry_size, None, what, "nothing needs doing", harmless=True)
    elif extra:
        what = f"{extra} bytes behind the last entry are no entries, in a segment that is sealed"
        yield Problem(path, used * entry_size, None, what, REBUILD)


def _first_bad(path: str, entry_size: int, bad: list[tuple[int, int, str]]) -> Iterator[Problem]:
    """One problem for a file, however many of its entries are wrong: they usually have one cause."""
    if bad:
        number, offset, what = bad[0]
        more = f" (and {len(bad) - 1} more entries are wrong)" if len(bad) > 1 else ""
        yield Problem(path, number * entry_size, offset, f"entry {number}: {what}{more}", REBUILD)


def _check_index(span: Span, facts: Facts, data: bytes) -> Iterator[Problem]:
    path = span.path(".index")
    entries = offset_entries(data)
    facts.index_entries += len(entries)
    bad: list[tuple[int, int, str]] = []
    before = -1
    for number, (relative, position) in enumerate(entries):
        offset = span.base_offset + relative
        if facts.damaged_from is not None and position >= facts.damaged_from:
            continue
        start = facts.starts.get(offset)
        if relative <= before:
            bad.append((number, offset, f"relative offset {relative} does not follow {before}"))
        elif start is None:
            bad.append((number, offset, f"no batch of the log ends with offset {offset}"))
        elif start != position:
            bad.append((number, offset, f"it says position {position}, and the batch is at {start}"))
        before = max(before, relative)
    yield from _first_bad(path, 8, bad)
    yield from _tail(path, len(data), 8, len(entries), span.end is None)


def _check_times(span: Span, facts: Facts, data: bytes) -> Iterator[Problem]:
    path = span.path(".timeindex")
    entries = time_entries(data)
    facts.index_entries += len(entries)
    bad: list[tuple[int, int, str]] = []
    before = (-1, -1)
    for number, (timestamp, relative) in enumerate(entries):
        offset = span.base_offset + relative
        if facts.damaged_from is not None and offset not in facts.starts:
            continue
        if timestamp <= before[0] or relative <= before[1]:
            bad.append((number, offset, f"timestamp {timestamp}, relative offset {relative} do not follow {before}"))
        elif (timestamp, offset) not in facts.newest_so_far:
            bad.append((number, offset, f"{timestamp} is not the log's largest timestamp up to there"))
        before = max(before, (timestamp, relative))
    yield from _first_bad(path, 12, bad)
    yield from _tail(path, len(data), 12, len(entries), span.end is None)
    is_sealed = span.end is not None and facts.damaged_from is None
    if is_sealed and not bad and facts.newest[0] > before[0]:
        what = f"the segment's newest timestamp is {facts.newest[0]}, and the last entry says {before[0]}"
        yield Problem(path, None, facts.newest[1], f"{what}: searches by time pass over records", REBUILD)


def _check_aborted(span: Span, facts: Facts, data: bytes) -> Iterator[Problem]:
    path = span.path(".txnindex")
    entries = aborted_entries(data)
    while entries and entries[-1] == AbortedEntry(0, 0, 0, 0, 0):
        # Room for a marker's entry that was not written.
        entries.pop()
    facts.index_entries += len(entries)
    bad: list[tuple[int, int, str]] = []
    before = -1
    for number, entry in enumerate(entries):
        what = _aborted_words(span, entry, before)
        if what:
            bad.append((number, entry.last_offset, what))
        before = max(before, entry.last_offset)
    yield from _first_bad(path, 34, bad)
    if len(data) % 34:
        what = f"{len(data) % 34} bytes at the end are too few for an entry"
        yield Problem(path, len(entries) * 34, None, what, "they are ignored", harmless=True)


def _aborted_words(span: Span, entry: AbortedEntry, before: int) -> str:
    if entry.version != 0:
        return f"version {entry.version}, and only 0 is known"
    if entry.last_offset <= before:
        return f"last offset {entry.last_offset} does not follow {before}"
    if entry.last_offset < span.base_offset or (span.end is not None and entry.last_offset >= span.end):
        return f"last offset {entry.last_offset} is not in this segment"
    if entry.first_offset > entry.last_offset:
        return f"the transaction starts at {entry.first_offset}, behind its end {entry.last_offset}"
    return ""


def _missing(span: Span, facts: Facts, suffixes: frozenset[str]) -> Iterator[Problem]:
    if not facts.batches:
        return
    if ".index" not in suffixes:
        what = "there is no offset index: every read in this segment starts at its first byte"
        yield Problem(span.path(".index"), None, None, what, REBUILD, harmless=True)
    if ".timeindex" not in suffixes and facts.newest[0] >= 0:
        what = "there is no time index: searches by time may pass over this segment"
        yield Problem(span.path(".timeindex"), None, None, what, REBUILD, harmless=span.end is None)
