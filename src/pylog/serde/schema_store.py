"""`SchemaStore`: the state of a registry, kept in a compacted topic of a log. (Confluent: KafkaStore)

Several processes may change it at once. Each does so in a transaction, under one transactional id: it first fences the
one before it, then reads up to the end, and so decides from all that was committed. If another one fences it
meanwhile, it begins again.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    UnknownTopicOrPartition,
)  # fmt: skip
from pylog.handles.client_half import ClientHalf
from pylog.record import ConsumerRecord, TopicPartition
from pylog.serde.registry_changes import Change
from pylog.serde.registry_state import RegistryState

__all__ = ["TOPIC", "SchemaStore"]

logger = logging.getLogger("pylog.serde")

T = TypeVar("T")
TOPIC = "_schemas"
POLL_MS = 1000


class SchemaStore:
    """The state that a topic has. Thread-safe: one thread at a time looks at the state."""

    def __init__(self, log: ClientHalf[Any], topic: str = TOPIC) -> None:
        self._log = log
        self._place = TopicPartition(topic, 0)
        self._lock = threading.Lock()
        self._next = 0
        """The offset up to which the topic was read."""
        self._state = RegistryState()

    def __repr__(self) -> str:
        return f"{self._place.topic} of {self._log}"

    @contextmanager
    def looked_at(self, *, is_fresh: bool = True) -> Iterator[RegistryState]:
        """The state, for reading; `is_fresh`: with all that is committed by now."""
        with self._lock:
            if is_fresh:
                self._read()
            yield self._state

    def change(self, decide: Callable[[RegistryState], Change[T]]) -> T:
        """Append what `decide` decides from the state, and answer as it says. Raises what `decide` raises."""
        with self._lock:
            self._read()
            decided = decide(self._state)
            if decided.records:
                self._log.create_topic(self._place.topic, config={"cleanup.policy": "compact"}, exist_ok=True)
                decided = self._written(decide)
                self._read()
        return decided.result

    def _written(self, decide: Callable[[RegistryState], Change[T]]) -> Change[T]:
        while True:
            try:
                return self._try_to_write(decide)
            except TransactionAbortable as error:
                # The record came behind the one that fences: its partition hears of that first.
                if not isinstance(error.__cause__, InvalidProducerEpoch):
                    raise
            except (ProducerFenced, InvalidTxnState):
                # InvalidTxnState: another one has aborted this transaction, and has not begun its own yet.
                continue

    def _try_to_write(self, decide: Callable[[RegistryState], Change[T]]) -> Change[T]:
        """Decide and write. Raises ProducerFenced where another one writes at once."""
        with self._log.producer(transactional_id=f"pylog-{self._place.topic}") as producer:
            self._read()
            decided = decide(self._state)
            if decided.records:
                with producer.transaction():
                    for record in decided.records:
                        key, value = record.to_bytes()
                        producer.send(self._place.topic, value, key=key, partition=0)
        return decided

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
            self._state.take(json.loads(record.key or b"null"), json.loads(record.value or b"null"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            logger.warning(
                "offset %d of topic %s is not a record of a schema: %r",
                record.offset,
                record.topic,
                error,
                extra={"topic": record.topic, "partition": record.partition, "offset": record.offset},
            )
