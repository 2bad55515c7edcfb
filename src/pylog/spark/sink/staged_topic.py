"""Where the batches of tasks lie behind servers until the driver commits them: in a topic.

Records of `__pylog_spark_staged`. The value is a batch, the key is

    unique (16 bytes) | partition u32 | name of the topic

Tasks that run at the same time write to one partition, so the batches of several messages are mixed there. The driver
appends message after message, as Spark orders them, and reads each partition once: `_StagedPartition` keeps what
belongs to a later message. The topic keeps records for a day.
"""

import struct
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from pylog.config import ProducerConfig
from pylog.kernel.values import BytesLike
from pylog.record import ConsumerRecord, RecordMetadata, TopicPartition
from pylog.runtime.future import Future
from pylog.spark.sink.reach import producer_of
from pylog.spark.sink.staging import Staged, changed

if TYPE_CHECKING:
    from pylog.client.consumer.consumer import Consumer
    from pylog.config.typed import TopicOptions
    from pylog.handles.any_log import AnyLog

STAGED_TOPIC: Final = "__pylog_spark_staged"
STAGED_PARTITIONS: Final = 8
STAGED_CONFIG: "Final[TopicOptions]" = {
    "retention.ms": 86_400_000,
    "segment.ms": 3_600_000,
    "max.message.bytes": 1 << 30,
}
HELD_BYTES: Final = 64 << 20
"""How much of later messages the driver keeps for each partition. What is more is read again."""

_KEY: Final = struct.Struct(">16sI")
_ENVELOPE: Final = 1 << 10
"""Room for what a record has beside the batch in it."""
_FETCHED_BYTES: Final = 8 << 20
_PATIENCE_MS: Final = 30_000


class TopicStage:
    """Stages in a topic behind servers."""

    def __init__(self, log: "AnyLog", config: ProducerConfig, write: str, task: int) -> None:
        self._write = write
        self._unique = uuid.uuid4()
        self._partition = task % STAGED_PARTITIONS
        self._batches = self._size = 0
        self._first: Future[RecordMetadata] | None = None
        log.create_topic(STAGED_TOPIC, STAGED_PARTITIONS, STAGED_CONFIG, exist_ok=True)
        self._producer = producer_of(log, replace(config, compression_type="none"), room=_ENVELOPE)

    def put(self, topic: str, partition: int, batch: BytesLike) -> None:
        key = _KEY.pack(self._unique.bytes, partition) + topic.encode()
        future = self._producer.send(STAGED_TOPIC, bytes(batch), key, partition=self._partition)
        if not self._batches:
            self._first = future
        self._batches += 1
        self._size += len(batch)

    def done(self, records: int) -> Staged:
        # It raises where a batch was not delivered.
        self._producer.close()
        offset = 0 if self._first is None else self._first.result().offset
        place = (self._partition, offset)
        return Staged(self._write, self._unique.hex, records, self._batches, self._size, place=place)

    def discard(self) -> None:
        """Do nothing: retention deletes the records."""


class StagedRecords:
    """The records that tasks have staged behind servers, for the driver. Retention deletes them."""

    def __init__(self, log: "AnyLog") -> None:
        self._log = log

    def batches(self, messages: Sequence[Staged]) -> Iterator[tuple[str, int, bytes]]:
        """Topic, partition and bytes of each batch, message after message. Raises StorageError where some are gone."""
        some = [staged for staged in messages if staged.batches]
        with ExitStack() as closing:
            partitions: dict[int, _StagedPartition] = {}
            for staged in some:
                number = staged.place[0]
                if number not in partitions:
                    there = [one for one in some if one.place[0] == number]
                    # One consumer each: what it has fetched ahead waits until the next message of its partition.
                    consumer = self._log.consumer(auto_offset_reset="none", fetch_max_bytes=_FETCHED_BYTES)
                    partitions[number] = _StagedPartition(closing.enter_context(consumer), number, there)
                yield from partitions[number].take(staged)

    def drop(self, some: Iterable[Staged]) -> None:
        """Do nothing: retention deletes the records."""

    def clean(self, write: str | None, batch_id: int, now_ms: int) -> None:
        """Do nothing: retention deletes the records."""


class _Held(NamedTuple):
    offset: int
    topic: str
    partition: int
    batch: bytes


class _StagedPartition:
    """A partition of the topic, read once for all messages of a commit."""

    def __init__(self, consumer: "Consumer[bytes, bytes]", number: int, messages: Sequence[Staged]) -> None:
        self._consumer = consumer
        self._at = TopicPartition(STAGED_TOPIC, number)
        # In the order of their turns. A message whose batches did not fit is not among them any more.
        self._held: dict[bytes, list[_Held]] = {bytes.fromhex(one.unique): [] for one in messages}
        self._held_bytes = 0
        self._polled: deque[ConsumerRecord] = deque()
        self._seen = 0
        """The offset behind the last record that was looked at."""
        consumer.assign([self._at])
        self._seek(min(one.place[1] for one in messages))

    def take(self, staged: Staged) -> Iterator[tuple[str, int, bytes]]:
        """The batches of a message, once. Raises StorageError where some are gone."""
        unique = bytes.fromhex(staged.unique)
        held = self._held.pop(unique, None)
        if held is None:
            self._seek(staged.place[1])
            held = []
        self._held_bytes -= sum(len(one.batch) for one in held)
        count = 0
        for one in chain(held, self._read(unique, held[-1].offset if held else -1)):
            count += 1
            yield one.topic, one.partition, one.batch
            if count == staged.batches:
                return
        raise changed(staged, f"{count} batches", f"{staged.batches}")

    def _read(self, wanted: bytes, after: int) -> Iterator[_Held]:
        """The batches of one message behind offset `after`. Holds those of later messages that come between."""
        while record := self._next():
            if record.key is None or len(record.key) < _KEY.size:
                continue
            unique, partition = _KEY.unpack_from(record.key)
            is_new, self._seen = record.offset >= self._seen, max(self._seen, record.offset + 1)
            found = _Held(record.offset, record.key[_KEY.size :].decode(), partition, record.value or b"")
            if unique == wanted and record.offset > after:
                yield found
            elif is_new and unique in self._held:
                self._hold(unique, found)

    def _hold(self, unique: bytes, found: _Held) -> None:
        self._held[unique].append(found)
        self._held_bytes += len(found.batch)
        while self._held_bytes > HELD_BYTES:
            _, given_up = self._held.popitem()
            self._held_bytes -= sum(len(one.batch) for one in given_up)

    def _next(self) -> ConsumerRecord | None:
        if not self._polled:
            self._polled.extend(self._consumer.poll(timeout_ms=_PATIENCE_MS))
        return self._polled.popleft() if self._polled else None

    def _seek(self, offset: int) -> None:
        self._polled.clear()
        self._consumer.seek(self._at, offset)
