# cython: language_level=3
"""Varints and fields in C: no read goes beyond `end`, and every write was measured before."""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #define pylog_bits(n) (64 - __builtin_clzll((n) | 1))
    #define pylog_be16(p) ((int16_t)((p)[0] << 8 | (p)[1]))
    #define pylog_be32(p) ((int32_t)((uint32_t)(p)[0] << 24 | (uint32_t)(p)[1] << 16 | (uint32_t)(p)[2] << 8 | (p)[3]))
    #define pylog_be64(p) ((int64_t)((uint64_t)(uint32_t)pylog_be32(p) << 32 | (uint32_t)pylog_be32((p) + 4)))
    #define pylog_put16(p, n) ((p)[0] = (uint8_t)((uint16_t)(n) >> 8), (p)[1] = (uint8_t)(n))
    #define pylog_put32(p, n) (pylog_put16(p, (uint32_t)(n) >> 16), pylog_put16((p) + 2, n))
    #define pylog_put64(p, n) (pylog_put32(p, (uint64_t)(n) >> 32), pylog_put32((p) + 4, n))
    """
    int bits_of "pylog_bits"(uint64_t n) nogil
    int16_t be16 "pylog_be16"(const uint8_t *at) nogil
    int32_t be32 "pylog_be32"(const uint8_t *at) nogil
    int64_t be64 "pylog_be64"(const uint8_t *at) nogil
    void put_be16 "pylog_put16"(uint8_t *at, int16_t n) nogil
    void put_be32 "pylog_put32"(uint8_t *at, uint32_t n) nogil
    void put_be64 "pylog_put64"(uint8_t *at, int64_t n) nogil


ctypedef const uint8_t *Bytes


cdef struct Fields:
    # One record as it lies in a stream; a size below 0 is null.
    int64_t age
    int64_t delta
    Bytes body  # the first byte of its offset delta
    Bytes key
    int64_t key_size
    Bytes value
    int64_t value_size
    Bytes headers  # the first byte of their number
    Bytes end


cdef inline uint64_t zigzag(int64_t n) noexcept nogil:
    return (<uint64_t>n << 1) ^ (<uint64_t>0 - (<uint64_t>n >> 63))


cdef inline int64_t unzigzag(uint64_t n) noexcept nogil:
    return <int64_t>((n >> 1) ^ (<uint64_t>0 - (n & 1)))


cdef inline int varint_size(uint64_t n) noexcept nogil:
    return (bits_of(n) + 6) // 7


cdef inline uint8_t *put_varint(uint8_t *at, uint64_t n) noexcept nogil:
    while n > 0x7F:
        at[0] = <uint8_t>(n | 0x80)
        n >>= 7
        at += 1
    at[0] = <uint8_t>n
    return at + 1


cdef inline Bytes get_varint(Bytes at, Bytes end, uint64_t *n, int most) noexcept nogil:
    """The zigzag bits of a varint of up to `most` bytes, 5 or 10, and its end; NULL where it is invalid.

    Bits beyond 32 or 64 are dropped, as Kafka's readers do.
    """
    cdef uint64_t value
    cdef int shift = 7
    if at >= end:
        return NULL
    if at[0] < 0x80:
        n[0] = at[0]
        return at + 1
    value = at[0] & 0x7F
    at += 1
    while shift < 7 * most:
        if at >= end:
            return NULL
        value |= <uint64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            n[0] = <uint32_t>value if most == 5 else value
            return at + 1
        at += 1
        shift += 7
    return NULL


cdef inline Bytes get_sized(Bytes at, Bytes end, Bytes *data, int64_t *size) noexcept nogil:
    """A length and so many bytes, which end before `end` does; NULL where they do not."""
    cdef uint64_t n
    at = get_varint(at, end, &n, 5)
    if at == NULL:
        return NULL
    data[0] = at
    if n & 1:
        size[0] = -1
        return at
    size[0] = <int64_t>(n >> 1)
    if size[0] > end - at:
        return NULL
    return at + size[0]


cdef inline Bytes get_record(Bytes at, Bytes end, Fields *found) noexcept nogil:
    """The record at `at` without its headers, and its end; NULL where it is invalid."""
    cdef uint64_t n
    at = get_varint(at, end, &n, 5)
    if at == NULL or n & 1 or <int64_t>(n >> 1) > end - at or n == 0:
        return NULL
    end = at + (n >> 1)
    found.end = end
    at = get_varint(at + 1, end, &n, 10)  # the attributes before it are unused
    if at == NULL:
        return NULL
    found.age = unzigzag(n)
    found.body = at
    at = get_varint(at, end, &n, 5)
    if at == NULL or n & 1:
        return NULL
    found.delta = <int64_t>(n >> 1)
    at = get_sized(at, end, &found.key, &found.key_size)
    if at == NULL:
        return NULL
    at = get_sized(at, end, &found.value, &found.value_size)
    if at == NULL or at >= end:
        return NULL
    found.headers = at
    return end


cdef inline Bytes get_header_count(Bytes at, Bytes end, int64_t *count) noexcept nogil:
    """The number of headers that follow, of two bytes at least each; NULL where it is impossible."""
    cdef uint64_t n
    at = get_varint(at, end, &n, 5)
    if at == NULL or n & 1 or <int64_t>n > end - at:
        return NULL
    count[0] = <int64_t>(n >> 1)
    return at


cdef inline Bytes get_header(
    Bytes at, Bytes end, Bytes *name, int64_t *name_size, Bytes *value, int64_t *value_size
) noexcept nogil:
    """One header, and its end; NULL where it is invalid."""
    at = get_sized(at, end, name, name_size)
    if at == NULL or name_size[0] < 0:
        return NULL
    return get_sized(at, end, value, value_size)


cdef inline int64_t last_delta(int64_t base, int64_t last) noexcept nogil:
    """The largest offset delta in a batch from `base` to `last`, as far as it can be said, or -1."""
    cdef uint64_t span = <uint64_t>last - <uint64_t>base
    if last < base:
        return -1
    return <int64_t>min(span, <uint64_t>0xFFFFFFFFU)
