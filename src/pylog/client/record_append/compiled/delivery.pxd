# cython: language_level=3
cimport cython
from libc.stdint cimport int32_t, int64_t


cdef class RecordFuture


@cython.final
cdef class Delivery:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly object bring  # called by a thread that waits; None once there is an answer
    cdef readonly list parts  # the answers to its parts, in order, where the batch was too large to be sent as one
    cdef public object failures  # hears of the first look at each record that has failed
    cdef dict looked
    cdef bint done
    cdef int64_t base_offset
    cdef object log_append_time
    cdef object error
    cdef object traceback
    cdef list callbacks  # futures with an `on_delivery`; other callbacks, each before the future that it is for

    cdef object finish(self, int64_t base_offset, object log_append_time, object error, object traceback)
    cdef int call_back(self, object fn, RecordFuture future) except -1
    cdef int forget(self, object fn) except -1


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class RecordFuture:
    cdef Delivery delivery
    cdef Py_ssize_t index
    cdef int64_t timestamp
    cdef object on_delivery  # None again once it was called


cdef RecordFuture future_of(Delivery delivery, Py_ssize_t index, int64_t timestamp)
cdef int tell_later(RecordFuture future, object on_delivery) except -1
