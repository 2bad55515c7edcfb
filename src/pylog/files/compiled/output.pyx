# cython: language_level=3
"""The twin of `files.output`: a write of one buffer to an open file is a call of the system and a few comparisons."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from "unistd.h":
    ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position) nogil


cdef class Output:
    """What a file that is written consists of, and how it is written: see `files.output.Output`."""

    cdef public int descriptor
    cdef public bint read_only
    cdef public bint writing
    cdef public bint has_written
    cdef public bint closed
    cdef public object failed
    cdef public int64_t logical_size
    cdef public int64_t physical_size
    cdef public int64_t writes

    def size(self):
        """See `protocol.File.size`."""
        return self.measured() if self.read_only else self.logical_size

    def write(self, int64_t position, *buffers):
        """See `protocol.File.write`."""
        cdef Py_buffer view
        cdef ssize_t written, size
        cdef int descriptor
        if self.closed or self.read_only or self.failed is not None or not 0 <= position <= self.logical_size:
            self.check_writable("write to", position)
        if PyTuple_GET_SIZE(buffers) != 1:
            self.write_on(position, buffers)
            return
        PyObject_GetBuffer(<object>PyTuple_GET_ITEM(buffers, 0), &view, PyBUF_SIMPLE)
        size = view.len
        self.writing = self.has_written = True
        descriptor = self.descriptor
        written = -1
        if descriptor >= 0:
            with nogil:
                written = pwrite(descriptor, view.buf, size, position)
        PyBuffer_Release(&view)
        if written != size:
            # All of it anew: then it is said what is wrong.
            self.write_on(position, buffers)
            return
        self.writing = False
        if self.closed:
            self.give_up()
        self.physical_size = max(self.physical_size, position + size)
        self.logical_size = max(self.logical_size, position + size)
        self.writes += 1
