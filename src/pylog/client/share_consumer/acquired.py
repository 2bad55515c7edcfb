"""The acquired records of one partition in an answer to a ShareFetch.

An answer has whole batches, and says which of their offsets were acquired. An acquired offset without a record, as one
of a control batch or one that compaction has taken, is a gap: it is acknowledged as such.
"""

from collections.abc import Sequence

from pylog.client.consumer.fetcher import FetchedRecords
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import CorruptBatch
from pylog.protocol.messages import FetchedPart
from pylog.protocol.messages.share import GAP, REJECT, RELEASE, AcquiredRecords
from pylog.record import ConsumerRecord, TopicPartition

AT_ONCE = 1000


def acquired_records(
    key: TopicPartition, data: memoryview, acquired: Sequence[AcquiredRecords], config: ShareConsumerConfig
) -> tuple[list[tuple[ConsumerRecord, int]], dict[int, int], CorruptBatch | None]:
    """The records that were acquired, each with its delivery count; what to acknowledge without a record; and the error
    of a batch that cannot be read: what is acquired of it is rejected, and what lies behind it comes free again.
    """
    counts = {
        offset: one.delivery_count for one in acquired for offset in range(one.first_offset, one.last_offset + 1)
    }  # fmt: skip
    if not counts:
        return [], {}, None
    fetched = FetchedRecords(
        FetchedPart(*key, data=data), min(counts), check_crc=config.check_crcs,
        record_bytes_max=config.pylog_max_record_bytes,
    )  # fmt: skip
    records: list[tuple[ConsumerRecord, int]] = []
    error = None
    try:
        while found := fetched.take(AT_ONCE):
            records += [(record, counts.pop(record.offset)) for record in found if record.offset in counts]
    except CorruptBatch as caught:
        error = caught
    if error is None:
        return records, dict.fromkeys(counts, GAP), None
    return records, {one: _unread(one, fetched.next_offset, error.next_offset) for one in counts}, error


def _unread(offset: int, damaged: int, following: int | None) -> int:
    if offset < damaged:
        return GAP
    return REJECT if following is None or offset < following else RELEASE
