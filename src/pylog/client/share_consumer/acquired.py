"""The acquired records of one partition in an answer to a ShareFetch.

An answer has whole batches, and says which of their offsets were acquired. An acquired offset without a record, as one
of a control batch or one that compaction has taken, is a gap: it is acknowledged as such.
"""

from collections.abc import Sequence

from pylog.client.consumer.fetcher import FetchedRecords
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import CorruptBatch, PylogError, UnknownServer
from pylog.kernel.format import HEADER_BYTES, LOG_OVERHEAD
from pylog.protocol.messages import FetchedPart
from pylog.protocol.messages.share import GAP, REJECT, RELEASE, AcquiredRecords
from pylog.record import ConsumerRecord, TopicPartition

AT_ONCE = 1000
ACQUIRED_MAX = 1 << 20
"""How many records an answer may give of a partition. A node has at most 10_000 of a group locked."""
Found = tuple[list[tuple[ConsumerRecord, int]], dict[int, int], PylogError | None]


class AcquiredBatches:
    """The decoder of one partition. Where a member acquires a batch little by little, each answer has the whole batch
    again: the last one is kept as it was decoded.
    """

    def __init__(self, key: TopicPartition, config: ShareConsumerConfig) -> None:
        self._key = key
        self._config = config
        self._batch = b""
        """The header of the batch that is kept, with its length and its checksum."""
        self._records: dict[int, ConsumerRecord] = {}
        self._first = 0
        """The first offset of it that was decoded."""

    def found(self, data: memoryview, acquired: Sequence[AcquiredRecords]) -> Found:
        """The records that were acquired, each with its delivery count; what to acknowledge without a record; and the
        error of a batch that cannot be read: what is acquired of it is rejected, and what lies behind it comes free
        again.
        """
        claimed = sum(max(one.last_offset + 1 - one.first_offset, 0) for one in acquired)
        if claimed > ACQUIRED_MAX:
            topic, partition = self._key
            return (
                [],
                {},
                UnknownServer(f"the node says that {claimed} records of {topic}-{partition} were acquired at once"),
            )
        counts = {
            offset: one.delivery_count for one in acquired for offset in range(one.first_offset, one.last_offset + 1)
        }  # fmt: skip
        if not counts:
            return [], {}, None
        first, header = min(counts), bytes(data[:HEADER_BYTES]) if is_one_batch(data) else b""
        if header and header == self._batch and first >= self._first:
            kept = self._records
            records = [(kept[offset], counts.pop(offset)) for offset in sorted(counts) if offset in kept]
            return records, dict.fromkeys(counts, GAP), None
        decoded, records, error = self._decoded(data, first), [], None
        self._batch, self._first, self._records = b"", first, {}
        try:
            # All of a batch that is kept; otherwise what was acquired.
            while (header or counts) and (found := decoded.take(AT_ONCE)):
                records += [(record, counts.pop(record.offset)) for record in found if record.offset in counts]
                if header:
                    self._records |= {record.offset: record for record in found}
        except CorruptBatch as caught:
            error = caught
        if error is None:
            self._batch = header
            return records, dict.fromkeys(counts, GAP), None
        return records, {one: _unread(one, decoded.next_offset, error.next_offset) for one in counts}, error

    def _decoded(self, data: memoryview, first: int) -> FetchedRecords:
        return FetchedRecords(
            FetchedPart(*self._key, data=data), first, check_crc=self._config.check_crcs,
            record_bytes_max=self._config.pylog_max_record_bytes,
        )  # fmt: skip


def is_one_batch(data: memoryview) -> bool:
    """Whether there is nothing behind the first batch."""
    return len(data) >= HEADER_BYTES and len(data) == LOG_OVERHEAD + int.from_bytes(data[8:LOG_OVERHEAD], "big")


def _unread(offset: int, damaged: int, following: int | None) -> int:
    if offset < damaged:
        return GAP
    return REJECT if following is None or offset < following else RELEASE
