# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `pure`, with a `send` that adds most records itself.

From the moment a record's time is known until its future is made no Python code runs and no object is made that the
collector tracks: no other thread comes between. Records that are not plain, and all else, are for `_send_any`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint32_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from pylog.kernel.compiled.encode cimport OpenBatch
from pylog.kernel.compiled.keys cimport kafka_hash
from pylog.kernel.compiled.wire cimport Bytes

from random import Random

from pylog.clock import SystemClock
from pylog.future import Future
from pylog.kernel.format import HEADER_BYTES
from pylog.record import RecordMetadata
from pylog.sending.pure import Delivery as PureDelivery
from pylog.sending.pure import OnDelivery, Part, call_back, logger

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *made, Py_ssize_t items)

cdef enum:
    RECORD_MOST = 48  # what a record takes beside its bytes, whatever its numbers

cdef Py_ssize_t HEADER = HEADER_BYTES


@cython.final
cdef class Delivery:
    """The answer for one batch of a partition: its base offset, and the time of the append under LogAppendTime (ms).

    The futures of a batch cost nothing when it is completed: what they answer is made when it is asked for.
    """

    cdef readonly object topic
    cdef readonly object partition
    cdef public object carrier  # what the answer comes with, while the batch is on its way
    cdef readonly list parts  # the answers to its parts, in order, where the batch was too large to be sent as one
    cdef bint done
    cdef int64_t base_offset
    cdef object log_append_time
    cdef object error
    cdef object traceback
    cdef list callbacks  # futures with an `on_delivery`; other callbacks, each before the future that it is for

    def __init__(self, topic, partition):
        self.topic = topic
        self.partition = partition
        self.callbacks = []
        self.parts = []

    part_of = PureDelivery.part_of

    def future(self, Py_ssize_t index, int64_t timestamp):
        """The future of the record that is number `index` of the batch; `timestamp` is the record's own, in ms."""
        return future_of(self, index, timestamp)

    def complete(self, int64_t base_offset, log_append_time=None):
        """Answer all futures of the batch. `base_offset` is -1 where nobody was asked (acks=0).

        Raises RuntimeError when there is an answer already.
        """
        self.settle(base_offset, log_append_time, None, None)

    def complete_parts(self, list parts not None):
        """Answer the futures of each part, in order. Raises RuntimeError when there is an answer already."""
        self.parts = parts
        self.settle(-1, None, None, None)

    def fail(self, error):
        """Answer all futures of the batch with `error`. Raises RuntimeError when there is an answer already."""
        self.settle(-1, None, error, error.__traceback__)

    cdef object settle(self, int64_t base_offset, object log_append_time, object error, object traceback):
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
        self.carrier = None
        while at < len(callbacks):
            entry = callbacks[at]
            at += 1
            try:
                if type(entry) is RecordFuture:
                    tell(<RecordFuture>entry)
                else:
                    at += 1
                    entry(callbacks[at - 1])
            except BaseException as problem:
                raised = problem
        if raised is not None:
            raise raised

    cdef int call_back(self, object fn, object future) except -1:
        if self.done:
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
    """(delivery, index): all it knows is where to look.

    The collector does not look at it: what it refers to lets go of callbacks, and so of futures, when it is answered.
    """

    cdef Delivery delivery
    cdef Py_ssize_t index
    cdef int64_t timestamp
    cdef object on_delivery  # None again once it was called

    set_result = Future.set_result
    set_exception = Future.set_exception

    def done(self):
        """Whether the answer is there: then `result` and `exception` do not wait."""
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

    def add_done_callback(self, fn):
        """Call `fn(self)` once the answer is there, in the thread that brings it; at once if it is there already.

        Callbacks run in the order they were added in. What one raises comes out where the future is completed, after
        the others have run.
        """
        self.delivery.call_back(fn, self)

    def __await__(self):
        return Future.__await__(self)

    def __repr__(self):
        return Future.__repr__(self)

    def _get(self):
        return metadata_of(self)

    def _get_error(self):
        return error_of(self)

    def _origin(self):
        return self.delivery.traceback

    def _settle(self, value, error):
        raise RuntimeError("the future of a record is answered by its delivery")

    def _forget(self, fn):
        self.delivery.forget(fn)

    def _wait(self, timeout):
        carrier = self.delivery.carrier
        if carrier is not None:
            carrier.exception(timeout)
        if not self.delivery.done:
            Future._wait(self, timeout)


Future.register(RecordFuture)


