"""The changes of a registry: from its state and a request to the records that are appended, and the answer.

Pure: nothing is written here. Each change raises SchemaRegistryError, IncompatibleSchema or SchemaNotFound, with
Confluent's code, where it is refused; then there are no records. (Confluent: KafkaSchemaRegistry)
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from pylog.errors import IncompatibleSchema, SchemaNotFound, SchemaRegistryError
from pylog.serde.avro import whole_schema
from pylog.serde.avro_schema import AvroSchema
from pylog.serde.compatibility.levels import conflict
from pylog.serde.registry import Reference, RegisteredSchema, Schema, checked_level
from pylog.serde.registry_records import (
    RegistryRecord,
    config_record,
    mode_record,
    schema_record,
    subject_deletion,
    tombstone,
)
from pylog.serde.registry_state import (
    IMPORT,
    MODES,
    READONLY,
    READONLY_OVERRIDE,
    READWRITE,
    LookupFilter,
    RegistryState,
)
from pylog.serde.schema_forms import INVALID_SCHEMA, check_schema, normalized

__all__ = [
    "RegistryChange", "checked_schema", "delete_config", "delete_mode", "delete_subject", "delete_version", "existing",
    "faults_of", "register", "set_config", "set_mode", "subject_not_found",
]  # fmt: skip

T = TypeVar("T")
SUBJECT_NOT_FOUND, VERSION_NOT_FOUND = 40401, 40402
SUBJECT_SOFT_DELETED, SUBJECT_NOT_SOFT_DELETED = 40404, 40405
VERSION_SOFT_DELETED, VERSION_NOT_SOFT_DELETED = 40406, 40407
INVALID_LEVEL, INVALID_MODE, NOT_PERMITTED = 42203, 42204, 42205
REFERENCE_EXISTS, INVALID_SUBJECT = 42206, 42208
CONFIGS = frozenset({"compatibility", "normalize"})
"""The configs that a request may set."""
LATEST = -1
"""The version of a reference to the latest one."""
RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


class RegistryChange(NamedTuple, Generic[T]):
    """The records of a change, and what is answered once they are written."""

    result: T
    records: tuple[RegistryRecord, ...] = ()


# --- questions that changes have in common -------------------------------------------------------------------------


def checked_schema(
    state: RegistryState, subject: str, schema: Schema, *, normalize: bool = False, is_new: bool = True
) -> Schema:
    """A schema from a request: valid, its references to the latest version by number, in normal form where that is
    asked for. `is_new`: it may be registered, so defaults have to fit, and references to be there. Raises
    SchemaRegistryError (42201).
    """
    if not schema.text.strip():
        raise SchemaRegistryError("Invalid schema: it is empty", INVALID_SCHEMA)
    which = LookupFilter.DEFAULT if is_new else LookupFilter.INCLUDE_DELETED
    found = schema._replace(references=tuple(_resolved(state, one, which) for one in schema.references))
    if state.mode_in_scope(subject) != IMPORT:
        check_schema(found, state.referenced, is_new=is_new)
        if normalize or state.config_in_scope(subject).get("normalize") is True:
            found = normalized(found)
    if not _is_text(found.text, *(word for used in found.references for word in (used.name, used.subject))):
        raise SchemaRegistryError("Invalid schema: it has half of a character", INVALID_SCHEMA)
    return found


def _is_text(*words: str) -> bool:
    """Whether words can be written: JSON may name one half of a pair of surrogates."""
    return not any("\ud800" <= one <= "\udfff" for word in words if not word.isascii() for one in word)


def _resolved(state: RegistryState, reference: Reference, which: LookupFilter) -> Reference:
    if reference.version == LATEST:
        versions = state.versions(reference.subject)[-1:]
    else:
        versions = [one for one in state.versions(reference.subject, which) if one.version == reference.version]
    if not versions:
        raise SchemaRegistryError(
            f"Invalid schema: there is no version {reference.version} of subject {reference.subject}, to which it "
            f"refers as {reference.name}",
            INVALID_SCHEMA,
        )
    return reference._replace(version=versions[0].version)


def faults_of(state: RegistryState, subject: str, schema: Schema, versions: list[RegisteredSchema]) -> list[str]:
    """The reasons why a schema may not stand beside versions of a subject, by the level of that subject."""
    found = conflict(state.level(subject), schema, versions, _whole_by(state))
    return [] if found is None else [str(found), *found.faults]


def _whole_by(state: RegistryState) -> Callable[[Schema], AvroSchema]:
    return lambda one: whole_schema(one, state.referenced)


def subject_not_found(subject: str) -> SchemaNotFound:
    """The error for a subject without versions."""
    return SchemaNotFound(f"Subject '{subject}' not found.", SUBJECT_NOT_FOUND)


def existing(
    state: RegistryState, subject: str, version: int | None, which: LookupFilter = LookupFilter.DEFAULT
) -> RegisteredSchema:
    """A version of a subject; None: the latest that is not deleted. Raises SchemaNotFound."""
    if version is None:
        found = state.versions(subject)[-1:]
    else:
        found = [one for one in state.versions(subject, which) if one.version == version]
    if found:
        return found[0]
    if not state.versions(subject, which):
        raise subject_not_found(subject)
    raise SchemaNotFound(f"Version {LATEST if version is None else version} not found.", VERSION_NOT_FOUND)


def _check_subject(subject: str) -> None:
    has_controls = any(ord(one) < 32 or 127 <= ord(one) < 160 for one in subject)
    if subject in RESERVED or subject.startswith(":") or has_controls or not _is_text(subject):
        raise SchemaRegistryError(f"The specified subject {subject!r} is not valid.", INVALID_SUBJECT)


def _check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode_in_scope(subject) in (READONLY, READONLY_OVERRIDE):
        named = "The registry" if subject is None else f"Subject {subject}"
        raise SchemaRegistryError(f"{named} is in read-only mode", NOT_PERMITTED)


def _check_unreferenced(state: RegistryState, one: RegisteredSchema, which: LookupFilter, subject: str = "") -> None:
    """Raise SchemaRegistryError where another version refers to `one`; those of `subject` may."""
    for using in state.referring(one.subject, one.version, which):
        if using.subject == subject:
            continue
        raise SchemaRegistryError(
            f"One or more references exist to version {one.version} of subject {one.subject}: version {using.version} "
            f"of {using.subject}",
            REFERENCE_EXISTS,
        )


# --- schemas -------------------------------------------------------------------------------------------------------


def register(
    state: RegistryState, subject: str, given: Schema, *, normalize: bool = False,
    schema_id: int | None = None, version: int | None = None,
) -> RegistryChange[RegisteredSchema]:  # fmt: skip
    """A schema becomes a new version of a subject, unless it is one. `schema_id`: in the mode IMPORT alone."""
    _check_subject(subject)
    schema = checked_schema(state, subject, given, normalize=normalize, is_new=False)
    known = state.find(subject, schema)
    if known is not None and version is None and schema_id in (None, known.id):
        # Also where nothing can be registered: programs that register what is there go on.
        return RegistryChange(known)
    is_import = state.mode_in_scope(subject) == IMPORT
    _check_register_mode(state, subject, schema_id)
    schema = checked_schema(state, subject, given, normalize=normalize)
    every = state.versions(subject, LookupFilter.INCLUDE_DELETED)
    following = every[-1].version + 1 if every else 1
    if not is_import:
        _check_compatible(state, subject, schema)
        if version not in (None, following):
            raise SchemaRegistryError("Version is not one more than previous version", INVALID_SCHEMA)
    added = RegisteredSchema(_id_for(state, schema, schema_id), subject, version or following, schema)
    return RegistryChange(added, (*_replaced(state, every, added), schema_record(added)))


def _check_register_mode(state: RegistryState, subject: str, schema_id: int | None) -> None:
    _check_writable(state, subject)
    mode = state.mode_in_scope(subject)
    if schema_id is not None and mode != IMPORT:
        raise SchemaRegistryError(f"Subject {subject} is not in import mode", NOT_PERMITTED)
    if schema_id is None and mode != READWRITE:
        raise SchemaRegistryError(f"Subject {subject} is not in read-write mode", NOT_PERMITTED)


def _check_compatible(state: RegistryState, subject: str, schema: Schema) -> None:
    found = conflict(state.level(subject), schema, state.versions(subject), _whole_by(state))
    if found is not None:
        raise IncompatibleSchema(f"{found}. Change it, or set another level (set_compatibility)")


def _id_for(state: RegistryState, schema: Schema, given: int | None) -> int:
    ids = state.ids_of(schema)
    if given is None:
        return ids[0] if ids else state.id_max + 1
    if state.by_id(given) is not None and given not in ids:
        raise SchemaRegistryError(f"Overwrite new schema with id {given} is not permitted.", NOT_PERMITTED)
    return given


def _replaced(
    state: RegistryState, every: list[RegisteredSchema], added: RegisteredSchema
) -> tuple[RegistryRecord, ...]:
    """The ends of soft deleted versions with the id of a new one, which takes their place."""
    return tuple(
        tombstone(one) for one in every
        if one.id == added.id and one.version < added.version and state.is_deleted(one)
        and not any(state.referring(one.subject, one.version, LookupFilter.INCLUDE_DELETED))
    )  # fmt: skip


def delete_version(state: RegistryState, subject: str, version: int | None, *, permanent: bool) -> RegistryChange[int]:
    """A version of a subject is soft deleted, or (`permanent`) one that is soft deleted goes for good."""
    one = existing(state, subject, version, LookupFilter.INCLUDE_DELETED)
    _check_writable(state, subject)
    is_deleted = state.is_deleted(one)
    if is_deleted and not permanent:
        raise SchemaNotFound(
            f"Subject '{subject}' Version {one.version} was soft deleted. Set permanent=true to delete permanently",
            VERSION_SOFT_DELETED,
        )
    _check_unreferenced(state, one, LookupFilter.INCLUDE_DELETED if permanent else LookupFilter.DEFAULT)
    if not permanent:
        return RegistryChange(one.version, (schema_record(one, is_deleted=True),))
    if not is_deleted:
        raise SchemaNotFound(
            f"Subject '{subject}' Version {one.version} was not deleted first before being permanently deleted",
            VERSION_NOT_SOFT_DELETED,
        )
    is_last = len(state.versions(subject, LookupFilter.INCLUDE_DELETED)) == 1
    return RegistryChange(one.version, (tombstone(one), *(_settings_gone(state, subject) if is_last else ())))


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> RegistryChange[list[int]]:
    """All versions of a subject are soft deleted, or (`permanent`) go for good when they are; the answer has them."""
    every = state.versions(subject, LookupFilter.INCLUDE_DELETED)
    there = state.versions(subject)
    if not every:
        raise subject_not_found(subject)
    if not permanent and not there:
        raise SchemaNotFound(
            f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently", SUBJECT_SOFT_DELETED
        )
    _check_writable(state, subject)
    which = LookupFilter.INCLUDE_DELETED if permanent else LookupFilter.DEFAULT
    for one in every if permanent else there:
        _check_unreferenced(state, one, which, subject)
    if not permanent:
        return RegistryChange([one.version for one in there], (subject_deletion(subject, there[-1].version),))
    if there:
        raise SchemaNotFound(
            f"Subject '{subject}' was not deleted first before being permanently deleted", SUBJECT_NOT_SOFT_DELETED
        )
    # From the last on: a version may refer to one before it.
    gone = tuple(tombstone(one) for one in reversed(every))
    return RegistryChange([one.version for one in every], (*gone, *_settings_gone(state, subject)))


def _settings_gone(state: RegistryState, subject: str) -> tuple[RegistryRecord, ...]:
    mode = () if state.mode(subject) is None else (mode_record(subject, None),)
    config = () if state.config(subject) is None else (config_record(subject, None),)
    return mode + config


# --- configs and modes ---------------------------------------------------------------------------------------------


def set_config(
    state: RegistryState, subject: str | None, given: Mapping[str, object]
) -> RegistryChange[dict[str, object]]:
    """Set `compatibility` and `normalize` of a subject, or (None) of all without their own; what is not given stays."""
    if subject is not None:
        _check_subject(subject)
    new: dict[str, object] = {name: one for name, one in given.items() if one is not None}
    if new.keys() - CONFIGS:
        raise SchemaRegistryError(f"{', '.join(sorted(new.keys() - CONFIGS))}: no config that pylog has", 422)
    if not isinstance(new.get("normalize", True), bool):
        raise SchemaRegistryError(f"normalize is {new['normalize']!r}, not a boolean", 422)
    if "compatibility" in new:
        try:
            new["compatibilityLevel"] = checked_level(new.pop("compatibility"))
        except ValueError as error:
            raise SchemaRegistryError(f"Invalid compatibility level: {error}", INVALID_LEVEL) from error
    _check_writable(state, subject)
    old = (state.config(subject) or {}) if subject is not None else state.config_in_scope(None)
    whole = {**old, **new}
    return RegistryChange(whole, (config_record(subject, whole),))


def delete_config(state: RegistryState, subject: str | None) -> RegistryChange[dict[str, object]]:
    """Take the config of a subject (None: that of all) back; the answer has what it was."""
    found = state.config(subject)
    if found is None:
        raise subject_not_found(str(subject))
    _check_writable(state, subject)
    return RegistryChange(found, (config_record(subject, None),))


def set_mode(
    state: RegistryState, subject: str | None, given: object, *, force: bool = False
) -> RegistryChange[str | None]:
    """Set the mode of a subject, or (None) of all without their own; `given` None takes it back. IMPORT needs a subject
    without versions, unless `force`; soft deleted ones go for good.
    """
    if subject is not None:
        _check_subject(subject)
    if given is None:
        return RegistryChange(None, (mode_record(subject, None),))
    mode = given.upper() if isinstance(given, str) else ""
    if mode not in MODES:
        raise SchemaRegistryError(f"Invalid mode {given!r}. Valid values are {', '.join(MODES)}.", INVALID_MODE)
    gone: tuple[RegistryRecord, ...] = ()
    if mode == IMPORT and state.mode_in_scope(subject) != IMPORT and not force:
        gone = _made_empty(state, subject)
    return RegistryChange(mode, (*gone, mode_record(subject, mode)))


def _made_empty(state: RegistryState, subject: str | None) -> tuple[RegistryRecord, ...]:
    subjects = state.subjects(which=LookupFilter.INCLUDE_DELETED) if subject is None else [subject]
    if any(state.versions(one) for one in subjects):
        raise SchemaRegistryError("Cannot import since found existing subjects", NOT_PERMITTED)
    gone = [one for name in subjects for one in state.versions(name, LookupFilter.INCLUDE_DELETED)]
    for one in gone:
        _check_unreferenced(state, one, LookupFilter.INCLUDE_DELETED)
    return tuple(map(tombstone, gone))


def delete_mode(state: RegistryState, subject: str | None) -> RegistryChange[str]:
    """Take the mode of a subject (None: that of all) back; the answer has what it was."""
    found = state.mode(subject)
    if found is None:
        raise subject_not_found(str(subject))
    return RegistryChange(found, (mode_record(subject, None),))
