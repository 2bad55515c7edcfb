# cython: language_level=3
"""The twin of `pure.open_file`: a read, or a write of one buffer, of an open file is a call of the system and a few
comparisons.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from *:
    """
    #include <sys/stat.h>
    #include <unistd.h>
    #if defined(__APPLE__)
    #include <errno.h>
    #include <fcntl.h>
    #endif
    /* See pylog.files.syncing. */
    static inline int pylog_datasync(int descriptor)
    {
    #if defined(__APPLE__)
        if (fcntl(descriptor, F_FULLFSYNC) == 0)
            return 0;
        if (errno != ENOTSUP && errno != EOPNOTSUPP && errno != EINVAL && errno != ENOTTY)
            return -1;
        return fsync(descriptor);
    #else
        return fdatasync(descriptor);
    #endif
    }
    static inline long long pylog_size(int descriptor)
    {
        struct stat found;
        return fstat(descriptor, &found) == 0 ? (long long)found.st_size : -1;
    }
    """
    int datasync "pylog_datasync"(int descriptor) nogil
    int64_t size_of "pylog_size"(int descriptor) nogil
    ssize_t pread(int descriptor, void *data, size_t size, off_t position) nogil
    ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position) nogil


cdef class OpenFile:
    """See the twin. No lock is needed: a step of this class holds the interpreter's lock until it calls the system, and
    all numbers change outside of these calls. Python code of a subclass changes them by `pinned` and `wrote` alone.
    """

    def pinned(self, int64_t more):
        """See the twin."""
        self.pins += more

    def wrote(self, int64_t end):
        """See the twin."""
        self.note_write(end)

    cdef void note_write(self, int64_t end) noexcept:
        self.physical_size = max(self.physical_size, end)
        self.logical_size = max(self.logical_size, end)
        self.writes += 1

    def size(self):
        """Bytes of the file."""
        cdef int64_t found = -1
        if not self.read_only:
            return self.logical_size
        if self.descriptor >= 0:
            # Not to be closed meanwhile: nobody else runs.
            self.was_used = True
            found = size_of(self.descriptor)
        return found if found >= 0 else self.measured()

    def read(self, int64_t position, int64_t size):
        """Up to `size` bytes from `position` on, fewer at the end of the file. Raises what the other methods do."""
        cdef ssize_t count = -1
        cdef int descriptor
        cdef bytes data
        cdef char *target
        if self.physical_size > self.logical_size:
            size = min(size, max(0, self.logical_size - position))
        if size < 0 or position < 0:
            return self.read_on(position, size)
        data = PyBytes_FromStringAndSize(NULL, size)
        target = PyBytes_AS_STRING(data)
        # Counted before the descriptor is looked at.
        self.pins += 1
        try:
            descriptor = self.descriptor
            if descriptor >= 0:
                self.was_used = True
            else:
                descriptor = self.opened()
            with nogil:
                count = pread(descriptor, target, size, position)
        finally:
            self.let_go()
        if count < 0:
            # Once more: then it is said what is wrong.
            return self.read_on(position, size)
        return data if count == size else data[:count]

    def write(self, int64_t position, *buffers):
        """Write buffers one behind the other, not behind the end of the file. Raises what the other methods do."""
        if not self.is_writable(position):
            self.check_writable("write to", position)
        if len(buffers) == 1:
            self.put(position, buffers[0])
        else:
            self.write_on(position, buffers)

    cpdef sync(self):
        """Make what was written durable. Raises what the other methods do."""
        cdef int64_t target = self.writes
        cdef int descriptor, refused = 0
        if not self.is_writable(0):
            self.check_writable("sync", 0)
        if self.synced >= target:
            return
        self.pins += 1
        descriptor = self.descriptor
        if descriptor >= 0:
            self.was_used = True
            with nogil:
                while datasync(descriptor) != 0:
                    refused = errno
                    if refused != EINTR:
                        break
                    refused = 0
        self.let_go()
        if descriptor < 0:
            self.sync_on()
        elif refused:
            # Not once more: the system may have forgotten that it has lost something.
            self.sync_refused(refused)
        else:
            self.synced = max(self.synced, target)

    cdef bint is_writable(self, int64_t position) noexcept:
        return not self.closed and not self.read_only and self.failed is None and 0 <= position <= self.logical_size

    cdef int let_go(self) except -1:
        """Count one call less that uses the descriptor; close it after the last one of a file that is closed."""
        self.pins -= 1
        if self.closed and self.pins == 0:
            self.give_up()
        return 0

    cdef int put(self, int64_t position, data) except -1:
        """Write one buffer where that can be done."""
        cdef Py_buffer view
        cdef ssize_t size, written = -1
        cdef int descriptor
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        size = view.len
        self.pins += 1
        descriptor = self.descriptor
        if descriptor >= 0:
            self.was_used = True
            with nogil:
                written = pwrite(descriptor, view.buf, size, position)
        PyBuffer_Release(&view)
        if written == size:
            self.note_write(position + size)
            self.let_go()
        else:
            self.put_again(position, data)
        return 0

    cdef int put_again(self, int64_t position, data) except -1:
        """Write a buffer again of which not all was written: then it is said what is wrong."""
        try:
            self.write_on(position, (data,))
        except BaseException:
            # A signal may have come before that had begun.
            self.take_back(position + len(data))
            raise
        finally:
            self.let_go()
        return 0
