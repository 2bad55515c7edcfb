"""The kernel in Cython: the twin of `pylog.kernel.pure`, file by file. Importing it fails where it was not built.

`wire.pxd` and `crc32c.h` are varints, fields and CRCs in C. `columns` makes Arrow arrays of what `buffers` decodes, so
that all the rest does not need pyarrow.
"""

from pylog.kernel.compiled.check import StreamCheck, prove_header
from pylog.kernel.compiled.decode import decode_records, take_records
from pylog.kernel.compiled.encode import OpenBatch, encode_records, record_size_bound
from pylog.kernel.compiled.fast_append import AppendState
from pylog.kernel.compiled.filter import RecordSpans, keep_records, scan_records
from pylog.kernel.compiled.group_append import GroupAppends
from pylog.kernel.compiled.header import BatchHeader
from pylog.kernel.compiled.header_walk import HeaderWalk, read_following
from pylog.kernel.compiled.keys import KeyTable, murmur2
from pylog.kernel.compiled.open_file import OpenFile
from pylog.kernel.compiled.publish_slots import Slots
from pylog.kernel.compiled.records import ConsumerRecord, Record, RecordMetadata
from pylog.kernel.compiled.rows import add_columns
from pylog.kernel.compiled.stream import Spans, crc32c, walk
from pylog.kernel.compiled.tail import Appended, PlainRules, Tail

NAME = "compiled"

__all__ = [
    "NAME",
    "AppendState",
    "Appended",
    "BatchHeader",
    "ConsumerRecord",
    "GroupAppends",
    "HeaderWalk",
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
    "crc32c",
    "decode_records",
    "encode_records",
    "keep_records",
    "murmur2",
    "prove_header",
    "read_following",
    "record_size_bound",
    "scan_records",
    "take_records",
    "walk",
]
