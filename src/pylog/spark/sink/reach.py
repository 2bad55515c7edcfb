"""The log that is written, reached from a process of Spark: as owner, through the owner, or through servers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pylog.config import ProducerConfig
from pylog.errors import UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.logdirs.log_directories import require_first, without_folder
from pylog.protocol.messages import TRANSACTIONS_TOPIC
from pylog.protocol.partitioner import partition_for
from pylog.record import TopicPartition
from pylog.runtime.retries import retried
from pylog.spark.options.where import GivenDirectories, Where

if TYPE_CHECKING:
    from pylog.client.producer import Producer
    from pylog.handles.any_log import AnyLog
    from pylog.log import Log

_WAIT_SECONDS: Final = 30.0
"""How long to wait for a process that opens or closes the directory."""

_RETRIES: Final = 10
_RETRY_INTERVAL_MS: Final = 500
"""How often servers are asked again where a partition is: its leader has to hear of a topic that was just made."""


@contextmanager
def opened(where: Where, *, writes: bool) -> "Iterator[AnyLog]":
    """The log, open for the block. `writes`: open it to write, not only to read."""
    # A task that stages in a directory opens nothing: what it does not need is not loaded.
    log: AnyLog
    if isinstance(where, GivenDirectories):
        from pylog import log as opening

        if writes:
            log = opening.open(where.paths, mode="auto", wait=_WAIT_SECONDS)
        else:
            log = opening.open_lazily(where.paths, mode="read")
    else:
        from pylog.handles.connected_log import connect

        log = connect(where.bootstrap_servers, config=dict(where.config))
    with log:
        yield log


def as_owner(log: "AnyLog") -> "Log | None":
    """The log, where this process owns its directories."""
    from pylog.log import Log

    return log if isinstance(log, Log) and log.mode == "own" else None


def producer_of(
    log: "AnyLog",
    config: ProducerConfig,
    *,
    room: int = 0,
    transactional_id: str | None = None,
    **more: object,
) -> "Producer":
    """A producer of batches that are encoded already, and of up to `room` bytes more each.

    Raises KafkaStorage where the coordinator of the transactional id lies in a log directory that was not named. The
    producer itself would ask for it until its time-out.
    """
    if transactional_id is not None:
        _check_coordinator(log, transactional_id)
    settings: Any = {
        **more,
        "transactional_id": transactional_id,
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


def _check_coordinator(log: "AnyLog", transactional_id: str) -> None:
    if as_owner(log) is not None:
        with suppress(UnknownTopicOrPartition):
            count = len(log.admin.topic(TRANSACTIONS_TOPIC).partitions)
            at = TopicPartition(TRANSACTIONS_TOPIC, partition_for(transactional_id, count))
            log.admin.list_offsets({at: "latest"})


def check_first(where: Where) -> None:
    """Raise LogNotFound unless the first log directory is the one with the list of topics, as writing needs it."""
    if isinstance(where, GivenDirectories):
        require_first(DiskFiles(read_only=True), where.paths)


def count_partitions(log: "AnyLog", where: Where, topic: str) -> int:
    """The number of partitions of a topic, in a log that is open to be read.

    Raises UnknownTopicOrPartition (the sink makes no topics), and KafkaStorage where a partition lies in a log
    directory that was not named.
    """
    try:
        keys = [TopicPartition(topic, part.partition) for part in log.admin.topic(topic).partitions]
        if isinstance(where, GivenDirectories):
            # Only the metadata log tells a partition of another directory from one without records.
            elsewhere = without_folder(DiskFiles(read_only=True), where.paths, keys)
            log.admin.list_offsets(dict.fromkeys(elsewhere, "latest"))
        return len(keys)
    except UnknownTopicOrPartition:
        known = ", ".join(log.topics()) or "none"
        raise UnknownTopicOrPartition(
            f"no topic '{topic}': make it before anything is written to it; there are: {known}"
        ) from None


def offsets_of(log: "AnyLog", keys: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """The "earliest" or "latest" offset of each partition. Raises UnknownTopicOrPartition, and NotLeaderOrFollower
    where that does not pass.
    """
    wanted: dict[TopicPartition, int | str] = dict.fromkeys(keys, which)
    found = retried(lambda: log.admin.list_offsets(wanted), most=_RETRIES, interval_ms=_RETRY_INTERVAL_MS)
    return {key: listed.offset for key, listed in found.items()}
