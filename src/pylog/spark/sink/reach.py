"""The log that is written, reached from a process of Spark: as owner, through the owner, or through servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pylog.client.producer import Producer
from pylog.client_half import ClientHalf
from pylog.config import ProducerConfig
from pylog.connected_log import connect
from pylog.errors import UnknownTopicOrPartition
from pylog.opening import open as open_log
from pylog.spark.options.where import Directory, Where

_WAIT_SECONDS: Final = 30.0
"""How long to wait for a process that opens or closes the directory."""


@contextmanager
def opened(where: Where, *, writes: bool) -> "Iterator[ClientHalf[Any]]":
    """The log, open for the block. `writes`: open it to write, not only to read."""
    log: ClientHalf[Any]
    if isinstance(where, Directory):
        log = open_log(where.path, mode="auto", wait=_WAIT_SECONDS) if writes else open_log(where.path, mode="read")
    else:
        log = connect(where.bootstrap_servers, config=dict(where.config))
    with log:
        yield log


def producer_of(log: "ClientHalf[Any]", config: ProducerConfig, *, room: int = 0, **more: object) -> Producer:
    """A producer of batches that are encoded already, and of up to `room` bytes more each."""
    settings: Any = {
        **more,
        "linger_ms": 0,
        "max_request_size": config.max_request_size + room,
        "buffer_memory": max(config.buffer_memory, config.max_request_size) + room,
        "compression_type": config.compression_type,
        "delivery_timeout_ms": config.delivery_timeout_ms,
        "max_block_ms": config.max_block_ms,
        "request_timeout_ms": config.request_timeout_ms,
        "transaction_timeout_ms": config.transaction_timeout_ms,
    }
    producer: Producer = log.producer(**settings)
    return producer


def count_partitions(log: "ClientHalf[Any]", topic: str) -> int:
    """How many partitions a topic has. Raises UnknownTopicOrPartition: the sink makes none."""
    try:
        return len(log.admin.topic(topic).partitions)
    except UnknownTopicOrPartition:
        known = ", ".join(log.topics()) or "none"
        raise UnknownTopicOrPartition(
            f"no topic '{topic}': make it before anything is written to it; there are: {known}"
        ) from None
