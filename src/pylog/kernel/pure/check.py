"""A check of the records of a stream that comes in pieces: one after the other, and never kept.

A leader checks with it a payload that a client has compressed: whatever the payload grows to, memory holds no more of
it than a piece and a record.
"""

from pylog.errors import CorruptBatch
from pylog.kernel.format import FAULTS_MOST, LENGTH_BYTES_MAX
from pylog.kernel.pure.decode import decode_records
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.tail import PlainRules
from pylog.kernel.values import CREATE_TIME, BatchScope

Buffer = bytes | bytearray | memoryview

_SCOPE = BatchScope("", -1, -1, CREATE_TIME)


class StreamCheck:
    """A check of `count` records, numbered 0, 1, 2..., none of more than `record_max` bytes behind its length.

    A record is refused that has no key where one is needed, or whose time, unless it is -1, is not in [oldest, latest].
    """

    def __init__(
        self, count: int, base_timestamp: int, record_max: int, needs_key: bool, oldest: int, latest: int
    ) -> None:
        self.count = 0
        """The number of records so far."""
        self.newest = -(2**63)
        """The largest of their timestamps."""
        self.refused = 0
        self.is_untimely = False
        """Whether a record is refused for its time."""
        self.faults: list[tuple[int, int | None]] = []
        """The first refused records: the number of each, and its time; None where it lacks its key."""
        self._expected = count
        self._base_timestamp = base_timestamp
        self._record_max = record_max
        self._needs_key = needs_key
        self._oldest = oldest
        self._latest = latest
        self._rest = bytearray()

    def feed(self, piece: Buffer) -> int:
        """Check the next piece; return how many bytes, with those before, have begun a record that is not whole yet.

        Raises CorruptBatch where the bytes cannot follow, or a record is too large.
        """
        view = memoryview(piece)
        at = 0
        while self._rest:
            # The piece before has begun a record: no more of this one is taken than it needs.
            lacking = _size_of(self._rest, self._record_max) - len(self._rest)
            if lacking == 0:
                self._look_at(self._rest)
                self._rest = bytearray()
            elif at == len(view):
                return len(self._rest)
            else:
                self._rest += view[at : at + lacking]
                at = min(at + lacking, len(view))
        while at < len(view):
            size = _size_of(view[at : at + LENGTH_BYTES_MAX], self._record_max)
            if at + size > len(view):
                break
            self._look_at(view[at : at + size])
            at += size
        self._rest += view[at:]
        return len(self._rest)

    def finish(self) -> None:
        """Raise CorruptBatch unless the stream is complete: so many records, and nothing else."""
        if self._rest or self.count != self._expected:
            raise CorruptBatch(f"the bytes end before record {self.count} of {self._expected} does")

    def _look_at(self, data: Buffer) -> None:
        number = self.count
        if number >= self._expected:
            raise CorruptBatch(f"bytes are left behind the last of {self._expected} records")
        (record,) = decode_records(data, 1, 0, self._base_timestamp, None, _SCOPE)
        if record.offset != number:
            raise CorruptBatch(f"record {number} has the offset delta {record.offset}")
        self.count += 1
        self.newest = max(self.newest, record.timestamp)
        lacks_key = self._needs_key and record.key is None
        if lacks_key or not (self._oldest <= record.timestamp <= self._latest or record.timestamp == -1):
            self.refused += 1
            self.is_untimely |= not lacks_key
            if len(self.faults) < FAULTS_MOST:
                self.faults.append((number, None if lacks_key else record.timestamp))


def prove_header(batch: BatchHeader, rules: PlainRules, now_ms: int, record_max: int) -> bool:
    """Whether one step proves that the header of a client's batch tells the truth, and that the topic takes it as it
    is: then it is `trusted`. Where not, nothing is known of it.

    In Python the step would be the general way, `storage.validator.leader_batch`, so here nothing is proven.
    """
    return False


def _size_of(data: Buffer, record_max: int) -> int:
    """The bytes of the record that begins there, its length included; one more than there are where that is not known.

    Raises CorruptBatch.
    """
    length = shift = 0
    for at, byte in enumerate(data[:LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            length &= 0xFFFFFFFF
            if length & 1 or length >> 1 > record_max:
                raise CorruptBatch(f"a record of {length >> 1 ^ -(length & 1)} bytes is not in [0, {record_max}]")
            return at + 1 + (length >> 1)
    if len(data) >= LENGTH_BYTES_MAX:
        raise CorruptBatch("the length of a record takes more than 5 bytes")
    return len(data) + 1
