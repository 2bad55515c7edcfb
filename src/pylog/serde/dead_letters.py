"""`DeadLetters`: records that cannot be deserialized go to a topic of their own, and reading goes on.

(Kafka Connect: DeadLetterQueueReporter, whose headers these are)
"""

from collections.abc import Iterator
from typing import TypeVar

from pylog.client.consumer.consumer import Consumer
from pylog.client.producer import Producer
from pylog.errors import DeserializationError
from pylog.record import ConsumerRecord

K = TypeVar("K")
V = TypeVar("V")
PREFIX = "__connect.errors."


class DeadLetters:
    """Sends what cannot be read to a topic, as it is, with headers that say where it was and what was wrong.

    A record is sent before it is skipped, so it may be there twice after a crash, and is not lost. Where the schema
    registry cannot be asked nothing is put aside: that error is raised. The producer has no serializers; in a
    transaction of it the record belongs to that.

    >>> dead = log.create_topic("orders.dead")
    >>> dead_letters = serde.DeadLetters(log.producer(), "orders.dead")
    >>> numbers = log.consumer(
    ...     "orders", auto_offset_reset="earliest", value_deserializer=int, consumer_timeout_ms=0
    ... )
    """

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def poll(
        self, consumer: Consumer[K, V], timeout_ms: float = 0, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """As `Consumer.poll`; what cannot be read is put aside. Empty where nothing else came.

        Raises what `Consumer.poll` and `Producer.send` do; DeserializationError only where the schema registry could
        not be asked.

        >>> dead_letters.poll(numbers, timeout_ms=60_000)
        []
        >>> [record.value for record in dead.records()]
        [b'book']
        """
        try:
            return consumer.poll(timeout_ms, max_records)
        except DeserializationError as error:
            self._put_aside(consumer, error)
            return []

    def records(self, consumer: Consumer[K, V]) -> Iterator[ConsumerRecord[K, V]]:
        """As a loop over the consumer; what cannot be read is put aside. Raises what `poll` does.

        >>> list(dead_letters.records(numbers))
        []
        >>> [record.value for record in dead.records()]
        [b'book', b'pen', b'ink']
        """
        while True:
            try:
                yield from consumer
                return
            except DeserializationError as error:
                self._put_aside(consumer, error)

    def _put_aside(self, consumer: Consumer[K, V], error: DeserializationError) -> None:
        cause, record = error.__cause__, error.record
        if error.may_pass:
            raise error
        said = {
            "topic": record.topic, "partition": record.partition, "offset": record.offset,
            "exception.class.name": type(cause).__name__, "exception.message": cause,
        }  # fmt: skip
        headers = [*record.headers, *((PREFIX + name, str(value).encode()) for name, value in said.items())]
        self._producer.send(self._topic, record.value, record.key, headers=headers).result()
        consumer.skip()
