# cython: language_level=3
"""The twin of `pure.output`: a write of one buffer to an open file is a call of the system and a few comparisons."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from "unistd.h":
    ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position) nogil


cdef class Output:
    """A file to be written by one thread at a time: its descriptor, and what is known of it.

    Who writes takes no lock, but says `writing` before it looks at the descriptor: whoever closes that looks at both.
    """

    def size(self):
        """Bytes of the file."""
        return self.measured() if self.read_only else self.logical_size

    def write(self, int64_t position, *buffers):
        """Write buffers one behind the other, not behind the end of the file. Raises what the other methods do."""
        if not self.is_writable(position):
            self.check_writable("write to", position)
        if len(buffers) == 1:
            self.put(position, buffers[0])
        else:
            self.write_on(position, buffers)

    cdef bint is_writable(self, int64_t position) noexcept:
        return not self.closed and not self.read_only and self.failed is None and 0 <= position <= self.logical_size

    cdef int put(self, int64_t position, data) except -1:
        """Write one buffer where that can be done."""
        cdef Py_buffer view
        cdef ssize_t size, written = -1
        cdef int descriptor
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        size = view.len
        self.writing = self.has_written = True
        descriptor = self.descriptor
        if descriptor >= 0:
            with nogil:
                written = pwrite(descriptor, view.buf, size, position)
        PyBuffer_Release(&view)
        if written != size:
            # All of it anew: then it is said what is wrong.
            self.write_on(position, (data,))
            return 0
        self.writing = False
        if self.closed:
            self.give_up()
        self.physical_size = max(self.physical_size, position + size)
        self.logical_size = max(self.logical_size, position + size)
        self.writes += 1
        return 0
