# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.header`: the fields are numbers, which become objects where they are looked at."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from pylog.kernel.compiled.encode cimport OpenBatch, filled
from pylog.kernel.compiled.stream cimport CRC_FROM, HEADER as HEADER_BYTES, LAST_OFFSET, MAGIC, OVERHEAD, crc_of
from pylog.kernel.compiled.wire cimport Bytes, be16, be32, be64, put_be16, put_be32, put_be64

from pylog.errors import OffsetOutOfRange
from pylog.kernel.format import HEADER, STREAM_BYTES_MAX
from pylog.kernel.values import check_stream

cdef enum:
    CRC_AT = 17
    APPEND_TIME = 8
    LONG = 65536  # bytes, whose CRC takes longer than handing over the GIL


cdef int64_t STREAM_MAX = STREAM_BYTES_MAX


cdef class BatchHeader:
    """One batch: what its header says, and its bytes, `data`, of which there are `size`.

    `data` is exactly one batch, whose header makes sense. Raises struct.error where there are too few bytes for one.
    """

    def __init__(self, data):
        cdef Py_buffer view
        cdef Bytes at
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if view.len < HEADER_BYTES:
                HEADER.unpack_from(data)
            at = <Bytes>view.buf
            self.data, self.size, self.trusted = data, view.len, False
            self.base_offset, self.leader_epoch, self.crc = be64(at), be32(at + 12), <uint32_t>be32(at + CRC_AT)
            self.attributes, self.last_offset_delta = be16(at + 21), be32(at + 23)
            self.base_timestamp, self.max_timestamp = be64(at + 27), be64(at + 35)
            self.producer_id, self.producer_epoch = be64(at + 43), be16(at + 51)
            self.base_sequence, self.count = be32(at + 53), be32(at + 57)
            self.last_offset = self.base_offset + self.last_offset_delta
        finally:
            PyBuffer_Release(&view)

    @classmethod
    def begun(
        cls, bytearray data not None, int32_t count, int64_t base_timestamp, int64_t max_timestamp, int16_t attributes,
        int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=-1, int64_t base_offset=0,
        int32_t leader_epoch=-1,
    ):
        """The batch of `count` records that lie in `data` behind room for a header, which is written, CRC and all."""
        cdef BatchHeader batch = BatchHeader.__new__(cls)
        batch.data, batch.size, batch.trusted = data, PyByteArray_GET_SIZE(data), True
        batch.base_offset, batch.leader_epoch, batch.attributes = base_offset, leader_epoch, attributes
        batch.count, batch.last_offset_delta, batch.last_offset = count, count - 1, base_offset + count - 1
        batch.base_timestamp, batch.max_timestamp = base_timestamp, max_timestamp
        batch.producer_id, batch.producer_epoch, batch.base_sequence = producer_id, producer_epoch, base_sequence
        batch.write()
        return batch

    @classmethod
    def of(cls, rows, now_ms, bint records_only=False):
        """The batch of some rows: uncompressed, and of no producer. Raises what `encode_records` does, and ValueError
        without rows, RecordTooLarge where they are too many bytes.
        """
        cdef OpenBatch stream = filled(rows, now_ms, HEADER_BYTES, records_only)
        cdef BatchHeader batch
        if stream.count == 0 or stream.size > STREAM_MAX:
            check_stream(stream.count, stream.size)
        batch = BatchHeader.__new__(cls)
        batch.data, batch.size, batch.trusted = stream.closed(), stream.size, True
        batch.base_offset, batch.leader_epoch, batch.attributes = 0, -1, 0
        batch.count, batch.last_offset_delta, batch.last_offset = stream.count, stream.count - 1, stream.count - 1
        batch.base_timestamp, batch.max_timestamp = stream.base, stream.newest
        batch.producer_id, batch.producer_epoch, batch.base_sequence = -1, -1, -1
        batch.write()
        return batch

    @property
    def append_timestamp(self):
        """The timestamp that every record reports under LogAppendTime; None under CreateTime."""
        return self.append_time()

    cdef append_time(self):
        return self.max_timestamp if self.attributes & APPEND_TIME else None

    cpdef stamp(self, int64_t base_offset, int32_t leader_epoch):
        """Write the offset and the epoch that the leader gives into the batch; the CRC does not cover them.

        In place where the batch lies in a bytearray. Bytes that were read are not changed: they are copied first.
        Raises OffsetOutOfRange where offsets end.
        """
        cdef uint8_t *at = self.own()
        if base_offset > LAST_OFFSET - max(self.last_offset_delta, 0):
            raise OffsetOutOfRange(
                f"offsets end at {LAST_OFFSET}: no batch of {<int64_t>self.last_offset_delta + 1} begins at {base_offset}"
            )
        self.base_offset, self.leader_epoch = base_offset, leader_epoch
        self.last_offset = base_offset + self.last_offset_delta
        self.put_stamp(at)

    cpdef write(self):
        """Write the attributes into the bytes, with a new CRC. Bytes that were read are copied first."""
        cdef Py_buffer view
        cdef uint8_t *at = self.own()
        self.put_stamp(at)
        at[16] = MAGIC
        put_be16(at + 21, self.attributes)
        put_be32(at + 23, self.last_offset_delta)
        put_be64(at + 27, self.base_timestamp)
        put_be64(at + 35, self.max_timestamp)
        put_be64(at + 43, self.producer_id)
        put_be16(at + 51, self.producer_epoch)
        put_be32(at + 53, self.base_sequence)
        put_be32(at + 57, self.count)
        if self.size < LONG:
            self.crc = crc_of(0, at + CRC_FROM, self.size - CRC_FROM)
        else:
            # Nobody can change the size of a bytearray that is looked at.
            PyObject_GetBuffer(self.data, &view, PyBUF_SIMPLE)
            with nogil:
                self.crc = crc_of(0, <Bytes>view.buf + CRC_FROM, view.len - CRC_FROM)
            PyBuffer_Release(&view)
            at = self.own()
        put_be32(at + CRC_AT, self.crc)

    cdef void put_stamp(self, uint8_t *at) noexcept:
        put_be64(at, self.base_offset)
        put_be32(at + 8, <uint32_t>(self.size - OVERHEAD))
        put_be32(at + 12, self.leader_epoch)

    cdef uint8_t *own(self) except NULL:
        """The bytes, which are this batch's own and not fewer than were measured."""
        if type(self.data) is not bytearray:
            self.data = bytearray(self.data)
        if PyByteArray_GET_SIZE(self.data) != self.size or self.size < HEADER_BYTES:
            raise ValueError(f"a batch of {self.size} bytes lies in {len(self.data)}")
        return <uint8_t *>PyByteArray_AS_STRING(self.data)
