# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.stream`: headers are read and CRCs checked without the GIL, whatever the size of a batch.

The content of the headers is kept as numbers; a `BatchSpan` is made when one is asked for.
"""

from array import array as new_array

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from pylog.kernel.compiled.wire cimport Bytes

from pylog.kernel.format import CODEC_MASK, BatchSpan, Marks, Summary, frame_fault, header_fault

cdef extern from "crc32c.h" nogil:
    void pylog_crc32c_init()
    uint32_t pylog_crc32c(uint32_t crc, const uint8_t *data, size_t size)
    uint32_t crc_by_tables(uint32_t crc, const uint8_t *data, size_t size)

pylog_crc32c_init()


def crc32c(data, uint32_t value=0, *, bint by_tables=False):
    """The CRC-32C of a buffer, continued from `value`, the CRC of what stands before it.

    The processor's instruction computes it where there is one, and with `by_tables` (for tests) the tables do.
    """
    cdef Py_buffer view
    cdef Bytes at
    cdef Py_ssize_t size
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    at, size = <Bytes>view.buf, view.len
    if by_tables:
        value = ~crc_by_tables(~value, at, size)
    elif size < CRC_ALONE_BYTES:
        value = crc_of(value, at, size)
    else:
        with nogil:
            value = crc_of(value, at, size)
    PyBuffer_Release(&view)
    return value


cdef uint32_t crc_of(uint32_t crc, Bytes data, size_t size) noexcept nogil:
    return pylog_crc32c(crc, data, size)


# From so many bytes on other threads run meanwhile.
cdef enum:
    CRC_ALONE_BYTES = 32768

cdef object new_tuple = tuple.__new__
cdef array NUMBERS = new_array("q")

cdef int CODEC = CODEC_MASK

cdef enum Outcome:
    AT_END  # the rest is no whole header, or one whose length and magic are impossible
    CUT_OFF  # by the end of the buffer
    BAD_CRC
    BAD_HEADER
    NO_MEMORY


cdef class Spans:
    """The batches in a buffer, and the questions about all of them at once: a sequence of BatchSpan."""

    cdef Head *heads
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    def __dealloc__(self):
        free(self.heads)

    cdef Head *next(self, Py_ssize_t room) noexcept nogil:
        """The place for the next one, which `count` makes one of them; `room` more places are made if none is left.

        NULL where there is no memory.
        """
        cdef Py_ssize_t capacity
        cdef Head *grown
        if self.count == self.capacity:
            capacity = self.capacity + max(self.capacity, room, <Py_ssize_t>16)
            grown = <Head *>realloc(self.heads, capacity * sizeof(Head))
            if grown == NULL:
                return NULL
            self.heads, self.capacity = grown, capacity
        return &self.heads[self.count]

    cdef object span(self, Py_ssize_t index):
        cdef Head *head = &self.heads[index]
        return new_tuple(BatchSpan, (
            head.position, head.size, head.base_offset, head.base_offset + head.last_delta, head.leader_epoch,
            head.attributes, head.base_timestamp, head.max_timestamp, head.producer_id, head.producer_epoch,
            head.base_sequence, head.count,
        ))  # fmt: skip

    def part(self, Py_ssize_t start, Py_ssize_t stop):
        """The batches from number `start` on, up to number `stop`."""
        cdef Spans some = Spans.__new__(Spans)
        cdef Py_ssize_t first = max(min(start, self.count), <Py_ssize_t>0)
        cdef Py_ssize_t count = max(min(stop, self.count) - first, <Py_ssize_t>0)
        if some.next(count) == NULL:
            raise MemoryError
        if count > 0:
            memcpy(some.heads, self.heads + first, count * sizeof(Head))
        some.count = count
        return some

    def summary(self):
        """The summary of all of them."""
        cdef Head *head = self.heads
        cdef Py_ssize_t index
        cdef int64_t newest, producer_id
        cdef int32_t oldest_epoch, newest_epoch
        cdef int codec = 0
        if self.count == 0:
            return Summary(0, -1, -1, -1, -1, -1, -1)
        newest, producer_id, oldest_epoch, newest_epoch = (
            head.max_timestamp, head.producer_id, head.leader_epoch, head.leader_epoch
        )
        for index in range(self.count):
            head = &self.heads[index]
            newest = max(newest, head.max_timestamp)
            producer_id = max(producer_id, head.producer_id)
            oldest_epoch = min(oldest_epoch, head.leader_epoch)
            newest_epoch = max(newest_epoch, head.leader_epoch)
            codec = max(codec, head.attributes & CODEC)
        return Summary(
            head.position + head.size - self.heads.position, head.base_offset + head.last_delta, newest, oldest_epoch,
            newest_epoch, producer_id, codec,
        )

    def rising(self, expected, most):
        """The number of batches in order, counted from the first.

        Each begins at or behind the end of the one before, the first at or behind `expected`, and ends at `most` or
        before.
        """
        cdef int64_t previous = min(expected - 1, LONG_MAX), limit = min(most, LONG_MAX)
        cdef Py_ssize_t index
        cdef Head *head
        for index in range(self.count):
            head = &self.heads[index]
            if head.base_offset <= previous or head.base_offset + head.last_delta > limit:
                return index
            previous = head.base_offset + head.last_delta
        return self.count

    def epochs(self, int64_t above):
        """The leader epochs that are larger than all before them and than `above`, with the offset each begins at."""
        cdef Py_ssize_t index
        cdef list found = []
        for index in range(self.count):
            if self.heads[index].leader_epoch > above:
                above = self.heads[index].leader_epoch
                found.append((above, self.heads[index].base_offset))
        return found

    def of_producers(self):
        """The batches that have a producer id."""
        cdef Py_ssize_t index
        return [self.span(index) for index in range(self.count) if self.heads[index].producer_id >= 0]

    def marks(
        self,
        int64_t base_offset,
        int64_t position,
        int64_t interval,
        int64_t passed,
        int64_t newest,
        int64_t newest_offset,
    ):
        """Every batch before which more than `interval` bytes have `passed` since the last such one.

        The buffer begins at `position` of the file. `newest` is the largest timestamp before these batches, with the
        last offset of the first batch that had it.
        """
        cdef array offsets = clone(NUMBERS, self.count, False), positions = clone(NUMBERS, self.count, False)
        cdef array stamps = clone(NUMBERS, self.count, False), stamp_offsets = clone(NUMBERS, self.count, False)
        cdef Py_ssize_t index, marked = 0, stamped = 0
        cdef Head *head
        for index in range(self.count):
            head = &self.heads[index]
            if head.max_timestamp > newest:
                newest, newest_offset = head.max_timestamp, head.base_offset + head.last_delta
            if passed > interval:
                offsets.data.as_longlongs[marked] = head.base_offset + head.last_delta - base_offset
                positions.data.as_longlongs[marked] = position + head.position
                marked += 1
                if stamped == 0 or stamps.data.as_longlongs[stamped - 1] != newest:
                    stamps.data.as_longlongs[stamped] = newest
                    stamp_offsets.data.as_longlongs[stamped] = newest_offset - base_offset
                    stamped += 1
                passed = 0
            passed += head.size
        for numbers, count in ((offsets, marked), (positions, marked), (stamps, stamped), (stamp_offsets, stamped)):
            resize(numbers, count)
        return Marks(offsets, positions, stamps, stamp_offsets, passed, newest, newest_offset)

    def __len__(self):
        return self.count

    def __getitem__(self, at):
        cdef Py_ssize_t index
        if isinstance(at, slice):
            return [self.span(index) for index in range(*at.indices(self.count))]
        index = at
        if index < 0:
            index += self.count
        if not 0 <= index < self.count:
            raise IndexError(f"no batch {at}: there are {self.count}")
        return self.span(index)

    def __iter__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            yield self.span(index)

    def __eq__(self, other):
        return list(self) == list(other) if isinstance(other, (Spans, list)) else NotImplemented

    def __repr__(self):
        return repr(list(self))


def walk(data, Py_ssize_t position=0, *, bint check_crc=True):
    """The whole batches from `position` on, the end of the last good one, and the fault of the next one, if any.

    A batch that the buffer cuts off is no fault. Never raises for the content of the bytes.
    """
    cdef Py_buffer view
    cdef Spans spans = Spans.__new__(Spans)
    cdef Head *head
    cdef Outcome outcome
    cdef Py_ssize_t size
    if position < 0:
        raise ValueError(f"position {position} is not in the buffer")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    size = view.len
    try:
        with nogil:
            outcome = walked(<Bytes>view.buf, size, &position, check_crc, spans)
    finally:
        PyBuffer_Release(&view)
    if outcome == NO_MEMORY:
        raise MemoryError
    if outcome == AT_END:
        return spans, position, frame_fault(memoryview(data), position) if size - position >= OVERHEAD else None
    if outcome == BAD_CRC:
        return spans, position, "the CRC does not match: the bytes were damaged"
    if outcome == BAD_HEADER:
        head = spans.next(0)
        return spans, position, header_fault(head.base_offset, head.last_delta, head.count)
    return spans, position, None


cdef Outcome walked(
    Bytes data, Py_ssize_t size, Py_ssize_t *position, bint check_crc, Spans spans
) noexcept nogil:
    """Add the batches found to `spans`; a batch with a bad header is left behind them."""
    cdef Py_ssize_t at = position[0], end
    cdef Head *head
    while True:
        position[0] = at
        end = end_of_batch(data, at, size)
        if end < 0:
            return AT_END
        if end > size:
            return CUT_OFF
        if check_crc and not has_right_crc(data, at, end):
            return BAD_CRC
        head = spans.next((size - at) // (end - at))
        if head == NULL:
            return NO_MEMORY
        if not read_head(data, at, head):
            return BAD_HEADER
        spans.count += 1
        at = end
