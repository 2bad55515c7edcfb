# cython: language_level=3
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t

from pylog.kernel.compiled.wire cimport Bytes, be16, be32, be64

cdef enum:
    HEADER = 61
    OVERHEAD = 12
    MAGIC = 2
    CRC_FROM = 21
    LENGTH_MAX = 2147483635

cdef extern from "<stdint.h>" nogil:
    const int64_t LONG_MAX "INT64_MAX"
    const int64_t LAST_OFFSET "(INT64_MAX - 1)"  # the offset behind a record has to fit into 64 bits, too


cdef struct Head:
    int64_t position
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t size
    int32_t last_delta
    int32_t leader_epoch
    int32_t base_sequence
    int32_t count
    int16_t attributes
    int16_t producer_epoch


cdef uint32_t crc_of(uint32_t crc, Bytes data, size_t size) noexcept nogil  # CRC-32C of the bytes that follow; 0 begins


cdef inline Py_ssize_t end_of_batch(Bytes data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    """The end of the batch at `at`, maybe behind the buffer; -1 for a header that is not whole, or impossible."""
    cdef int32_t length
    if at > size - HEADER:
        return -1
    length = be32(data + at + 8)
    if data[at + 16] != MAGIC or not HEADER - OVERHEAD <= length <= LENGTH_MAX:
        return -1
    return at + OVERHEAD + length


cdef inline bint has_right_crc(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    return crc_of(0, data + at + CRC_FROM, end - at - CRC_FROM) == <uint32_t>be32(data + at + 17)


cdef inline bint read_head(Bytes data, Py_ssize_t at, Head *head) noexcept nogil:
    """Read a header; return whether its numbers are possible."""
    cdef Bytes here = data + at
    head.position = at
    head.size = OVERHEAD + be32(here + 8)
    head.base_offset = be64(here)
    head.leader_epoch = be32(here + 12)
    head.attributes = be16(here + 21)
    head.last_delta = be32(here + 23)
    head.base_timestamp = be64(here + 27)
    head.max_timestamp = be64(here + 35)
    head.producer_id = be64(here + 43)
    head.producer_epoch = be16(here + 51)
    head.base_sequence = be32(here + 53)
    head.count = be32(here + 57)
    return (
        head.base_offset >= 0
        and head.last_delta >= 0
        and 0 <= head.count <= <int64_t>head.last_delta + 1
        and head.base_offset <= LAST_OFFSET - head.last_delta
    )
