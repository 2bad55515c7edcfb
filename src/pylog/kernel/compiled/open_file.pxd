# cython: language_level=3
from libc.stdint cimport int64_t


cdef class OpenFile:
    cdef public int descriptor
    cdef public bint read_only
    cdef public bint was_used
    cdef public Py_ssize_t pins
    cdef public bint closed
    cdef public object failed
    cdef public int64_t logical_size
    cdef public int64_t physical_size
    cdef public int64_t writes
    cdef public int64_t synced

    cdef bint is_writable(self, int64_t position) noexcept
    cdef int put(self, int64_t position, data) except -1
    cdef int put_again(self, int64_t position, data) except -1
    cdef int let_go(self) except -1
    cdef void note_write(self, int64_t end) noexcept
    cpdef sync(self)
