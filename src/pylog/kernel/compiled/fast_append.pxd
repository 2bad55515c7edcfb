# cython: language_level=3
from libc.stdint cimport int32_t, int64_t, uint32_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.publish_slots cimport Slots
from pylog.kernel.compiled.tail cimport Appended, PlainRules, Tail


cdef class AppendState:
    # Watermarks
    cdef public int64_t start_offset
    cdef public int64_t high_watermark
    cdef public int64_t generation
    cdef public int64_t cuts
    # Appender
    cdef public int64_t next_offset
    cdef public int64_t appends
    cdef public int64_t records_appended
    cdef public int64_t bytes_appended
    cdef public PlainRules rules
    # Durability
    cdef public int64_t durable_offset
    cdef public list sync_counts
    cdef public int64_t sync_ns
    cdef public bint is_closed
    cdef public object failure
    cdef public object lock
    cdef public object syncing
    cdef public object latch
    cdef public Slots entry
    # PendingSyncs
    cdef public list owed
    cdef public int64_t name_changes
    cdef public int64_t synced_name_changes
    # LocalLog
    cdef public Tail tail
    cdef public int64_t aborted_entries
    cdef public uint32_t aborted_crc
    # LeaderEpochs
    cdef public int64_t latest_epoch
    cdef public int64_t latest_epoch_start
    # Producers
    cdef public int64_t first_unstable_offset
    cdef public dict producer_entries
    cdef public dict open_verifications
    cdef public object ongoing
    cdef public object unreplicated
    cdef public type batch_metadata

    cdef int64_t stable_end(self) noexcept
    cpdef note_append(self, BatchHeader batch)
    cpdef note_sync(self, int64_t ns)
    cdef void count(self, BatchHeader batch) noexcept
    cdef bint lets_in(self, BatchHeader batch, int64_t now_ms) except -1
    cdef bint lets_marker_in(self, BatchHeader batch, int64_t now_ms) except -1
    cdef bint is_next(self, BatchHeader batch, guard) except -1
    cdef bint ends(self, BatchHeader batch, known) except -1
    cdef int note_producer(self, BatchHeader batch) except -1
    cdef bint joins(self, list run, BatchHeader batch) except -1
    cdef bint append_at_once(self, list batches, list answers, int32_t epoch, bint waits) except -1
    cdef int append_rest(self, list batches, list answers, int32_t epoch, ordinarily, tell, role) except -1
    cdef int append_runs(self, list batches, list answers, int32_t epoch, bint waits) except -1
    cdef Py_ssize_t append_run(self, list batches, Py_ssize_t at, list answers, int32_t epoch) except -1
    cdef bint is_synced(self, int64_t end, int32_t epoch, bint waits) except -1
    cdef bint can_sync(self) except -1
    cdef Appended append_locked(self, BatchHeader batch, int32_t epoch, bint at_once, guard)
    cdef bint takes(self, file, BatchHeader batch, int32_t epoch, bint at_once, guard) except -1
    cdef bint can_show(self) except -1
    cdef int show_or_latch(self) except -1
    cdef int show(self) except -1
    cdef int pass_markers(self) except -1


cdef int64_t coordinator_of(BatchHeader marker) except -2
cdef int64_t end_of(list answers) except -2
cdef int64_t now_ns() noexcept nogil
