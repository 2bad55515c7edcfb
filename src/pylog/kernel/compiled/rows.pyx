# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `pure.rows`: no object is made of a row."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylog.kernel.compiled.encode cimport OpenBatch
from pylog.kernel.compiled.keys cimport kafka_hash
from pylog.kernel.compiled.wire cimport Bytes


cdef struct Cell:
    Bytes data
    Py_ssize_t size  # -1: null


cdef class Column:
    """A binary column, held for as long as it is read."""

    cdef Py_buffer validity
    cdef Py_buffer offsets
    cdef Py_buffer data
    cdef int held
    cdef bint has_nulls
    cdef bint has_data
    cdef Py_ssize_t first

    def __cinit__(self, validity, offsets, data, Py_ssize_t first):
        self.first = first
        self.has_nulls = validity is not None
        self.has_data = data is not None
        PyObject_GetBuffer(offsets, &self.offsets, PyBUF_SIMPLE)
        self.held = 1
        if self.has_nulls:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
        self.held = 2
        if self.has_data:
            PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 3

    def __dealloc__(self):
        if self.held > 0:
            PyBuffer_Release(&self.offsets)
        if self.held > 1 and self.has_nulls:
            PyBuffer_Release(&self.validity)
        if self.held > 2 and self.has_data:
            PyBuffer_Release(&self.data)

    cdef Cell cell(self, Py_ssize_t row) except *:
        cdef Py_ssize_t at = self.first + row
        cdef Py_ssize_t size = self.data.len if self.has_data else 0
        cdef int32_t start, end
        cdef Cell found
        found.data, found.size = NULL, -1
        if at < 0 or (self.has_nulls and self.validity.len <= at >> 3):
            raise ValueError(f"a column has no row {row}")
        if self.has_nulls and not (<uint8_t *>self.validity.buf)[at >> 3] >> (at & 7) & 1:
            return found
        if self.offsets.len < 4 * at + 8:
            raise ValueError(f"a column has no row {row}")
        start, end = (<int32_t *>self.offsets.buf)[at], (<int32_t *>self.offsets.buf)[at + 1]
        if not 0 <= start <= end <= size:
            raise ValueError(f"row {row} of a column lies outside of its bytes")
        found.data, found.size = <Bytes>self.data.buf + start, end - start
        return found


def add_columns(list batches not None, Py_ssize_t sticky, values, keys, stamps, Py_ssize_t first, Py_ssize_t count):
    """Add the rows [first, count) to `batches`, one a partition, until there is one that cannot be; gives its number,
    or `count` where all were added.

    A row with a key goes where murmur2 says, one without to the partition `sticky`. `stamps`: the times in ms (i64, and
    the number of the first row in these), or one for all. A row cannot be added where its batch is None or has no room,
    or its time is negative. Raises ValueError for a partition that is not there, and for columns with fewer rows, or
    offsets that lead out of the bytes.
    """
    cdef Column value_column = Column(*values)
    cdef Column key_column = None if keys is None else Column(*keys)
    cdef Py_ssize_t row, number, partitions = PyList_GET_SIZE(batches), stamps_first = 0
    cdef int64_t stamp = 0
    cdef Py_buffer times
    cdef bint has_times = not isinstance(stamps, int)
    if not 0 <= sticky < partitions:
        raise ValueError(f"there is no partition {sticky} of {partitions}")
    if not has_times:
        stamp = stamps
        return added(batches, sticky, value_column, key_column, NULL, 0, stamp, first, count)
    stamps_first = stamps[1]
    PyObject_GetBuffer(stamps[0], &times, PyBUF_SIMPLE)
    try:
        for row in (first, count - 1):
            if first < count and (stamps_first + row < 0 or times.len < 8 * (stamps_first + row) + 8):
                raise ValueError(f"a column has no row {row}")
        return added(
            batches, sticky, value_column, key_column, <int64_t *>times.buf + stamps_first, 1, 0, first, count
        )
    finally:
        PyBuffer_Release(&times)


cdef Py_ssize_t added(
    list batches, Py_ssize_t sticky, Column values, Column keys, int64_t *times, bint has_times, int64_t stamp,
    Py_ssize_t first, Py_ssize_t count,
) except -1:
    cdef Py_ssize_t row, number, partitions = PyList_GET_SIZE(batches)
    cdef Cell key, value
    cdef object batch
    key.data, key.size = NULL, -1
    for row in range(first, count):
        if keys is not None:
            key = keys.cell(row)
        number = sticky
        if key.size >= 0:
            number = <Py_ssize_t>(kafka_hash(key.data, key.size) & 0x7FFFFFFF) % partitions
        batch = batches[number]
        value = values.cell(row)
        if has_times:
            stamp = times[row]
        if batch is None or stamp < 0:
            return row
        if (<OpenBatch?>batch).put_plain(value.data, value.size, key.data, key.size, stamp) < 0:
            return row
    return count
