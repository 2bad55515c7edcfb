# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.check`: no object is made of a record.

A refused record is handed to the specification, which says in its words why.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.stream cimport HEADER, LONG_MAX, has_right_crc
from pylog.kernel.compiled.tail cimport PlainRules
from pylog.kernel.compiled.wire cimport Bytes, Fields, get_header, get_header_count, get_record, get_varint

from pylog.errors import CorruptBatch
from pylog.kernel.format import FAULTS_MOST, LENGTH_BYTES_MAX, MAX_TIMESTAMP

cdef Py_ssize_t LENGTH_MOST = LENGTH_BYTES_MAX
cdef Py_ssize_t FAULTS = FAULTS_MOST
cdef int64_t NEWEST = MAX_TIMESTAMP

cdef enum:
    LARGE = 1 << 15  # a piece of this size is checked without the GIL
    BAD = -1


cdef class StreamCheck:
    """See the twin."""

    cdef readonly int64_t count
    cdef readonly int64_t newest
    cdef readonly int64_t refused
    cdef readonly bint is_untimely
    cdef readonly list faults
    cdef int64_t expected
    cdef int64_t base_timestamp
    cdef int64_t record_max
    cdef int64_t oldest
    cdef int64_t latest
    cdef bint needs_key
    cdef bytearray rest

    def __init__(
        self, int64_t count, int64_t base_timestamp, int64_t record_max, bint needs_key, int64_t oldest, int64_t latest
    ):
        self.count = self.refused = 0
        self.is_untimely = False
        self.newest = -LONG_MAX - 1
        self.faults = []
        self.expected, self.base_timestamp, self.record_max = count, base_timestamp, record_max
        self.needs_key, self.oldest, self.latest = needs_key, oldest, latest
        self.rest = bytearray()

    def feed(self, piece):
        """See the twin."""
        cdef Py_buffer view
        cdef Bytes at, end
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            at = <Bytes>view.buf
            end = at + view.len
            if PyByteArray_GET_SIZE(self.rest):
                at = self.completed(at, end)
            if end - at < LARGE:
                at = self.over(at, end)
            else:
                with nogil:
                    at = self.over(at, end)
            if at < end:
                self.rest += (<const char *>at)[: end - at]
            return PyByteArray_GET_SIZE(self.rest)
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        """See the twin."""
        if PyByteArray_GET_SIZE(self.rest) or self.count != self.expected:
            raise CorruptBatch(f"the bytes end before record {self.count} of {self.expected} does")

    cdef bint proves(self, Bytes data, Py_ssize_t size, int64_t newest) except -1:
        """Whether the CRC of a batch is right, and its records are whole, and none of them is refused or newer than it
        says. Raises CorruptBatch, too.
        """
        cdef bint is_right
        cdef Bytes end = data + size
        if size < LARGE:
            is_right = has_right_crc(data, 0, size) and self.over(data + HEADER, end) == end
        else:
            with nogil:
                is_right = has_right_crc(data, 0, size) and self.over(data + HEADER, end) == end
        return is_right and self.count == self.expected and self.refused == 0 and max(self.newest, -1) == newest

    cdef Bytes completed(self, Bytes at, Bytes end) except NULL:
        """Complete the record that has begun before, and check it when it is whole."""
        cdef bytearray rest = self.rest
        cdef Bytes begin
        cdef int64_t size, step
        while True:
            begin = <Bytes>PyByteArray_AS_STRING(rest)
            size = size_of(begin, begin + PyByteArray_GET_SIZE(rest), self.record_max)
            if size == BAD:
                self.refuse(begin, begin + PyByteArray_GET_SIZE(rest))
            if size == PyByteArray_GET_SIZE(rest):
                self.over(begin, begin + size)
                self.rest = bytearray()
                return at
            if at == end:
                return at
            step = min(size - PyByteArray_GET_SIZE(rest), <int64_t>(end - at))
            rest += (<const char *>at)[:step]
            at += step

    cdef Bytes over(self, Bytes at, Bytes end) except NULL nogil:
        """Check the whole records from `at` on; return where the rest begins."""
        cdef Fields found
        cdef int64_t size, timestamp
        cdef bint lacks_key
        found.age = found.delta = found.key_size = 0
        found.headers = found.end = at
        while at < end:
            size = size_of(at, end, self.record_max)
            if size != BAD and size > end - at:
                return at
            if (
                size == BAD or self.count >= self.expected or get_record(at, at + size, &found) != at + size
                or found.delta != self.count or not are_headers(found.headers, found.end)
            ):
                self.refuse(at, end)
            timestamp = <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>found.age)
            if timestamp > self.newest:
                self.newest = timestamp
            lacks_key = self.needs_key and found.key_size < 0
            if lacks_key or not (self.oldest <= timestamp <= self.latest or timestamp == -1):
                self.note(lacks_key, timestamp)
            self.count += 1
            at += size
        return at

    cdef int note(self, bint lacks_key, int64_t timestamp) except -1 with gil:
        self.refused += 1
        self.is_untimely |= not lacks_key
        if len(self.faults) < FAULTS:
            self.faults.append((self.count, None if lacks_key else timestamp))
        return 0

    cdef int refuse(self, Bytes at, Bytes end) except -1 with gil:
        """Raise the specification's error for the record at `at`."""
        cdef int64_t size = size_of(at, end, self.record_max)
        cdef int64_t shown = min(<int64_t>LENGTH_MOST if size == BAD else size, <int64_t>(end - at))
        from pylog.kernel.pure import check as specification
        twin = specification.StreamCheck(
            self.expected, self.base_timestamp, self.record_max, self.needs_key, self.oldest, self.latest
        )
        twin.count = self.count
        twin.feed((<const char *>at)[:shown])
        raise CorruptBatch("the compiled kernel refuses what the pure one reads: please report this")


