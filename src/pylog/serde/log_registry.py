"""`LogRegistry`: schemas in a compacted topic of the log, in the records of Confluent's Schema Registry.

    key     {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    value   {"subject":"orders-value","version":1,"id":1,"schema":"...","deleted":false}

    key     {"keytype":"CONFIG","subject":"orders-value","magic":0}    without a subject: of all that have none
    value   {"subject":"orders-value","compatibilityLevel":"FULL"}

Several processes may register at once. Each does so in a transaction, under one transactional id: it first fences the
one before it, then reads up to the end, and so knows all that was committed; if another one fences it meanwhile, it
begins again. A new version is held to those before it by the level of its subject (`compatibility`).
(Confluent: KafkaStore, SchemaKey, SchemaValue, ConfigKey, ConfigValue)
"""

import json
import logging
import threading
from typing import Any

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    SchemaNotFound,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from pylog.handles.client_half import ClientHalf
from pylog.record import ConsumerRecord, TopicPartition
from pylog.serde.avro import whole_schema
from pylog.serde.compatibility.levels import DEFAULT, check
from pylog.serde.registry import PROTOBUF, Level, RegisteredSchema, Schema, SchemaRegistry, checked_level

logger = logging.getLogger("pylog.serde")

TOPIC = "_schemas"
POLL_MS = 1000


