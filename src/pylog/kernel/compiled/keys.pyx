# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `pure.keys`: many keys a call, hashed first, so that their slots are on the way when they are probed."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pylog.kernel.compiled.filter cimport RecordSpans, Span
from pylog.kernel.compiled.wire cimport Bytes

from pylog.kernel.values import Judgement

cdef extern from *:
    """
    #include <string.h>
    #define pylog_prefetch(at) __builtin_prefetch((at), 1)
    static inline uint64_t pylog_le64(const uint8_t *p)
    {
        return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24
            | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
    }
    static inline uint32_t pylog_le32(const uint8_t *p)
    {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    """
    void prefetch "pylog_prefetch"(const void *at) nogil
    uint64_t le64 "pylog_le64"(const uint8_t *at) nogil
    uint32_t le32 "pylog_le32"(const uint8_t *at) nogil

cdef enum:
    GROUP = 64  # keys hashed before the first of them is probed
    JUMP_SHIFT = 8  # eight jumps, then steps

cdef uint8_t SUPERSEDED = Judgement.SUPERSEDED, NEWEST = Judgement.NEWEST, TOMBSTONE = Judgement.NEWEST_TOMBSTONE
cdef uint8_t WITHOUT_KEY = Judgement.WITHOUT_KEY, UNSEEN = Judgement.UNSEEN


cdef struct Slot:
    uint64_t offset  # + 1; 0: free
    uint64_t a
    uint64_t b


cdef class KeyTable:
    """The newest offset of each of up to `capacity` keys, in `slots` slots. Not for two threads at once.

    Raises ValueError unless 0 <= capacity < slots.
    """

    cdef readonly Py_ssize_t capacity
    cdef Slot *table
    cdef uint64_t slots
    cdef Py_ssize_t count

    def __init__(self, Py_ssize_t slots, Py_ssize_t capacity):
        if not 0 <= capacity < slots:
            raise ValueError(f"{capacity} keys in {slots} slots: one has to stay free")
        free(self.table)
        self.table = <Slot *>calloc(slots, sizeof(Slot))
        if self.table == NULL:
            raise MemoryError(f"{slots} slots of {sizeof(Slot)} bytes")
        self.capacity = capacity
        self.slots = slots
        self.count = 0

    def __dealloc__(self):
        free(self.table)

    def __len__(self):
        """The number of different keys."""
        return self.count

    def put(self, RecordSpans spans not None, int64_t first_offset=0):
        """Note the offsets of the records that have a key, from `first_offset` on, in the order they come.

        Returns whether all were noted, and the offset of the last one that was (-1: none). At `capacity` keys the next
        record ends it, whatever its key. Offsets below 0 cannot be.
        """
        cdef Bytes payload = <Bytes>PyBytes_AS_STRING(spans.payload)
        cdef int64_t latest = -1
        cdef Py_ssize_t start = 0
        cdef bint fits = True
        if self.table == NULL:
            raise ValueError("this table was not made")
        with nogil:
            while fits and start < spans.count:
                fits = self.put_group(
                    spans.spans + start, min(spans.count - start, <Py_ssize_t>GROUP), payload, first_offset, &latest
                )
                start += GROUP
        return fits, latest

    cdef bint put_group(
        self, Span *spans, Py_ssize_t count, Bytes payload, int64_t first_offset, int64_t *latest
    ) noexcept nogil:
        cdef uint64_t hashes[2 * GROUP]
        cdef Py_ssize_t index
        cdef Slot *slot
        self.hash_group(spans, count, payload, hashes)
        for index in range(count):
            if spans[index].key_size < 0 or spans[index].offset < first_offset:
                continue
            if self.count >= self.capacity:
                return False
            slot = self.slot_of(hashes[2 * index], hashes[2 * index + 1])
            if slot.offset == 0:
                slot.a, slot.b = hashes[2 * index], hashes[2 * index + 1]
                self.count += 1
            slot.offset = <uint64_t>spans[index].offset + 1
            latest[0] = spans[index].offset
        return True

    def judge(self, RecordSpans spans not None, int64_t seen):
        """The judgement of each record, a byte of `Judgement`; the table was filled up to the offset `seen`."""
        cdef Bytes payload = <Bytes>PyBytes_AS_STRING(spans.payload)
        cdef bytes found = PyBytes_FromStringAndSize(NULL, spans.count)
        cdef uint8_t *said = <uint8_t *>PyBytes_AS_STRING(found)
        cdef Py_ssize_t start = 0
        if self.table == NULL:
            raise ValueError("this table was not made")
        with nogil:
            while start < spans.count:
                self.judge_group(
                    spans.spans + start, min(spans.count - start, <Py_ssize_t>GROUP), payload, seen, said + start
                )
                start += GROUP
        return found

    cdef void judge_group(
        self, Span *spans, Py_ssize_t count, Bytes payload, int64_t seen, uint8_t *said
    ) noexcept nogil:
        cdef uint64_t hashes[2 * GROUP]
        cdef Py_ssize_t index
        self.hash_group(spans, count, payload, hashes)
        for index in range(count):
            if spans[index].offset > seen:
                said[index] = UNSEEN
            elif spans[index].key_size < 0:
                said[index] = WITHOUT_KEY
            elif <uint64_t>spans[index].offset + 1 < self.slot_of(hashes[2 * index], hashes[2 * index + 1]).offset:
                said[index] = SUPERSEDED
            else:
                said[index] = NEWEST if spans[index].has_value else TOMBSTONE

    cdef void hash_group(self, Span *spans, Py_ssize_t count, Bytes payload, uint64_t *hashes) noexcept nogil:
        cdef Py_ssize_t index
        for index in range(count):
            if spans[index].key_size >= 0:
                murmur3(payload + spans[index].key, spans[index].key_size, hashes + 2 * index)
                prefetch(self.table + hashes[2 * index] % self.slots)

    cdef Slot *slot_of(self, uint64_t a, uint64_t b) noexcept nogil:
        """The slot of a key, or the free one where it would go."""
        cdef uint64_t at = a % self.slots, jump = b
        cdef Slot *slot = self.table + at
        while slot.offset != 0 and not (slot.a == a and slot.b == b):
            at = (at + 1 + jump % self.slots) % self.slots
            jump >>= JUMP_SHIFT
            slot = self.table + at
        return slot


