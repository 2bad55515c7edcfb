# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.decode`: a batch at a time, a record for each that is wanted.

What is refused is handed to the specification, which says in its words why.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint64_t

from pylog.kernel.compiled.records cimport ConsumerRecord
from pylog.kernel.compiled.stream cimport LAST_OFFSET, Head, end_of_batch, has_right_crc, read_head
from pylog.kernel.compiled.wire cimport Bytes, Fields, get_header, get_header_count, get_record, last_delta

from pylog.errors import CorruptBatch
from pylog.kernel.format import CODEC_MASK, CONTROL_BIT, HEADER_BYTES, RECORD_BYTES_MIN, TIMESTAMP_TYPE_BIT
from pylog.kernel.values import CREATE_TIME, LOG_APPEND_TIME, BatchScope, Header

cdef object new_tuple = tuple.__new__
cdef Py_ssize_t LEAST = RECORD_BYTES_MIN
cdef Py_ssize_t HEAD = HEADER_BYTES
cdef int CODEC = CODEC_MASK, CONTROL = CONTROL_BIT, STAMPED = TIMESTAMP_TYPE_BIT
cdef object CREATED = CREATE_TIME, APPENDED = LOG_APPEND_TIME

cdef enum:
    LARGE = 1 << 16  # bytes whose checksum others need not wait for


def decode_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_timestamp,
    scope,
    int64_t first_offset=0,
    int64_t last_offset=LAST_OFFSET,
):
    """Decode a record stream; records below `first_offset` are left out. `append_timestamp` replaces all timestamps.

    `payload` is any buffer. Raises CorruptBatch unless exactly `count` records fill exactly `payload`, their offsets
    rising to `last_offset` at most.
    """
    cdef Py_buffer view
    cdef list records = None
    if type(scope) is not BatchScope:
        raise TypeError(f"scope is {type(scope).__name__}, not BatchScope")
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        records = decoded(
            <Bytes>view.buf, <Bytes>view.buf + view.len, count, base_offset, base_timestamp,
            append_timestamp is not None, 0 if append_timestamp is None else append_timestamp, scope, first_offset,
            last_offset,
        )
    finally:
        PyBuffer_Release(&view)
    if records is None:
        from pylog.kernel.pure import decode as specification
        specification.decode_records(
            payload, count, base_offset, base_timestamp, append_timestamp, scope, first_offset, last_offset
        )
        raise CorruptBatch("the compiled kernel refuses what the pure one reads: please report this")
    return records


def take_records(data, Py_ssize_t position, int64_t first_offset, Py_ssize_t most, topic, partition, bint check_crc=True):
    """See the twin."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= view.len:
            raise ValueError(f"position {position} is not in the buffer")
        return taken(<Bytes>view.buf, position, view.len, first_offset, most, topic, partition, check_crc)
    finally:
        PyBuffer_Release(&view)


cdef tuple taken(
    Bytes data, Py_ssize_t position, Py_ssize_t size, int64_t first_offset, Py_ssize_t most, object topic,
    object partition, bint check_crc,
):  # fmt: skip
    cdef Head head
    cdef Py_ssize_t end
    cdef list records = [], more
    cdef int64_t next_offset = first_offset
    cdef int32_t epoch = -1, known = 0
    cdef bint is_stamped, were_stamped = False
    cdef object scope = None
    while len(records) < most:
        end = end_of_batch(data, position, size)
        if not 0 <= end <= size or not read_head(data, position, &head) or head.attributes & CODEC or head.count == 0:
            break
        if records and len(records) + head.count > most:
            break
        if check_crc and not is_right(data, position, end):
            break
        if not head.attributes & CONTROL:
            is_stamped = head.attributes & STAMPED != 0
            if scope is None or head.leader_epoch != known or is_stamped != were_stamped:
                known, were_stamped = head.leader_epoch, is_stamped
                scope = new_tuple(BatchScope, (topic, partition, known, APPENDED if is_stamped else CREATED))
            more = decoded(
                data + position + HEAD, data + end, head.count, head.base_offset, head.base_timestamp, is_stamped,
                head.max_timestamp, scope, first_offset, head.base_offset + head.last_delta,
            )
            if more is None:
                break
            if records:
                records.extend(more)
            else:
                records = more
        epoch = head.leader_epoch
        next_offset = max(next_offset, head.base_offset + head.last_delta + 1)
        position = end
    return records, position, next_offset, epoch


cdef bint is_right(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept:
    cdef bint right
    if end - at <= LARGE:
        return has_right_crc(data, at, end)
    with nogil:
        right = has_right_crc(data, at, end)
    return right


cdef list decoded(
    Bytes at,
    Bytes end,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    bint is_appended,
    int64_t append_timestamp,
    object scope,
    int64_t first_offset,
    int64_t last_offset,
):
    """The records; None where they are refused: before there is room for them, where they cannot be so many."""
    cdef Fields found
    cdef ConsumerRecord record
    cdef list records
    cdef Py_ssize_t kept = 0
    cdef tuple none = ()
    cdef int64_t previous = -1, most = last_delta(base_offset, last_offset)
    if not 0 <= count <= (end - at) // LEAST:
        return None
    records = PyList_New(count)
    while count > 0:
        at = get_record(at, end, &found)
        if at == NULL or found.delta <= previous or found.delta > most:
            return None
        previous = found.delta
        if found.headers + 1 == found.end and found.headers[0] == 0:
            headers = none
        else:
            headers = headers_of(found.headers, found.end)
            if headers is None:
                return None
        if base_offset + found.delta >= first_offset:
            record = ConsumerRecord.__new__(ConsumerRecord)
            record.offset = base_offset + found.delta
            record.timestamp = append_timestamp if is_appended else <int64_t>(<uint64_t>base_timestamp + <uint64_t>found.age)
            if found.key_size >= 0:
                record.key = PyBytes_FromStringAndSize(<const char *>found.key, found.key_size)
            if found.value_size >= 0:
                record.value = PyBytes_FromStringAndSize(<const char *>found.value, found.value_size)
            record.headers = headers
            record.scope = scope
            Py_INCREF(record)
            PyList_SET_ITEM(records, kept, record)
            kept += 1
        count -= 1
    if at != end:
        return None
    del records[kept:]
    return records


cdef tuple headers_of(Bytes at, Bytes end):
    """The headers that fill [at, end); None where they do not."""
    cdef int64_t count, name_size, value_size
    cdef Bytes name, value
    cdef list headers = []
    at = get_header_count(at, end, &count)
    if at == NULL:
        return None
    while count > 0:
        at = get_header(at, end, &name, &name_size, &value, &value_size)
        if at == NULL:
            return None
        text = PyUnicode_DecodeUTF8(<const char *>name, name_size, "replace")
        content = PyBytes_FromStringAndSize(<const char *>value, value_size) if value_size >= 0 else None
        headers.append(new_tuple(Header, (text, content)))
        count -= 1
    return tuple(headers) if at == end else None
