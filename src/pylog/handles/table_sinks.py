"""`append_table` of a topic: batches to the files of a node, or to a producer."""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from pylog.client.admin.configs import ConfigValue
from pylog.client.producer import Producer
from pylog.config import TopicConfig
from pylog.errors import PylogError
from pylog.kernel import LONG_MAX, Appended
from pylog.protocol.batch import Batch
from pylog.record import RecordMetadata
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future
from pylog.tables import AppendedTable, RecordSource, TableInput
from pylog.tables.appended import AppendedBatches, TopicRules
from pylog.tables.schema import schema_of

__all__ = ["FilesSink", "ProducerSink", "append_rows", "topic_rules"]

LIMITS = """cleanup.policy max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
    message.timestamp.type segment.bytes""".split()
"""The configs of a topic that bound its records."""


class AppendingNode(Protocol):
    """The node that has the files."""

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """Append a batch, as safely as the log promises."""


class FilesSink:
    """A topic of this node: each batch is in it, as safely as the log promises, before the next one is encoded."""

    def __init__(self, node: AppendingNode, topic: str, clock: Clock) -> None:
        self._node = node
        self._topic = topic
        self._clock = clock
        self._batches = AppendedBatches()

    @property
    def appended(self) -> AppendedTable:
        return self._batches.table

    def put(self, partition: int, batch: Batch) -> None:
        """Append a batch. Raises what `PartitionView.append` does."""
        appended = self._node.append(self._topic, partition, batch, self._clock.wall_ms())
        self._batches.note(partition, appended.base_offset, appended.next_offset - appended.base_offset)

    def settle(self) -> None:
        """Do nothing: each batch was waited for."""


class ProducerSink:
    """A topic elsewhere: batches are sent by a producer, and waited for at the end."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._batches = AppendedBatches()
        self._sent: deque[tuple[int, int, Future[RecordMetadata]]] = deque()

    @property
    def appended(self) -> AppendedTable:
        self._producer.flush()
        while self._sent:
            with suppress(PylogError):
                self._note_answers()
        return self._batches.table

    def put(self, partition: int, batch: Batch) -> None:
        """Send a batch; wait where the producer's buffer is full. Raises what `Producer.send_batch` does, and the error
        of an earlier batch.
        """
        count = batch.count
        self._sent.append((partition, count, self._producer.send_batch(self._topic, partition, batch.data)))
        self._note_answers()

    def settle(self) -> None:
        """Wait for all batches. Raises the error of the first that failed."""
        self._producer.flush()
        self._note_answers()

    def _note_answers(self) -> None:
        while self._sent and self._sent[0][2].done():
            partition, count, future = self._sent.popleft()
            self._batches.note(partition, future.result().offset, count)


def topic_rules(partitions: int, config: TopicConfig | Mapping[str, ConfigValue], now_ms: int) -> TopicRules:
    """The bounds of a topic with so many partitions and this config, as its view or a cluster gives that."""
    if isinstance(config, TopicConfig):
        return TopicRules.of(partitions, config, now_ms)
    # Kafka before 3.6 has no such bound.
    found = {"message.timestamp.after.max.ms": str(LONG_MAX)}
    found |= {name: config[name].value for name in LIMITS if name in config}
    return TopicRules.of(partitions, TopicConfig.loaded(found), now_ms)


def append_rows(
    table: TableInput, source: RecordSource, rules: TopicRules, sink: FilesSink | ProducerSink, compression_type: str,
    clock: Clock,
) -> AppendedTable:  # fmt: skip
    """See `TopicView.append_table`."""
    # It says what to install where pyarrow is missing.
    schema_of(())
    from pylog.tables.appending.append import append_table

    return append_table(table, source, rules, sink, compression_type, clock.wall_ms())