class LogRegistry(SchemaRegistry):
    """The schemas in a topic of a log, here or elsewhere (`pylog.connect`)."""

    def __init__(self, log: ClientHalf[Any], topic: str = TOPIC) -> None:
        """`topic`: Confluent's `kafkastore.topic`. It is made with the first schema."""
        self._log = log
        self._place = TopicPartition(topic, 0)
        self._lock = threading.Lock()
        self._next = 0
        """The offset up to which the topic was read."""
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        self._deleted: set[tuple[str, int]] = set()
        self._by_id: dict[int, Schema] = {}
        self._levels: dict[str | None, Level] = {}
        """By subject; None: of all that have none."""

    def __repr__(self) -> str:
        return f"<LogRegistry {self._place.topic} of {self._log}>"

    def register(self, subject: str, schema: Schema) -> int:
        with self._lock:
            found = self._known(subject, schema)
            if found is None:
                self._read()
                found = self._known(subject, schema)
            if found is None:
                self._make()
            while found is None:
                try:
                    found = self._add(subject, schema)
                except TransactionAbortable as error:
                    # The record came behind the one that fences: its partition hears of that first.
                    if not isinstance(error.__cause__, InvalidProducerEpoch):
                        raise
                except (ProducerFenced, InvalidTxnState):
                    # InvalidTxnState: another one has aborted this transaction, and has not begun its own yet.
                    continue
        return found

    def _add(self, subject: str, schema: Schema) -> int:
        """Add a version, unless it is there by now. Raises ProducerFenced where another one registers at once."""
        with self._log.producer(transactional_id=f"pylog-{self._place.topic}") as producer:
            self._read()
            found = self._known(subject, schema)
            if found is not None:
                return found
            check(self._level(subject), subject, schema, self._current(subject), self._whole)
            same = [schema_id for schema_id, one in self._by_id.items() if _meaning(one) == _meaning(schema)]
            added = RegisteredSchema(
                same[0] if same else max(self._by_id, default=0) + 1, subject,
                max((version for name, version in self._versions if name == subject), default=0) + 1, schema,
            )  # fmt: skip
            with producer.transaction():
                producer.send(self._place.topic, _value(added), key=_key(subject, added.version), partition=0)
        self._read()
        return added.id

    def by_id(self, schema_id: int) -> Schema:
        known = self._by_id.get(schema_id)
        if known is None:
            with self._lock:
                self._read()
            known = self._by_id.get(schema_id)
        if known is None:
            raise SchemaNotFound(f"topic {self._place.topic} has no schema with id {schema_id}")
        return known

    def version(self, subject: str, version: int | None = None) -> RegisteredSchema:
        with self._lock:
            self._read()
            found = self._current(subject)
        wanted = [one for one in found if version in (None, one.version)]
        if not wanted:
            of = subject if version is None else f"{subject} in version {version}"
            raise SchemaNotFound(f"topic {self._place.topic} has no schema of subject {of}")
        return max(wanted, key=lambda one: one.version)

    def compatibility(self, subject: str | None = None) -> Level:
        with self._lock:
            self._read()
            return self._level(subject)

    def set_compatibility(self, level: Level, subject: str | None = None) -> None:
        named = {} if subject is None else {"subject": subject}
        value = {**named, "compatibilityLevel": checked_level(level)}
        key = {"keytype": "CONFIG", **named, "magic": 0}
        with self._lock:
            self._make()
            with self._log.producer() as producer:
                producer.send(self._place.topic, _json(value), key=_json(key), partition=0).result()

    def _make(self) -> None:
        self._log.create_topic(self._place.topic, config={"cleanup.policy": "compact"}, exist_ok=True)

    def _level(self, subject: str | None) -> Level:
        return self._levels.get(subject) or self._levels.get(None) or DEFAULT

    def _current(self, subject: str) -> list[RegisteredSchema]:
        return [one for key, one in self._versions.items() if key[0] == subject and key not in self._deleted]

    def _whole(self, schema: Schema) -> Any:
        return whole_schema(schema, lambda one: self._versions[one.subject, one.version].schema)

    def _known(self, subject: str, schema: Schema) -> int | None:
        for key, one in self._versions.items():
            if key[0] == subject and key not in self._deleted and _meaning(one.schema) == _meaning(schema):
                return one.id
        return None

    # --- the topic -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take in what was committed since the last time."""
        with self._log.consumer(auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            try:
                consumer.assign([self._place])
            except UnknownTopicOrPartition:
                return
            consumer.seek(self._place, self._next)
            end = consumer.end_offsets([self._place])[self._place]
            while consumer.position(self._place) < end:
                for record in consumer.poll(POLL_MS):
                    self._take(record)
            self._next = consumer.position(self._place)

    def _take(self, record: ConsumerRecord) -> None:
        try:
            key: Any = json.loads(record.key or b"null")
            value: Any = json.loads(record.value or b"null")
            match key["keytype"]:
                case "SCHEMA":
                    self._take_schema((key["subject"], key["version"]), value)
                case "DELETE_SUBJECT" if value is not None:
                    gone = {one for one in self._versions if one[0] == value["subject"] and one[1] <= value["version"]}
                    self._deleted |= gone
                case "CONFIG":
                    self._take_level(key.get("subject"), value)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            logger.warning(
                "offset %d of topic %s is not a record of a schema: %r",
                record.offset,
                record.topic,
                error,
                extra={"topic": record.topic, "partition": record.partition, "offset": record.offset},
            )

    def _take_level(self, subject: str | None, value: Any) -> None:
        # A config of other things alone, or none any more.
        given = (value or {}).get("compatibilityLevel")
        if given is None:
            self._levels.pop(subject, None)
        else:
            self._levels[subject] = checked_level(given)

    def _take_schema(self, key: tuple[str, int], value: Any) -> None:
        self._deleted.discard(key)
        if value is None:
            self._versions.pop(key, None)
            return
        schema = Schema.from_json(value)
        self._versions[key] = RegisteredSchema(value["id"], *key, schema)
        self._by_id.setdefault(value["id"], schema)
        if value.get("deleted"):
            self._deleted.add(key)


def _key(subject: str, version: int) -> bytes:
    # The order is Confluent's: keys are compared as bytes when the topic is compacted.
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _value(added: RegisteredSchema) -> bytes:
    named = {"subject": added.subject, "version": added.version, "id": added.id}
    return _json({**named, **added.schema.to_json(), "deleted": False})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _meaning(schema: Schema) -> object:
    """A value that is equal where two schemas are: spaces and the order of fields of an object mean nothing in JSON."""
    if schema.type == PROTOBUF:
        return schema
    try:
        return schema.type, json.loads(schema.text), schema.references
    except ValueError:
        return schema
