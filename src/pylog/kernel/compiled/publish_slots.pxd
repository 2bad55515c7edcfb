# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t

cdef enum:
    NUMBERS = 11


cdef class Slots:
    cdef public object file
    cdef public int64_t sequence
    cdef int64_t slots_at
    cdef readonly uint32_t seed
    cdef bytearray packed

    cdef int show_these(self, int64_t *numbers) except -1
