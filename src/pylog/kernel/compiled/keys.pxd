# cython: language_level=3
from libc.stdint cimport uint32_t

from pylog.kernel.compiled.wire cimport Bytes


cdef uint32_t kafka_hash(Bytes data, Py_ssize_t size) noexcept nogil
