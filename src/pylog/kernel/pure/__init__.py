"""The kernel in Python: the specification of the compiled one, and its substitute where that cannot be had."""

from pylog.kernel.pure.check import StreamCheck, prove_header
from pylog.kernel.pure.crc import crc32c
from pylog.kernel.pure.decode import decode_records, take_records
from pylog.kernel.pure.encode import OpenBatch, encode_records, record_size_bound
from pylog.kernel.pure.fast_append import AppendState
from pylog.kernel.pure.filter import RecordSpans, keep_records, scan_records
from pylog.kernel.pure.group_append import GroupAppends
from pylog.kernel.pure.header import BatchHeader
from pylog.kernel.pure.header_walk import HeaderWalk, read_following
from pylog.kernel.pure.keys import KeyTable, murmur2
from pylog.kernel.pure.open_file import OpenFile
from pylog.kernel.pure.publish_slots import Slots
from pylog.kernel.pure.records import ConsumerRecord, Record, RecordMetadata
from pylog.kernel.pure.rows import add_columns
from pylog.kernel.pure.stream import Spans, walk
from pylog.kernel.pure.tail import Appended, PlainRules, Tail

NAME = "pure"

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
