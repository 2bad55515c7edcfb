# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.encode`: a record is measured, then written in place behind the last one.

`OpenBatch.put` is for compiled callers: it runs no Python code, so it happens at once for all threads.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from pylog.kernel.compiled.records cimport NO_STAMP, ConsumerRecord, Record, plain_bytes, plain_stamp
from pylog.kernel.compiled.wire cimport put_varint, varint_size, zigzag

from pylog.kernel.format import HEADER_BYTES, RECORD_OVERHEAD_MAX
from pylog.kernel.values import checked_headers

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    # These take borrowed references: counting one writes to memory that has to be fetched for it.
    Py_ssize_t size_of "Py_SIZE"(PyObject *data)
    const char *bytes_of "PyBytes_AS_STRING"(PyObject *data)
    PyObject *NULL_VALUE "Py_None"

cdef enum:
    FIRST_CAPACITY = 1 << 17
    GUESS_MOST = 1 << 24
    ROOM = 4  # a margin: later records may be longer than the first, as their offsets are

cdef Py_ssize_t RESERVE = HEADER_BYTES
cdef Py_ssize_t OVERHEAD = RECORD_OVERHEAD_MAX


cdef class OpenBatch:
    """A record stream to which records are added one by one, of at most `limit` bytes and one record at least.

    `limit` counts `reserve`, the room for a batch header, as `size` does. An add happens at once: threads that share a
    batch need no lock.
    """

    def __init__(self, Py_ssize_t limit, Py_ssize_t reserve=RESERVE):
        if reserve < 0:
            raise ValueError(f"{reserve} bytes cannot be reserved")
        self.limit = limit
        self.size = reserve
        self.count = self.last = 0
        self.base = self.newest = -1
        self.buffer = bytearray()
        self.capacity = 0
        self.reserve(max(reserve, min(limit, FIRST_CAPACITY)))
        memset(PyByteArray_AS_STRING(self.buffer), 0, reserve)

    def add(self, value, key, timestamp, headers=()):
        """Add a record; return its number in the batch, or -1 when it does not fit: then nothing was added.

        The first record always fits. Raises what `Record` does, ValueError when the batch is closed.
        """
        cdef int64_t stamp = plain_stamp(value, key, timestamp)
        if stamp == NO_STAMP:
            raise TypeError("an open batch needs the time of a record: there is no telling when it will be closed")
        value, key, headers = plain_bytes(value), plain_bytes(key), checked_headers(headers) if headers else ()
        return self.put(<PyObject *>value, <PyObject *>key, stamp, <PyObject *>headers)

    cdef Py_ssize_t put(self, PyObject *value, PyObject *key, int64_t timestamp, PyObject *headers) except -2:
        """Add a record whose fields were checked before: bytes or None twice, a tuple."""
        cdef Py_ssize_t size = sized(value) + sized(key) + (headers_size(<tuple>headers) if size_of(headers) else 1)
        cdef uint8_t *at = self.begun(timestamp, &size)
        if at == NULL:
            return -1
        at = put_bytes(at, key)
        at = put_bytes(at, value)
        if size_of(headers):
            put_headers(at, <tuple>headers)
        else:
            at[0] = 0
        return self.noted(timestamp, size)

    cdef Py_ssize_t put_plain(
        self, const uint8_t *value, Py_ssize_t value_size, const uint8_t *key, Py_ssize_t key_size, int64_t timestamp,
    ) except -2:
        """As `put`, for bytes that are in no object (a size of -1 is null), and without headers."""
        cdef Py_ssize_t size = plain_size(value_size) + plain_size(key_size) + 1
        cdef uint8_t *at = self.begun(timestamp, &size)
        if at == NULL:
            return -1
        at = put_plain_bytes(at, key, key_size)
        at = put_plain_bytes(at, value, value_size)
        at[0] = 0
        return self.noted(timestamp, size)

    cdef uint8_t *begun(self, int64_t timestamp, Py_ssize_t *size) except? NULL:
        """Begin a record whose key, value and headers take `size` bytes: gives where these go, and changes `size` to
        that of the whole. NULL where it does not fit.
        """
        cdef int64_t age = 0
        cdef Py_ssize_t body, whole
        cdef uint8_t *at
        if self.buffer is None:
            raise ValueError("this batch is closed: add to a new one")
        if self.count > 0:
            age = <int64_t>(<uint64_t>timestamp - <uint64_t>self.base)
        body = 1 + varint_size(zigzag(age)) + varint_size(<uint64_t>self.count << 1) + size[0]
        whole = varint_size(<uint64_t>body << 1) + body
        if self.size + whole > self.limit and self.count > 0:
            return NULL
        if self.size + whole > self.capacity:
            self.reserve(max(self.size + whole, min(self.limit, 2 * self.capacity)))
        at = <uint8_t *>PyByteArray_AS_STRING(self.buffer) + self.size
        at = put_varint(at, <uint64_t>body << 1)
        at[0] = 0
        at = put_varint(at + 1, zigzag(age))
        at = put_varint(at, <uint64_t>self.count << 1)
        size[0] = whole
        return at

    cdef Py_ssize_t noted(self, int64_t timestamp, Py_ssize_t size) noexcept:
        """A record of so many bytes was written behind the others; gives its number."""
        if self.count == 0:
            self.base = self.newest = timestamp
        elif timestamp > self.newest:
            self.newest = timestamp
        self.size += size
        self.last = size
        self.count += 1
        return self.count - 1

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        PyByteArray_Resize(self.buffer, capacity)
        self.capacity = capacity
        return 0

    def close(self):
        """The stream, as `encode_records` gives it; nothing can be added to it now. Raises ValueError when closed."""
        return self.closed(), self.count, self.base, self.newest

    def drain(self):
        """The bytes added since the last time, behind `reserve` zero bytes at the first; the numbers of records go on.

        Raises ValueError when closed.
        """
        cdef bytearray drained = self.closed()
        self.buffer, self.capacity, self.size = bytearray(), 0, 0
        return drained

    cdef bytearray closed(self):
        cdef bytearray buffer = self.buffer
        if buffer is None:
            raise ValueError("this batch is closed")
        self.buffer = None
        PyByteArray_Resize(buffer, self.size)
        return buffer


