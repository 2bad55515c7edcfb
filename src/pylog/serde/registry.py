"""The registry of schemas and their ids: its interface, and one that is reached by HTTP.

A schema belongs to subjects ("orders-value"), in versions from 1 on; its id is the same in each of them.
(Confluent: SchemaRegistryClient)
"""

import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, get_args
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from pylog.errors import IncompatibleSchema, SchemaNotFound, SchemaRegistryError
from pylog.runtime.http import answer_to

T = TypeVar("T")
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
CONTENT = "application/vnd.schemaregistry.v1+json"
REFUSAL_BYTES_MAX = 64 << 10
ERRORS: dict[int, type[SchemaRegistryError | SchemaNotFound]] = {404: SchemaNotFound, 409: IncompatibleSchema}
"""By the codes of HTTP that mean them."""


class Reference(NamedTuple):
    """A schema that another one uses, and by which name.

    >>> registry = serde.LogRegistry(log)
    >>> registry.register("names", serde.Schema('{"type": "fixed", "name": "Name", "size": 8}'))
    1
    >>> registry.register("orders-value", serde.Schema('"Name"', references=(serde.Reference("Name", "names", 1),)))
    2
    """

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema as a registry keeps it: its text, and whether that is "AVRO", "PROTOBUF" or "JSON".

    >>> serde.Schema('{"type": "object"}', "JSON")
    Schema(text='{"type": "object"}', type='JSON', references=())
    """

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Its fields by Confluent's names; Avro is what is meant where there is no type."""
        found: dict[str, object] = {"schema": self.text}
        if self.type != AVRO:
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [reference._asdict() for reference in self.references]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Schema":
        """The same back."""
        references = [
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in found.get("references") or ()
        ]
        return cls(str(found["schema"]), str(found.get("schemaType") or AVRO), tuple(references))


class RegisteredSchema(NamedTuple):
    """A schema in a version of a subject."""

    id: int
    subject: str
    version: int
    schema: Schema


def checked_level(given: object) -> Level:
    """A level from a caller, in whatever case. Raises ValueError."""
    levels: tuple[Level, ...] = get_args(Level)
    for level in levels:
        if isinstance(given, str) and given.upper() == level:
            return level
    raise ValueError(f"{given!r} is not a level of compatibility: {', '.join(levels)}")


