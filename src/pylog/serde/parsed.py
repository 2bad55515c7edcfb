"""The schemas of one serde that reads and writes by a parsed schema: the one that is written, and those that were."""

from collections.abc import Callable
from functools import cache
from json import dumps
from typing import Any

from pylog.serde.registry import Schema, SchemaRegistry
from pylog.serde.wire import head

__all__ = ["ParsedSchemas"]


class ParsedSchemas:
    """The results of `parse` for schemas, each parsed once. `given` is registered with the first value that is
    written.
    """

    def __init__(
        self, registry: SchemaRegistry, subject: str, given: object, kind: str, parse: Callable[[Schema], Any]
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._parse = parse
        self._given = None if given is None else Schema(given if isinstance(given, str) else dumps(given), kind)
        self.wanted = None if self._given is None else parse(self._given)
        """What was given; None: the latest version of the subject is written."""
        self.writer = cache(self._writer)
        self.written_by = cache(self._written_by)

    def _writer(self) -> tuple[bytes, Any]:
        """The head of what is written, and its schema."""
        if self._given is not None:
            return head(self._registry.register(self._subject, self._given)), self.wanted
        latest = self._registry.version(self._subject)
        return head(latest.id), self._parse(latest.schema)

    def _written_by(self, schema_id: int) -> Any:
        return self._parse(self._registry.by_id(schema_id))
