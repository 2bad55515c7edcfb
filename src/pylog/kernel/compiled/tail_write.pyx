# cython: language_level=3, boundscheck=False, wraparound=False
"""One write to the active segment, and the index entries that it makes: the steps of `fast_append` at a `Tail`.

No Python code runs where the file is an `OpenFile`. An index entry goes to the arrays in memory; where the index's file
would have to be written, too, the batch is not plain.
"""

from libc.stdint cimport int64_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.open_file cimport OpenFile
from pylog.kernel.compiled.tail cimport Tail

from pylog.kernel.format import UNWRITTEN_MAX

cdef int64_t INT32_MAX = 0x7fffffff
cdef Py_ssize_t LACKING_MOST = UNWRITTEN_MAX


cdef bint is_ready(file, bint at_once) noexcept:
    """Whether a file is open for writing; on a disk, if it is to be written `at_once`, without Python code."""
    if isinstance(file, OpenFile):
        return (<OpenFile>file).descriptor >= 0 and (<OpenFile>file).is_writable((<OpenFile>file).logical_size)
    return file is not None and not at_once


cdef bint has_room_for_entry(Tail tail, BatchHeader batch, int64_t last_offset, int64_t position) except -1:
    """Whether the indexes take the entry of a batch, are not full then, and need not be written to their files."""
    cdef int64_t newest = max(tail.max_timestamp, batch.max_timestamp)
    cdef int64_t newest_offset = last_offset if batch.max_timestamp > tail.max_timestamp else tail.max_timestamp_offset
    offsets, times = tail.offset_index, tail.time_index
    if offsets is None or times is None:
        return False
    return follows(offsets, last_offset - tail.base_offset, position, 0) and (
        newest == last_of(times.rows.firsts, -1) or follows(times, newest, newest_offset - tail.base_offset, 1)
    )


cdef bint follows(index, int64_t first, int64_t second, Py_ssize_t kept_free) except -1:
    """Whether an index takes an entry behind the last one."""
    rows = index.rows
    cdef Py_ssize_t count = len(rows.firsts) + 1
    return (
        count < index.capacity - kept_free and count - index.written < LACKING_MOST
        and first > last_of(rows.firsts, -1) and last_of(rows.seconds, 0) <= second <= INT32_MAX
        and (kept_free or (first <= INT32_MAX and second > last_of(rows.seconds, 0)))
    )


cdef int64_t last_of(column, int64_t otherwise) except? -3:
    return column[len(column) - 1] if len(column) else otherwise


cdef int write(Tail tail, file, BatchHeader batch) except -1:
    """Write a batch that has its offsets behind what is in the file, and note it: the twin of `Tail.put`."""
    cdef int64_t position
    if isinstance(file, OpenFile):
        position = (<OpenFile>file).logical_size
        (<OpenFile>file).put(position, batch.data)
    else:
        position = file.size()
        file.write(position, batch.data)
    note(tail, batch, position)
    return 0


cdef int write_run(Tail tail, OpenFile file, list run) except -1:
    """The same for several, of which the first alone may have an index entry."""
    cdef BatchHeader batch
    cdef int64_t position = file.logical_size
    file.put(position, run[0].data if len(run) == 1 else b"".join([batch.data for batch in run]))
    for batch in run:
        note(tail, batch, position)
        position += batch.size
    return 0


cdef int note(Tail tail, BatchHeader batch, int64_t position) except -1:
    if tail.note(batch, position):
        add(tail.offset_index.rows, batch.last_offset - tail.base_offset, position)
        rows = tail.time_index.rows
        if tail.max_timestamp != last_of(rows.firsts, -1):
            add(rows, tail.max_timestamp, tail.max_timestamp_offset - tail.base_offset)
    return 0


cdef int add(rows, int64_t first, int64_t second) except -1:
    # A search goes from the first column to the second, so the second is filled first.
    rows.seconds.append(second)
    rows.firsts.append(first)
    return 0