cdef RecordFuture future_of(Delivery delivery, Py_ssize_t index, int64_t timestamp):
    cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
    future.delivery = delivery
    future.index = index
    future.timestamp = timestamp
    return future


cdef object metadata_of(RecordFuture future):
    cdef Delivery delivery = future.delivery
    cdef int64_t first = 0, base_offset = delivery.base_offset
    cdef object log_append_time = delivery.log_append_time
    if delivery.parts:
        first, base_offset, log_append_time, _ = delivery.part_of(future.index)
    if base_offset >= 0:
        base_offset += future.index - first
    return made_metadata(
        delivery.topic, delivery.partition, base_offset,
        future.timestamp if log_append_time is None else log_append_time,
    )  # fmt: skip


cdef object made_metadata(object topic, object partition, object offset, object timestamp):
    """A RecordMetadata, of which a callback for each record wants one: a tuple of four, filled in place."""
    cdef object made = PyType_GenericAlloc(<PyTypeObject *>RecordMetadata, 4)
    fill(made, 0, topic)
    fill(made, 1, partition)
    fill(made, 2, offset)
    fill(made, 3, timestamp)
    return made


cdef inline void fill(object made, Py_ssize_t at, object field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, at, field)


cdef object error_of(RecordFuture future):
    cdef Delivery delivery = future.delivery
    return delivery.part_of(future.index).error if delivery.parts else delivery.error


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


cdef class ProducerBatch(OpenBatch):
    """Records for one partition, encoded, of at most `limit` bytes and one record at least; `delivery` answers them."""

    cdef readonly object key
    cdef readonly object due_ms
    cdef readonly Delivery delivery

    def __init__(self, key, Py_ssize_t limit, due_ms):
        super().__init__(limit)
        self.key = key
        self.due_ms = due_ms
        self.delivery = Delivery(key.topic, key.partition)


@cython.final
cdef class StickyPartitioner:
    """Chooses for the records of one topic that have no key.

    `batch_size` is in bytes; with 0 every record is chosen for anew. Raises ValueError for a negative size.
    """

    cdef Py_ssize_t batch_size
    cdef Py_ssize_t current
    cdef Py_ssize_t taken
    cdef object random

    def __init__(self, Py_ssize_t batch_size, random=None):
        if batch_size < 0:
            raise ValueError(f"batch_size {batch_size}: it is not negative")
        self.batch_size = batch_size
        self.random = random or Random()
        self.current = -1
        self.taken = 0

    def partition(self, Py_ssize_t partitions):
        """The partition for the next record, in [0, partitions); the same one until `added` says that it has its share.

        A topic that was deleted and made again with fewer partitions gets a new choice. Raises ValueError where there
        are no partitions.
        """
        if not 0 <= self.current < partitions:
            if partitions <= 0:
                raise ValueError(f"{partitions} partitions: there is none to choose")
            self.current = self.random.randrange(partitions)
            self.taken = 0
        return self.current

    cpdef added(self, Py_ssize_t size):
        """A record of `size` bytes went to the current partition; after `batch_size` bytes another one is chosen."""
        self.taken += size
        if self.taken >= self.batch_size:
            self.current = -1


@cython.final
cdef class Route:
    """Where the records of a topic go: the open batch of each of its partitions, if there is one."""

    cdef readonly StickyPartitioner sticky
    cdef public list batches

    def __init__(self, StickyPartitioner sticky not None, list batches not None):
        self.sticky = sticky
        self.batches = batches


cdef class OpenBatches:
    """The open batches that `send` may add to, by topic, and the bytes that wait."""

    cdef readonly dict routes
    cdef readonly Py_ssize_t bytes_waiting  # what the records take that were not answered yet, headers of batches aside

    def __init__(self):
        self.routes = {}
        self.bytes_waiting = 0

    def append(self, ProducerBatch batch not None, value, key, timestamp, headers=()):
        """Add a record to a batch; gives its future, or None when it does not fit: then nothing was added.

        Raises what `OpenBatch.add` does.
        """
        cdef Py_ssize_t index = batch.add(value, key, timestamp, headers)
        if index < 0:
            return None
        self.bytes_waiting += batch.last
        return future_of(batch.delivery, index, timestamp)

    def free(self, ProducerBatch batch not None):
        """The batch was answered: its bytes are free."""
        self.bytes_waiting -= batch.size - HEADER


