# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.columns`, one pass without the GIL: memory for as much as the batches can hold, cut at the end.

A fixed column is one `Block`. A binary column has three, as Arrow lays it out:

    validity    a bit a row, 1: not null        offsets    i32 a row and one more: where its bytes begin and end
    data        the bytes of all rows

`columns.py` makes arrays of them; nothing here needs pyarrow.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from pylog.kernel.compiled.wire cimport Bytes, Fields, get_header, get_header_count, get_record, last_delta

from pylog.kernel.format import RECORD_BYTES_MIN
from pylog.kernel.values import CREATE_TIME, LOG_APPEND_TIME

cdef Py_ssize_t LEAST = RECORD_BYTES_MIN
cdef Py_ssize_t HEADER_LEAST = 2
cdef int32_t CREATED = CREATE_TIME, APPENDED = LOG_APPEND_TIME


cdef inline void copy(uint8_t *to, Bytes data, int64_t size) noexcept nogil:
    """Copy the 8 to 16 bytes that most keys have, without a call."""
    if 8 <= size <= 16:
        memcpy(to, data, 8)
        memcpy(to + size - 8, data + size - 8, 8)
    else:
        memcpy(to, data, size)


@cython.final
cdef class Block:
    """Memory that Arrow can read and keep: unwritten memory is cut off before any reader sees the block."""

    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t room

    def __cinit__(self, Py_ssize_t size):
        self.room = take_spare(size, &self.data)
        self.resize(size)

    def __dealloc__(self):
        if not keep_spare(self.data, self.room):
            free(self.data)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)

    cdef int resize(self, Py_ssize_t size) except -1:
        cdef uint8_t *data
        if size > self.room or self.data == NULL:
            data = <uint8_t *>realloc(self.data, max(size, <Py_ssize_t>1))
            if data == NULL:
                raise MemoryError(f"{size} bytes for a column")
            self.data, self.room = data, size
        self.size = size
        return 0

    cdef Block cut(self, Py_ssize_t size):
        """Leave out the bytes behind `size`, and give them back where that is most of the block."""
        cdef Block smaller
        if size >= self.room // 2:
            self.size = size
            return self
        smaller = Block(size)
        memcpy(smaller.data, self.data, size)
        return smaller


# A spare block. The system gives large blocks as fresh pages, whose first touch costs more than filling them again.
# Only a holder of the interpreter's lock comes here.

cdef enum:
    SPARE_MOST = 6
    SPARE_LEAST_BYTES = 1 << 16
    SPARE_MOST_BYTES = 1 << 21

cdef uint8_t *spare[SPARE_MOST]
cdef Py_ssize_t spare_room[SPARE_MOST]


cdef Py_ssize_t take_spare(Py_ssize_t size, uint8_t **data) noexcept:
    """Take the spare block to `data` and return its size: at least `size`, and at most twice that; 0 without one."""
    cdef int at
    for at in range(SPARE_MOST):
        if spare_room[at] and size <= spare_room[at] <= 2 * size:
            data[0] = spare[at]
            size, spare_room[at] = spare_room[at], 0
            return size
    return 0


cdef bint keep_spare(uint8_t *data, Py_ssize_t room) noexcept:
    cdef int at
    if SPARE_LEAST_BYTES <= room <= SPARE_MOST_BYTES:
        for at in range(SPARE_MOST):
            if spare_room[at] == 0:
                spare[at], spare_room[at] = data, room
                return True
    return False


