# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.filter`: what is known of the records of a stream is kept as numbers, and no object is made of one.

What is refused is handed to the specification, which says in its words why.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from pylog.kernel.compiled.wire cimport Bytes, Fields, get_record, last_delta, put_varint, zigzag

from pylog.errors import CorruptBatch
from pylog.kernel.format import HEADER_BYTES, RECORD_BYTES_MIN

cdef Py_ssize_t LEAST = RECORD_BYTES_MIN
cdef Py_ssize_t RESERVE = HEADER_BYTES

cdef enum:
    HEAD_MOST = 21  # a length, the attributes and a timestamp delta


cdef class RecordSpans:
    """The records of a stream, or some of them in the same order, and the payload they lie in."""

    def __cinit__(self):
        self.payload = b""

    def __dealloc__(self):
        free(self.spans)

    cdef int allocate(self, Py_ssize_t count) except -1:
        self.spans = <Span *>malloc(count * sizeof(Span) + 1)
        if self.spans == NULL:
            raise MemoryError
        return 0

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t index):
        cdef Span *span
        if index < 0:
            index += self.count
        if not 0 <= index < self.count:
            raise IndexError(f"no record {index}: there are {self.count}")
        span = &self.spans[index]
        key = None if span.key_size < 0 else PyBytes_AS_STRING(self.payload)[span.key : span.key + span.key_size]
        return span.offset, key, span.has_value, span.timestamp, span.body, span.end

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            yield self[index]

    def __eq__(self, other):
        return list(self) == list(other) if isinstance(other, (RecordSpans, list)) else NotImplemented

    def __repr__(self):
        return repr(list(self))

    @property
    def max_timestamp(self):
        """The largest timestamp. Raises ValueError where there is no record."""
        cdef Py_ssize_t index
        cdef int64_t largest
        if self.count == 0:
            raise ValueError("there is no record")
        largest = self.spans[0].timestamp
        for index in range(1, self.count):
            largest = max(largest, self.spans[index].timestamp)
        return largest

    @property
    def lacks_values(self):
        """Whether one of the records has no value: a tombstone."""
        cdef Py_ssize_t index
        for index in range(self.count):
            if not self.spans[index].has_value:
                return True
        return False

    def select(self, bytes mask not None):
        """Those whose byte in `mask` is not 0. Raises ValueError unless there is one byte for each record."""
        cdef RecordSpans kept = RecordSpans.__new__(RecordSpans)
        cdef const char *keeps = PyBytes_AS_STRING(mask)
        cdef Py_ssize_t index
        if PyBytes_GET_SIZE(mask) != self.count:
            raise ValueError(f"a mask of {len(mask)} bytes for {self.count} records")
        kept.payload = self.payload
        kept.allocate(self.count)
        for index in range(self.count):
            if keeps[index] != 0:
                kept.spans[kept.count] = self.spans[index]
                kept.count += 1
        return kept


def scan_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t last_offset,
    int64_t base_timestamp,
    append_timestamp,
):
    """Find the `count` records of a stream; `append_timestamp` replaces all timestamps.

    `payload` is any buffer. Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets
    rising to `last_offset` at most.
    """
    cdef RecordSpans spans = RecordSpans.__new__(RecordSpans)
    cdef bint is_good = False
    cdef Bytes begin
    cdef Py_ssize_t size
    cdef int64_t stamp = 0 if append_timestamp is None else append_timestamp
    cdef bint is_appended = append_timestamp is not None
    spans.payload = payload if type(payload) is bytes else bytes(payload)
    begin = <Bytes>PyBytes_AS_STRING(spans.payload)
    size = PyBytes_GET_SIZE(spans.payload)
    if 0 <= count <= size // LEAST:
        spans.allocate(count)
        with nogil:
            is_good = scanned(
                begin, begin + size, count, base_offset, last_offset, base_timestamp, is_appended, stamp, spans
            )
    if not is_good:
        from pylog.kernel.pure import filter as specification
        specification.scan_records(payload, count, base_offset, last_offset, base_timestamp, append_timestamp)
        raise CorruptBatch("the compiled kernel refuses what the pure one reads: please report this")
    return spans


cdef bint scanned(
    Bytes begin,
    Bytes end,
    int64_t count,
    int64_t base_offset,
    int64_t last_offset,
    int64_t base_timestamp,
    bint is_appended,
    int64_t append_timestamp,
    RecordSpans spans,
) noexcept nogil:
    cdef Fields found
    cdef Span *span = spans.spans
    cdef Bytes at = begin
    cdef int64_t previous = -1, most = last_delta(base_offset, last_offset)
    while spans.count < count:
        at = get_record(at, end, &found)
        if at == NULL or found.delta <= previous or found.delta > most:
            return False
        previous = found.delta
        span.offset = base_offset + found.delta
        span.timestamp = (
            append_timestamp if is_appended else <int64_t>(<uint64_t>base_timestamp + <uint64_t>found.age)
        )
        span.key = found.key - begin
        span.key_size = found.key_size
        span.body = found.body - begin
        span.end = found.end - begin
        span.has_value = found.value_size >= 0
        span += 1
        spans.count += 1
    return at == end


def keep_records(RecordSpans spans not None, int64_t base_timestamp, Py_ssize_t reserve=RESERVE):
    """Write the records of `spans` as a stream of their own, behind `reserve` zero bytes.

    Offset deltas stay; timestamps are relative to `base_timestamp`.
    """
    cdef Py_ssize_t index, size = reserve
    cdef uint8_t *at
    cdef bytearray made = bytearray()
    cdef Bytes payload = <Bytes>PyBytes_AS_STRING(spans.payload)
    if reserve < 0:
        raise ValueError(f"{reserve} bytes cannot be reserved")
    for index in range(spans.count):
        size += HEAD_MOST + spans.spans[index].end - spans.spans[index].body
    PyByteArray_Resize(made, size)
    at = <uint8_t *>PyByteArray_AS_STRING(made)
    with nogil:
        memset(at, 0, reserve)
        size = put_spans(at + reserve, payload, spans, base_timestamp) - at
    PyByteArray_Resize(made, size)
    return made


cdef uint8_t *put_spans(uint8_t *at, Bytes payload, RecordSpans spans, int64_t base_timestamp) noexcept nogil:
    cdef uint8_t head[16]
    cdef Py_ssize_t index, head_size, size
    cdef Span *span
    head[0] = 0
    for index in range(spans.count):
        span = &spans.spans[index]
        head_size = put_varint(head + 1, zigzag(<int64_t>(<uint64_t>span.timestamp - <uint64_t>base_timestamp))) - head
        size = span.end - span.body
        at = put_varint(at, <uint64_t>(head_size + size) << 1)
        memcpy(at, head, head_size)
        memcpy(at + head_size, payload + span.body, size)
        at += head_size + size
    return at
