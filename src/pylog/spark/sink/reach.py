"""The log that is written, reached from a process of Spark: as owner, through the owner, or through servers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pylog.config import ProducerConfig
from pylog.errors import UnknownTopicOrPartition
from pylog.record import TopicPartition
from pylog.runtime.retries import retried
from pylog.spark.options.where import Directory, Where

if TYPE_CHECKING:
    from pylog.client.producer import Producer
    from pylog.client_half import ClientHalf

_WAIT_SECONDS: Final = 30.0
"""How long to wait for a process that opens or closes the directory."""

_RETRIES: Final = 10
_RETRY_INTERVAL_MS: Final = 500
"""How often servers are asked again where a partition is: its leader has to hear of a topic that was just made."""


@contextmanager
def opened(where: Where, *, writes: bool) -> "Iterator[ClientHalf[Any]]":
    """The log, open for the block. `writes`: open it to write, not only to read."""
    # A task that stages in a directory opens nothing: what it does not need is not loaded.
    log: ClientHalf[Any]
    if isinstance(where, Directory):
        from pylog import opening

        if writes:
            log = opening.open(where.path, mode="auto", wait=_WAIT_SECONDS)
        else:
            log = opening.open_lazily(where.path, mode="read")
    else:
        from pylog.connected_log import connect

        log = connect(where.bootstrap_servers, config=dict(where.config))
    with log:
        yield log


def producer_of(log: "ClientHalf[Any]", config: ProducerConfig, *, room: int = 0, **more: object) -> "Producer":
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


def offsets_of(log: "ClientHalf[Any]", keys: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """The "earliest" or "latest" offset of each partition. Raises UnknownTopicOrPartition, and NotLeaderOrFollower
    where that does not pass.
    """
    wanted: dict[TopicPartition, int | str] = dict.fromkeys(keys, which)
    found = retried(lambda: log.admin.list_offsets(wanted), most=_RETRIES, interval_ms=_RETRY_INTERVAL_MS)
    return {key: listed.offset for key, listed in found.items()}
