# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.group_append`: plain batches of a group go in one step, without any Python code.

A thread that does nothing but append takes a few steps of the compiled kernel here, which the interpreter's lock makes
one. It sleeps without that lock, and all of a group are woken by one call of the system.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.fast_append cimport AppendState, end_of, now_ns
from pylog.kernel.compiled.tail cimport Appended

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
    SLICE_NS = 100_000_000  # how long a signal may wait for a thread that sleeps
    SECOND_NS = 1_000_000_000
    SECONDS_MOST = 1_000_000_000
    GATHER_NS_MOST = 3_000_000  # a disk may have stalled


cdef class AppendGroup:
    """Batches that are appended together; `answers` are theirs, in order, once it `is_done`."""

    cdef object partition
    cdef AppendState state
    cdef list batches  # as `AppendState.append_at_once` has them
    cdef list pendings
    cdef list answers
    cdef object error
    cdef int32_t epoch  # of the plain ones, or -1
    cdef Py_ssize_t joined  # seen without the interpreter's lock
    cdef Py_ssize_t drivers  # how many of them wait in a thread of their own, which may drive
    cdef bint is_begun
    cdef bint is_done
    cdef futex futex

    def __cinit__(self):
        self.batches, self.pendings, self.answers = [], [], []
        self.epoch = -1
        futex_make(&self.futex)

    def __dealloc__(self):
        futex_end(&self.futex)

    cdef object outcome(self, Py_ssize_t index):
        """The answer to a batch: an Appended, an error, or None where nothing was done for it."""
        done = self.answers[index] if index < len(self.answers) else self.error
        if self.error is not None and (isinstance(done, Appended) or not isinstance(self.error, Exception)):
            return self.error
        return done


