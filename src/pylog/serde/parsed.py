"""The schemas of one serde that reads and writes by a parsed schema: the one that is written, and those that were."""

from collections.abc import Callable
from functools import cache
from json import dumps
from typing import Generic, TypeVar

from pylog.serde.registry import Schema, SchemaRegistry
from pylog.serde.wire import head

__all__ = ["ParsedSchemas"]

P = TypeVar("P")


class ParsedSchemas(Generic[P]):
    """The results of `parse` for schemas, each parsed once. `given` is registered with the first value that is
    written.
    """

    def __init__(
        self, registry: SchemaRegistry, subject: str, given: object, kind: str, parse: Callable[[Schema], P]
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._parse = parse
        self._given: tuple[Schema, P] | None = None
        if given is not None:
            schema = Schema(given if isinstance(given, str) else dumps(given), kind)
            self._given = schema, parse(schema)
        self.wanted = None if self._given is None else self._given[1]
        """What was given; None: the latest version of the subject is written."""
        self.writer = cache(self._writer)
        self.written_by = cache(self._written_by)

    def _writer(self) -> tuple[bytes, P]:
        """The head of what is written, and its schema."""
        if self._given is not None:
            schema, parsed = self._given
            return head(self._registry.register(self._subject, schema)), parsed
        latest = self._registry.version(self._subject)
        return head(latest.id), self._parse(latest.schema)

    def _written_by(self, schema_id: int) -> P:
        return self._parse(self._registry.by_id(schema_id))
