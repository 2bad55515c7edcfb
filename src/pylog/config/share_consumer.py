"""The configs of a share consumer, under Kafka's names (Kafka: ShareConsumerConfig, KIP-932)."""

from dataclasses import dataclass
from typing import Any

from pylog.config.clients import RECORD_BYTES_MAX
from pylog.config.options import Config, Function, Switch, Words, integer, option
from pylog.errors import InvalidConfig

IMPLICIT, EXPLICIT = "implicit", "explicit"
BATCH_OPTIMIZED, RECORD_LIMIT = "batch_optimized", "record_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(Config):
    """The configs of a share consumer (Kafka: ShareConsumerConfig)."""

    check_crcs: bool = option(True, Switch())
    """Whether every batch's checksum is verified."""
    client_id: str = option("", Words())
    """A name for this client, sent along with each message: groups show it with their members."""
    client_rack: str = option("", Words())
    """The rack of this client, which the group shows."""
    default_api_timeout_ms: int = option(60_000, integer(0))
    """How long a commit waits for its answers."""
    fetch_max_bytes: int = option(50 << 20, integer(0))
    """How many bytes of records a node gives at once, roughly."""
    fetch_max_wait_ms: int = option(500, integer(0))
    """How long a node may wait for records."""
    fetch_min_bytes: int = option(1, integer(0))
    """For how many bytes of records a node waits."""
    group_id: str | None = option(None, Words(optional=True))
    """The share group, without which there is no share consumer."""
    key_deserializer: Any = option(None, Function("(bytes) -> object"))
    """Makes keys of bytes; None: they stay bytes."""
    max_poll_records: int = option(500, integer(1))
    """How many records a node gives at once, roughly, and how many a poll gives at most. With
    `share_acquire_mode="record_limit"` a node gives no more."""
    metadata_max_age_ms: int = option(300_000, integer(0))
    """How often the topics are looked at."""
    pylog_max_record_bytes: int = option(RECORD_BYTES_MAX, integer(1))
    """The largest record in a compressed batch; 16 times the batch where that is more. Not Kafka's."""
    retry_backoff_ms: int = option(100, integer(0))
    """How long to wait before something is asked again."""
    share_acknowledgement_mode: str = option(IMPLICIT, Words(IMPLICIT, EXPLICIT))
    """"implicit": what was polled is accepted by the next poll, commit or close, unless it was acknowledged otherwise;
    "explicit": every record has to be acknowledged."""
    share_acquire_mode: str = option(BATCH_OPTIMIZED, Words(BATCH_OPTIMIZED, RECORD_LIMIT, any_case=True))
    """"batch_optimized": whole batches, beyond `max_poll_records`; "record_limit": never more (KIP-1206)."""
    value_deserializer: Any = option(None, Function("(bytes) -> object"))
    """Makes values of bytes; None: they stay bytes."""

    def _check_together(self) -> None:
        if not self.group_id:
            raise InvalidConfig("a share consumer needs a group_id")

    @classmethod
    def _elsewhere(cls) -> str:
        return (
            "allow.auto.create.topics auto.commit.interval.ms auto.offset.reset enable.auto.commit group.instance.id "
            "group.protocol heartbeat.interval.ms interceptor.classes isolation.level max.partition.fetch.bytes "
            "max.poll.interval.ms partition.assignment.strategy session.timeout.ms"
        )