cdef class GroupAppends:
    """The twin of `pure.GroupAppends`."""

    cdef object driving
    cdef object whole
    cdef object general
    cdef object tell
    cdef object show
    cdef object answer
    cdef AppendGroup open
    cdef Py_ssize_t expected
    cdef int64_t sync_ns

    def __init__(self, driving, whole, general, tell, show, answer):
        self.driving, self.whole = driving, whole
        self.general, self.tell, self.show, self.answer = general, tell, show, answer
        self.open = AppendGroup()
        self.expected = 1

    @property
    def lacks_driver(self):
        """See the twin."""
        return self.open.joined > 0 and self.open.drivers == 0

    def append(self, partition, BatchHeader batch not None, int32_t epoch, int64_t now_ms):
        """See the twin."""
        cdef AppendGroup group = self.add(partition, batch, epoch, now_ms, None)
        cdef Py_ssize_t index = group.joined - 1
        try:
            self.wait_until(group, -1)
        except BaseException:
            self.leave(group, index)
            raise
        done = group.outcome(index)
        if isinstance(done, BaseException):
            raise done
        return done

    def join(
        self, partition, BatchHeader batch not None, int32_t epoch, int64_t now_ms, pending
    ):
        """See the twin."""
        return self.add(partition, batch, epoch, now_ms, pending)

    def wait(self, AppendGroup group not None, timeout):
        """See the twin."""
        cdef bint is_done = False
        try:
            is_done = self.wait_until(group, now_ns() + <int64_t>(min(max(timeout, 0), SECONDS_MOST) * SECOND_NS))
        finally:
            if not is_done:
                # It may have been called to drive just now.
                futex_call(&group.futex)
        return is_done

    def drive(self):
        """See the twin."""
        if self.open.joined:
            self.drives()

    def hand_over(self):
        """See the twin."""
        if self.open.joined:
            futex_call(&self.open.futex)

    def append_general(self, AppendGroup group not None, batch):
        """Append the next batch of a group, which is not plain."""
        pending = group.pendings[len(group.answers)]
        return self.general(group.partition, pending, batch[0] if type(batch) is tuple else batch)

    def tell_followers(self, AppendGroup group not None):
        """Let followers have what is appended, before it is synced."""
        self.tell(group.partition)

    cdef AppendGroup add(self, partition, BatchHeader batch, int32_t epoch, int64_t now_ms, pending):
        cdef AppendGroup group
        cdef object entry = batch, general = (batch,)
        cdef AppendState state = partition.state
        cdef bint is_plain = state.lets_in(batch, now_ms)
        # From here on no object is made that the collector tracks: no other thread comes between.
        group = self.open
        if not is_plain or group.epoch not in (-1, epoch):
            entry = general
        else:
            group.epoch = epoch
        group.partition, group.state = partition, state
        group.batches.append(entry)
        group.pendings.append(pending)
        group.drivers += pending is None
        group.joined += 1
        return group

    cdef bint wait_until(self, AppendGroup group, int64_t deadline) except -1:
        """Drive, or sleep until the group is done; False where the time is up before (-1: never)."""
        cdef int64_t left
        while not group.is_done:
            if not group.is_begun and self.drives():
                continue
            left = SLICE_NS
            if deadline >= 0:
                left = min(left, deadline - now_ns())
                if left <= 0:
                    return False
            with nogil:
                futex_wait(&group.futex, left)
            PyErr_CheckSignals()
        return True

    cdef int leave(self, AppendGroup group, Py_ssize_t index) except -1:
        """A signal's handler has raised: what is not appended stays so, and another one may have to drive."""
        if not group.is_begun:
            group.batches[index] = None
            group.drivers -= 1
            if group.batches.count(None) == group.joined:
                group.batches.clear()
                group.pendings.clear()
                group.joined = 0
            futex_call(&group.futex)
        return 0

    cdef bint drives(self) except -1:
        """Drive, unless another thread does."""
        cdef AppendGroup following = AppendGroup()
        if not self.open.joined or not self.driving.acquire(False):
            return False
        if (
            self.open.joined == 1 and self.expected == 1 and self.open.pendings[0] is None
            and not self.open.state.rules.has_followers
        ):
            self.drive_open(following, False)
            return True
        # A handler's error in one thread is not for the others: none may strike a thread that drives some.
        self.driving.release()
        with self.whole:
            if not self.driving.acquire(False):
                return False
            if not self.open.joined:
                # Another thread has driven them, while this one began its block.
                self.driving.release()
                return False
            self.drive_open(following, True)
        return True

    cdef int drive_open(self, AppendGroup following, bint is_whole) except -1:
        cdef AppendGroup group
        cdef int64_t began
        cdef bint is_driving = True
        if self.open.joined < self.expected:
            self.gather()
        group, self.open = self.open, following
        group.is_begun = True
        began = now_ns()
        try:
            if not group.state.append_at_once(group.batches, group.answers, group.epoch, is_whole):
                if not is_whole:
                    # From here on it is Python, where a signal's handler may run, and append here itself.
                    is_driving = False
                    self.driving.release()
                with self.whole:
                    group.state.append_rest(
                        group.batches, group.answers, group.epoch, self.append_general, self.tell_followers, group
                    )
            if is_driving:
                is_driving = False
                self.driving.release()
            if end_of(group.answers) >= 0:
                self.show(group.partition)
        except BaseException as error:
            group.error = error
        if is_driving:
            self.driving.release()
        self.sync_ns, self.expected = now_ns() - began, max(group.joined + following.joined, 1)
        group.is_done = True
        futex_done(&group.futex)
        self.hand_over()
        self.answer_pendings(group)
        return 0

    cdef int answer_pendings(self, AppendGroup group) except -1:
        cdef Py_ssize_t index
        cdef object raised = None
        for index in range(len(group.pendings)):
            if group.pendings[index] is not None:
                # Each whatever the callbacks of another raise.
                try:
                    self.answer(group.pendings[index], group.outcome(index))
                except BaseException as error:
                    raised = error
        if group.error is not None and not isinstance(group.error, Exception):
            raised = group.error
        if raised is not None:
            raise raised
        return 0

    cdef int gather(self) except -1:
        """Wait until as many have joined as the last time, or a third of what a sync takes has passed."""
        cdef AppendGroup group = self.open
        cdef int64_t deadline = now_ns() + min(self.sync_ns // 3, <int64_t>GATHER_NS_MOST)
        cdef Py_ssize_t expected = self.expected
        with nogil:
            while group.joined < expected and now_ns() < deadline:
                sched_yield()
        return 0
