# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `pure.RecordAppender` and of the batches that it adds to, with a `send` that adds most records itself.

From the moment a record's time is known until its future is made no Python code runs and no object is made that the
collector tracks: no other thread comes between. Records that are not plain, and all else, are for `send_any`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint32_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from pylog.kernel.compiled.encode cimport OpenBatch
from pylog.kernel.compiled.keys cimport kafka_hash
from pylog.kernel.compiled.wire cimport Bytes
from pylog.client.record_append.compiled.delivery cimport Delivery, RecordFuture, future_of, tell_later

from random import Random
from types import GenericAlias

from pylog.runtime.clock import SystemClock
from pylog.kernel.format import HEADER_BYTES
from pylog.client.record_append.pure import call_back

cdef enum:
    RECORD_MOST = 48  # what a record takes beside its bytes, whatever its numbers

cdef Py_ssize_t HEADER = HEADER_BYTES


cdef class ProducerBatch(OpenBatch):
    """Records for one partition, encoded, of at most `limit` bytes and one record at least; `delivery` answers them.

    With `sealed` it is that batch, which someone else has made, and takes no records.
    """

    cdef readonly object key
    cdef readonly object due_ms
    cdef readonly Delivery delivery
    cdef readonly object sealed

    def __init__(self, key, Py_ssize_t limit, due_ms, bring=None, sealed=None):
        super().__init__(0 if sealed is not None else limit)
        self.key = key
        self.due_ms = due_ms
        self.delivery = Delivery(key.topic, key.partition, bring)
        self.sealed = sealed
        if sealed is not None:
            self.buffer = None
            self.size, self.count = sealed.size, sealed.count


@cython.final
cdef class StickyPartitioner:
    """Chooses for the records of one topic that have no key.

    `batch_size` is in bytes; with 0 a partition is chosen for each record. Raises ValueError for a negative size.
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
                raise ValueError(f"{partitions} partitions: there is no partition to choose")
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
    """The open batch of each partition of a topic, or None."""

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

    def hold(self, ProducerBatch batch not None):
        """Count the bytes of a batch that comes with all its records."""
        self.bytes_waiting += batch.size - HEADER

    def free(self, ProducerBatch batch not None):
        """The batch was answered: its bytes are free."""
        self.bytes_waiting -= batch.size - HEADER


cdef class RecordAppender:
    """The common part of every `send`.

    A record of at most `record_bytes_max` bytes joins an open batch unless more than `buffer_memory` bytes would wait;
    `send_any` does everything else: an unknown topic, the first record of a batch, one that does not fit, and so on. A
    record without timestamp gets the time of `clock`.
    """

    __class_getitem__ = classmethod(GenericAlias)

    cdef OpenBatches batches
    cdef object clock  # None: the system's
    cdef Py_ssize_t record_bytes_max
    cdef Py_ssize_t buffer_memory
    cdef object send_any

    def __init__(
        self, OpenBatches batches not None, clock, Py_ssize_t record_bytes_max, Py_ssize_t buffer_memory, send_any
    ):
        self.batches = batches
        self.clock = None if type(clock) is SystemClock else clock
        self.record_bytes_max = record_bytes_max
        self.buffer_memory = buffer_memory
        self.send_any = send_any

    def send(self, topic, value, key=None, *, partition=None, timestamp_ms=None, headers=(), on_delivery=None):
        """Add a record to the batch of its partition; the future answers with where it landed, or with its error.

        The partition is the given one, else the choice of `partitioner`: by the key (murmur2, as a Java producer does),
        without a key a sticky one. A record without timestamp gets the time of the call. `on_delivery(metadata, error)`
        is called when the future is done, one of the two being None, in whatever thread brings the answer; what it
        raises is logged. In a callback `send` is allowed, but no call that waits.
        Raises: UnknownTopicOrPartition, InvalidTopic, RecordTooLarge (`max_request_size`, `buffer_memory`),
        BufferExhausted (the buffer stayed full for `max_block_ms`), RequestTimedOut (no node has said in that time what
        the topic is), Closed, TypeError, ValueError; with transactions InvalidTxnState and TransactionAbortable; after
        a fatal error that one; what a serializer or partitioner raises.

        >>> producer.send("orders", b"hat", key=b"bob", headers=[("source", b"web")]).result()
        RecordMetadata(topic='orders', partition=0, offset=4, timestamp=...)
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
            answer = self.send_any(topic, value, key, partition, timestamp_ms, headers)
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
