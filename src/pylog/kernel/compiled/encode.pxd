# cython: language_level=3
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t


cdef class OpenBatch:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t last  # the bytes of the newest record
    cdef bytearray buffer  # None: closed
    cdef Py_ssize_t capacity
    cdef int64_t base
    cdef int64_t newest

    cdef Py_ssize_t put(self, PyObject *value, PyObject *key, int64_t timestamp, PyObject *headers) except -2
    cdef Py_ssize_t put_plain(
        self, const uint8_t *value, Py_ssize_t value_size, const uint8_t *key, Py_ssize_t key_size, int64_t timestamp,
    ) except -2
    cdef uint8_t *begun(self, int64_t timestamp, Py_ssize_t *size) except? NULL
    cdef Py_ssize_t noted(self, int64_t timestamp, Py_ssize_t size) noexcept
    cdef int reserve(self, Py_ssize_t capacity) except -1
    cdef bytearray closed(self)


cdef OpenBatch filled(rows, now_ms, Py_ssize_t reserve, bint records_only)
