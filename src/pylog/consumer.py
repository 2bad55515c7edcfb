"""Reads records: assigned partitions, a position in each, `poll`.

    position    the offset of the next record that `poll` gives
    fetched     bytes that lie ahead of the position, decoded a batch at a time as they are asked for

With `isolation_level="read_committed"` the batches of aborted transactions are stepped over as well, and the end of a
partition is its last stable offset.

A fetch names every assigned partition that has nothing fetched, so a slow reader of one partition does not fetch the
others again and again. Records below the position inside a fetched batch are skipped; control batches are stepped over.
(Kafka: KafkaConsumer, SubscriptionState, FetchCollector.)
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import length_hint
from types import TracebackType
from typing import Self
from uuid import UUID

from pylog.batch import Batch, split
from pylog.clock import Clock
from pylog.cluster import Cluster
from pylog.config import ConsumerConfig
from pylog.errors import Closed, CorruptBatch, NoOffsetForPartition, OffsetOutOfRange, PylogError, UnknownTopicId
from pylog.isolation import Delivery, Isolation
from pylog.message import (
    EARLIEST,
    LATEST,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListedOffsets,
    ListedPart,
    ListOffsets,
    ListOffsetsPart,
)
from pylog.record import ConsumerRecord, OffsetAndTimestamp, TopicPartition
from pylog.transport import Transport

ANSWER_SECONDS_SPARE = 30.0
SHARED_WAIT_MS = 10
_RESETS = {"earliest": EARLIEST, "latest": LATEST}


class _Fetched:
    """What was fetched of one partition and not given out yet."""

    def __init__(self, part: FetchedPart, position: int, check_crc: bool) -> None:
        self._part = part
        self._batches: Iterator[Batch] = split(part.data, check_crc=check_crc)
        self._delivery = Delivery(part.aborted)
        self._records: list[ConsumerRecord] = []
        self._given = 0
        self._error: CorruptBatch | None = None
        self.next_offset = position

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to `count` records from `next_offset` on; none when the fetched bytes are used up.

        Raises: CorruptBatch, again and again.
        """
        while self._given == len(self._records):
            if self._error is not None:
                raise self._error.with_traceback(None)
            try:
                batch = next(self._batches, None)
                if batch is None:
                    return []
                wanted = self._delivery.gives(batch)
                records = batch.records(self._part.topic, self._part.partition, self.next_offset) if wanted else []
            except CorruptBatch as error:
                self._error = self._located(error)
                raise self._error from error
            self._after = max(batch.next_offset, self.next_offset)
            self._records, self._given = records, 0
            if not records:
                self.next_offset = self._after
        if len(self._records) - self._given > count:
            taken = self._records[self._given : self._given + count]
            self._given += count
            self.next_offset = self._records[self._given].offset
        else:
            # A list that nobody has taken from goes out as it is.
            taken = self._records[self._given :] if self._given else self._records
            self._records, self._given = [], 0
            self.next_offset = self._after
        return taken

    def _located(self, error: CorruptBatch) -> CorruptBatch:
        """The same error with the place in the file: the decoder saw bytes only."""
        position = self._part.position + (error.position or 0)
        return CorruptBatch(
            f"{self._part.topic}-{self._part.partition}: {error.reason}; seek past it to go on, and run `pylog verify`",
            path=self._part.path, position=position, offset=self.next_offset,
        )  # fmt: skip


