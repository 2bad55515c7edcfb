# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.header_walk`: a few comparisons a batch, as there are thousands of little ones in a MiB."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int32_t, int64_t

from pylog.kernel.compiled.wire cimport Bytes, be32, be64

from pylog.errors import PylogError
from pylog.kernel.format import BATCH_LENGTH_MIN, LOG_OVERHEAD, PREFIX

cdef int64_t HEAD = PREFIX.size, OVERHEAD = LOG_OVERHEAD
cdef int32_t LEAST = BATCH_LENGTH_MIN


cdef class HeaderWalk:
    """See the twin."""

    def __init__(self, int64_t position, int64_t offset):
        self.position, self.offset, self.epoch, self.begin, self.first = position, offset, -1, -1, -1

    def go_on(
        self, data, int64_t at, int64_t reach, int64_t offset, int64_t upto, int64_t end, int64_t max_bytes,
        int64_t written,
    ):  # fmt: skip
        """See the twin."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.over(<Bytes>view.buf - at, at + view.len, reach, offset, upto, end, max_bytes, written)
        finally:
            PyBuffer_Release(&view)

    cdef int64_t over(
        self, Bytes file, int64_t size, int64_t reach, int64_t offset, int64_t upto, int64_t end, int64_t max_bytes,
        int64_t written,
    ) noexcept:  # fmt: skip
        """`file` is where position 0 would lie."""
        cdef int64_t written_end = min(end, written), limit, base, following
        cdef int32_t length, epoch, last_delta
        cdef Bytes here
        while self.position <= size - HEAD:
            here = file + self.position
            base, length, epoch, last_delta = be64(here), be32(here + 8), be32(here + 12), be32(here + 23)
            if upto <= base < end:
                return 0
            limit = written_end if base < written else end
            if length < LEAST or last_delta < 0 or base < self.offset or epoch < self.epoch or base >= limit - last_delta:
                return -1
            following = self.position + OVERHEAD + length
            if self.begin < 0 and base + last_delta >= offset:
                self.begin, self.first = self.position, base
            if self.begin >= 0 and (
                following > reach or (self.position > self.begin and following - self.begin > max_bytes)
            ):
                return 0 if self.position > self.begin else OVERHEAD + <int64_t>length
            self.offset, self.epoch, self.position = base + last_delta + 1, epoch, following
            if self.offset >= upto:
                return 0
        return 0 if 0 <= self.begin < self.position and self.position + HEAD > reach else HEAD


def read_following(log, int64_t offset, int64_t max_bytes, int64_t upto, int64_t end, int64_t written, window=None):
    """See the twin."""
    cdef int64_t size, position, cuts, asked
    cdef HeaderWalk walk
    cdef bytes data
    cdef Bytes here
    file, following, cuts = log.opened, log.following, log.cuts
    if following[0] != offset or following[2] != cuts or file is None or log.damages:
        return None
    position = following[1]
    try:
        size = file.size()
        asked = size - position
        if asked > max_bytes:
            if window is None:
                return None
            asked = min(asked, <int64_t>window(position, max_bytes))
        if asked <= 0:
            return None
        data = file.read(position, asked)
    except PylogError:
        return None
    walk = HeaderWalk(position, offset)
    if (
        len(data) < asked
        or walk.go_on(data, position, position + asked, offset, upto, end, max_bytes, written) != 0
        or walk.begin != position or walk.first > offset or log.cuts != cuts
    ):
        return None
    view = PyMemoryView_FromObject(data)
    if walk.position < size:
        # No CRC covers where the next one says that it is.
        if walk.position + HEAD > position + asked:
            return None
        here = <Bytes>PyBytes_AS_STRING(data) + (walk.position - position)
        if be64(here) < walk.offset or be32(here + 12) < walk.epoch:
            return None
        view = view[: walk.position - position]
    log.following = walk.offset, walk.position, cuts
    return view, log.path, position, walk.offset
