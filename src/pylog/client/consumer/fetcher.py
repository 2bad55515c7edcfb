"""Fetches the records that lie ahead, and decodes them a batch at a time as they are asked for.

A fetch names every partition that has nothing fetched and nothing in flight, so a slow reader of one partition does not
fetch the others again and again. Records below the position inside a fetched batch are skipped. Control batches are
stepped over, and with read_committed the batches of aborted transactions. An answer is dropped where the position was
moved, or the partition taken away, since the request. (Kafka: AbstractFetch, FetchCollector, CompletedFetch.)
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from pylog.client.cluster import Cluster
from pylog.client.consumer.leader_lookup import LeaderLookup, States
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.subscription import PartitionState, Polled, SubscriptionState
from pylog.config import RECORD_BYTES_MAX, ConsumerConfig
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.errors import (
    ConcurrentUse,
    CorruptBatch,
    DeserializationError,
    LogTruncation,
    OffsetOutOfRange,
    PylogError,
)
from pylog.kernel import take_records
from pylog.protocol.batch import Batch, claimed_end, split
from pylog.protocol.isolation import Isolation, VisibleBatches
from pylog.protocol.messages import Fetch, FetchedPart, FetchPart
from pylog.record import ConsumerRecord, DeserializedRecord, TopicPartition
from pylog.runtime.clock import Clock

logger = logging.getLogger("pylog.client")

Deserialize = Callable[[ConsumerRecord], Polled]

_NONE: Iterator[tuple[list[ConsumerRecord], int]] = iter(())


class FetchedRecords:
    """The fetched bytes of one partition, and how far they were given out."""

    def __init__(
        self, part: FetchedPart, position: int, *, check_crc: bool, deserialize: Deserialize | None = None,
        record_bytes_max: int = RECORD_BYTES_MAX,
    ) -> None:  # fmt: skip
        self._part = part
        self._record_bytes_max = record_bytes_max
        self._check_crc = check_crc
        self._deserialize = deserialize
        self._records: list[ConsumerRecord] = []
        self._given = 0
        self._error: CorruptBatch | None = None
        self._at = 0
        self._after = position
        self.next_offset = position
        self.leader_epoch = -1
        # None as long as all batches were plain.
        self._batches: Iterator[Batch] | None = None
        # Of the batch that is being decoded, and what is left of it.
        self._batch: Batch | None = None
        self._groups = _NONE
        if part.aborted:
            self._go_by_batches()

    def take(self, count: int) -> list[Polled]:
        """Up to `count` records from `next_offset` on; none when the fetched bytes are used up.

        Raises, again and again: CorruptBatch, DeserializationError.
        """
        while self._given == len(self._records):
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._at == len(self._part.data):
                return []
            if self._batches is None and self._take_plain(count):
                continue
            # There may be a part of a batch behind the last one.
            if not self._take_batch():
                return []
        if self._deserialize is not None:
            return self._take_deserialized(count, self._deserialize)
        if len(self._records) - self._given > count:
            taken = self._records[self._given : self._given + count]
            self._given += count
            self.next_offset = self._records[self._given].offset
        else:
            # A list that is still whole goes out as it is.
            taken = self._records[self._given :] if self._given else self._records
            self._records, self._given = [], 0
            self.next_offset = self._after
        return taken

    def _take_plain(self, count: int) -> bool:
        """Go past batches that need no decision; whether there were any."""
        part, at = self._part, self._at
        # No more than there can be: a count may be anything.
        most = min(count, len(part.data))
        records, self._at, after, epoch = take_records(
            part.data, at, self.next_offset, most, part.topic, part.partition, self._check_crc
        )
        if self._at == at:
            self._go_by_batches()
            return False
        self._gather(records, after, epoch)
        return True

    def _go_by_batches(self) -> None:
        """Look at what lies ahead batch by batch."""
        self._batches = split(self._part.data[self._at :], check_crc=self._check_crc)
        self._delivery = VisibleBatches(self._part.aborted)

    def _take_batch(self) -> bool:
        """Go past the next batch, or past some of its records where they are large; False without a next batch.

        Raises CorruptBatch.
        """
        try:
            if self._batch is None:
                self._batch = next(self._batches, None) if self._batches is not None else None
                if self._batch is None:
                    return False
                self._groups = self._groups_of(self._batch)
            batch = self._batch
            records, after = next(self._groups)
        except CorruptBatch as error:
            self._error = self._located(error, self._batch)
            raise self._error from error
        if after == batch.next_offset:
            self._at += batch.size
            # What was decompressed for it goes with them.
            self._batch, self._groups = None, _NONE
        self._gather(records, max(after, self.next_offset), batch.leader_epoch)
        return True

    def _groups_of(self, batch: Batch) -> Iterator[tuple[list[ConsumerRecord], int]]:
        if not self._delivery.gives(batch):
            return iter([([], batch.next_offset)])
        part = self._part
        return iter(batch.groups(part.topic, part.partition, self.next_offset, self._record_bytes_max))

    def _gather(self, records: list[ConsumerRecord], after: int, leader_epoch: int) -> None:
        self._records, self._given, self._after, self.leader_epoch = records, 0, after, leader_epoch
        if not records:
            self.next_offset = after

    def _take_deserialized(self, count: int, deserialize: Deserialize) -> list[Polled]:
        taken: list[Polled] = []
        begin = self._given
        try:
            for record in self._records[self._given : self._given + count]:
                taken.append(deserialize(record))
                self._given += 1
        except DeserializationError:
            # What stands before it goes out first.
            if not taken:
                raise
        except BaseException:
            # Ctrl-C: the records before it are lost to the caller, and given again.
            self._given = begin
            raise
        finally:
            whole = self._given == len(self._records)
            self.next_offset = self._after if whole else self._records[self._given].offset
        return taken

    def _located(self, error: CorruptBatch, batch: Batch | None) -> CorruptBatch:
        """The same error with the place in the file, and where to go on: the decoder saw bytes only.

        `batch` has the right CRC, and records that cannot be decoded; None: the bytes are not even a batch.
        """
        what, at = f"{self._part.topic}-{self._part.partition}: {error.reason}", self._part.position + self._at
        if batch is None:
            following = claimed_end(self._part.data, self._at, self.next_offset)
            return CorruptBatch.on_reading(
                what, path=self._part.path, position=at, offset=self.next_offset, next_offset=following
            )
        return CorruptBatch(
            f"{what}; `skip()` goes past it, and `pylog verify` shows all damage", path=self._part.path, position=at,
            offset=self.next_offset, next_offset=batch.next_offset,
        )  # fmt: skip


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self,
        requests: PendingRequests,
        cluster: Cluster,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        clock: Clock,
        offsets: OffsetFetcher,
    ) -> None:
        self._offsets = offsets
        self._leaders = LeaderLookup(requests, cluster, subscription, config, clock)
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._isolation = Isolation.named(config.isolation_level)
        self._deserialize = deserializing(config)
        self.fetches = 0
        """How many were sent."""

    def ask(self, max_wait_ms: int, now_ms: int) -> bool:
        """Ask every leader for the partitions that have a position and nothing fetched; whether there were any."""
        wanted = {
            key: state
            for key, state in self._subscription.states.items()
            if state.position is not None
            and not (state.paused or state.leaving)
            and state.is_quiet
            and now_ms >= state.retry_ms
        }
        if not wanted:
            return False
        self._subscription.turn()
        message = partial(self._message, wanted, max_wait_ms)
        self._leaders.send_to_leaders(wanted, message, self._received, max_wait_ms, reads=True)
        return True

    def _message(self, states: States, max_wait_ms: int, keys: list[TopicPartition]) -> Fetch:
        self.fetches += 1
        return Fetch(
            [self._part(key, states[key]) for key in keys],
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation=self._isolation,
            rack_id=self._config.client_rack,
        )

    def _part(self, key: TopicPartition, state: PartitionState) -> FetchPart:
        assert state.position is not None
        return FetchPart(
            *key, state.position, self._config.max_partition_fetch_bytes, last_fetched_epoch=state.leader_epoch,
            topic_id=state.topic_id,
        )  # fmt: skip

    def _received(self, key: TopicPartition, state: PartitionState, part: FetchedPart) -> None:
        is_committed = self._isolation is Isolation.READ_COMMITTED
        state.end = part.last_stable_offset if is_committed else part.high_watermark
        if part.error is not None:
            self._refused(key, state, part.error)
        elif part.preferred_read_replica >= 0:
            # For as long as Kafka's consumer keeps it (SubscriptionState.updatePreferredReadReplica).
            state.replica = part.preferred_read_replica
            state.replica_until_ms = self._clock.tick_ms() + self._config.metadata_max_age_ms
        elif part.diverging is not None:
            self._parted(key, state, part.diverging)
        elif len(part.data):
            state.bytes += len(part.data)
            assert state.position is not None
            state.fetched = FetchedRecords(
                part, state.position, check_crc=self._config.check_crcs, deserialize=self._deserialize,
                record_bytes_max=self._config.pylog_max_record_bytes,
            )  # fmt: skip
            self._subscription.ready[key] = state

    def _refused(self, key: TopicPartition, state: PartitionState, error: PylogError) -> None:
        # A replica may be behind, and knows no more than its leader.
        is_gone = isinstance(error, OffsetOutOfRange) and state.replica is None
        reset = self._offsets.reset if is_gone else None
        if reset is None:
            self._leaders.refused(key, error)
        else:
            self._subscription.move(key, None, reset)

    def _parted(self, key: TopicPartition, state: PartitionState, diverging: tuple[int, int]) -> None:
        """The log was cut below the position (KIP-320): go back to where it was, or let the user say so."""
        epoch, end = diverging
        what = (
            f"{key.topic}-{key.partition} was cut at offset {end}, and the position was {state.position}: records that "
            "were given are not in the log any more"
        )
        if self._offsets.reset is not None:
            logger.warning("%s; going on at %d", what, end, extra={**key._asdict(), "offset": end})
            self._subscription.move(key, end, leader_epoch=epoch)
        else:
            self._subscription.fail(key, LogTruncation(f"{what}; seek to where to go on", end))


def deserializing(config: ConsumerConfig | ShareConsumerConfig) -> Deserialize | None:
    """A function that makes a record of the types that the deserializers give, or None."""
    of_key, of_value = config.key_deserializer, config.value_deserializer
    if of_key is None and of_value is None:
        return None
    is_calling = False

    def deserialize(record: ConsumerRecord) -> Polled:
        nonlocal is_calling
        if is_calling:
            # It would be asked for the same record again, and again in there.
            raise ConcurrentUse("a deserializer must not poll its consumer")
        part = "key"
        key: object = record.key
        value: object = record.value
        is_calling = True
        try:
            if of_key is not None and record.key is not None:
                key = of_key(record.key)
            part = "value"
            if of_value is not None and record.value is not None:
                value = of_value(record.value)
        except Exception as error:
            raise DeserializationError(f"the {part} cannot be deserialized: {error!r}", record) from error
        finally:
            is_calling = False
        return DeserializedRecord(  # type: ignore[return-value]  # it has the fields of one
            record.topic, record.partition, record.offset, record.timestamp, record.timestamp_type, key, value,
            record.headers, record.leader_epoch,
        )  # fmt: skip

    return deserialize
