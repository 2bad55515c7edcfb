# cython: language_level=3
"""The twin of `pure.records`: the same classes without a dict, a header of the garbage collector, or a way to change
them.

A record refers to bytes, a tuple of headers (pairs of str and bytes) and a scope (a tuple of str and ints), all checked
when the record is made. So no cycle can go through a record and the collector need not know of it: lists of millions of
records cost it nothing. A class derived from one, or a field that takes anything, would end that; so would an instance
of a class derived from bytes or str, which may have attributes: those are copied into plain ones.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyTypeObject
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_FromObject
from libc.stdint cimport int32_t, int64_t

from types import GenericAlias

from pylog.kernel.values import (
    BatchScope, Header, check_fields, check_landed, check_received, checked_headers, record_table, restored
)

cdef object new_tuple = tuple.__new__


cdef bytes plain_bytes(object data):
    if data is None or PyBytes_CheckExact(data):
        return <bytes>data
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef tuple plain_headers(object headers):
    """Checked headers, all of plain types."""
    cdef list made = []
    for name, value in headers:
        if not PyUnicode_CheckExact(name):
            name = PyUnicode_FromObject(name)
        made.append(new_tuple(Header, (name, plain_bytes(value))))
    return tuple(made)


cdef object plain_scope(object scope):
    return new_tuple(BatchScope, (PyUnicode_FromObject(scope[0]), int(scope[1]), int(scope[2]), int(scope[3])))


cdef int64_t plain_stamp(object value, object key, object timestamp) except? -3:
    """The timestamp of a record that can have these fields; NO_STAMP for None. Raises what `check_fields` does."""
    cdef int overflows = 0
    cdef int64_t stamp = NO_STAMP
    if PyLong_CheckExact(timestamp):
        stamp = PyLong_AsLongLongAndOverflow(timestamp, &overflows)
        overflows |= stamp < -1
    if overflows or not (
        (value is None or PyBytes_CheckExact(value))
        and (key is None or PyBytes_CheckExact(key))
        and (timestamp is None or PyLong_CheckExact(timestamp))
    ):
        check_fields(value, key, timestamp)
        return NO_STAMP if timestamp is None else <int64_t>timestamp
    return stamp


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Record:
    """A record to append: `value` and `key` are bytes or None; a `timestamp` (ms) of None is the time of the append.

    Raises TypeError for anything else, ValueError for a negative timestamp.
    """

    def __init__(self, value, key=None, timestamp=None, headers=()):
        self.stamp = plain_stamp(value, key, timestamp)
        self.value = plain_bytes(value)
        self.key = plain_bytes(key)
        self.headers = plain_headers(checked_headers(headers)) if headers else ()

    @property
    def timestamp(self):
        return None if self.stamp == NO_STAMP else self.stamp

    cdef tuple fields(self):
        return self.value, self.key, self.timestamp, self.headers

    def __eq__(self, other):
        return self.fields() == (<Record>other).fields() if isinstance(other, Record) else NotImplemented

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return f"Record(value={self.value!r}, key={self.key!r}, timestamp={self.timestamp}, headers={self.headers!r})"

    def __reduce__(self):
        return restored, ("Record", *self.fields())


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class RecordMetadata:
    """The place where a record landed; `offset` is -1 where it was not asked for (acks=0) or was forgotten.

    `timestamp` (ms) is the record's own, or the broker's under LogAppendTime. Raises TypeError for other
    fields.
    """

    def __init__(self, topic, partition, offset, timestamp):
        check_landed(topic, partition, offset, timestamp)
        self.topic = PyUnicode_FromObject(topic)
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp

    cdef tuple fields(self):
        return self.topic, self.partition, self.offset, self.timestamp

    def __eq__(self, other):
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        return self.fields() == (<RecordMetadata>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp})"
        )

    def __reduce__(self):
        return restored, ("RecordMetadata", *self.fields())


cdef RecordMetadata metadata(object topic, int32_t partition, int64_t offset, int64_t timestamp):
    """The place where a record landed, in a topic of a plain name."""
    cdef RecordMetadata made = RecordMetadata.__new__(RecordMetadata)
    made.topic, made.partition, made.offset, made.timestamp = topic, partition, offset, timestamp
    return made


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class ConsumerRecord:
    """A record as it was read. `timestamp` is in milliseconds, -1 where the producer gave none.

    Raises TypeError for fields that cannot be read from a batch.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, offset, timestamp, key, value, headers, scope):
        check_received(offset, timestamp, key, value, scope)
        self.offset = offset
        self.timestamp = timestamp
        self.key = plain_bytes(key)
        self.value = plain_bytes(value)
        self.headers = plain_headers(checked_headers(headers))
        self.scope = plain_scope(scope)

    @property
    def topic(self):
        return self.scope[0]

    @property
    def partition(self):
        return self.scope[1]

    @property
    def leader_epoch(self):
        return self.scope[2]

    @property
    def timestamp_type(self):
        return self.scope[3]

    cdef tuple fields(self):
        return self.offset, self.timestamp, self.key, self.value, self.headers, self.scope

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self.fields() == (<ConsumerRecord>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def _repr_html_(self):
        return record_table(self)

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return restored, ("ConsumerRecord", *self.fields())


# --- attributes as slots ---------------------------------------------------------------------------------------------

# Cython makes a property of each attribute, which is a call. CPython reads the `__slots__` of its own classes without
# one, in a quarter of the time, and it takes every descriptor of that kind for such a slot.

cdef extern from *:
    """
    #include "structmember.h"
    #define pylog_place(record, field) ((char *)&(record)->field - (char *)(record))
    """
    ctypedef struct PyMemberDef:
        const char *name
        int type
        Py_ssize_t offset
        int flags
    enum:
        T_OBJECT_EX
        READONLY
        VALUE "value"  # as names of fields, which they are in C
        KEY "key"
        HEADERS "headers"
    Py_ssize_t place "pylog_place"(Record record, int field)
    Py_ssize_t received_place "pylog_place"(ConsumerRecord record, int field)
    object PyDescr_NewMember(PyTypeObject *owner, PyMemberDef *slot)
    void PyType_Modified(PyTypeObject *owner)

cdef PyMemberDef[6] SLOTS


cdef int make_slot(PyTypeObject *owner, PyMemberDef *slot, const char *name, Py_ssize_t offset) except -1:
    slot.name, slot.type, slot.offset, slot.flags = name, T_OBJECT_EX, offset, READONLY
    (<dict>owner.tp_dict)[name.decode()] = PyDescr_NewMember(owner, slot)
    PyType_Modified(owner)
    return 0


cdef int make_slots() except -1:
    cdef Record record = Record.__new__(Record)
    cdef ConsumerRecord received = ConsumerRecord.__new__(ConsumerRecord)
    make_slot(<PyTypeObject *>Record, &SLOTS[0], b"value", place(record, VALUE))
    make_slot(<PyTypeObject *>Record, &SLOTS[1], b"key", place(record, KEY))
    make_slot(<PyTypeObject *>Record, &SLOTS[2], b"headers", place(record, HEADERS))
    make_slot(<PyTypeObject *>ConsumerRecord, &SLOTS[3], b"value", received_place(received, VALUE))
    make_slot(<PyTypeObject *>ConsumerRecord, &SLOTS[4], b"key", received_place(received, KEY))
    make_slot(<PyTypeObject *>ConsumerRecord, &SLOTS[5], b"headers", received_place(received, HEADERS))
    return 0


make_slots()
