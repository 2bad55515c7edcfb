# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.decode`: a batch at a time, a record for each that is wanted.

What is refused is handed to the specification, which says in its words why.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint64_t

from pylog.kernel.compiled.records cimport ConsumerRecord
from pylog.kernel.compiled.wire cimport Bytes, Fields, get_header, get_header_count, get_record, last_delta

from pylog.errors import CorruptBatch
from pylog.kernel.format import MAX_OFFSET, RECORD_BYTES_MIN
from pylog.kernel.pure import decode as specification
from pylog.kernel.values import BatchScope, Header

cdef object new_tuple = tuple.__new__
cdef int64_t LAST = MAX_OFFSET
cdef Py_ssize_t LEAST = RECORD_BYTES_MIN


def decode_records(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_timestamp,
    scope,
    int64_t first_offset=0,
    int64_t last_offset=LAST,
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
        if 0 <= count <= view.len // LEAST:
            records = decoded(
                <Bytes>view.buf, <Bytes>view.buf + view.len, count, base_offset, base_timestamp,
                append_timestamp is not None, 0 if append_timestamp is None else append_timestamp, scope,
                first_offset, last_offset,
            )
    finally:
        PyBuffer_Release(&view)
    if records is None:
        specification.decode_records(
            payload, count, base_offset, base_timestamp, append_timestamp, scope, first_offset, last_offset
        )
        raise CorruptBatch("the compiled kernel refuses what the pure one reads: please report this")
    return records


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
    """The records; None where they are refused."""
    cdef Fields found
    cdef ConsumerRecord record
    cdef list records = PyList_New(count)
    cdef Py_ssize_t kept = 0
    cdef tuple none = ()
    cdef int64_t previous = -1, most = last_delta(base_offset, last_offset)
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
