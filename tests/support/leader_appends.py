"""What a leader does with bytes that a client sends: the batches in them, checked, stamped, appended."""

from pylog.config import TopicConfig
from pylog.kernel import Appended
from pylog.partition import Partition
from pylog.protocol.batch import Batch, Buffer, Origin
from pylog.storage.producer_state import Verification
from pylog.storage.validator import gives_append_time, leader_batch, sent_batches


def leader_batches(data: Buffer, config: TopicConfig, now_ms: int, *, origin: Origin = Origin.CLIENT) -> list[Batch]:
    """The batches to append. Raises what `sent_batches` and `leader_batch` raise."""
    batches = [leader_batch(batch, config, now_ms, origin=origin) for batch in sent_batches(data, config, origin)]
    if gives_append_time(config, origin):
        for batch in batches:
            batch.stamp_append_time(now_ms)
    return batches


def append_bytes(
    partition: Partition, data: Buffer, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT,
    transaction_version: int = -1, guard: Verification | None = None,
) -> Appended:  # fmt: skip
    """Append the first batch in `data`; nothing where none is whole. Raises what `sent_batches` and `append` raise."""
    batches = sent_batches(data, partition.config, origin)
    if not batches:
        return Appended(partition.next_offset, partition.next_offset)
    return partition.append(
        batches[0], epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version, guard=guard
    )
