# cython: language_level=3
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef class BatchHeader:
    cdef public object data
    cdef public Py_ssize_t size
    cdef public int64_t base_offset
    cdef public int32_t leader_epoch
    cdef public uint32_t crc
    cdef public int16_t attributes
    cdef public int64_t last_offset
    cdef public int32_t last_offset_delta
    cdef public int64_t base_timestamp
    cdef public int64_t max_timestamp
    cdef public int64_t producer_id
    cdef public int16_t producer_epoch
    cdef public int32_t base_sequence
    cdef public int32_t count
    cdef public bint trusted

    cpdef write(self)
    cpdef stamp(self, int64_t base_offset, int32_t leader_epoch)
    cdef append_time(self)
    cdef void put_stamp(self, uint8_t *at) noexcept
    cdef uint8_t *own(self) except NULL
