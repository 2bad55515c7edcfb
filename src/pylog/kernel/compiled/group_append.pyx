# cython: language_level=3, boundscheck=False, wraparound=False
"""Plain appends of many threads that share a sync: whoever finds nobody at it appends and syncs for all who have joined.

All that a thread does here takes a few steps of the compiled kernel, which the interpreter's lock makes one; it sleeps
without that lock, and all of a group are woken by one call of the system. See `pylog.broker.group_commit`, whose ordinary way says
what this has to be equal to.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.fast_append cimport AppendState, end_of

cdef extern from "futex.h" nogil:
    ctypedef struct futex:
        pass
    void futex_make(futex *of)
    void futex_end(futex *of)
    void futex_wait(futex *of, long ns)
    void futex_call(futex *of)
    void futex_done(futex *of)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    SLICE_NS = 100_000_000  # how long a signal may wait for who sleeps
    SECOND_NS = 1_000_000_000
    GATHER_NS_MOST = 3_000_000  # a disk may have stalled


cdef class Group:
    """Batches that are appended together; `answers` are theirs, in order, once it `is_done`."""

    cdef list batches
    cdef list answers
    cdef object error
    cdef int32_t epoch
    cdef Py_ssize_t joined  # seen without the interpreter's lock
    cdef bint is_begun
    cdef bint is_done
    cdef futex futex

    def __cinit__(self):
        self.batches, self.answers = [], []
        futex_make(&self.futex)

    def __dealloc__(self):
        futex_end(&self.futex)

    cdef object answer(self, Py_ssize_t index):
        done = self.answers[index] if index < len(self.answers) else self.error
        if isinstance(done, BaseException):
            raise done
        if self.error is not None and (done is not None or not isinstance(self.error, Exception)):
            raise self.error
        return done


cdef class GroupAppends:
    """The twin of `pure.GroupAppends`."""

    cdef object leading
    cdef object whole
    cdef object ordinarily
    cdef object show
    cdef Group open
    cdef Py_ssize_t expected
    cdef int64_t sync_ns

    def __init__(self, leading, whole, ordinarily, show):
        self.leading, self.whole, self.ordinarily, self.show = leading, whole, ordinarily, show
        self.open = Group()
        self.expected = 1

    def append(self, AppendState partition not None, BatchHeader batch not None, int32_t epoch, int64_t now_ms, role):
        """See the twin."""
        cdef Group group
        cdef Py_ssize_t index
        if not partition.lets_in(batch, now_ms):
            return None
        group = self.open
        index = group.joined
        if index and group.epoch != epoch:
            return None
        group.epoch = epoch
        group.batches.append(batch)
        group.joined = index + 1
        try:
            while not (group.is_done or self.leads(group, partition, role)):
                with nogil:
                    futex_wait(&group.futex, SLICE_NS)
                PyErr_CheckSignals()
        except BaseException:
            self.leave(group, index)
            raise
        return group.answer(index)

    def hand_over(self):
        """Let one of those who have joined lead: the lead is free."""
        if self.open.joined:
            futex_call(&self.open.futex)

    cdef int leave(self, Group group, Py_ssize_t index) except -1:
        """A signal's handler has raised: what is not appended stays so, and another one may have to lead."""
        if not group.is_begun:
            group.batches[index] = None
            if group.batches.count(None) == group.joined:
                group.batches.clear()
                group.joined = 0
            futex_call(&group.futex)
        return 0

    cdef bint leads(self, Group group, AppendState partition, role) except -1:
        """Lead, unless somebody else does."""
        if not self.leading.acquire(False):
            return False
        if group.joined == 1 and self.expected == 1:
            return self.lead(partition, role, False)
        # What a signal's handler raises in one thread is not for the others: none may strike who leads some.
        self.leading.release()
        with self.whole:
            return self.leading.acquire(False) and self.lead(partition, role, True)

    cdef bint lead(self, AppendState partition, role, bint is_whole) except -1:
        cdef Group group, following = Group()
        cdef int64_t began
        cdef bint leads = True
        self.gather()
        group, self.open = self.open, following
        group.is_begun = True
        began = now_ns()
        try:
            if not partition.append_at_once(group.batches, group.answers, group.epoch, is_whole):
                if not is_whole:
                    # From here on it is Python, where a signal's handler may run, and append here itself.
                    leads = False
                    self.leading.release()
                with self.whole:
                    partition.append_rest(group.batches, group.answers, group.epoch, self.ordinarily, role)
            if leads:
                leads = False
                self.leading.release()
            if end_of(group.answers) >= 0:
                self.show(role)
        except BaseException as error:
            group.error = error
        if leads:
            self.leading.release()
        self.sync_ns, self.expected = now_ns() - began, max(group.joined + following.joined, 1)
        group.is_done = True
        futex_done(&group.futex)
        self.hand_over()
        return True

    cdef int gather(self) except -1:
        """Wait until as many have joined as the last time, or a third of what a sync takes has passed."""
        cdef Group group = self.open
        cdef int64_t deadline = now_ns() + min(self.sync_ns // 3, <int64_t>GATHER_NS_MOST)
        cdef Py_ssize_t expected = self.expected
        if group.joined < expected:
            with nogil:
                while group.joined < expected and now_ns() < deadline:
                    sched_yield()
        return 0


cdef inline int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * SECOND_NS + now.tv_nsec
