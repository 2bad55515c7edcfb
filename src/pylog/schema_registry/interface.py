"""`Interface`: a request to a registry becomes its answer, by the paths of Confluent's API reference.

    /subjects  /subjects/S  /subjects/S/versions  /subjects/S/versions/V  .../schema  .../referencedby
    /schemas  /schemas/types  /schemas/ids/ID  .../schema  .../subjects  .../versions
    /config  /config/S  /mode  /mode/S  /contexts
    /compatibility/subjects/S/versions  /compatibility/subjects/S/versions/V

An error is {"error_code": 40401, "message": "..."}, and its code of HTTP the first three digits. There is one context,
the default one. (Confluent: SubjectsResource, SubjectVersionsResource, SchemasResource, ConfigResource, ModeResource,
CompatibilityResource, Errors)
"""

import json
import logging
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pylog.errors import (
    IncompatibleSchema,
    PylogError,
    RecordTooLarge,
    SchemaNotFound,
    SchemaRegistryError,
)
from pylog.schema_registry.fields import DEFAULT_CONTEXT, Body, Parameters, SchemaRequest, body_of, integer, version_of
from pylog.serde import registry_changes as changes
from pylog.serde.registry import RegisteredSchema, Schema
from pylog.serde.registry_state import LookupFilter, RegistryState
from pylog.serde.schema_forms import TYPES
from pylog.serde.schema_store import SchemaStore

__all__ = ["Interface", "RestAnswer", "refused"]

logger = logging.getLogger("pylog.schema_registry")

STORE_ERROR, TOO_LARGE, NO_SUBJECT_LEVEL, NO_SUBJECT_MODE = 50001, 42209, 40408, 40409
PARAMETERS_MAX = 100


class RestAnswer(NamedTuple):
    """A code of HTTP, and a body of JSON."""

    status: int
    body: bytes


class Raw(str):
    """A schema that is answered as it is."""

    __slots__ = ()


class RestCall(NamedTuple):
    """One request, as the resources take it."""

    names: list[str]
    """The words in the places of the path: a subject, a version, an id."""
    parameters: Parameters
    data: bytes

    @property
    def subject(self) -> str:
        """The subject of the path, in the default context."""
        return self.names[0].removeprefix(DEFAULT_CONTEXT)

    @property
    def body(self) -> Body:
        """The object in the body. Raises SchemaRegistryError."""
        return body_of(self.data)


