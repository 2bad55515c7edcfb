"""The pages of schemas: the subjects in the log's topic `_schemas`, and the versions of one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pylog.runtime.words import printable
from pylog.serde.compatibility.protobuf import BASE64, file_of
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


COLUMNS: dict[str, Callable[[SubjectLine], object]] = {
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
    """The uses of a version."""

    topic: str | None
    """The topic that its subject names as "TOPIC-key" or "TOPIC-value"; None where there is no such topic."""
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
    """The version that an address names: by `id`, or by `subject` and `version` (without it: the latest)."""
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
    topic, _, part = found.subject.rpartition("-")
    return SchemaUses(
        topic if part in ("key", "value") and topic in seen(request).log.topics() else None,
        [one for one in state.of_id(found.id) if one.subject != found.subject][:USES_MAX],
        sorted(state.referring(found.subject, found.version, LookupFilter.DEFAULT))[:USES_MAX],
    )


def _text(schema: Schema) -> str:
    """The text to show: JSON laid out, a Protobuf descriptor as its fields, any other text as it is."""
    try:
        if schema.type == PROTOBUF:
            return str(file_of(schema.text)) if BASE64.fullmatch(schema.text) else schema.text
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError, ImportError):
        return schema.text
