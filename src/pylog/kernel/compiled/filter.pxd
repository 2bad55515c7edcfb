# cython: language_level=3
from libc.stdint cimport int64_t


cdef struct Span:
    int64_t offset
    int64_t timestamp
    int64_t key
    int64_t key_size  # below 0: null
    int64_t body
    int64_t end
    bint has_value


cdef class RecordSpans:
    cdef readonly bytes payload
    cdef Span *spans
    cdef Py_ssize_t count

    cdef int allocate(self, Py_ssize_t count) except -1
