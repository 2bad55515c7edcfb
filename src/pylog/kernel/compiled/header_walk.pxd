# cython: language_level=3
cimport cython
from libc.stdint cimport int64_t

from pylog.kernel.compiled.wire cimport Bytes


@cython.final
cdef class HeaderWalk:
    cdef public int64_t position
    cdef public int64_t offset
    cdef public int64_t epoch
    cdef public int64_t begin
    cdef public int64_t first

    cdef int64_t over(
        self, Bytes file, int64_t size, int64_t reach, int64_t offset, int64_t upto, int64_t end, int64_t max_bytes,
        int64_t written,
    ) noexcept  # fmt: skip
