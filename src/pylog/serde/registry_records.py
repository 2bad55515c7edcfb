"""The records of Confluent's Schema Registry in its topic `_schemas`: keys, values and their JSON.

    SCHEMA          key  {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
                    value {"subject":"orders-value","version":1,"id":1,"schema":"...","deleted":false}
    CONFIG          key  {"keytype":"CONFIG","subject":"orders-value","magic":0}
                    value {"subject":"orders-value","compatibilityLevel":"FULL"}
    MODE            key  {"keytype":"MODE","subject":"orders-value","magic":0}
                    value {"subject":"orders-value","mode":"READONLY"}
    DELETE_SUBJECT  key  {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}
                    value {"subject":"orders-value","version":3}: versions 1 to 3 are soft deleted
    NOOP            key  {"keytype":"NOOP","magic":0}, without a value: it means nothing

A CONFIG or MODE without a subject is that of all subjects without their own. A record without a value undoes the one
before it with its key. Compaction compares keys as bytes, so their fields keep Confluent's order.
(Confluent: SchemaKey, SchemaValue, ConfigKey, ConfigValue, ModeKey, ModeValue, DeleteSubjectKey, NoopKey)
"""

import json
from typing import NamedTuple

from pylog.serde.registry import RegisteredSchema

__all__ = ["RegistryRecord", "config_record", "mode_record", "schema_record", "subject_deletion", "tombstone"]


class RegistryRecord(NamedTuple):
    """The key and the value of a record; None: a tombstone."""

    key: dict[str, object]
    value: dict[str, object] | None

    def to_bytes(self) -> tuple[bytes, bytes | None]:
        """The key and the value as they are written."""
        return _json(self.key), None if self.value is None else _json(self.value)


def schema_record(one: RegisteredSchema, *, is_deleted: bool = False) -> RegistryRecord:
    """A version of a subject, which is there or soft deleted."""
    named = {"subject": one.subject, "version": one.version, "id": one.id}
    return RegistryRecord(_schema_key(one), {**named, **one.schema.to_json(), "deleted": is_deleted})


def tombstone(one: RegisteredSchema) -> RegistryRecord:
    """The end of a version of a subject."""
    return RegistryRecord(_schema_key(one), None)


def subject_deletion(subject: str, version: int) -> RegistryRecord:
    """The soft deletion of all versions of a subject up to one."""
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return RegistryRecord(key, {"subject": subject, "version": version})


def config_record(subject: str | None, config: dict[str, object] | None) -> RegistryRecord:
    """The config of a subject, or of all that have none (None); `config` None: it has no more."""
    return _of_subject("CONFIG", subject, config)


def mode_record(subject: str | None, mode: str | None) -> RegistryRecord:
    """The mode of a subject, or of all that have none (None); `mode` None: it has no more."""
    return _of_subject("MODE", subject, None if mode is None else {"mode": mode})


def _of_subject(keytype: str, subject: str | None, value: dict[str, object] | None) -> RegistryRecord:
    named = {} if subject is None else {"subject": subject}
    return RegistryRecord({"keytype": keytype, **named, "magic": 0}, None if value is None else {**named, **value})


def _schema_key(one: RegisteredSchema) -> dict[str, object]:
    return {"keytype": "SCHEMA", "subject": one.subject, "version": one.version, "magic": 1}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
