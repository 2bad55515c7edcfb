# cython: language_level=3
from libc.stdint cimport int32_t, int64_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.tail cimport Appended, Tail


cdef class FastAppends:
    cdef public int64_t start_offset
    cdef public int64_t next_offset
    cdef public int64_t high_watermark
    cdef public int64_t durable_offset
    cdef public int64_t _generation
    cdef public int64_t _cuts
    cdef public bint _closed
    cdef public bint _is_bounded
    cdef public object _failure
    cdef public object _lock
    cdef public object _syncing
    cdef public object _entry
    cdef public object _first_unstable_offset
    cdef public object _admission
    cdef public object _local
    cdef public object _durability
    cdef public object epochs
    cdef public object producers

    cdef bint lets_in(self, BatchHeader batch, int64_t now_ms) except -1
    cdef bint is_next(self, BatchHeader batch) except -1
    cdef int note_producer(self, BatchHeader batch) except -1
    cdef bint joins(self, list run, BatchHeader batch) except -1
    cdef bint append_at_once(self, list batches, list answers, int32_t epoch, bint waits) except -1
    cdef int append_rest(self, list batches, list answers, int32_t epoch, ordinarily, role) except -1
    cdef int append_runs(self, list batches, list answers, int32_t epoch, bint waits) except -1
    cdef Py_ssize_t append_run(self, list batches, Py_ssize_t at, list answers, int32_t epoch) except -1
    cdef bint is_synced(self, int64_t end, int32_t epoch, bint waits) except -1
    cdef bint can_sync(self) except -1
    cdef Appended append_locked(self, BatchHeader batch, int32_t epoch, bint visible, bint at_once)
    cdef bint takes(self, Tail tail, file, BatchHeader batch, int32_t epoch, bint at_once) except -1
    cdef bint can_show(self, Tail tail) except -1
    cdef int show_or_latch(self, Tail tail) except -1
    cdef int show(self, Tail tail) except -1


cdef int64_t end_of(list answers) except -2