def encode_records(rows, now_ms, Py_ssize_t reserve=RESERVE, bint records_only=False):
    """Encode records, new or read ones, or (value, key, timestamp, headers) rows, with offset deltas 0, 1, 2...

    A timestamp of None is `now_ms`. Returns `reserve` zero bytes followed by the record stream, the count, the base
    timestamp (the first record's) and the largest. No rows: (zeros, 0, -1, -1). Raises ValueError for a timestamp below
    -1 or beyond 64 bits, TypeError for a key or value that is not bytes, and with `records_only` for rows that are not
    records.
    """
    return filled(rows, now_ms, reserve, records_only).close()


cdef OpenBatch filled(rows, now_ms, Py_ssize_t reserve, bint records_only):
    cdef list listed = rows if type(rows) is list else list(rows)
    cdef Py_ssize_t first = 0
    cdef OpenBatch batch = OpenBatch(0, reserve)
    cdef Record record
    cdef ConsumerRecord read
    cdef int64_t stamp, now = NO_STAMP
    cdef object row, value, key, timestamp, headers
    batch.limit = cython.cast(Py_ssize_t, (<size_t>-1) >> 1)
    for row in listed:
        if type(row) is Record:
            record = <Record>row
            stamp = record.stamp
            if stamp == NO_STAMP:
                if now == NO_STAMP:
                    now = checked_stamp(now_ms, batch.count)
                stamp = now
            batch.put(<PyObject *>record.value, <PyObject *>record.key, stamp, <PyObject *>record.headers)
        elif type(row) is ConsumerRecord:
            read = <ConsumerRecord>row
            batch.put(<PyObject *>read.value, <PyObject *>read.key, read.timestamp, <PyObject *>read.headers)
        elif records_only:
            raise TypeError(f"a record is {type(row).__name__}, not pylog.Record: pylog.Record(value=...)")
        else:
            value, key, timestamp, headers = row
            plain_stamp(value, key, None)
            stamp = checked_stamp(now_ms if timestamp is None else timestamp, batch.count)
            value, key, headers = plain_bytes(value), plain_bytes(key), checked_headers(headers) if headers else ()
            batch.put(<PyObject *>value, <PyObject *>key, stamp, <PyObject *>headers)
        if first == 0:
            # The others may be as large; more memory is asked for when they are.
            first = batch.size - reserve
            batch.reserve(batch.size + min((first + ROOM) * (PyList_GET_SIZE(listed) - 1), GUESS_MOST))
    return batch


