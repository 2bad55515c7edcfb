"""The levels of compatibility, and a new schema held to the versions before it by one of them.

    BACKWARD   the new schema reads what the latest version has written: consumers are upgraded first
    FORWARD    the latest version reads what the new schema writes: producers are upgraded first
    FULL       both

The transitive ones go by every version instead of the latest. NONE asks for nothing.
"""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pylog.serde.avro_schema import AvroSchema
from pylog.serde.compatibility import avro, json_schema, protobuf
from pylog.serde.registry import AVRO, JSON, PROTOBUF, Level, RegisteredSchema, Schema

DEFAULT: Level = "BACKWARD"
"""The level of a subject for which none was set (Confluent: schema.compatibility.level)."""
FAULTS_SHOWN = 5

Whole = Callable[[Schema], AvroSchema]
"""An Avro schema as JSON, with those that it refers to in their places."""


class Conflict(NamedTuple):
    """The first version that a new schema is not compatible with, and the reasons, which name the fields."""

    level: Level
    version: RegisteredSchema
    faults: list[str]

    def __str__(self) -> str:
        more = f"; and {len(self.faults) - FAULTS_SHOWN} more" if len(self.faults) > FAULTS_SHOWN else ""
        return (
            f"the schema is not {self.level} compatible with version {self.version.version} of {self.version.subject}: "
            f"{'; '.join(self.faults[:FAULTS_SHOWN])}{more}"
        )


def conflict(level: Level, new: Schema, versions: Sequence[RegisteredSchema], whole: Whole) -> Conflict | None:
    """Hold a schema to the versions of a subject; None where it is compatible."""
    if level == "NONE":
        return None
    ordered = sorted(versions, key=lambda one: one.version)
    direction = level.removesuffix("_TRANSITIVE")
    for old in ordered if direction != level else ordered[-1:]:
        found: list[str] = []
        if direction in ("BACKWARD", "FULL"):
            found += [f"the new schema cannot read it: {fault}" for fault in faults(new, old.schema, whole)]
        if direction in ("FORWARD", "FULL"):
            found += [f"it cannot read the new schema: {fault}" for fault in faults(old.schema, new, whole)]
        if found:
            return Conflict(level, old, found)
    return None


def faults(reader: Schema, writer: Schema, whole: Whole) -> list[str]:
    """The reasons why data that `writer` has written cannot be read by `reader`; none where it can."""
    if reader.type != writer.type:
        return [f"one is {reader.type}, the other one {writer.type}"]
    # They may come from a topic that others write to: no schema ends a program.
    try:
        match reader.type:
            case str(kind) if kind == AVRO:
                return avro.faults(whole(reader), whole(writer))
            case str(kind) if kind == JSON:
                return json_schema.faults(json.loads(reader.text), json.loads(writer.text))
            case str(kind) if kind == PROTOBUF:
                return protobuf.faults(reader.text, writer.text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"one of them is no {reader.type} that can be compared: {error!r}"]
    return [f"schemas of type {reader.type} cannot be compared"]
