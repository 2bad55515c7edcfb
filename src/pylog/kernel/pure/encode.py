"""Rows to a record stream: a list at once, or one after the other into an open batch."""

from collections.abc import Iterable, Sequence

from pylog.kernel.format import HEADER_BYTES, MAX_TIMESTAMP, RECORD_OVERHEAD_MAX
from pylog.kernel.pure.records import ConsumerRecord, Record
from pylog.kernel.pure.varint import NONE, NULL, SIZED, VARINTS, varint
from pylog.kernel.values import Headers, check_fields, checked_headers

Row = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes | None]]]


def _row(record: Record | ConsumerRecord | Row, records_only: bool) -> Row:
    if isinstance(record, Record):
        return record._fields()
    if isinstance(record, ConsumerRecord):
        return record.value, record.key, record.timestamp, record.headers
    if records_only:
        raise TypeError(f"a record is {type(record).__name__}, not pylog.Record: pylog.Record(value=...)")
    return record


def encode_records(
    rows: Iterable[Row | Record | ConsumerRecord],
    now_ms: int,
    reserve: int = HEADER_BYTES,
    records_only: bool = False,
) -> tuple[bytearray, int, int, int]:
    """Encode records, new or read ones, or (value, key, timestamp, headers) rows, with offset deltas 0, 1, 2...

    A timestamp of None is `now_ms`.

    Returns `reserve` zero bytes followed by the record stream, the count, the base timestamp (the first record's) and
    the largest. No rows: (zeros, 0, -1, -1). Raises ValueError for a timestamp below -1 or beyond 64 bits, TypeError
    for a key or value that is not bytes, and with `records_only` for rows that are not records.
    """
    varints, sized = VARINTS, SIZED
    parts = [bytes(reserve)]
    extend = parts.extend
    base = newest = delta = -1
    last, age, fixed = None, b"", 0
    for delta, row in enumerate(rows):
        value, key, timestamp, headers = _row(row, records_only)
        if timestamp is None:
            timestamp = now_ms
        if timestamp != last:
            # Neighbours often share their millisecond: the bytes of its delta are made when it changes.
            if not -1 <= timestamp <= MAX_TIMESTAMP:
                raise ValueError(f"timestamp {timestamp} of record {delta} is not in [-1, 2**63): -1 means none")
            if delta == 0:
                base = newest = timestamp
            elif timestamp > newest:
                newest = timestamp
            last = timestamp
            age = b"\x00" + varint(timestamp - base if timestamp - base < 2**63 else -(2**63))  # wraps, as in Java
            fixed = len(age) + 1
        try:
            offset = varints[delta]
            if key is None:
                key_bytes, key_head, size = b"", NULL, fixed + 1
            else:
                n = len(key)
                key_bytes, key_head, size = key, varints[n], fixed + sized[n]
            if value is None:
                value_bytes, value_head, size = b"", NULL, size + 1
            else:
                n = len(value)
                value_bytes, value_head, size = value, varints[n], size + sized[n]
            tail = NONE
            if headers:
                tail = _encode_headers(headers)
                size += len(tail) - 1
            extend((varints[size + len(offset)], age, offset, key_head, key_bytes, value_head, value_bytes, tail))
        except IndexError:
            extend(_encode_long(age, delta, key, value, headers))
    return bytearray().join(parts), delta + 1, base, newest


def _encode_long(
    age: bytes, delta: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> list[bytes]:
    """A record with a length or delta that is not in the table."""
    parts = [age, varint(delta)]
    for data in (key, value):
        parts += (NULL,) if data is None else (varint(len(data)), data)
    parts.append(_encode_headers(headers))
    return [varint(sum(map(len, parts))), *parts]


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [varint(len(headers))]
    append = parts.append
    for name, value in headers:
        data = name.encode()
        append(varint(len(data)))
        append(data)
        if value is None:
            append(NULL)
        else:
            append(varint(len(value)))
            append(value)
    return b"".join(parts)


class OpenBatch:
    """A record stream to which records are added one by one, of at most `limit` bytes and one record at least.

    `limit` counts `reserve`, the room for a batch header, as `size` does. Not for two threads at once.
    """

    def __init__(self, limit: int, reserve: int = HEADER_BYTES) -> None:
        self.limit = limit
        self.size = reserve
        """The exact number of bytes that `close` will give."""
        self._reserve = reserve
        self._rows: list[Row] | None = []
        self._base = -1
        self._drained = 0

    @property
    def count(self) -> int:
        """The number of records."""
        return self._drained + len(self._rows or ())

    def add(
        self,
        value: bytes | None,
        key: bytes | None,
        timestamp: int,
        headers: Headers = (),
    ) -> int:
        """Add a record; return its number in the batch, or -1 when it does not fit: then nothing was added.

        The first record always fits. Raises what `Record` does, ValueError when the batch is closed.
        """
        check_fields(value, key, timestamp)
        headers = checked_headers(headers) if headers else ()
        rows = self._rows
        if rows is None:
            raise ValueError("this batch is closed: add to a new one")
        number = self._drained + len(rows)
        base = self._base if number else timestamp
        size = _record_size(number, value, key, timestamp - base, headers)
        if number and self.size + size > self.limit:
            return -1
        self._base = base
        self.size += size
        rows.append((value, key, timestamp, headers))
        return number

    def close(self) -> tuple[bytearray, int, int, int]:
        """The stream, as `encode_records` gives it; nothing can be added to it now. Raises ValueError when closed."""
        if self._rows is None:
            raise ValueError("this batch is closed")
        rows, self._rows = self._rows, None
        self._drained += len(rows)
        return encode_records(rows, -1, self._reserve)

    def drain(self) -> bytearray:
        """The bytes added since the last time, behind `reserve` zero bytes at the first; the numbers of records go on.

        Raises ValueError when closed.
        """
        if self._rows is None:
            raise ValueError("this batch is closed")
        drained = bytearray(self.size if not self._rows and not self._drained else self._reserve)
        for number, (value, key, timestamp, headers) in enumerate(self._rows, self._drained):
            assert timestamp is not None, "the time of a record is known when it is added"
            age = b"\x00" + varint(timestamp - self._base if timestamp - self._base < 2**63 else -(2**63))
            drained += b"".join(_encode_long(age, number, key, value, headers))
        self._drained += len(self._rows)
        self._rows, self._reserve, self.size = [], 0, 0
        return drained


def _record_size(
    delta: int, value: bytes | None, key: bytes | None, age: int, headers: tuple[tuple[str, bytes | None], ...]
) -> int:
    """The number of bytes of a record, its length included."""
    size = 1 + len(varint(age if age < 2**63 else -(2**63))) + len(varint(delta)) + len(_encode_headers(headers))
    for data in (value, key):
        size += 1 if data is None else len(varint(len(data))) + len(data)
    return len(varint(size)) + size


def record_size_bound(value: bytes | None, key: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> int:
    """The largest number of bytes that a record can take (DefaultRecord.recordSizeUpperBound)."""
    size = RECORD_OVERHEAD_MAX + _sized(key) + _sized(value) + 1
    if headers:
        size += 4
        for name, content in headers:
            size += _sized(name.encode()) + _sized(content)
    return size


def _sized(data: bytes | None) -> int:
    if data is None:
        return 1
    size = len(data)
    return SIZED[size] if size < 8192 else size + 5
