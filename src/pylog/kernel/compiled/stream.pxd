# cython: language_level=3
from libc.stdint cimport uint32_t

from pylog.kernel.compiled.wire cimport Bytes


cdef uint32_t crc_of(uint32_t crc, Bytes data, size_t size) noexcept nogil  # CRC-32C of what follows; 0 begins
