# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.publish_slots`."""

import struct

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pylog.kernel.compiled.open_file cimport OpenFile
from pylog.kernel.compiled.stream cimport crc_of
from pylog.kernel.compiled.wire cimport Bytes, be32, be64, put_be32, put_be64

from pylog.kernel.format import COUNTER_MAX, SEEN_COUNTER_MAX

cdef extern from *:
    int64_t swapped "(int64_t)__builtin_bswap64"(int64_t n)
    uint32_t swapped32 "__builtin_bswap32"(uint32_t n)

cdef enum:
    LONG_ONES = 8  # of the numbers, eight bytes each; the other three have four
    CRC_AT = 84
    BYTES = 88
    SLOT_BYTES = 96  # from one slot to the other
    FAILED = 1

cdef uint64_t MOST = COUNTER_MAX
cdef uint64_t MOST_SEEN = SEEN_COUNTER_MAX


cdef inline int64_t le64(Bytes at) noexcept:
    return swapped(be64(at))


cdef inline uint32_t le32(Bytes at) noexcept:
    return swapped32(<uint32_t>be32(at))


cdef bint is_good(Bytes at, uint32_t seed) noexcept:
    """Whether a slot has something that can be, and its checksum is right."""
    cdef Py_ssize_t index
    if crc_of(seed, at, CRC_AT) != le32(at + CRC_AT) or max(<uint64_t>le64(at), <uint64_t>le64(at + 8)) > MOST_SEEN:
        return False
    for index in range(CRC_AT):
        if at[index]:
            return True
    return False


cdef class Slots:
    """Two slots at `slots_at` in a file, of which `sequence` is in use; a CRC of what is in one goes on from `seed`."""

    def __init__(self, file, int64_t slots_at, uint32_t seed):
        self.file = file
        self.sequence = -1
        self.slots_at, self.seed = slots_at, seed
        self.packed = bytearray(BYTES)

    def newest(self, bytes data):
        """Of what was read of the two slots, the higher sequence whose checksum is right, and the eleven numbers shown
        with it, of which the ninth is a bool; 0 and None if neither is right.
        """
        cdef Bytes first = <Bytes>PyBytes_AS_STRING(data), found = NULL
        cdef Py_ssize_t index
        for index in range(2):
            if SLOT_BYTES * index + BYTES <= PyBytes_GET_SIZE(data) and is_good(first + SLOT_BYTES * index, self.seed):
                if found == NULL or <uint64_t>le64(first + SLOT_BYTES) > <uint64_t>le64(first):
                    found = first + SLOT_BYTES * index
        if found == NULL:
            return 0, None
        return <uint64_t>le64(found), (
            <uint64_t>le64(found + 8), le64(found + 16), le64(found + 24), le64(found + 32), le64(found + 40),
            le64(found + 48), le64(found + 56), le64(found + 64), bool(le32(found + 72) & FAILED),
            le32(found + 76), le32(found + 80),
        )

    def show(self, numbers):
        """Write the eleven numbers of a state into the other slot.

        Raises struct.error where they are not so many, or have no place; and what the file does.
        """
        cdef int64_t found[NUMBERS]
        cdef int too_large = 0
        cdef Py_ssize_t index
        cdef bint fits = len(numbers) == NUMBERS
        if fits:
            for index in range(NUMBERS):
                found[index] = PyLong_AsLongLongAndOverflow(numbers[index], &too_large)
                fits = fits and not too_large and (0 < index < LONG_ONES or found[index] >= 0)
                fits = fits and (index < LONG_ONES or found[index] <= 0xFFFFFFFF)
            fits = fits and <uint64_t>found[0] <= MOST
        if not fits:
            raise struct.error(f"these are no numbers of a state: {numbers}")
        self.show_these(found)

    cdef int show_these(self, int64_t *numbers) except -1:
        """The same for numbers that have their places."""
        cdef int64_t sequence = self.sequence + 1, position = self.slots_at + SLOT_BYTES * (sequence & 1)
        cdef uint8_t *at = <uint8_t *>PyByteArray_AS_STRING(self.packed)
        cdef Py_ssize_t index
        put_be64(at, swapped(sequence))
        for index in range(LONG_ONES):
            put_be64(at + 8 + 8 * index, swapped(numbers[index]))
        for index in range(LONG_ONES, NUMBERS):
            put_be32(at + 72 + 4 * (index - LONG_ONES), swapped32(<uint32_t>numbers[index]))
        put_be32(at + CRC_AT, swapped32(crc_of(self.seed, at, CRC_AT)))
        if isinstance(self.file, OpenFile) and (<OpenFile>self.file).is_writable(position):
            (<OpenFile>self.file).put(position, self.packed)
        else:
            self.file.write(position, self.packed)
        self.sequence = sequence
        return 0