def _error_code(said: bytes) -> int | None:
    """Confluent's code in the body of a refusal."""
    try:
        code = json.loads(said)["error_code"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return code if isinstance(code, int) else None


class SchemaRegistry(ABC):
    """Keeps schemas. Thread-safe. Schemas that were found are kept in memory.

    >>> registry = serde.LogRegistry(log)
    """

    @abstractmethod
    def register(self, subject: str, schema: Schema) -> int:
        """Give a schema's id in a subject, of which it becomes a new version if it is in none. Raises
        IncompatibleSchema (the subject's level of compatibility does not allow it), SchemaRegistryError (the registry
        refuses it, or cannot be asked).

        >>> registry.register("orders-value", serde.Schema('"string"'))
        1
        """

    @abstractmethod
    def by_id(self, schema_id: int) -> Schema:
        """The schema with this id. Raises SchemaNotFound, SchemaRegistryError.

        >>> registry.by_id(registry.register("orders-value", serde.Schema('"string"')))
        Schema(text='"string"', type='AVRO', references=())
        """

    @abstractmethod
    def compatibility(self, subject: str | None = None) -> Level:
        """The level by which new versions of a subject are held to those before, "BACKWARD" where none was set; None:
        the level of all subjects that have none of their own. Raises SchemaRegistryError.

        >>> registry.compatibility("orders-value")
        'BACKWARD'
        """

    @abstractmethod
    def set_compatibility(self, level: Level, subject: str | None = None) -> None:
        """Set the level of a subject, or of all that have none of their own: NONE, BACKWARD, FORWARD, FULL, or one of
        these but the first with _TRANSITIVE. Raises ValueError, SchemaRegistryError.

        >>> registry.set_compatibility("FULL", "orders-value")
        >>> registry.compatibility("orders-value")
        'FULL'
        """

    @abstractmethod
    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        """A version of a subject; None: the latest. Raises SchemaNotFound, SchemaRegistryError.

        >>> schema_id = registry.register("orders-value", serde.Schema('"string"'))
        >>> registry.version("orders-value").version
        1
        """

    def referenced(self, reference: Reference) -> Schema:
        """The schema that a reference names. Raises SchemaNotFound, SchemaRegistryError.

        >>> schema_id = registry.register("names", serde.Schema('"string"'))
        >>> registry.referenced(serde.Reference("Name", "names", 1))
        Schema(text='"string"', type='AVRO', references=())
        """
        return self.version(reference.subject, reference.version).schema


class HttpRegistry(SchemaRegistry):
    """A Confluent Schema Registry, or another with its API, at a URL. It follows no redirects.

    >>> from pylog.testing import StandIn
    >>> kafka = StandIn(schema_registry=True)
    >>> registry = serde.HttpRegistry(kafka.schema_registry_url)
    >>> registry.register("orders-value", serde.Schema('"string"'))
    1
    """

    def __init__(
        self, url: str, *, username: str | None = None, password: str | None = None, timeout: float = 10.0
    ) -> None:
        """`username`, `password`: for a server that asks for a login. `timeout`: of a whole request, in seconds."""
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": CONTENT, "Content-Type": CONTENT}
        login: tuple[object, object] = (username, password)
        if not all(isinstance(one, str | None) for one in login):
            raise TypeError("username and password of a registry are str, or None")
        if username is not None:
            encoded = b64encode(f"{username}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._ids: dict[tuple[str, Schema], int] = {}
        self._schemas: dict[int, Schema] = {}

    def __repr__(self) -> str:
        return f"<HttpRegistry at {self._url}>"

    def register(self, subject: str, schema: Schema) -> int:
        known = self._ids.get((subject, schema))
        if known is None:
            path = f"/subjects/{quote(subject, '')}/versions"
            known = self._ids[subject, schema] = self._ask(path, lambda found: int(found["id"]), schema.to_json())
        return known

    def by_id(self, schema_id: int) -> Schema:
        known = self._schemas.get(schema_id)
        if known is None:
            known = self._schemas[schema_id] = self._ask(f"/schemas/ids/{schema_id}", Schema.from_json)
        return known

    def compatibility(self, subject: str | None = None) -> Level:
        path = "/config" if subject is None else f"/config/{quote(subject, '')}?defaultToGlobal=true"
        return self._ask(path, lambda found: checked_level(found["compatibilityLevel"]))

    def set_compatibility(self, level: Level, subject: str | None = None) -> None:
        path = "/config" if subject is None else f"/config/{quote(subject, '')}"
        self._ask(path, lambda found: found, {"compatibility": checked_level(level)}, method="PUT")

    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, '')}/versions/{'latest' if version is None else version}"
        return self._ask(
            path,
            lambda found: RegisteredSchema(
                int(found["id"]), str(found["subject"]), int(found["version"]), Schema.from_json(found)
            ),
        )

    def _ask(
        self, path: str, read: Callable[[Any], T], body: dict[str, object] | None = None, *, method: str | None = None
    ) -> T:
        """Return what `read` makes of the answer. `method`: None: GET, or POST with a body."""
        data = None if body is None else json.dumps(body).encode()
        asked = Request(self._url + path, data, self._headers, method=method)
        try:
            return read(json.loads(answer_to(asked, self._timeout)))
        except HTTPError as error:
            with error:
                said = error.read(REFUSAL_BYTES_MAX)
            words = f"{self._url}{path}: {error.code} {said[:1000].decode(errors='replace')}"
            raise ERRORS.get(error.code, SchemaRegistryError)(words, _error_code(said)) from None
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(f"{self._url}{path}: {error}") from error
        except (AttributeError, KeyError, RecursionError, TypeError) as error:
            raise SchemaRegistryError(f"{self._url}{path}: this is not an answer of a registry: {error!r}") from error
