# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.slot`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int64_t, uint8_t, uint32_t

from pylog.kernel.compiled.stream cimport crc_of
from pylog.kernel.compiled.wire cimport put_be32, put_be64

from pylog.kernel.pure import slot as pure

cdef extern from *:
    int64_t swapped "(int64_t)__builtin_bswap64"(int64_t n)
    uint32_t swapped32 "__builtin_bswap32"(uint32_t n)

cdef enum:
    LONG_ONES = 8  # of the numbers, eight bytes each; the other three have four
    ALL = 11
    CRC_AT = 84
    BYTES = 88


def pack_slot(bytearray slot not None, uint32_t key_crc, sequence, numbers):
    """Put a sequence number and the eleven of a state into a slot, and a CRC that goes on from `key_crc`.

    Raises struct.error where they are not so many, or have no place.
    """
    cdef uint8_t *at = <uint8_t *>PyByteArray_AS_STRING(slot)
    cdef Py_ssize_t index
    cdef int too_large = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(sequence, &too_large)
    cdef bint fits = number >= 0 and not too_large and PyByteArray_GET_SIZE(slot) >= BYTES and len(numbers) == ALL
    if fits:
        put_be64(at, swapped(number))
        for index in range(ALL):
            number = PyLong_AsLongLongAndOverflow(numbers[index], &too_large)
            fits = fits and not too_large
            if index < LONG_ONES:
                put_be64(at + 8 + 8 * index, swapped(number))
                fits = fits and (index > 0 or number >= 0)
            else:
                put_be32(at + 72 + 4 * (index - LONG_ONES), swapped32(<uint32_t>number))
                fits = fits and 0 <= number <= 0xFFFFFFFF
    if not fits:
        # Which says what is wrong.
        pure.pack_slot(slot, key_crc, sequence, numbers)
        return
    put_be32(at + CRC_AT, swapped32(crc_of(key_crc, at, CRC_AT)))
