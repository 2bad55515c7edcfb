"""`RegistryState`: what the records of a registry's topic make, and the questions to it. Pure: no log, thread or clock.

    take           replay a record
    registry_changes     decides, from this state, which records a change appends

A version is there, soft deleted (`deleted`: a lookup by id still finds its schema), or gone. An id belongs to a schema
as long as one version has it, and is never given again while this state lives. (Confluent: InMemoryCache)
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from pylog.serde.compatibility.levels import DEFAULT
from pylog.serde.registry import AVRO, Level, Reference, RegisteredSchema, Schema, checked_level
from pylog.serde.schema_forms import Meaning, meaning, whole_meaning

__all__ = ["READWRITE", "LookupFilter", "RegistryState"]

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = MODES = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"


class LookupFilter(Enum):
    """Which versions are meant. (Confluent: LookupFilter)"""

    DEFAULT = "those that are not deleted"
    INCLUDE_DELETED = "soft deleted ones, too"
    DELETED_ONLY = "soft deleted ones alone"


class RegistryState:
    """Subjects with their versions, schemas by id, configs and modes."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, RegisteredSchema]] = {}
        self._deleted: set[tuple[str, int]] = set()
        self._by_id: dict[int, Schema] = {}
        self._of_id: dict[int, set[tuple[str, int]]] = {}
        self._ids: dict[Meaning, set[int]] = {}
        """More than one where schemas were imported with their ids."""
        self._id_max = 0
        self._configs: dict[str | None, dict[str, object]] = {}
        """By subject; None: of all that have none. So are the modes."""
        self._modes: dict[str | None, str] = {}

    def copy(self) -> "RegistryState":
        """The same state, to replay more records in."""
        found = RegistryState()
        found._versions = {subject: dict(versions) for subject, versions in self._versions.items()}
        found._deleted = set(self._deleted)
        found._by_id = dict(self._by_id)
        found._of_id = {schema_id: set(keys) for schema_id, keys in self._of_id.items()}
        found._ids = {meant: set(ids) for meant, ids in self._ids.items()}
        found._id_max = self._id_max
        found._configs, found._modes = dict(self._configs), dict(self._modes)
        return found

    # --- replay ------------------------------------------------------------------------------------------------------

    def take(self, key: Any, value: Any) -> None:
        """Replay one record, given as JSON. Raises ValueError, TypeError, KeyError, AttributeError for another one."""
        match key["keytype"]:
            case "SCHEMA":
                self._take_schema((key["subject"], key["version"]), value)
            case "DELETE_SUBJECT" if value is not None:
                versions = self._versions.get(value["subject"], {})
                self._deleted |= {(value["subject"], one) for one in versions if one <= value["version"]}
            case "CONFIG":
                self._take_config(key.get("subject"), value)
            case "MODE" if value is None:
                self._modes.pop(key.get("subject"), None)
            case "MODE":
                self._modes[key.get("subject")] = _checked_mode(value["mode"])

    def _take_config(self, subject: str | None, value: Any) -> None:
        config = {name: one for name, one in (value or {}).items() if name != "subject" and one is not None}
        if "compatibilityLevel" in config:
            config["compatibilityLevel"] = checked_level(config["compatibilityLevel"])
        if config:
            self._configs[subject] = config
        else:
            self._configs.pop(subject, None)

    def _take_schema(self, key: tuple[str, int], value: Any) -> None:
        added = None if value is None else RegisteredSchema(int(value["id"]), *key, Schema.from_json(value))
        self._drop(key)
        if added is None:
            return
        self._versions.setdefault(added.subject, {})[added.version] = added
        self._by_id.setdefault(added.id, added.schema)
        self._of_id.setdefault(added.id, set()).add(key)
        self._ids.setdefault(meaning(added.schema), set()).add(added.id)
        self._id_max = max(self._id_max, added.id)
        if value.get("deleted"):
            self._deleted.add(key)

    def _drop(self, key: tuple[str, int]) -> None:
        subject, version = key
        self._deleted.discard(key)
        versions = self._versions.get(subject, {})
        gone = versions.pop(version, None)
        if gone is None:
            return
        if not versions:
            del self._versions[subject]
        self._of_id[gone.id].discard(key)
        if not self._of_id[gone.id]:
            del self._of_id[gone.id]
            mean = meaning(self._by_id.pop(gone.id))
            self._ids[mean].discard(gone.id)
            if not self._ids[mean]:
                del self._ids[mean]

    # --- subjects and versions ---------------------------------------------------------------------------------------

    def subjects(self, prefix: str = "", which: LookupFilter = LookupFilter.DEFAULT) -> list[str]:
        """Names of subjects, sorted. Deleted only: those of which no version is left."""
        found = sorted(one for one in self._versions if one.startswith(prefix))
        if which is LookupFilter.DELETED_ONLY:
            return [one for one in found if not self.versions(one)]
        return [one for one in found if self.versions(one, which)]

    def versions(self, subject: str, which: LookupFilter = LookupFilter.DEFAULT) -> list[RegisteredSchema]:
        """The versions of a subject, from the first on."""
        found = sorted(self._versions.get(subject, {}).values(), key=lambda one: one.version)
        return [one for one in found if self._is_meant(one, which)]

    def _is_meant(self, one: RegisteredSchema, which: LookupFilter) -> bool:
        return which is LookupFilter.INCLUDE_DELETED or self.is_deleted(one) == (which is LookupFilter.DELETED_ONLY)

    def is_deleted(self, one: RegisteredSchema) -> bool:
        """Whether a version is soft deleted."""
        return (one.subject, one.version) in self._deleted

    def find(self, subject: str, schema: Schema, which: LookupFilter = LookupFilter.DEFAULT) -> RegisteredSchema | None:
        """The latest version of a subject that is this schema; one that refers to others may be given as a whole."""
        ids, versions = self.ids_of(schema), self.versions(subject, which)[::-1]
        by_id = next((one for one in versions if one.id in ids), None)
        if by_id is not None or schema.references or schema.type != AVRO:
            return by_id
        meant = meaning(schema)
        used = (one for one in versions if one.schema.references)
        return next((one for one in used if whole_meaning(one.schema, self.referenced) == meant), None)

    # --- ids and references ------------------------------------------------------------------------------------------

    @property
    def id_max(self) -> int:
        """The largest id that was given; 0: none was."""
        return self._id_max

    def by_id(self, schema_id: int) -> Schema | None:
        """The schema with an id."""
        return self._by_id.get(schema_id)

    def ids_of(self, schema: Schema) -> list[int]:
        """The ids of a schema, whichever subjects it is in, from the first on."""
        return sorted(self._ids.get(meaning(schema), ()))

    def of_id(self, schema_id: int, which: LookupFilter = LookupFilter.DEFAULT) -> list[RegisteredSchema]:
        """The versions with an id, by subject."""
        found = [self._versions[subject][version] for subject, version in sorted(self._of_id.get(schema_id, ()))]
        return [one for one in found if self._is_meant(one, which)]

    def referenced(self, reference: Reference) -> Schema:
        """The schema that a reference names, which may be soft deleted. Raises KeyError."""
        return self._versions[reference.subject][reference.version].schema

    def referring(self, subject: str, version: int, which: LookupFilter) -> Iterator[RegisteredSchema]:
        """The versions that refer to a version of a subject."""
        for versions in self._versions.values():
            for one in versions.values():
                uses = any((used.subject, used.version) == (subject, version) for used in one.schema.references)
                if uses and self._is_meant(one, which):
                    yield one

    # --- configs and modes -------------------------------------------------------------------------------------------

    def config(self, subject: str | None) -> dict[str, object] | None:
        """The config that was set for a subject, or (subject None) that of all that have none."""
        own = self._configs.get(subject)
        return {"compatibilityLevel": DEFAULT, **(own or {})} if subject is None else own

    def config_in_scope(self, subject: str | None) -> dict[str, object]:
        """The config by which a subject goes: its own, and for the rest that of all."""
        shared = {"compatibilityLevel": DEFAULT, **self._configs.get(None, {})}
        return {**shared, **self._configs.get(subject, {})}

    def level(self, subject: str | None) -> Level:
        """The level of compatibility by which a subject goes."""
        return checked_level(self.config_in_scope(subject)["compatibilityLevel"])

    def mode(self, subject: str | None) -> str | None:
        """The mode that was set for a subject, or (subject None) that of all that have none."""
        return self._modes.get(subject, READWRITE if subject is None else None)

    def mode_in_scope(self, subject: str | None) -> str:
        """The mode by which a subject goes."""
        shared = self._modes.get(None, READWRITE)
        return shared if shared == READONLY_OVERRIDE else self._modes.get(subject, shared)


def _checked_mode(given: object) -> str:
    if given not in MODES:
        raise ValueError(f"{given!r} is not a mode: {', '.join(MODES)}")
    return str(given)
