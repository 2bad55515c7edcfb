"""The per-record loops, twice: `pure` in Python, which is the specification, and `compiled` in Cython, which is fast.

Both have the same names, refuse the same bytes and give equal results (`tests.support.check_kernel`). The compiled one
runs where it can be imported, unless the environment says PYLOG_PURE=1; `NAME` says which one does, and `WHY_PURE` why
it is not the compiled one ("" where it is). Static types are those of the pure one. Beside the compiled one it is
imported when bytes are refused: it says why.

    format, values     shared by both: layouts and limits, headers, scopes, checks of fields
    records            Record, RecordMetadata and ConsumerRecord
    encode, decode     rows to a stream; a stream, or plain batches, to records
    check              a stream that comes in pieces, checked and not kept; a plain batch, proven in one step
    rows               columns of Arrow to open batches
    columns            a stream to Arrow; imported only when it is asked for, as it needs numpy and pyarrow
    crc                CRC-32C
    header, stream     a batch and its header, batches one after the other
    header_walk        from header to header, to where wanted batches begin and end
    tail               the end of a segment, where a batch is written and noted
    open_file          a file on a disk
    publish_slots      the published offsets of a partition
    fast_append        the state of a partition, and an append that needs no decision, in one step
    group_append       appends of many threads that share a sync
    filter, keys       compaction: which records there are and which stay; hashes of keys

Functions take whole buffers and have no policy. Bytes from outside are bounded before they are read.
"""

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING

from pylog.kernel import values
from pylog.kernel.format import (
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_FROM,
    DELETE_HORIZON_BIT,
    FAULTS_MOST,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET,
    LOG_OVERHEAD,
    LONG_MAX,
    MAGIC,
    MAGIC_AT,
    MAX_RELATIVE_OFFSET,
    MAX_TIMESTAMP,
    PREFIX,
    SLOT,
    SLOT_BYTES,
    STREAM_BYTES_MAX,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchSpan,
    frame_fault,
    header_fault,
)
from pylog.kernel.values import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    BatchScope,
    ColumnSource,
    Header,
    Judgement,
    check_fields,
    check_stream,
    checked_headers,
)

__all__ = [
    "BATCH_LENGTH_MIN",
    "CODEC_MASK",
    "CONTROL_BIT",
    "CRC_FROM",
    "CREATE_TIME",
    "DELETE_HORIZON_BIT",
    "FAULTS_MOST",
    "HEADER",
    "HEADER_BYTES",
    "LAST_OFFSET",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "LONG_MAX",
    "MAGIC",
    "MAGIC_AT",
    "MAX_RELATIVE_OFFSET",
    "MAX_TIMESTAMP",
    "NAME",
    "PREFIX",
    "SLOT",
    "SLOT_BYTES",
    "STREAM_BYTES_MAX",
    "TIMESTAMP_TYPE_BIT",
    "TRANSACTIONAL_BIT",
    "WHY_PURE",
    "AppendState",
    "Appended",
    "BatchHeader",
    "BatchScope",
    "BatchSpan",
    "ColumnSource",
    "ConsumerRecord",
    "GroupAppends",
    "Header",
    "HeaderWalk",
    "Judgement",
    "KeyTable",
    "OpenBatch",
    "OpenFile",
    "PlainRules",
    "Record",
    "RecordMetadata",
    "RecordSpans",
    "Slots",
    "Spans",
    "StreamCheck",
    "Tail",
    "add_columns",
    "check_fields",
    "check_stream",
    "checked_headers",
    "crc32c",
    "decode_records",
    "encode_records",
    "frame_fault",
    "header_fault",
    "keep_records",
    "murmur2",
    "prove_header",
    "read_following",
    "record_size_bound",
    "scan_records",
    "take_records",
    "walk",
]

if TYPE_CHECKING:
    from pylog.kernel.pure import (
        NAME,
        Appended,
        AppendState,
        BatchHeader,
        ConsumerRecord,
        GroupAppends,
        HeaderWalk,
        KeyTable,
        OpenBatch,
        OpenFile,
        PlainRules,
        Record,
        RecordMetadata,
        RecordSpans,
        Slots,
        Spans,
        StreamCheck,
        Tail,
        add_columns,
        crc32c,
        decode_records,
        encode_records,
        keep_records,
        murmur2,
        prove_header,
        read_following,
        record_size_bound,
        scan_records,
        take_records,
        walk,
    )

WHY_PURE = ""
if os.environ.get("PYLOG_PURE", "0") not in ("", "0"):
    WHY_PURE = "PYLOG_PURE is set"
else:
    try:
        twin = import_module("pylog.kernel.compiled")
    except ImportError as error:
        WHY_PURE = f"there is no compiled kernel in this installation: {error}"
        logging.getLogger("pylog.kernel").warning(
            "this installation has no compiled kernel, so pylog runs many times slower (%s): install it where there is "
            "a C compiler, or from a wheel",
            error,
        )
if WHY_PURE:
    twin = import_module("pylog.kernel.pure")
globals().update({name: getattr(twin, name) for name in twin.__all__})

values.record_classes.update(Record=Record, RecordMetadata=RecordMetadata, ConsumerRecord=ConsumerRecord)
