# cython: language_level=3, boundscheck=False, wraparound=False
"""The twins of `pure.Delivery` and `pure.RecordFuture`: the answer for a batch, and a place in it."""

cimport cython
from cpython.unicode cimport PyUnicode_FromObject
from libc.stdint cimport int64_t

from pylog.kernel.compiled.records cimport RecordMetadata, metadata

from pylog.runtime.future import Future
from pylog.client.record_append.pure import Delivery as PureDelivery
from pylog.client.record_append.pure import brought, logger


@cython.final
cdef class Delivery:
    """The answer for one batch of a partition: its base offset, and the time of the append under LogAppendTime (ms).

    The futures of a batch cost nothing when it is completed: their results are made when they are asked for. A thread
    that waits for one calls `bring(delivery, timeout)` first, which sends what has to be sent and drives the append.
    """

    def __init__(self, topic, partition, bring=None):
        self.topic = PyUnicode_FromObject(topic)
        self.partition = partition
        self.bring = bring
        self.callbacks = []
        self.parts = []
        self.looked = {}

    part_of = PureDelivery.part_of

    def future(self, Py_ssize_t index, int64_t timestamp):
        """The future of the record that is number `index` of the batch; `timestamp` is the record's own, in ms."""
        return future_of(self, index, timestamp)

    def complete(self, int64_t base_offset, log_append_time=None):
        """Answer all futures of the batch. `base_offset` is -1 where no node was asked (acks=0).

        Raises RuntimeError when there is an answer already.
        """
        self.finish(base_offset, log_append_time, None, None)

    def complete_parts(self, list parts not None):
        """Answer the futures of each part, in order. Raises RuntimeError when there is an answer already."""
        self.parts = parts
        self.finish(-1, None, None, None)

    def fail(self, error):
        """Answer all futures of the batch with `error`. Raises RuntimeError when there is an answer already."""
        self.finish(-1, None, error, error.__traceback__)

    cdef object finish(self, int64_t base_offset, object log_append_time, object error, object traceback):
        cdef list callbacks = self.callbacks
        cdef Py_ssize_t at = 0
        cdef object entry, raised = None
        if self.done:
            raise RuntimeError("this future is answered already")
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.error = error
        self.traceback = traceback
        self.done = True
        self.callbacks = None
        self.bring = None
        while at < len(callbacks):
            entry = callbacks[at]
            at += 1
            try:
                if type(entry) is RecordFuture:
                    tell(<RecordFuture>entry)
                else:
                    at += 1
                    error_of(<RecordFuture>callbacks[at - 1])
                    entry(callbacks[at - 1])
            except BaseException as problem:
                raised = problem
        if raised is not None:
            raise raised

    cdef int call_back(self, object fn, RecordFuture future) except -1:
        if self.done:
            error_of(future)
            fn(future)
        else:
            self.callbacks.append(fn)
            self.callbacks.append(future)
        return 0

    cdef int forget(self, object fn) except -1:
        if not self.done and fn in self.callbacks:
            at = self.callbacks.index(fn)
            del self.callbacks[at : at + 2]
        return 0


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class RecordFuture:
    """The place of a record in a delivery.

    The collector does not track it: a delivery lets go of its callbacks, and so of futures, when it is answered.
    """

    set_result = Future.set_result
    set_exception = Future.set_exception
    get = Future.__dict__["get"]
    add_callback = Future.__dict__["add_callback"]
    add_errback = Future.__dict__["add_errback"]

    def done(self):
        """See `Future.done`."""
        return self.delivery.done

    def result(self, timeout=None):
        """See `Future.result`."""
        cdef object error
        if not self.delivery.done:
            self._wait(timeout)
        error = error_of(self)
        if error is not None:
            raise error.with_traceback(self.delivery.traceback)
        return metadata_of(self)

    def exception(self, timeout=None):
        """See `Future.exception`."""
        if not self.delivery.done:
            self._wait(timeout)
        return error_of(self)

    def drive(self, timeout=None):
        """See `Future.drive`."""

    def stop_driving(self):
        """See `Future.stop_driving`."""

    def add_done_callback(self, fn):
        """Call `fn(self)` once the answer is there, in the thread that brings it; at once if it is there already.

        Callbacks run in the order they were added in. An error of one comes out where the future is completed, after
        the others have run.
        """
        self.delivery.call_back(fn, self)

    def __await__(self):
        return Future.__await__(self)

    def __repr__(self):
        return Future.__repr__(self)

    def _complete(self, value, error):
        raise RuntimeError("the future of a record is answered by its delivery")

    def _forget(self, fn):
        self.delivery.forget(fn)

    def _wait(self, timeout):
        timeout = brought(self.delivery, timeout)
        if not self.delivery.done:
            Future._wait(self, timeout)


Future.register(RecordFuture)


cdef RecordFuture future_of(Delivery delivery, Py_ssize_t index, int64_t timestamp):
    cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
    future.delivery = delivery
    future.index = index
    future.timestamp = timestamp
    return future


cdef RecordMetadata metadata_of(RecordFuture future):
    cdef Delivery delivery = future.delivery
    cdef int64_t first = 0, base_offset = delivery.base_offset
    cdef object log_append_time = delivery.log_append_time
    if delivery.parts:
        first, base_offset, log_append_time, _ = delivery.part_of(future.index)
    if base_offset >= 0:
        base_offset += future.index - first
    return metadata(
        delivery.topic, delivery.partition, base_offset,
        future.timestamp if log_append_time is None else <int64_t>log_append_time,
    )  # fmt: skip


cdef object error_of(RecordFuture future):
    """The error of a record, which counts as looked at now; None where it has none."""
    cdef Delivery delivery = future.delivery
    cdef object first, error = delivery.part_of(future.index).error if delivery.parts else delivery.error
    if error is not None and delivery.failures is not None:
        first = object()
        if delivery.looked.setdefault(future.index, first) is first:
            delivery.failures.looked(error)
    return error


cdef int tell(RecordFuture future) except -1:
    """The twin of what `call_back` adds to a future."""
    cdef object on_delivery = future.on_delivery, error = error_of(future)
    future.on_delivery = None
    try:
        on_delivery(metadata_of(future) if error is None else None, error)
    except (Exception, SystemExit):
        logger.exception("on_delivery of a record raised")
    return 0


cdef int tell_later(RecordFuture future, object on_delivery) except -1:
    future.on_delivery = on_delivery
    if future.delivery.done:
        tell(future)
    else:
        future.delivery.callbacks.append(future)
    return 0