def prove_header(BatchHeader batch not None, PlainRules rules not None, int64_t now_ms, int64_t record_max):
    """See the twin."""
    cdef Py_buffer view
    cdef StreamCheck check
    cdef int64_t latest
    if (
        batch.size > rules.bytes_max or batch.size < HEADER or batch.attributes != 0 or batch.base_offset != 0
        or batch.count <= 0 or batch.last_offset_delta != batch.count - 1
        or (batch.producer_id >= 0 and batch.base_sequence < 0)
    ):
        return False
    latest = NEWEST if rules.after_max_ms > NEWEST - max(now_ms, 0) else now_ms + rules.after_max_ms
    check = StreamCheck(batch.count, batch.base_timestamp, record_max, False, -NEWEST - 1, latest)
    PyObject_GetBuffer(batch.data, &view, PyBUF_SIMPLE)
    try:
        batch.trusted = view.len == batch.size and check.proves(<Bytes>view.buf, view.len, batch.max_timestamp)
    except CorruptBatch:
        return False
    finally:
        PyBuffer_Release(&view)
    return batch.trusted


cdef int64_t size_of(Bytes at, Bytes end, int64_t record_max) noexcept nogil:
    """The bytes of the record at `at`, its length included; one more than there are where that is not known yet."""
    cdef uint64_t n
    cdef Bytes body = get_varint(at, min(end, at + LENGTH_MOST), &n, LENGTH_MOST)
    if body == NULL:
        return BAD if end - at >= LENGTH_MOST else end - at + 1
    if n & 1 or <int64_t>(n >> 1) > record_max:
        return BAD
    return (body - at) + <int64_t>(n >> 1)


cdef bint are_headers(Bytes at, Bytes end) noexcept nogil:
    """Whether headers fill [at, end)."""
    cdef int64_t count, name_size, value_size
    cdef Bytes name, value
    if at + 1 == end and at[0] == 0:
        return True
    at = get_header_count(at, end, &count)
    while at != NULL and count > 0:
        at = get_header(at, end, &name, &name_size, &value, &value_size)
        count -= 1
    return at == end