class Consumer:
    """Reads partitions that were assigned by hand or by subscribing to topics, which means all of their partitions.

    Not thread-safe. Made by `Log.consumer`; the configs are Kafka's, in `ConsumerConfig`.
    """

    def __init__(self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock) -> None:
        self.config = config
        self._isolation = Isolation.named(config.isolation_level)
        self._clock = clock
        self._cluster = Cluster(transport, node, config.client_id)
        self._subscription: set[str] = set()
        self._assigned: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, int] = {}
        self._fetched: dict[TopicPartition, _Fetched] = {}
        self._paused: set[TopicPartition] = set()
        self._topic_ids: dict[str, UUID] = {}
        self._polled: list[ConsumerRecord] = []  # by a loop over this consumer
        self._unseen = iter(self._polled)  # of these, what the loop has not come to
        self._closed = False

    # --- what is read ----------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics, in place of what was read before.

        Raises UnknownTopicOrPartition; nothing changes then.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        keys = [TopicPartition(name, p.partition) for name in names for p in self._cluster.topic(name).partitions]
        self.assign(keys)
        self._subscription = set(names)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Positions of partitions that stay are kept. Raises UnknownTopicOrPartition."""
        self._check_open()
        keys = list(dict.fromkeys(TopicPartition(*key) for key in partitions))
        self._unread()
        for key in keys:
            if type(key.partition) is not int:
                raise TypeError(f"{key}: the partition is {type(key.partition).__name__}, not int")
            self._cluster.leader(key)
        for gone in set(self._assigned) - set(keys):
            for state in (self._positions, self._resets, self._fetched):
                state.pop(gone, None)
            self._paused.discard(gone)
        self._assigned = keys
        known = self._topic_ids
        self._topic_ids = {key.topic: known.get(key.topic, self._cluster.topic(key.topic).id) for key in keys}
        self._subscription = set()

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.assign([])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._assigned)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._subscription)

    def pause(self, *partitions: TopicPartition) -> None:
        """Give no records of these partitions until `resume`; what was fetched is kept."""
        self._unread()
        self._paused.update(self._checked(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        self._paused.difference_update(self._checked(partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return set(self._paused)

    def _checked(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        self._check_open()
        keys = [TopicPartition(*key) for key in partitions]
        for key in keys:
            if key not in self._assigned:
                raise ValueError(
                    f"{key.topic}-{key.partition} is not assigned to this consumer: assign or subscribe first"
                )
        return keys

    # --- positions -------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`. Outside the log, the next poll does what `auto_offset_reset` says."""
        if type(offset) is not int:
            raise TypeError(f"offset is {type(offset).__name__}, not int")
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: seek_to_end and seek_to_beginning go to the ends")
        (key,) = self._checked([partition])
        self._unread()
        self._move(key, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned.

        The offset is looked up when it is needed.
        """
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned.

        The offset is looked up at the next poll or position.
        """
        self._reset(partitions, LATEST)

    def _reset(self, partitions: tuple[TopicPartition, ...], where: int) -> None:
        keys = self._checked(partitions or self._assigned)
        self._unread()
        for key in keys:
            self._positions.pop(key, None)
            self._fetched.pop(key, None)
            self._resets[key] = where

    def _move(self, key: TopicPartition, offset: int) -> None:
        self._positions[key] = offset
        self._resets.pop(key, None)
        self._fetched.pop(key, None)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` gives of a partition. Raises NoOffsetForPartition."""
        (key,) = self._checked([partition])
        for record in self._left_of_loop():
            if (record.topic, record.partition) == key:
                return record.offset
        self._find_positions()
        return self._positions[key]

    def _find_positions(self) -> None:
        """Give every assigned partition a position: what was asked by seek_to_*, else what auto_offset_reset says."""
        missing: dict[TopicPartition, int] = {}
        for key in self._assigned:
            if key not in self._positions:
                missing[key] = self._resets.get(key, _RESETS.get(self.config.auto_offset_reset, 0))
                if missing[key] == 0:
                    raise NoOffsetForPartition(
                        f"{key.topic}-{key.partition} has no position and auto_offset_reset is none: seek first"
                    )
        if missing:
            for key, part in self._list_offsets(missing).items():
                self._move(key, part.offset)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition. Raises UnknownTopicOrPartition."""
        return {key: part.offset for key, part in self._list_offsets(dict.fromkeys(partitions, EARLIEST)).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last visible record of each partition: the high watermark, or with read_committed the
        last stable offset.

        Raises UnknownTopicOrPartition.
        """
        return {key: part.offset for key, part in self._list_offsets(dict.fromkeys(partitions, LATEST)).items()}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition, in offset order, whose timestamp (ms) is at least the one given; or None.

        With timestamps out of order later records may be older than it. Raises UnknownTopicOrPartition, ValueError.
        """
        if not isinstance(timestamps, Mapping):
            raise TypeError(f"timestamps is a dict of partitions and times, not {type(timestamps).__name__}")
        for key, timestamp in timestamps.items():
            if type(timestamp) is not int:
                raise TypeError(f"timestamp for {key} is {type(timestamp).__name__}, not int (milliseconds)")
            if timestamp < 0:
                raise ValueError(f"timestamp {timestamp} for {key} is negative")
        return {
            key: OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch) if part.offset >= 0 else None
            for key, part in self._list_offsets(timestamps).items()
        }

    def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedPart]:
        self._check_open()
        times = {TopicPartition(*key): timestamp for key, timestamp in wanted.items()}
        found: dict[TopicPartition, ListedPart] = {}
        for node, keys in self._cluster.by_leader(list(times)).items():
            message = ListOffsets([ListOffsetsPart(*key, times[key]) for key in keys], self._isolation)
            answer: ListedOffsets = self._cluster.send(node, message).result(ANSWER_SECONDS_SPARE)
            for part in answer.parts:
                key = TopicPartition(part.topic, part.partition)
                if part.error is not None:
                    self._cluster.heard(key, part.error)
                    raise part.error
                found[key] = part
        return {key: found[key] for key in times}

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition."""
        return {p.partition for p in self._cluster.topic(topic).partitions}

    def topics(self) -> list[str]:
        """All topics there are, internal ones too."""
        return self._cluster.topic_names()

    # --- reading ---------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records from the positions on, and move the positions past them; waits up to `timeout_ms` for the first one.

        At most `max_records` (default `max_poll_records`). Empty when there was nothing in time.
        Raises: OffsetOutOfRange (with auto_offset_reset="none"), CorruptBatch (names file, position and offset; the
        position stays until you seek), Closed.
        """
        self._check_open()
        self._unread()
        count = self.config.max_poll_records if max_records is None else max_records
        if count < 1:
            raise ValueError(f"max_records={count}: at least 1")
        if timeout_ms != timeout_ms:
            raise ValueError("timeout_ms is not a number")
        deadline = self._clock.tick_ms() + timeout_ms
        while True:
            records = self._take(count)
            left_ms = max(0, deadline - self._clock.tick_ms())
            if records or not self._assigned:
                return records
            self._begin_made_again()
            self._find_positions()
            self._fetch(min(left_ms, self.config.fetch_max_wait_ms))
            records = self._take(count)
            if records or self._clock.tick_ms() >= deadline:
                return records

    def _begin_made_again(self) -> None:
        """Begin anew in topics that were deleted and made again: what is known of the old one means nothing there."""
        for name in {key.topic for key in self._assigned}:
            topic = self._cluster.topic(name)
            if self._topic_ids[name] == topic.id:
                continue
            self._topic_ids[name] = topic.id
            gone = [key for key in self._assigned if key.topic == name]
            for key in gone:
                for state in (self._positions, self._resets, self._fetched):
                    state.pop(key, None)
            if name in self._subscription:
                others = [key for key in self._assigned if key.topic != name]
                self._assigned = others + [TopicPartition(name, p.partition) for p in topic.partitions]
                self._paused.difference_update(set(gone) - set(self._assigned))

    def _take(self, count: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for key in list(self._fetched):
            if key in self._paused:
                continue
            fetched = self._fetched[key]
            try:
                while len(records) < count and (taken := fetched.take(count - len(records))):
                    records = records + taken if records else taken
            except CorruptBatch:
                if not records:
                    raise
                # The good records go out first, or they would be lost: it is raised again by the next poll.
                self._positions[key] = fetched.next_offset
                return records
            self._positions[key] = fetched.next_offset
            if len(records) >= count:
                break
            del self._fetched[key]
        return records

    def _fetch(self, max_wait_ms: int) -> None:
        """Ask every leader for the partitions that have nothing fetched;
        one alone may wait, several are asked in turn and wait a little each.
        """
        wanted = [key for key in self._assigned if key not in self._fetched and key not in self._paused]
        # The partition asked first gets the bytes first: turn the order so that none starves.
        self._assigned = self._assigned[1:] + self._assigned[:1]
        grouped = self._cluster.by_leader(wanted)
        if not grouped:
            # Everything is paused: there is nobody to wait at.
            time.sleep(max_wait_ms / 1000)
        wait_ms = max_wait_ms if len(grouped) == 1 else min(max_wait_ms, SHARED_WAIT_MS)
        for node, keys in grouped.items():
            message = Fetch(
                [self._part(key) for key in keys],
                max_wait_ms=wait_ms,
                min_bytes=self.config.fetch_min_bytes,
                max_bytes=self.config.fetch_max_bytes,
                isolation=self._isolation,
            )
            answer: Fetched = self._cluster.send(node, message).result(max_wait_ms / 1000 + ANSWER_SECONDS_SPARE)
            for part in answer.parts:
                self._received(part)

    def _part(self, key: TopicPartition) -> FetchPart:
        limit = self.config.max_partition_fetch_bytes
        return FetchPart(*key, self._positions[key], limit, topic_id=self._topic_ids[key.topic])

    def _received(self, part: FetchedPart) -> None:
        key = TopicPartition(part.topic, part.partition)
        if isinstance(part.error, OffsetOutOfRange) and self.config.auto_offset_reset in _RESETS:
            self._reset((key,), _RESETS[self.config.auto_offset_reset])
        elif isinstance(part.error, UnknownTopicId):
            # The next round asks anew, and finds the topic of now.
            self._cluster.heard(key, part.error)
        elif isinstance(part.error, PylogError):
            self._cluster.heard(key, part.error)
            raise part.error
        elif len(part.data):
            self._fetched[key] = _Fetched(part, self._positions[key], self.config.check_crcs)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records as they come; waits for more for ever, or for `consumer_timeout_ms` where that is set."""
        # The lists are walked in C: a frame of Python for each record would cost as much as decoding it.
        return chain.from_iterable(self._polls())

    def _polls(self) -> Iterator[Iterator[ConsumerRecord]]:
        """What a loop goes through: what another one has left, and list after list."""
        limit_ms = self.config.consumer_timeout_ms
        while not self._closed:
            if not length_hint(self._unseen):
                self._polled = self.poll(self.config.fetch_max_wait_ms if limit_ms is None else limit_ms)
                self._unseen = iter(self._polled)
                if limit_ms is not None and not self._polled:
                    return
            yield self._unseen

    def _left_of_loop(self) -> list[ConsumerRecord]:
        """What a loop over this consumer has polled and not come to yet."""
        return self._polled[len(self._polled) - length_hint(self._unseen) :]

    def _unread(self) -> None:
        """Take back what a loop over this consumer has polled but not come to yet: it will be read again."""
        left = self._left_of_loop()
        if left:
            for key, offset in {(r.topic, r.partition): r.offset for r in reversed(left)}.items():
                self._move(TopicPartition(*key), offset)
        # Emptying the list ends the iterator over it, wherever the loop is.
        self._polled.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this consumer is closed")

    def close(self) -> None:
        """Let go of what was fetched; every later call raises Closed."""
        self._closed = True
        self._fetched.clear()
        self._polled.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