cdef inline uint64_t rotated(uint64_t n, int bits) noexcept nogil:
    return n << bits | n >> (64 - bits)


cdef inline uint64_t mixed(uint64_t n) noexcept nogil:
    n = (n ^ n >> 33) * <uint64_t>0xFF51AFD7ED558CCDU
    n = (n ^ n >> 33) * <uint64_t>0xC4CEB9FE1A85EC53U
    return n ^ n >> 33


cdef void murmur3(Bytes data, int64_t size, uint64_t *hash) noexcept nogil:
    """MurmurHash3_x64_128 with seed 0 (Appleby)."""
    cdef uint64_t c1 = <uint64_t>0x87C37B91114253D5U, c2 = <uint64_t>0x4CF5AD432745937FU
    cdef uint64_t a = 0, b = 0, k
    cdef int64_t left = size, at
    while left >= 16:
        a ^= rotated(le64(data) * c1, 31) * c2
        a = (rotated(a, 27) + b) * 5 + 0x52DCE729
        b ^= rotated(le64(data + 8) * c2, 33) * c1
        b = (rotated(b, 31) + a) * 5 + 0x38495AB5
        data += 16
        left -= 16
    if left > 8:
        k = 0
        for at in range(left - 1, 7, -1):
            k = k << 8 | data[at]
        b ^= rotated(k * c2, 33) * c1
    if left > 0:
        k = 0
        for at in range(min(left, <int64_t>8) - 1, -1, -1):
            k = k << 8 | data[at]
        a ^= rotated(k * c1, 31) * c2
    a ^= <uint64_t>size
    b ^= <uint64_t>size
    a += b
    b += a
    a = mixed(a)
    b = mixed(b)
    a += b
    b += a
    hash[0] = a
    hash[1] = b


def murmur2(data):
    """The 32-bit hash by which Kafka's clients choose a partition, signed (Utils.murmur2)."""
    cdef Py_buffer view
    cdef int32_t found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    found = <int32_t>kafka_hash(<Bytes>view.buf, view.len)
    PyBuffer_Release(&view)
    return found


cdef uint32_t kafka_hash(Bytes data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t h = 0x9747B28CU ^ <uint32_t>size, k
    cdef Py_ssize_t left = size
    while left >= 4:
        k = le32(data) * <uint32_t>0x5BD1E995U
        h = h * <uint32_t>0x5BD1E995U ^ (k ^ k >> 24) * <uint32_t>0x5BD1E995U
        data += 4
        left -= 4
    if left > 0:
        k = data[0]
        if left > 1:
            k |= <uint32_t>data[1] << 8
        if left > 2:
            k |= <uint32_t>data[2] << 16
        h = (h ^ k) * <uint32_t>0x5BD1E995U
    h = (h ^ h >> 13) * <uint32_t>0x5BD1E995U
    return h ^ h >> 15
