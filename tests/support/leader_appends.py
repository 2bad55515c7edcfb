"""What a leader does with bytes that a client sends: the batches in them, checked, stamped, appended."""

from pylog.config import TopicConfig
from pylog.errors import CorruptBatch, CorruptRecord, InvalidRecord, UnsupportedFormat
from pylog.kernel import LOG_OVERHEAD, Appended, frame_fault
from pylog.partition import Partition
from pylog.protocol.batch import Batch, Buffer, Origin
from pylog.storage.producer_state import Verification
from pylog.storage.validator import GIVEN_OFFSETS, check_bytes, gives_append_time, leader_batch


def sent_batches(data: Buffer, config: TopicConfig, origin: Origin) -> list[Batch]:
    """The batches in bytes: one from a client or a coordinator, any number else. One that is cut off is dropped.

    Where more are refused, what is wrong with one of them comes first, as it does in Kafka.
    """
    view = memoryview(data)
    batches: list[Batch] = []
    position = 0
    fault: Exception | None = None
    while fault is None and len(view) - position >= LOG_OVERHEAD:
        reason = frame_fault(view, position)
        size = LOG_OVERHEAD + int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big")
        if reason is not None:
            fault = _refusal(view, position, reason)
        elif size > len(view) - position:
            break
        else:
            batches.append(Batch.framed(view, position))
            position += size
    if fault is None and len(batches) > 1 and origin in GIVEN_OFFSETS:
        fault = InvalidRecord(f"{len(batches)} batches for one partition: a {origin.value} sends one at a time")
    if fault is not None:
        for batch in batches:
            check_bytes(batch, config, origin)
        raise fault
    return batches


def _refusal(view: memoryview, position: int, reason: str) -> Exception:
    try:
        Batch.framed(view, position)
    except UnsupportedFormat as error:
        return error
    except CorruptBatch:
        pass
    return CorruptRecord(f"position {position} of what was sent: {reason}")


def leader_batches(data: Buffer, config: TopicConfig, now_ms: int, *, origin: Origin = Origin.CLIENT) -> list[Batch]:
    """The batches to append. Raises what `sent_batches` and `leader_batch` raise."""
    batches = [leader_batch(batch, config, now_ms, origin=origin) for batch in sent_batches(data, config, origin)]
    if gives_append_time(config, origin):
        for batch in batches:
            batch.stamp_append_time(now_ms)
    return batches


def append_bytes(
    partition: Partition, data: Buffer, *, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT,
    transaction_version: int = -1, guard: Verification | None = None, proved: bool = False,
) -> Appended:  # fmt: skip
    """Append the first batch in `data`; nothing where none is whole. Raises what `sent_batches` and `append` raise.

    A client's batch whose header is `proved` before may be appended in one step of the kernel.
    """
    batches = sent_batches(data, partition.config, origin)
    if not batches:
        return Appended(partition.next_offset, partition.next_offset)
    if proved and origin is Origin.CLIENT:
        partition.look_at(batches[0], now_ms)
    return partition.append(
        batches[0], epoch=epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version, guard=guard
    )
