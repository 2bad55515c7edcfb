"""The per-record loops. `pure` is the one implementation today, and the specification of a compiled one to come.

`NAME` says which runs. The record classes are the kernel's, so that a compiled twin could make them without a call.
`columns` needs numpy and pyarrow and is imported only by those who ask for Arrow.
"""

from pylog.kernel.filter import RecordSpan, keep_records, scan_records
from pylog.kernel.pure import (
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP,
    NAME,
    BatchSpan,
    decode_records,
    encode_records,
    frame_fault,
    header_fault,
    murmur2,
    record_size_bound,
    walk,
)
from pylog.kernel.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    BatchScope,
    ConsumerRecord,
    Header,
    Record,
    check_fields,
    checked_headers,
)

__all__ = [
    "CRC_FROM",
    "CREATE_TIME",
    "HEADER",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAGIC_AT",
    "MAX_TIMESTAMP",
    "NAME",
    "BatchScope",
    "BatchSpan",
    "ConsumerRecord",
    "Header",
    "Record",
    "RecordSpan",
    "check_fields",
    "checked_headers",
    "decode_records",
    "encode_records",
    "frame_fault",
    "header_fault",
    "keep_records",
    "murmur2",
    "record_size_bound",
    "scan_records",
    "walk",
]
