"""Some records of a partition: the newest below an offset, or the first from one on; all, or those that match.

A page takes a bounded time: it looks at so many records, for so long, and says where it has stopped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pylog.errors import CorruptBatch, OffsetOutOfRange
from pylog.handles.any_log import AnyLog
from pylog.handles.views import PartitionView
from pylog.protocol.isolation import IsolationLevel
from pylog.record import ConsumerRecord, TopicPartition
from pylog.runtime.clock import Clock, SystemClock

__all__ = ["FoundRecords", "Reader"]

SCAN_RECORDS_MAX = 200_000
SCAN_MS_MAX = 3000
WINDOW_MAX = 20_000
"""How many offsets are looked at together, going backwards."""
POLL_MS = 200


@dataclass(slots=True)
class FoundRecords:
    """Records in the order of their offsets, and how far the look at [start, end) has come."""

    start: int
    end: int
    records: list[ConsumerRecord] = field(default_factory=list)
    reached: int = 0
    """The first offset that was not looked at, going forwards; the last one that was, going backwards."""
    damage: str = ""
    """What could not be read, the first of it: it is left out."""


class Reader:
    """Reads for one page. The budget is shared by all its partitions."""

    def __init__(
        self, log: AnyLog, topic: str, *, isolation_level: IsolationLevel = "read_uncommitted",
        matches: Callable[[ConsumerRecord], bool] | None = None, ms_max: int = SCAN_MS_MAX,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
        self._log = log
        self._topic = topic
        self._views = {view.partition: view for view in log.topic(topic)}
        self._isolation_level: IsolationLevel = isolation_level
        self._matches = matches or (lambda _: True)
        self._clock = clock or SystemClock()
        self._ms_max = ms_max
        self._until_ms = self._clock.tick_ms() + ms_max
        self._left = SCAN_RECORDS_MAX

    @property
    def partitions(self) -> list[int]:
        """The partitions of the topic."""
        return sorted(self._views)

    def ends(self, partitions: list[int]) -> dict[int, tuple[int, int]]:
        """The visible extent of each. Raises UnknownTopicOrPartition."""
        keys, admin = [TopicPartition(self._topic, one) for one in partitions], self._log.admin
        starts = admin.list_offsets(dict.fromkeys(keys, "earliest"))
        ends = admin.list_offsets(dict.fromkeys(keys, "latest"), isolation_level=self._isolation_level)
        return {key.partition: (starts[key].offset, ends[key].offset) for key in keys}

    def at_time(self, partitions: list[int], time_ms: int) -> dict[int, int | None]:
        """The offset of the first record that is not older, for each, or None."""
        keys = [TopicPartition(self._topic, one) for one in partitions]
        found = self._log.admin.list_offsets(dict.fromkeys(keys, time_ms))
        return {key.partition: part.offset if part.offset >= 0 else None for key, part in found.items()}

    def forwards(self, partition: int, start: int, end: int, limit: int) -> FoundRecords:
        """The first `limit` records in [start, end)."""
        found = FoundRecords(start, end, reached=start)
        try:
            for record in self._read(partition, found):
                if self._matches(record):
                    found.records.append(record)
                if len(found.records) >= limit or not self._may_go_on():
                    break
        except OffsetOutOfRange as error:
            # Retention has come between.
            found.damage = str(error)
        return found

    def backwards(self, partition: int, start: int, end: int, limit: int) -> FoundRecords:
        """The last `limit` records in [start, end)."""
        found, span = FoundRecords(start, end, reached=end), limit
        while found.reached > start and len(found.records) < limit:
            low = max(start, found.reached - span)
            part = self.forwards(partition, low, found.reached, span)
            found.damage = found.damage or part.damage
            if part.reached < found.reached:
                # The time is over, or retention has come between: this window is for the next page, which begins with a
                # small one.
                break
            found.records = (part.records + found.records)[-limit:]
            found.reached = low
            span = min(span * 4, WINDOW_MAX)
        if len(found.records) == limit:
            found.reached = found.records[0].offset
        return found

    def one(self, partition: int, offset: int) -> ConsumerRecord | None:
        """The record at an offset, or None (any more). Raises CorruptBatch."""
        found = FoundRecords(offset, offset + 1, reached=offset)
        try:
            record = next(self._read(partition, found), None)
        except OffsetOutOfRange:
            return None
        if record is None and found.damage:
            raise CorruptBatch(found.damage)
        return record

    def every(self, partition: int, start: int, end: int) -> Iterator[tuple[ConsumerRecord, bool]]:
        """All records in [start, end), and whether each matches. Raises CorruptBatch, OffsetOutOfRange, ValueError (the
        time is over).
        """
        for record in self._records(partition, start, end):
            self._check_time()
            yield record, self._matches(record)
        self._check_time()

    def _check_time(self) -> None:
        if self._clock.tick_ms() >= self._until_ms:
            limit = self._ms_max // 1000
            raise ValueError(f"the search takes more than {limit} s: narrow it by a partition, an offset or a time")

    def has(self, partition: int) -> bool:
        """Whether the topic has such a partition."""
        return partition in self._views

    def _may_go_on(self) -> bool:
        return self._left > 0 and self._clock.tick_ms() < self._until_ms

    def _read(self, partition: int, found: FoundRecords) -> Iterator[ConsumerRecord]:
        """The records of [reached, end). Damage is noted and left out. Raises OffsetOutOfRange."""
        while found.reached < found.end:
            try:
                for record in self._records(partition, found.reached, found.end):
                    self._left -= 1
                    found.reached = record.offset + 1
                    yield record
            except CorruptBatch as error:
                found.damage = found.damage or str(error)
                found.reached = min(max(error.next_offset or 0, found.reached + 1), found.end)
                if not self._may_go_on():
                    return
            else:
                if self._may_go_on():
                    # The last offsets may be markers, or compacted away.
                    found.reached = found.end
                return

    def _records(self, partition: int, start: int, end: int) -> Iterator[ConsumerRecord]:
        """The records of a range, from the files where they are here. Raises CorruptBatch, OffsetOutOfRange."""
        view = self._views[partition]
        if isinstance(view, PartitionView):
            return view.records(start, end, isolation_level=self._isolation_level)
        return self._fetched(partition, start, end)

    def _fetched(self, partition: int, start: int, end: int) -> Iterator[ConsumerRecord]:
        """The records of a range, from a server. One that does not answer takes no longer than a page may."""
        key = TopicPartition(self._topic, partition)
        consumer = self._log.consumer(isolation_level=self._isolation_level, auto_offset_reset="none")
        with consumer:
            consumer.assign([key])
            consumer.seek(key, start)
            while consumer.position(key) < end and self._may_go_on():
                for record in consumer.poll(POLL_MS):
                    if record.offset >= end:
                        return
                    yield record
