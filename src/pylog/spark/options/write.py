"""The options of a Spark write: those of Spark's Kafka sink, parsed and checked. A pure function.

    path | paths                     the log directory, or all directories of the log
    kafka.bootstrap.servers          instead of it: servers
    topic                            the topic of all rows; it wins over a column `topic`
    deliveryGuarantee                exactly-once (default) | at-least-once
    checkpointLocation               Spark's own, of the stream
    kafka.compression.type ...       configs of the producer

Differences to Spark's Kafka sink: exactly-once is the default; an unknown option is an error that suggests the nearest
name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pylog.config import ProducerConfig
from pylog.errors import InvalidConfig
from pylog.spark.options.values import nearest
from pylog.spark.options.where import Where, parse_where

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

_OPTIONS: Final = ("path", "paths", "topic", "deliveryGuarantee", "checkpointLocation", "kafka.bootstrap.servers")
_PRODUCER: Final = (
    "batch.size",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "max.block.ms",
    "max.request.size",
    "request.timeout.ms",
    "transaction.timeout.ms",
)
_TRANSACTION_TIMEOUT_MS: Final = 300_000
"""A commit copies all that the tasks have staged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """A checked request: which log, which topic, and how."""

    where: Where
    topic: str | None
    is_exactly_once: bool
    producer: ProducerConfig
    checkpoint: str | None
    """Of the stream, where it was given as an option."""


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """The options of one `save()` or `start()`; names match in any case, as everywhere in Spark.

    Raises ValueError for a missing, unknown or unreadable option.
    """
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower() for name in _OPTIONS}
    for name in given:
        if name not in known and not name.startswith("kafka."):
            raise ValueError(f"unknown option '{name}' for the pylog sink{nearest(name, _OPTIONS)}")
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ValueError("option 'topic' is empty: name a topic, or leave the option out and have a column 'topic'")
    return WriteOptions(
        where=parse_where(given, _PRODUCER),
        topic=topic,
        is_exactly_once=_is_exactly_once(given),
        producer=_producer(given),
        checkpoint=given.get("checkpointlocation"),
    )


def _is_exactly_once(given: Mapping[str, str]) -> bool:
    text = given.get("deliveryguarantee", EXACTLY_ONCE).strip().lower()
    if text not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise ValueError(f"option 'deliveryGuarantee' is '{EXACTLY_ONCE}' or '{AT_LEAST_ONCE}', got '{text}'")
    return text == EXACTLY_ONCE


def _producer(given: Mapping[str, str]) -> ProducerConfig:
    config: dict[str, object] = {"transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
    config |= {name: given[f"kafka.{name}"] for name in _PRODUCER if f"kafka.{name}" in given}
    try:
        return ProducerConfig.from_kafka(config)
    except InvalidConfig as error:
        raise ValueError(f"a 'kafka.' option of the pylog sink is wrong: {error}") from error
