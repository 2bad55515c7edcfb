"""One record as a line of a dump: control records by their meaning, the metadata log's records by their content.

A control record's key is `i16 version, i16 type`; its value depends on the type (kafka-format 1.7):

    0 ABORT, 1 COMMIT    i16 version, i32 coordinator epoch       (transaction markers)
    2 LEADER_CHANGE  3 SNAPSHOT_HEADER  4 SNAPSHOT_FOOTER  5 KRAFT_VERSION  6 KRAFT_VOTERS     Kafka's schemas

A record of `__cluster_metadata` is a frame (version, api key, record version) and a message of one of Kafka's metadata
schemas; it is shown as Kafka's `--cluster-metadata-decoder` does, as JSON with `type`, `version` and `data`.

Invariant: bytes that do not decode are shown as bytes; nothing here raises.
"""

import base64
import json
import re
import struct
from collections.abc import Mapping
from uuid import UUID

from pylog.errors import PylogError
from pylog.inspect.values import RecordEntry, printable
from pylog.kernel import ConsumerRecord
from pylog.protocol.metadata_image import decode_record
from pylog.protocol.schema import message

__all__ = ["record_entry"]

CONTROL_MESSAGES = {
    2: ("LeaderChange", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
}
MARKERS = {0: "ABORT", 1: "COMMIT"}

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def record_entry(
    record: ConsumerRecord, type_name: str, sequence: int, *, is_control: bool, is_metadata: bool
) -> RecordEntry:
    """The line of one record. `is_metadata`: the record is of `__cluster_metadata`, and decoded if it can be."""
    return RecordEntry(
        offset=record.offset, timestamp_type=type_name, timestamp=record.timestamp, sequence=sequence,
        headers=tuple(record.headers), key=record.key, value=record.value,
        control=_control(record.key, record.value) if is_control else None,
        decoded=_metadata(record.value) if is_metadata and not is_control and record.value is not None else None,
    )  # fmt: skip


def _control(key: bytes | None, value: bytes | None) -> str:
    if key is None or len(key) < _KEY.size:
        return "control record without a type"
    kind = _KEY.unpack_from(key)[1]
    data = value or b""
    if kind in MARKERS and len(data) >= _MARKER.size:
        return f"endTxnMarker: {MARKERS[kind]} coordinatorEpoch: {_MARKER.unpack_from(data)[1]}"
    if kind in CONTROL_MESSAGES and len(data) >= 2:
        label, schema = CONTROL_MESSAGES[kind]
        version = int.from_bytes(data[:2], "big", signed=True)
        try:
            # Kafka reads versions it does not know as version 0; so far that is the only one that was ever written.
            decoded, _ = message(schema).decode(max(version, 0), data)
        except PylogError:
            return f"{label}: {printable(data)}"
        return f"{label}: {json.dumps(_plain(decoded), separators=(',', ':'))}"
    return f"controlType: {kind} value: {printable(data)}"


def _metadata(value: bytes) -> Mapping[str, object] | None:
    try:
        record = decode_record(value)
    except PylogError:
        return None
    if record.name is None:
        return None
    name = _WORD_START.sub("_", record.name).upper()
    return {"type": name, "version": record.version, "data": _plain(record.value)}


def _plain(value: object) -> object:
    """A decoded message in JSON's types, as Kafka's JSON converters write it: uuids and bytes in base64."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if name != "_tags" or item}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value