@cython.final
cdef class Binary:
    """A column of bytes, or, with `data` unused, of lists of so many elements."""

    cdef Block validity
    cdef Block offsets
    cdef Block data
    cdef uint8_t *is_valid
    cdef int32_t *ends  # of rows 0, 1, 2...
    cdef uint8_t *bytes
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef int32_t used

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t size):
        self.validity, self.offsets, self.data = Block(0), Block(4), Block(size)
        (<int32_t *>self.offsets.data)[0] = 0
        self.make_room(rows, 0)

    cdef int make_room(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Make room for so many rows more, and so many bytes in them."""
        cdef Py_ssize_t bits = self.validity.size
        if 4 * (self.rows + rows + 1) > self.offsets.size:
            self.offsets.resize(max(4 * (self.rows + rows + 1), 2 * self.offsets.size))
            self.validity.resize(self.offsets.size // 32 + 1)
            memset(self.validity.data + bits, 0xFF, self.validity.size - bits)
        if self.used + size > self.data.size:
            self.data.resize(max(self.used + size, 2 * self.data.size))
        self.is_valid, self.ends, self.bytes = self.validity.data, <int32_t *>self.offsets.data + 1, self.data.data
        return 0

    cdef inline void add(self, Bytes data, int64_t size) noexcept nogil:
        """Add one more row of `size` bytes (below 0: null), for which there is room."""
        if size >= 0:
            copy(self.bytes + self.used, data, size)
            self.extend(<int32_t>size)
        else:
            self.skip()

    cdef inline void extend(self, int32_t size) noexcept nogil:
        self.used += size
        self.ends[self.rows] = self.used
        self.rows += 1

    cdef void skip(self) noexcept nogil:
        """Add one more row, which is null."""
        self.is_valid[self.rows >> 3] ^= <uint8_t>(1 << (self.rows & 7))
        self.nulls += 1
        self.extend(0)

    cdef tuple buffers(self):
        """Rows, nulls, validity (None without nulls), offsets, data."""
        return (
            self.rows,
            self.nulls,
            self.validity.cut((self.rows + 7) // 8) if self.nulls else None,
            self.offsets.cut(4 * (self.rows + 1)),
            self.data.cut(self.used),
        )


@cython.final
cdef class Columns:
    """The wanted columns; None for the others."""

    cdef Block offset
    cdef Block timestamp
    cdef Block timestamp_type
    cdef Binary key
    cdef Binary value
    cdef Binary headers
    cdef Binary names
    cdef Binary contents
    cdef Py_ssize_t rows

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t size, want):
        self.offset = Block(8 * rows) if "offset" in want else None
        self.timestamp = Block(8 * rows) if "timestamp" in want else None
        self.timestamp_type = Block(4 * rows) if "timestamp_type" in want else None
        self.key = Binary(rows, 0) if "key" in want else None
        self.value = Binary(rows, size) if "value" in want else None
        if "headers" in want:
            self.headers, self.names, self.contents = Binary(rows, 0), Binary(0, 0), Binary(0, 0)

    cdef int make_room(self, Py_ssize_t size) except -1:
        """Make room for a batch of `size` bytes; rows were counted before, and values have their room."""
        if self.key is not None:
            self.key.make_room(0, size)
        if self.headers is not None:
            self.names.make_room(size // HEADER_LEAST, size)
            self.contents.make_room(size // HEADER_LEAST, size)
        return 0

    cdef inline void add(self, Fields *found, int64_t offset, int64_t timestamp, int32_t timestamp_type) noexcept nogil:
        if self.offset is not None:
            (<int64_t *>self.offset.data)[self.rows] = offset
        if self.timestamp is not None:
            (<int64_t *>self.timestamp.data)[self.rows] = timestamp
        if self.timestamp_type is not None:
            (<int32_t *>self.timestamp_type.data)[self.rows] = timestamp_type
        if self.key is not None:
            self.key.add(found.key, found.key_size)
        if self.value is not None:
            self.value.add(found.value, found.value_size)
        self.rows += 1

    cdef bint add_headers(self, Bytes at, Bytes end, bint is_kept) noexcept nogil:
        """Whether headers fill [at, end); they are a row where `is_kept`."""
        cdef int64_t count, left, name_size, value_size
        cdef Bytes name, value
        is_kept = is_kept and self.headers is not None
        at = get_header_count(at, end, &count)
        if at == NULL:
            return False
        for left in range(count):
            at = get_header(at, end, &name, &name_size, &value, &value_size)
            if at == NULL:
                return False
            if is_kept:
                self.names.add(name, name_size)
                self.contents.add(value, value_size)
        if is_kept and count:
            self.headers.extend(<int32_t>count)
        elif is_kept:
            self.headers.skip()
        return at == end

    cdef bint decode(
        self,
        Bytes at,
        Bytes end,
        int64_t count,
        int64_t base_offset,
        int64_t last_offset,
        int64_t base_timestamp,
        bint is_appended,
        int64_t append_timestamp,
        int64_t first_offset,
        int64_t end_offset,
    ) noexcept nogil:
        """Add the records of one batch; False where they are refused."""
        cdef Fields found
        cdef int64_t offset, timestamp, previous = -1, most = last_delta(base_offset, last_offset)
        cdef bint is_kept, is_bare
        while count > 0:
            at = get_record(at, end, &found)
            if at == NULL or found.delta <= previous or found.delta > most:
                return False
            previous = found.delta
            offset = base_offset + found.delta
            is_kept = first_offset <= offset < end_offset
            is_bare = found.headers + 1 == found.end and found.headers[0] == 0
            if not (is_bare and self.headers is None) and not self.add_headers(found.headers, found.end, is_kept):
                return False
            if is_kept:
                timestamp = append_timestamp
                if not is_appended:
                    timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>found.age)
                self.add(&found, offset, timestamp, APPENDED if is_appended else CREATED)
            count -= 1
        return at == end

    cdef dict buffers(self):
        cdef dict made = {}
        for name, block, width in (
            ("offset", self.offset, 8), ("timestamp", self.timestamp, 8), ("timestamp_type", self.timestamp_type, 4),
        ):  # fmt: skip
            if block is not None:
                made[name] = (<Block>block).cut(self.rows * width)
        for name, column in (("key", self.key), ("value", self.value)):
            if column is not None:
                made[name] = (<Binary>column).buffers()
        if self.headers is not None:
            made["headers"] = self.headers.buffers(), self.names.buffers(), self.contents.buffers()
        return made


def decode_buffers(batches, int64_t first_offset, int64_t end_offset, want):
    """The rows and the buffers of the columns in `want`, of the records in [first_offset, end_offset).

    A Block a fixed column, `Binary.buffers` a binary one, three of these for headers: of the lists, the names and the
    values. None where a batch is refused. All batches together are of less than 2 GiB.
    """
    cdef Columns columns
    cdef Py_buffer view
    cdef Py_ssize_t rows = 0, size = 0
    cdef int64_t count, base_offset, last_offset, base_timestamp, append_timestamp
    cdef bint is_appended, is_good
    for payload, count, *_ in batches:
        if not 0 <= count <= len(payload) // LEAST:
            return None
        rows += count
        size += len(payload)
    if size > 0x7FFFFFFF:
        raise ValueError(f"{size} bytes of records are too many for one Arrow array: ask for fewer batches")
    columns = Columns(rows, size, want)
    for payload, count, base_offset, last_offset, base_timestamp, stamp in batches:
        is_appended = stamp is not None
        append_timestamp = stamp if is_appended else 0
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            columns.make_room(view.len)
            with nogil:
                is_good = view.len <= size and count <= rows and columns.decode(
                    <Bytes>view.buf, <Bytes>view.buf + view.len, count, base_offset, last_offset, base_timestamp,
                    is_appended, append_timestamp, first_offset, end_offset,
                )
            size -= view.len
        finally:
            PyBuffer_Release(&view)
        rows -= count
        if not is_good:
            return None
    return columns.rows, columns.buffers()