cdef int64_t checked_stamp(object timestamp, Py_ssize_t number) except? -3:
    cdef int overflows = 0
    cdef int64_t stamp
    if not PyLong_Check(timestamp):
        raise TypeError(f"timestamp {timestamp!r} of record {number} is not int (milliseconds) or None")
    stamp = PyLong_AsLongLongAndOverflow(timestamp, &overflows)
    if overflows or stamp < -1:
        raise ValueError(f"timestamp {timestamp} of record {number} is not in [-1, 2**63): -1 means none")
    return stamp


cdef inline Py_ssize_t sized(PyObject *data) noexcept:
    if data == NULL_VALUE:
        return 1
    return varint_size(<uint64_t>size_of(data) << 1) + size_of(data)


cdef inline uint8_t *put_bytes(uint8_t *at, PyObject *data) noexcept:
    cdef Py_ssize_t size
    if data == NULL_VALUE:
        at[0] = 1
        return at + 1
    size = size_of(data)
    at = put_varint(at, <uint64_t>size << 1)
    memcpy(at, bytes_of(data), size)
    return at + size


cdef inline Py_ssize_t plain_size(Py_ssize_t size) noexcept:
    return 1 if size < 0 else varint_size(<uint64_t>size << 1) + size


cdef inline uint8_t *put_plain_bytes(uint8_t *at, const uint8_t *data, Py_ssize_t size) noexcept:
    if size < 0:
        at[0] = 1
        return at + 1
    at = put_varint(at, <uint64_t>size << 1)
    memcpy(at, data, size)
    return at + size


cdef Py_ssize_t headers_size(tuple headers) except -1:
    cdef Py_ssize_t name_size, size = varint_size(<uint64_t>len(headers) << 1)
    for pair in headers:
        PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_size)
        size += varint_size(<uint64_t>name_size << 1) + name_size + sized(PyTuple_GET_ITEM(pair, 1))
    return size


cdef int put_headers(uint8_t *at, tuple headers) except -1:
    cdef Py_ssize_t size
    cdef const char *name
    at = put_varint(at, <uint64_t>len(headers) << 1)
    for pair in headers:
        name = PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &size)
        at = put_varint(at, <uint64_t>size << 1)
        memcpy(at, name, size)
        at = put_bytes(at + size, PyTuple_GET_ITEM(pair, 1))
    return 0


def record_size_bound(value, key, headers=()):
    """The largest number of bytes that a record can take (DefaultRecord.recordSizeUpperBound)."""
    cdef Py_ssize_t size = OVERHEAD + bound_of(value) + bound_of(key) + 1
    if headers:
        size += 4
        for name, content in headers:
            size += bound_of(name.encode()) + bound_of(content)
    return size


cdef Py_ssize_t bound_of(object data) except -1:
    cdef Py_ssize_t size
    if data is None:
        return 1
    size = len(data)
    return size + 5 if size >= 8192 else sized_length(size)


cdef inline Py_ssize_t sized_length(Py_ssize_t size) noexcept:
    return size + varint_size(<uint64_t>size << 1)
