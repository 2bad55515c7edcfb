"""A `.log` file: batches one after the other, nothing else, found again by walking from header to header.

    00000000000000001042.log         [ batch ][ batch ][ batch ] ...      (kafka-format: FileRecords)

Bytes are appended whole, in one write, and never changed; only `truncate` makes the file shorter. Where a part of the
file is known to be damaged it is stepped over: reading what was in it raises CorruptBatch, the rest stays readable.

Invariants: offsets rise from batch to batch; a walk never trusts a length that leads behind the end of the file.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pylog.errors import CorruptBatch, LogNotFound
from pylog.files import File, Files
from pylog.kernel import HEADER_BYTES, LOG_OVERHEAD, Spans, walk

WINDOW_BYTES = 1 << 20
MAX_RELATIVE_OFFSET = 2**31 - 1

_PREFIX = struct.Struct(">qii7xi")  # base offset, batch length, leader epoch, (...), last offset delta
_MIN_LENGTH = HEADER_BYTES - LOG_OVERHEAD
_ADVICE = "run `pylog verify` to see all damage, and `pylog repair` to give up what cannot be read"


class Slice(NamedTuple):
    """Whole batches read from one file."""

    data: memoryview
    path: str
    position: int
    """Where in the file `data` begins."""
    next_offset: int
    """Behind the last offset in `data`."""


class Fault(NamedTuple):
    """Where a file stops making sense: everything before `position` is good."""

    path: str
    position: int
    offset: int
    """The offset the bad batch should have begun with, or a later one."""
    reason: str


class Damage(NamedTuple):
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


class Wanted(NamedTuple):
    """What a reader asks of a file: batches from `offset` on that begin below `upto`.

    `end` is above every offset that the file can hold, as far as its reader knows; what begins below `written` was
    whole when that was the end of the log, and ends there at the latest.
    """

    offset: int
    upto: int
    end: int
    max_bytes: int
    written: int


class _Walk:
    """How far a walk has come: where the next batch may begin, and the leader epoch of the last one."""

    __slots__ = ("epoch", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.epoch = -1


class LogFile:
    """The batches of one segment. One writer; reading takes no lock. The file is opened at its first use."""

    def __init__(
        self, files: Files, path: str, base_offset: int, *, create: bool = False, damages: tuple[Damage, ...] = ()
    ) -> None:
        self.files = files
        self.path = path
        self.base_offset = base_offset
        self.damages = damages
        self.sealed_size = 0
        """How large the file was when it was sealed; 0 where that is not known."""
        self._file: File | None = files.open(path, create=True) if create else None
        self._closed_size: int | None = None
        self._cuts = 0
        self._following = (-1, 0, 0)  # where the last read ended, and after how many cuts: the next one needs no index

    @property
    def file(self) -> File:
        """The open file. Raises LogNotFound when it is gone."""
        if self._file is None:
            self._file = self.files.open(self.path)
        return self._file

    def size(self) -> int:
        """Bytes of the file. Raises LogNotFound when it is gone."""
        if self._file is not None:
            return self._file.size()
        if self._closed_size is None or self.files.read_only:
            stat = self.files.stat(self.path)
            if stat is None:
                raise LogNotFound(f"{self.path} is gone: it was deleted, or the log directory was moved")
            self._closed_size = stat.size
        return self._closed_size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Write whole batches behind what is there; gives where they begin.

        Raises: DiskFull (nothing was written), StorageError (the file is in doubt: the caller latches).
        """
        file = self._file or self.file
        position = file.size()
        file.write(position, data)
        return position

    @property
    def ends_damaged(self) -> bool:
        """Whether the last thing in the file is a damaged part: nothing should follow it there."""
        return bool(self.damages) and self.damages[-1].end >= self.size()

    def truncate(self, position: int) -> None:
        """Cut the file at `position`, the start of a batch."""
        self.file.truncate(position)
        self._cuts += 1
        self.damages = tuple(damage for damage in self.damages if damage.position < position)

    def close(self) -> None:
        """Give the descriptor back; reading opens the file again."""
        if self._file is not None:
            self._closed_size = self._file.size() if not self.files.read_only else None
            self._file.close()
            self._file = None

    # --- reading ---------------------------------------------------------------------------------------------------

    def after_last(self, offset: int) -> int | None:
        """Where `offset` begins if the last read ended right before it."""
        following, position, valid = self._following
        return position if following == offset and valid == self._cuts else None

    def read(self, wanted: Wanted, position: int, *, expected: int, window: int) -> Slice | None:
        """Whole batches from the one that holds `wanted.offset` on, looked for from `position`, where a batch begins
        that has no offset below `expected`.

        At least one even if it is too large; None when there is nothing in [offset, upto) up to the end of the file.
        Raises CorruptBatch when the headers on the way make no sense, or when the offset lies in a damaged part.
        """
        size, cuts = self.size(), self._cuts
        for damage in self.damages:
            if damage.end <= position and damage.next_offset <= wanted.offset:
                continue
            found = self._read(wanted, position, damage.position, cuts, expected, window)
            if found is not None or damage.offset >= wanted.upto:
                return found
            if wanted.offset < damage.next_offset:
                raise self.damaged(damage)
            position, expected = damage.end, damage.next_offset
        found = self._read(wanted, position, size, cuts, expected, window)
        if found is None and size < self.sealed_size:
            raise self._nonsense(f"the file was cut: {size} bytes are left of {self.sealed_size}", size, wanted.offset)
        return found

    def ends_with(self, position: int, last_offset: int) -> bool:
        """Whether the batch at `position` has `last_offset` for its last, as an index entry says."""
        head = self.file.read(position, _PREFIX.size)
        if len(head) < _PREFIX.size:
            return False
        base, _, _, last_delta = _PREFIX.unpack(head)
        return bool(base + last_delta == last_offset)

    def damaged(self, damage: Damage) -> CorruptBatch:
        """The error for reading what lies in a damaged part."""
        return CorruptBatch(
            f"offsets {damage.offset} to {damage.next_offset - 1} are damaged ({damage.end - damage.position} bytes) "
            f"and cannot be read; go on at offset {damage.next_offset}, or {_ADVICE}",
            path=self.path, position=damage.position, offset=damage.offset,
        )  # fmt: skip

    def _read(self, wanted: Wanted, position: int, size: int, cuts: int, expected: int, window: int) -> Slice | None:
        walked = _Walk(expected)
        while position < size:
            data = self.file.read(position, min(window, size - position))
            begin, end, least = self._cut(data, position, wanted, walked)
            if end > begin:
                if position + end < size:
                    head = data[end : end + _PREFIX.size]
                    self.check_following(position + end, walked.offset, walked.epoch, head)
                self._following = (walked.offset, position + end, cuts)
                return Slice(memoryview(data)[begin:end], self.path, position + begin, walked.offset)
            if least == 0:
                return None
            if len(data) < min(window, size - position) or (begin == 0 and len(data) == size - position):
                raise self._nonsense(f"{len(data)} bytes are too few for the batch they begin", position, wanted.offset)
            position += begin
            window = max(window, least)
        return None

    def _nonsense(self, what: str, position: int, offset: int) -> CorruptBatch:
        return CorruptBatch(
            f"{what}; {_ADVICE}", path=self.path, position=position, offset=max(offset, self.base_offset)
        )

    def _cut(self, data: bytes, at: int, wanted: Wanted, walked: _Walk) -> tuple[int, int, int]:
        """Which whole batches in `data`, which lies at `at` in the file, are wanted: (begin, end, 0).

        Nothing and a third number above 0: read on from begin, at least so many bytes.
        """
        position, size, begin = 0, len(data), -1
        offset, upto, end, max_bytes, written = wanted
        written_end = min(end, written)
        while position + _PREFIX.size <= size:
            base, length, epoch, last_delta = _PREFIX.unpack_from(data, position)
            if upto <= base < end:
                return max(begin, 0), position if begin >= 0 else 0, 0
            limit = written_end if base < written else end
            if (
                length < _MIN_LENGTH
                or last_delta < 0
                or base < walked.offset
                or base + last_delta >= limit
                or epoch < walked.epoch
            ):
                raise self._nonsense(_misfit(base, length, epoch, last_delta, limit, walked), at + position, offset)
            following = position + LOG_OVERHEAD + length
            if begin < 0 and base + last_delta >= offset:
                begin = position
            if begin >= 0 and (following > size or (position > begin and following - begin > max_bytes)):
                break
            walked.offset, walked.epoch = base + last_delta + 1, epoch
            position = following
            if walked.offset >= upto:
                # What follows is nobody's business yet, and another process may be writing it right now.
                return max(begin, 0), position if begin >= 0 else 0, 0
        if begin < 0:
            return position, position, WINDOW_BYTES
        if position == begin:
            return begin, begin, LOG_OVERHEAD + int(_PREFIX.unpack_from(data, begin)[1])
        return begin, position, 0

    def check_following(self, position: int, offset: int, epoch: int, head: bytes = b"") -> None:
        """Whether the batch at `position`, if there is one, can follow one that ends before `offset`: no CRC covers
        where a batch says that it is. `head` is what of it was read already. Raises CorruptBatch.
        """
        if len(head) < _PREFIX.size:
            head = self.file.read(position, _PREFIX.size)
        if len(head) < _PREFIX.size or any(damage.position == position for damage in self.damages):
            return
        base, length, following, _ = _PREFIX.unpack_from(head)
        # No length: reserved space.
        if length != 0 and (base < offset or following < epoch):
            raise self._nonsense(
                f"a batch at offset {base} with leader epoch {following} follows offset {offset - 1} with epoch "
                f"{epoch}", position, offset,
            )  # fmt: skip

    def scan(self, position: int = 0, *, check_crc: bool, expected: int | None = None) -> Iterator[Window]:
        """Walk the file from `position`, window by window; a Fault ends the walk, damaged parts are stepped over.

        `expected` is the lowest offset that may come first.
        """
        expected = self.base_offset if expected is None else expected
        for damage in (*self.damages, None):
            stop = self.size() if damage is None else damage.position
            for window in self._scan(position, stop, expected, check_crc):
                if window.spans:
                    expected = window.spans[-1].last_offset + 1
                yield window
                if window.fault is not None:
                    return
            if damage is not None:
                position, expected = max(position, damage.end), max(expected, damage.next_offset)
        size = self.size()
        if size < self.sealed_size:
            reason = f"the file was cut: {size} bytes are left of {self.sealed_size}"
            yield Window(b"", size, Spans(), Fault(self.path, size, expected, reason))

    def _scan(self, position: int, size: int, expected: int, check_crc: bool) -> Iterator[Window]:
        length = WINDOW_BYTES
        while position < size:
            data = self.file.read(position, min(length, size - position))
            spans, valid, reason = walk(data, check_crc=check_crc)
            good = spans.rising(expected, self.base_offset + MAX_RELATIVE_OFFSET)
            if good < len(spans):
                good, expected, reason = self._out_of_order(spans, good, expected)
                valid = spans[good].position
                spans = spans.until(good)
            elif spans:
                expected = spans[-1].last_offset + 1
            if reason is None and valid == 0 and len(data) < size - position:
                length *= 4
                continue
            if reason is None and valid < len(data) == size - position:
                reason = f"{len(data) - valid} bytes are too few for the batch they begin"
            fault = None if reason is None else Fault(self.path, position + valid, expected, reason)
            # Behind a fault nobody asks for more.
            yield Window(data, position, spans, fault)
            position += valid
            length = WINDOW_BYTES

    def _out_of_order(self, spans: Spans, index: int, expected: int) -> tuple[int, int, str]:
        """The batch to blame where the one at `index` does not follow, what was expected there, and the reason."""
        ends = [expected, *(span.last_offset + 1 for span in spans[max(index - 2, 0) : index])]
        base_offset, before = spans[index].base_offset, ends[-2:][0]
        reason = f"offset {base_offset} does not follow {ends[-1] - 1} in this segment"
        if index > 0 and before <= base_offset and before < spans[index - 1].base_offset:
            # Without the last batch, which left a gap, this one would fit.
            return index - 1, before, reason
        return index, ends[-1], reason

    def resume_after(self, fault: Fault) -> tuple[int, int] | None:
        """Where, behind a fault, the next whole batch with a right CRC and a following offset begins, and its offset.

        Looks at every byte that could be the magic of a header; the bytes in between are what the fault has cost.
        """
        position, size = fault.position + 1, self.size()
        while position + HEADER_BYTES <= size:
            data = self.file.read(position, min(WINDOW_BYTES, size - position))
            at = data.find(b"\x02", 16)
            while at >= 0:
                start = position + at - 16
                base_offset = self._batch_at(start, size, fault.offset)
                if base_offset is not None:
                    return start, base_offset
                at = data.find(b"\x02", at + 1)
            position += max(len(data) - 16, 1)
        return None

    def _batch_at(self, position: int, size: int, expected: int) -> int | None:
        head = self.file.read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        base, length, _, last_delta = _PREFIX.unpack_from(head)
        if not _MIN_LENGTH <= length <= size - position - LOG_OVERHEAD or last_delta < 0:
            return None
        if not expected <= base <= base + last_delta <= self.base_offset + MAX_RELATIVE_OFFSET:
            return None
        spans, _, _ = walk(self.file.read(position, LOG_OVERHEAD + length), check_crc=True)
        return int(base) if len(spans) == 1 else None


def _misfit(base: int, length: int, epoch: int, last_delta: int, limit: int, walked: _Walk) -> str:
    """Why a batch header cannot be: what the CRC does not cover has to follow from its neighbours."""
    last = base + last_delta
    if length < _MIN_LENGTH or last_delta < 0:
        return f"a batch header says length {length} and last offset delta {last_delta}"
    if base < walked.offset or last >= limit:
        return f"a batch header says offsets {base} to {last}, which cannot be between {walked.offset} and {limit}"
    return f"a batch header says leader epoch {epoch} after epoch {walked.epoch}"
