"""Records as lines of JSON, for `pylog consume` and the page; `pylog produce --input` reads them."""

from pylog.kernel import ConsumerRecord
from pylog.runtime.json_lines import json_line, text_or_base64

__all__ = ["json_record"]


def json_record(record: ConsumerRecord) -> bytes:
    """A record as a line of JSON."""
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[header.key, text_or_base64(header.value)] for header in record.headers],
    }
    return json_line(line).encode() + b"\n"
