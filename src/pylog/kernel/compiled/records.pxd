# cython: language_level=3
cimport cython
from libc.stdint cimport int32_t, int64_t


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Record:
    cdef readonly bytes value
    cdef readonly bytes key
    cdef int64_t stamp  # NO_STAMP: None
    cdef readonly tuple headers

    cdef tuple fields(self)


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class RecordMetadata:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp

    cdef tuple fields(self)


cdef RecordMetadata metadata(object topic, int32_t partition, int64_t offset, int64_t timestamp)


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class ConsumerRecord:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly tuple headers
    cdef readonly object scope

    cdef tuple fields(self)


cdef enum:
    NO_STAMP = -2  # no record has this timestamp


cdef bytes plain_bytes(object data)
cdef tuple plain_headers(object headers)
cdef int64_t plain_stamp(object value, object key, object timestamp) except? -3
