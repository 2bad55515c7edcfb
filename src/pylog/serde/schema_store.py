"""`SchemaStore`: the state of a registry, kept in a compacted topic of a log. (Confluent: KafkaStore)

A state that was given out does not change any more: new records make another one. So no lock is held while a schema is
checked or compared, and other clients do not wait for one whose schemas take long to compare.

Several threads and processes may change the topic at once. A change is decided from a state. It is then written in a
transaction, under one transactional id: the producer first fences the one before it, reads up to the end, and writes
only where nothing has come since that state. Else, and if another one fences it meanwhile, it is decided again.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    UnknownTopicOrPartition,
)  # fmt: skip
from pylog.handles.any_log import AnyLog
from pylog.record import ConsumerRecord, TopicPartition
from pylog.serde.registry_changes import RegistryChange
from pylog.serde.registry_records import RegistryRecord
from pylog.serde.registry_state import RegistryState

__all__ = ["TOPIC", "SchemaStore"]

logger = logging.getLogger("pylog.serde")

T = TypeVar("T")
TOPIC = "_schemas"
POLL_MS = 1000


class SchemaStore:
    """The state that a topic has. Thread-safe."""

    def __init__(self, log: AnyLog, topic: str = TOPIC) -> None:
        self._log = log
        self._place = TopicPartition(topic, 0)
        self._lock = threading.Lock()
        """Of those who read or write the topic."""
        self._next = 0
        """The offset up to which the topic was read."""
        self._state = RegistryState()

    def __repr__(self) -> str:
        return f"{self._place.topic} of {self._log}"

    def state(self) -> RegistryState:
        """The state with all that is committed by now."""
        with self._lock:
            self._read()
            return self._state

    @property
    def last_state(self) -> RegistryState:
        """The state that was read last."""
        return self._state

    def change(self, decide: Callable[[RegistryState], RegistryChange[T]]) -> T:
        """Append the records that `decide` gives for the state, and return its result. Raises what `decide` raises."""
        while True:
            state = self.state()
            decided = decide(state)
            if not decided.records or self._append(state, decided.records):
                return decided.result

    def _append(self, state: RegistryState, records: Sequence[RegistryRecord]) -> bool:
        """Append records behind those that have made a state; False: others have come, or come at once."""
        self._log.create_topic(self._place.topic, config={"cleanup.policy": "compact"}, exist_ok=True)
        with self._lock:
            try:
                with self._log.producer(transactional_id=f"pylog-{self._place.topic}") as producer:
                    self._read()
                    if self._state is not state:
                        return False
                    with producer.transaction():
                        for record in records:
                            key, value = record.to_bytes()
                            producer.send(self._place.topic, value, key=key, partition=0)
            except TransactionAbortable as error:
                # The record came behind the one that fences: its partition hears of that first.
                if not isinstance(error.__cause__, InvalidProducerEpoch):
                    raise
                return False
            except (ProducerFenced, InvalidTxnState):
                # InvalidTxnState: another one has aborted this transaction, and has not begun its own yet.
                return False
            self._read()
        return True

    def _read(self) -> None:
        """Take in what was committed since the last time."""
        with self._log.consumer(auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            try:
                consumer.assign([self._place])
            except UnknownTopicOrPartition:
                return
            consumer.seek(self._place, self._next)
            end = consumer.end_offsets([self._place])[self._place]
            changed: RegistryState | None = None
            while consumer.position(self._place) < end:
                for record in consumer.poll(POLL_MS):
                    changed = changed or self._state.copy()
                    _take(changed, record)
            self._next = consumer.position(self._place)
            self._state = changed or self._state


def _take(state: RegistryState, record: ConsumerRecord) -> None:
    try:
        state.take(json.loads(record.key or b"null"), json.loads(record.value or b"null"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        logger.warning(
            "offset %d of topic %s is not a record of a schema: %r",
            record.offset,
            record.topic,
            error,
            extra={"topic": record.topic, "partition": record.partition, "offset": record.offset},
        )
