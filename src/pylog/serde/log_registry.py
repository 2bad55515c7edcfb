"""`LogRegistry`: schemas in a compacted topic of the log, in the records of Confluent's Schema Registry.

`registry_records` has the records, `schema_store` the topic; which versions may follow each other is for
`registry_changes`.
"""

from pylog.errors import SchemaNotFound
from pylog.handles.any_log import AnyLog
from pylog.serde import registry_changes as changes
from pylog.serde.registry import Level, RegisteredSchema, Schema, SchemaRegistry, checked_level
from pylog.serde.schema_store import TOPIC, SchemaStore


class LogRegistry(SchemaRegistry):
    """The schemas in a topic of a log, here or elsewhere (`pylog.connect`).

    >>> registry = serde.LogRegistry(log)
    >>> registry.register("orders-value", serde.Schema('"string"'))
    1
    """

    def __init__(self, log: AnyLog, topic: str = TOPIC) -> None:
        """`topic`: Confluent's `kafkastore.topic`. It is made with the first schema."""
        self._topic = topic
        self._store = SchemaStore(log, topic)

    def __repr__(self) -> str:
        return f"<LogRegistry {self._store}>"

    def register(self, subject: str, schema: Schema) -> int:
        known = self._store.last_state.find(subject, schema)
        if known is not None:
            return known.id
        return self._store.change(lambda state: changes.register(state, subject, schema)).id

    def by_id(self, schema_id: int) -> Schema:
        known = self._store.last_state.by_id(schema_id) or self._store.state().by_id(schema_id)
        if known is None:
            raise SchemaNotFound(f"topic {self._topic} has no schema with id {schema_id}")
        return known

    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        try:
            return changes.existing(self._store.state(), subject, version)
        except SchemaNotFound as error:
            of = subject if version is None else f"{subject} in version {version}"
            raise SchemaNotFound(f"topic {self._topic} has no schema of subject {of}", error.error_code) from None

    def compatibility(self, subject: str | None = None) -> Level:
        return self._store.state().level(subject)

    def set_compatibility(self, level: Level, subject: str | None = None) -> None:
        given = {"compatibility": checked_level(level)}
        self._store.change(lambda state: changes.set_config(state, subject, given))