cdef class Sender:
    """`send`, as far as it is the same for every record.

    A record of at most `record_bytes_max` bytes joins an open batch unless more than `buffer_memory` bytes would wait;
    everything else is for `_send_any`. A record without timestamp gets the time of `clock`.
    """

    cdef OpenBatches batches
    cdef object clock  # None: the system's
    cdef Py_ssize_t record_bytes_max
    cdef Py_ssize_t buffer_memory

    def __init__(self, OpenBatches batches not None, clock, Py_ssize_t record_bytes_max, Py_ssize_t buffer_memory):
        self.batches = batches
        self.clock = None if type(clock) is SystemClock else clock
        self.record_bytes_max = record_bytes_max
        self.buffer_memory = buffer_memory

    def send(self, topic, value, key=None, *, partition=None, timestamp_ms=None, headers=(), on_delivery=None):
        """Add a record to the batch of its partition; the future answers with where it landed, or with its error.

        The partition is the one given, else what `partitioner` says: the key's (murmur2, as a Java producer would),
        without a key a sticky one. A record without timestamp gets the time of the call. `on_delivery(metadata, error)`
        is called when the future is done, one of the two being None, in whatever thread brings the answer; what it
        raises is logged. In a callback `send` is allowed, but no call that waits.
        Raises: UnknownTopicOrPartition, RecordTooLarge (`max_request_size`, `buffer_memory`), BufferExhausted (the
        buffer stayed full for `max_block_ms`), RequestTimedOut (no node has said in that time what the topic is),
        Closed, TypeError, ValueError; with transactions InvalidTxnState and TransactionAbortable; after a fatal error
        that one; what a serializer or partitioner raises.
        """
        cdef RecordFuture future = None
        cdef object answer
        cdef int64_t timestamp
        cdef int overflows = 0
        if on_delivery is not None and not callable(on_delivery):
            raise TypeError(f"on_delivery is {type(on_delivery).__name__}: it cannot be called")
        if (
            PyUnicode_CheckExact(topic)
            and (value is None or PyBytes_CheckExact(value))
            and (key is None or PyBytes_CheckExact(key))
            and (partition is None or PyLong_CheckExact(partition))
            and headers is NONE
        ):
            if timestamp_ms is None:
                timestamp = self.now_ms()
            elif PyLong_CheckExact(timestamp_ms):
                timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflows)
            else:
                timestamp = -1
            if timestamp >= 0 and not overflows:
                future = self.joined(topic, <bytes>value, <bytes>key, partition, timestamp)
        answer = future
        if future is None:
            answer = self._send_any(topic, value, key, partition, timestamp_ms, headers)
        if on_delivery is not None:
            if type(answer) is RecordFuture:
                tell_later(<RecordFuture>answer, on_delivery)
            else:
                call_back(answer, on_delivery)
        return answer

    cdef int64_t now_ms(self) except? -2:
        cdef timespec now
        if self.clock is not None:
            return self.clock.wall_ms()
        clock_gettime(CLOCK_REALTIME, &now)
        return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000

    cdef RecordFuture joined(self, object topic, bytes value, bytes key, object partition, int64_t timestamp):
        """The future of a record that was added to an open batch; None for one that needs more than that."""
        cdef OpenBatches batches = self.batches
        cdef PyObject *found = PyDict_GetItem(batches.routes, topic)
        cdef Route route
        cdef ProducerBatch batch
        cdef int64_t number
        cdef uint32_t hashed
        cdef Py_ssize_t index
        cdef Py_ssize_t bound = RECORD_MOST + length(value) + length(key)
        cdef int overflows = 0
        if found == NULL or bound > self.record_bytes_max or batches.bytes_waiting + bound > self.buffer_memory:
            return None
        route = <Route>found
        if partition is not None:
            number = PyLong_AsLongLongAndOverflow(partition, &overflows)
        elif key is None:
            number = route.sticky.current
        else:
            hashed = kafka_hash(<Bytes>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) & 0x7FFFFFFF
            number = hashed % max(<uint32_t>PyList_GET_SIZE(route.batches), <uint32_t>1)
        if overflows or not 0 <= number < PyList_GET_SIZE(route.batches):
            return None
        batch = route.batches[number]
        if batch is None:
            return None
        index = batch.put(<PyObject *>value, <PyObject *>key, timestamp, <PyObject *>NONE)
        if index < 0:
            return None
        batches.bytes_waiting += batch.last
        if partition is None and key is None:
            route.sticky.added(batch.last)
        return future_of(batch.delivery, index, timestamp)


cdef tuple NONE = ()  # the empty tuple, of which there is one


cdef inline Py_ssize_t length(bytes data) noexcept:
    return 0 if data is None else PyBytes_GET_SIZE(data)
