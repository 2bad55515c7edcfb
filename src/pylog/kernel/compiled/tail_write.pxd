# cython: language_level=3
from libc.stdint cimport int64_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.open_file cimport OpenFile
from pylog.kernel.compiled.tail cimport Tail


cdef bint is_ready(file, bint at_once) noexcept
cdef bint has_room_for_entry(Tail tail, BatchHeader batch, int64_t last_offset, int64_t position) except -1
cdef int write(Tail tail, file, BatchHeader batch) except -1
cdef int write_run(Tail tail, OpenFile file, list run) except -1
