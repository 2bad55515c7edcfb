"""The pages of schemas: the subjects in the log's topic `_schemas`, and the versions of one."""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.runtime.words import printable
from pylog.serde.registry import PROTOBUF, RegisteredSchema, Schema
from pylog.serde.registry_state import LookupFilter, RegistryState
from pylog.serde.schema_store import TOPIC
from pylog.ui.pages import page, seen
from pylog.ui.parameters import needed, number
from pylog.ui.sorting import sorted_lines
from pylog.ui.values import LAID_OUT

__all__ = ["schema", "schemas"]

TEXT_CHARS = 128 << 10
VERSIONS_MAX = 1000
USES_MAX = 200


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A subject in the list."""

    name: str
    type: str
    versions: int
    id: int
    level: str
    """The level of compatibility by which it goes."""


COLUMNS: dict[str, Callable[[SubjectLine], Any]] = {
    "subject": lambda one: one.name, "type": lambda one: one.type, "versions": lambda one: one.versions,
    "id": lambda one: one.id,
}  # fmt: skip


def schemas(request: Request) -> Response:
    """All subjects, with their latest versions."""
    state = _state(request)
    lines = [_line(state, one) for one in state.subjects()]
    view = sorted_lines(request.query_params, lines, COLUMNS, lambda one: one.name)
    return page(request, "schemas.html", view=view, topic=TOPIC)


def _state(request: Request) -> RegistryState:
    state: RegistryState = request.app.state.schemas.state()
    return state


def _line(state: RegistryState, subject: str) -> SubjectLine:
    versions = state.versions(subject)
    return SubjectLine(subject, versions[-1].schema.type, len(versions), versions[-1].id, state.level(subject))


@dataclass(frozen=True, slots=True)
class SchemaUses:
    """The uses of a version. `topics`: those whose keys or values it is, by the name of its subject."""

    topics: list[str]
    same: list[RegisteredSchema]
    """Versions of other subjects with this id."""
    referring: list[RegisteredSchema]


def schema(request: Request) -> Response:
    """A version of a subject: its text, what it refers to, and where it is used."""
    state = _state(request)
    found = _found(state, request.query_params)
    versions = state.versions(found.subject)
    text = _text(found.schema)
    return page(
        request, "schema.html", found=found, versions=versions[::-1][:VERSIONS_MAX], count=len(versions),
        level=state.level(found.subject), text=printable(text[:TEXT_CHARS], keep=LAID_OUT),
        is_cut=len(text) > TEXT_CHARS, uses=_uses(request, state, found), is_deleted=state.is_deleted(found),
        is_descriptor=found.schema.type == PROTOBUF and text != found.schema.text,
    )  # fmt: skip


def _found(state: RegistryState, words: Mapping[str, str]) -> RegisteredSchema:
    """The version that an address names: the first with an id, or of a subject, the latest unless it says which."""
    schema_id = number(words, "id", 1)
    if schema_id is not None:
        # Records of a version that is soft deleted are decoded by it.
        with_id = state.of_id(schema_id) or state.of_id(schema_id, LookupFilter.INCLUDE_DELETED)
        if not with_id:
            raise HTTPException(404, f"Topic {TOPIC} has no schema with id {schema_id}.")
        return with_id[0]
    subject, wanted = needed(words, "subject"), number(words, "version", 1)
    found = next((one for one in reversed(state.versions(subject)) if wanted in (None, one.version)), None)
    if found is None:
        raise HTTPException(404, f"Topic {TOPIC} has no such version of subject {subject}.")
    return found


def _uses(request: Request, state: RegistryState, found: RegisteredSchema) -> SchemaUses:
    topic, dash, part = found.subject.rpartition("-")
    is_there = dash and part in ("key", "value") and topic in seen(request).log.topics()
    return SchemaUses(
        [topic] if is_there else [],
        [one for one in state.of_id(found.id) if one.subject != found.subject][:USES_MAX],
        sorted(state.referring(found.subject, found.version, LookupFilter.DEFAULT))[:USES_MAX],
    )


def _text(schema: Schema) -> str:
    """The text of a schema: JSON laid out, a descriptor of Protobuf as its fields, and what is not one as it is."""
    try:
        if schema.type == PROTOBUF:
            return _descriptor_text(schema.text)
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError, ImportError):
        return schema.text


def _descriptor_text(text: str) -> str:
    """The fields of a descriptor in base64. Raises ValueError for source text, ImportError without the extra."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return str(FileDescriptorProto.FromString(b64decode(text, validate=True)))
    except DecodeError as error:
        raise ValueError(str(error)) from error