def refused(code: int, message: str) -> RestAnswer:
    """The answer that has an error."""
    return RestAnswer(code if code < 1000 else code // 100, _json({"error_code": code, "message": message}))


class Interface:
    """The resources over one store. Thread-safe."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store

    def answer(self, method: str, target: str, data: bytes) -> RestAnswer:
        """The answer to a request. `target`: the path and the parameters, as they were sent."""
        try:
            return self._answer(method, target, data)
        except IncompatibleSchema as error:
            return refused(error.error_code, f"Schema being registered is incompatible with an earlier schema: {error}")
        except (SchemaNotFound, SchemaRegistryError) as error:
            return refused(error.error_code, str(error))
        except RecordTooLarge as error:
            return refused(TOO_LARGE, f"Register operation failed because schema is too large: {error}")
        except (PylogError, ImportError, OSError) as error:
            logger.warning("a request to the registry failed: %s %s: %s", method, target[:200], error)
            return refused(STORE_ERROR, f"Error in the backend data store: {error}")

    def _answer(self, method: str, target: str, data: bytes) -> RestAnswer:
        try:
            split = urlsplit(target)
            parameters = parse_qs(split.query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
        except ValueError:
            return refused(400, "HTTP 400 Bad Request")
        path = [unquote(word) for word in split.path.strip("/").split("/")]
        methods, names = _resource(path)
        if methods is None:
            return refused(404, "HTTP 404 Not Found")
        resource = methods.get(method)
        if resource is None:
            return refused(405, "HTTP 405 Method Not Allowed")
        found = resource(self._store, RestCall(names, Parameters(parameters), data))
        return RestAnswer(200, found.encode() if isinstance(found, Raw) else _json(found))


def _resource(path: list[str]) -> "tuple[dict[str, Resource] | None, list[str]]":
    for pattern, methods in RESOURCES.items():
        words = pattern.split("/")
        if len(words) == len(path) and all(word in ("*", given) for word, given in zip(words, path, strict=True)):
            return methods, [given for word, given in zip(words, path, strict=True) if word == "*"]
    return None, []


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# --- subjects and their versions -----------------------------------------------------------------------------------


def _version(one: RegisteredSchema) -> dict[str, object]:
    return {"subject": one.subject, "version": one.version, "id": one.id, **one.schema.to_json()}


def _subjects(store: SchemaStore, call: RestCall) -> object:
    prefix = call.parameters.text("subjectPrefix")
    for context in (":*:", DEFAULT_CONTEXT):
        prefix = prefix.removeprefix(context)
    return call.parameters.page(store.state().subjects(prefix, call.parameters.which()))


def _look_up(store: SchemaStore, call: RestCall) -> object:
    given = SchemaRequest.of(call.body).schema
    which = call.parameters.with_deleted()
    state = store.state()
    if not state.versions(call.subject, which):
        raise changes.subject_not_found(call.subject)
    normalize = call.parameters.is_true("normalize")
    schema = changes.checked_schema(state, call.subject, given, normalize=normalize, is_new=False)
    found = state.find(call.subject, schema, which)
    if found is None:
        raise SchemaNotFound("Schema not found")
    return _version(found)


def _delete_subject(store: SchemaStore, call: RestCall) -> object:
    permanent = call.parameters.is_true("permanent")
    return store.change(lambda state: changes.delete_subject(state, call.subject, permanent=permanent))


def _versions(store: SchemaStore, call: RestCall) -> object:
    which = call.parameters.which()
    state = store.state()
    found = state.versions(call.subject, which)
    if not found and (which is not LookupFilter.DELETED_ONLY or not state.versions(call.subject)):
        raise changes.subject_not_found(call.subject)
    return call.parameters.page([one.version for one in found])


def _register(store: SchemaStore, call: RestCall) -> object:
    given, normalize = SchemaRequest.of(call.body), call.parameters.is_true("normalize")
    added = store.change(
        lambda state: changes.register(
            state, call.subject, given.schema, normalize=normalize, schema_id=given.id, version=given.version
        )
    )
    return {"id": added.id, "version": added.version, **added.schema.to_json()}


def _found(state: RegistryState, call: RestCall, which: LookupFilter) -> RegisteredSchema:
    return changes.existing(state, call.subject, version_of(call.names[1]), which)


def _version_of_subject(store: SchemaStore, call: RestCall) -> object:
    return _version(_found(store.state(), call, call.parameters.with_deleted()))


def _text_of_version(store: SchemaStore, call: RestCall) -> object:
    return Raw(_found(store.state(), call, call.parameters.with_deleted()).schema.text)


def _referring(store: SchemaStore, call: RestCall) -> object:
    which = call.parameters.with_deleted()
    state = store.state()
    one = _found(state, call, LookupFilter.INCLUDE_DELETED)
    ids = {other.id for other in state.referring(one.subject, one.version, which)}
    return call.parameters.page(sorted(ids))


def _delete_version(store: SchemaStore, call: RestCall) -> object:
    version, permanent = version_of(call.names[1]), call.parameters.is_true("permanent")
    return store.change(lambda state: changes.delete_version(state, call.subject, version, permanent=permanent))


# --- schemas -------------------------------------------------------------------------------------------------------


def _schemas(store: SchemaStore, call: RestCall) -> object:
    prefix, is_latest = call.parameters.text("subjectPrefix"), call.parameters.is_true("latestOnly")
    which = call.parameters.with_deleted()
    state = store.state()
    every = [state.versions(subject, which) for subject in state.subjects(prefix.removeprefix(":*:"), which)]
    found = [one for versions in every for one in (versions[-1:] if is_latest else versions)]
    return [_version(one) for one in call.parameters.page(found)]


def _types(store: SchemaStore, call: RestCall) -> object:
    return list(TYPES)


def _known(state: RegistryState, call: RestCall) -> Schema:
    number = integer(call.names[0])
    found = state.by_id(number)
    if found is None:
        raise SchemaNotFound(f"Schema {number} not found")
    return found


def _schema(store: SchemaStore, call: RestCall) -> object:
    state = store.state()
    most = {"maxId": state.id_max} if call.parameters.is_true("fetchMaxId") else {}
    return {**_known(state, call).to_json(), **most}


def _text_of_id(store: SchemaStore, call: RestCall) -> object:
    return Raw(_known(store.state(), call).text)


def _of_id(store: SchemaStore, call: RestCall) -> list[RegisteredSchema]:
    which = call.parameters.with_deleted()
    state = store.state()
    _known(state, call)
    return state.of_id(integer(call.names[0]), which)


def _subjects_of_id(store: SchemaStore, call: RestCall) -> object:
    return call.parameters.page(list(dict.fromkeys(one.subject for one in _of_id(store, call))))


def _versions_of_id(store: SchemaStore, call: RestCall) -> object:
    found = [{"subject": one.subject, "version": one.version} for one in _of_id(store, call)]
    return call.parameters.page(found)


# --- compatibility -------------------------------------------------------------------------------------------------


def _is_compatible_with_version(store: SchemaStore, call: RestCall) -> object:
    version = version_of(call.names[1])

    def held_to(state: RegistryState) -> list[RegisteredSchema]:
        found = [one for one in state.versions(call.subject) if version in (None, one.version)][-1:]
        if version is not None and not found:
            raise SchemaNotFound(f"Version {version} not found.", changes.VERSION_NOT_FOUND)
        return found

    return _compared(store, call, held_to)


def _is_compatible(store: SchemaStore, call: RestCall) -> object:
    return _compared(store, call, lambda state: state.versions(call.subject))


def _compared(
    store: SchemaStore, call: RestCall, held_to: Callable[[RegistryState], list[RegisteredSchema]]
) -> dict[str, object]:
    given, normalize = SchemaRequest.of(call.body).schema, call.parameters.is_true("normalize")
    is_verbose = call.parameters.is_true("verbose")
    state = store.state()
    versions = held_to(state)
    try:
        schema = changes.checked_schema(state, call.subject, given, normalize=normalize)
    except SchemaRegistryError as error:
        if not is_verbose:
            raise
        return {"is_compatible": False, "messages": [str(error)]}
    faults = changes.faults_of(state, call.subject, schema, versions)
    return {"is_compatible": not faults, **({"messages": faults} if is_verbose else {})}


# --- configs, modes and contexts -----------------------------------------------------------------------------------


def _named(call: RestCall) -> str | None:
    return call.subject or None if call.names else None


def _config(store: SchemaStore, call: RestCall) -> object:
    subject = _named(call)
    state = store.state()
    is_shared = subject is not None and call.parameters.is_true("defaultToGlobal")
    found = state.config_in_scope(subject) if is_shared else state.config(subject)
    if found is None:
        raise SchemaNotFound(
            f"Subject '{subject}' does not have subject-level compatibility configured", NO_SUBJECT_LEVEL
        )
    return found


def _set_config(store: SchemaStore, call: RestCall) -> object:
    given = call.body
    store.change(lambda state: changes.set_config(state, _named(call), given))
    return given


def _delete_config(store: SchemaStore, call: RestCall) -> object:
    return store.change(lambda state: changes.delete_config(state, _named(call)))


def _mode(store: SchemaStore, call: RestCall) -> object:
    subject = _named(call)
    state = store.state()
    is_shared = call.parameters.is_true("defaultToGlobal")
    found = state.mode_in_scope(subject) if is_shared else state.mode(subject)
    if found is None:
        raise SchemaNotFound(f"Subject '{subject}' does not have subject-level mode configured", NO_SUBJECT_MODE)
    return {"mode": found}


def _set_mode(store: SchemaStore, call: RestCall) -> object:
    given, force = call.body.get("mode"), call.parameters.is_true("force")
    return {"mode": store.change(lambda state: changes.set_mode(state, _named(call), given, force=force))}


def _delete_mode(store: SchemaStore, call: RestCall) -> object:
    return {"mode": store.change(lambda state: changes.delete_mode(state, _named(call)))}


def _contexts(store: SchemaStore, call: RestCall) -> object:
    return ["."]


def _root(store: SchemaStore, call: RestCall) -> object:
    return {}


Resource = Callable[[SchemaStore, RestCall], object]
CONFIG: dict[str, Resource] = {"GET": _config, "PUT": _set_config, "DELETE": _delete_config}
MODE: dict[str, Resource] = {"GET": _mode, "PUT": _set_mode, "DELETE": _delete_mode}
RESOURCES: dict[str, dict[str, Resource]] = {
    "": {"GET": _root, "POST": _root},
    "subjects": {"GET": _subjects},
    "subjects/*": {"POST": _look_up, "DELETE": _delete_subject},
    "subjects/*/versions": {"GET": _versions, "POST": _register},
    "subjects/*/versions/*": {"GET": _version_of_subject, "DELETE": _delete_version},
    "subjects/*/versions/*/schema": {"GET": _text_of_version},
    "subjects/*/versions/*/referencedby": {"GET": _referring},
    "schemas": {"GET": _schemas},
    "schemas/types": {"GET": _types},
    "schemas/ids/*": {"GET": _schema},
    "schemas/ids/*/schema": {"GET": _text_of_id},
    "schemas/ids/*/subjects": {"GET": _subjects_of_id},
    "schemas/ids/*/versions": {"GET": _versions_of_id},
    "compatibility/subjects/*/versions": {"POST": _is_compatible},
    "compatibility/subjects/*/versions/*": {"POST": _is_compatible_with_version},
    "config": CONFIG,
    "config/*": CONFIG,
    "mode": MODE,
    "mode/*": MODE,
    "contexts": {"GET": _contexts},
}
"""By the path, where * is a name, and the method."""
