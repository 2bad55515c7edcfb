# cython: language_level=3
from libc.stdint cimport int64_t

from pylog.kernel.compiled.header cimport BatchHeader


cdef class PlainRules:
    cdef readonly int64_t bytes_max
    cdef readonly int64_t after_max_ms
    cdef readonly bint makes_room
    cdef readonly bint is_led
    cdef readonly bint is_short
    cdef readonly bint has_followers
    cdef readonly bint is_shown
    cdef readonly bint is_noted
    cdef readonly bint may_block

    cdef bint lets_in(self, BatchHeader batch, int64_t now_ms) noexcept
    cdef tuple fields(self)


cdef class Appended:
    cdef readonly int64_t base_offset
    cdef readonly int64_t next_offset
    cdef readonly object log_append_time
    cdef readonly bint duplicate

    cdef tuple fields(self)


cdef Appended appended(int64_t base_offset, int64_t next_offset, log_append_time)


cdef class Tail:
    cdef public int64_t base_offset
    cdef public int64_t next_offset
    cdef public int64_t max_timestamp
    cdef public int64_t max_timestamp_offset
    cdef public int64_t first_max_timestamp
    cdef public int64_t index_interval_bytes
    cdef public int64_t unindexed_bytes
    cdef public int64_t room
    cdef public int64_t newest_in_room
    cdef public object log
    cdef public object offset_index
    cdef public object time_index

    cpdef bint takes(self, int64_t size, int64_t last_offset, int64_t max_timestamp) noexcept
    cdef bint wants_entry(self) noexcept
    cdef bint note(self, BatchHeader batch, int64_t position) noexcept
