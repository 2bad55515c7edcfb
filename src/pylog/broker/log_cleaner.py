"""One partition's cleaning from start to end: what is dirty, the key map, group after group, the swaps.

    1  cleanable      the range, from the checkpoint to what may not be touched yet         (compaction.plan)
    2  note_keys      the newest offset of each key in the dirty part, as many as there is memory for
    3  rewrite        each group of segments from the start of the log on, beside the log as `.cleaned`
    4  replace        the partition swaps it in, under its lock; readers go on with what they have open
    5  end_offset     the new checkpoint: what lies below is clean

Only sealed segments are read, so appends and reads go on meanwhile, and nothing here takes a lock but the swap. Where
the log was truncated, or lost segments to retention, in between, the swap refuses and the cleaning ends without
a result; what was swapped in before is as good as it was. `steps` yields between windows of about a MiB: there its
driver waits (`Throttle`) or stops, by closing it. (Kafka: LogCleaner, Cleaner.doClean.)
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pylog.commitlog.compaction.offset_map import KeyMap
from pylog.commitlog.compaction.plan import Cleanable, SegmentFacts, cleanable, groups, overdue_ms
from pylog.commitlog.compaction.rewrite import CleanerStats, note_keys, rewrite
from pylog.commitlog.compaction.rules import LastBatch, Rules
from pylog.commitlog.compaction.transactions import CleanedTransactionMetadata
from pylog.config import TopicConfig
from pylog.config.options import LONG_MAX
from pylog.errors import CorruptBatch, LogNotFound
from pylog.partition import Partition
from pylog.segment import Segment
from pylog.storage.transaction_index import AbortedTxn

_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The result of a cleaning."""

    first_dirty: int
    end_offset: int
    """The new checkpoint."""
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    without_key: int
    """Records dropped because they have no key."""
    keys: int
    """Different keys in the dirty part."""
    map_fill: float
    """How full the key map became; 1 means that it ended the pass, and the rest is for the next one."""
    segments_before: int
    segments_after: int
    tombstones_kept: int = 0
    """Tombstones that stay until their delete horizon (delete.retention.ms). The first cleaning after it drops them."""
    tombstones_until_ms: int = -1
    """When the last of them may go; -1 without one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a cleaning."""

    bytes_total: int
    """To be read: the dirty part twice."""
    bytes_done: int = 0
    groups_total: int = 0
    """0 while keys are noted."""
    groups_done: int = 0


class Throttle:
    """Keeps reading to so many bytes a second (log.cleaner.io.max.bytes.per.second), by saying how long to wait."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._free_ms = 0.0

    def wait_ms(self, size: int, tick_ms: int) -> int:
        """The time to wait after `size` bytes were read; time in which nothing was read earns nothing."""
        self._free_ms = max(self._free_ms, tick_ms) + 1000 * size / self.bytes_per_second
        return int(self._free_ms - tick_ms)


class Cleaner:
    """One cleaning of a partition. `progress` may be read from any thread.

    `checkpoint` is where the last one ended, or None. `now_ms` is the wall clock, from which delete
    horizons and lags count. Raises ValueError for a buffer without room for one key.
    """

    def __init__(self, partition: Partition, *, checkpoint: int | None, now_ms: int, buffer_bytes: int) -> None:
        self.partition = partition
        self.now_ms = now_ms
        self._buffer_bytes = buffer_bytes
        segments = partition.segments
        facts = [_facts(segment, partition.config) for segment, _ in segments]
        self.plan = _cleanable(partition, facts, checkpoint, now_ms)
        self._facts = [one for one in facts if one.base_offset < self.plan.end_offset]
        self._waiting = segments[: len(self._facts)]
        self._until = segments[len(self._facts)][0]
        self.progress = Progress(self.plan.clean_bytes + 2 * self.plan.cleanable_bytes)
        self.cleaned: Cleaned | None = None
        """The result, once `steps` has ended; None where there was nothing to do, or the log changed meanwhile."""

    def steps(self) -> Generator[int, None, None]:
        """Do it; yields bytes read since the last time. Closing it early leaves the log whole, cleaned or not.

        Raises CorruptBatch when the log is damaged, DurabilityUnknown (the partition is latched), and what the files
        raise.
        """
        if self.plan.cleanable_bytes == 0:
            return
        try:
            with closing(self._run()) as run:
                for size in run:
                    self.progress = replace(self.progress, bytes_done=self.progress.bytes_done + size)
                    yield size
        except (CorruptBatch, LogNotFound):
            if self._is_unchanged():
                raise

    @property
    def idle_reason(self) -> str | None:
        """Why there is nothing to do; None where there is something."""
        partition = self.partition
        if self.plan.cleanable_bytes:
            return None
        if partition.next_offset == partition.start_offset:
            return "it has no records"
        if self.plan.first_dirty >= partition.next_offset:
            return f"nothing was appended since it was cleaned up to offset {self.plan.first_dirty}"
        if partition.last_stable_offset < partition.next_offset:
            return f"the records from offset {partition.last_stable_offset} on are of a transaction that is open"
        return f"its new records are younger than min.compaction.lag.ms={partition.config.min_compaction_lag_ms}"

    def _is_unchanged(self) -> bool:
        """Whether the segments that are still to be read are there as they were: else what was read of them may have
        been cut or deleted under the reader.
        """
        there = {id(segment) for segment, _ in self.partition.segments}
        return {id(self._until), *(id(segment) for segment, _ in self._waiting)} <= there

    def _run(self) -> Generator[int, None, None]:
        keys = yield from self._note_keys()
        rules = Rules(
            keys=keys,
            transactions=CleanedTransactionMetadata(),
            producers=self._last_batches(),
            end_offset=self.plan.end_offset,
            now_ms=self.now_ms,
            delete_retention_ms=self.partition.config.delete_retention_ms,
        )
        # What is taken away goes for the sake of what lies behind it, which a crash must not take then.
        self.partition.sync()
        planned = self._groups(end_offset=keys.latest_offset + 1)
        self.progress = replace(self.progress, groups_total=len(planned))
        tally = CleanerStats()
        for number, members in enumerate(planned, 1):
            group = self._waiting[: len(members)]
            new = yield from rewrite(group, rules, self._aborted, tally)
            old = [segment for segment, _ in group]
            if not self.partition.sealed.replace(old, new, self.now_ms, until=self._until):
                return
            self._waiting = self._waiting[len(members) :]
            self.progress = replace(self.progress, groups_done=number)
        self.cleaned = Cleaned(
            first_dirty=self.plan.first_dirty,
            end_offset=keys.latest_offset + 1,
            bytes_read=tally.bytes_read,
            bytes_kept=tally.bytes_kept,
            records_read=tally.records_read,
            records_kept=tally.records_kept,
            without_key=rules.without_key,
            keys=len(keys),
            map_fill=keys.fill,
            segments_before=sum(map(len, planned)),
            segments_after=len(planned),
            tombstones_kept=rules.tombstones,
            tombstones_until_ms=rules.tombstones_until_ms,
        )

    def _groups(self, end_offset: int) -> list[list[SegmentFacts]]:
        config = self.partition.config
        return groups(
            [_with_indexes(facts, segment) for facts, (segment, _) in zip(self._facts, self._waiting, strict=True)],
            end_offset=end_offset, first_uncleanable=self.plan.end_offset,
            segment_bytes=config.segment_bytes, segment_index_bytes=config.segment_index_bytes,
        )  # fmt: skip

    def _note_keys(self) -> Generator[int, None, KeyMap]:
        first, end = self.plan.first_dirty, self.plan.end_offset
        keys = KeyMap(self._buffer_bytes, keys_max=end - first)
        dirty = [part for part in self._waiting if part[1] > first]
        transactions = CleanedTransactionMetadata()
        transactions.add(self.partition.aborted(first, end))
        yield from note_keys(keys, dirty, transactions, first_offset=first)
        return keys

    def _aborted(self, start: int, end: int) -> list[AbortedTxn]:
        return self.partition.aborted(max(start, self.partition.start_offset), end)

    def _last_batches(self) -> dict[int, LastBatch]:
        """The last data of every active producer. Taken once: what a producer writes from now on lies beyond."""
        entries = list(self.partition.producers.entries().items())
        return {
            producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
            for producer_id, entry in entries
        }


def clean(partition: Partition, *, checkpoint: int | None, now_ms: int, buffer_bytes: int) -> Cleaned | None:
    """Clean a partition in one go. None where there is nothing to do, or the log changed meanwhile.

    Raises as `Cleaner` and its `steps` do.
    """
    cleaning = Cleaner(partition, checkpoint=checkpoint, now_ms=now_ms, buffer_bytes=buffer_bytes)
    for _ in cleaning.steps():
        pass
    return cleaning.cleaned


def dirt(partition: Partition, *, checkpoint: int | None, now_ms: int) -> tuple[Cleanable, int]:
    """The range that a pass would clean, and for how long it is overdue (ms): a node compares both to choose the next
    one.
    """
    facts = [_facts(segment, partition.config) for segment, _ in partition.segments]
    plan = _cleanable(partition, facts, checkpoint, now_ms)
    max_lag_ms = partition.config.max_compaction_lag_ms
    return plan, overdue_ms(facts, first_dirty=plan.first_dirty, max_lag_ms=max_lag_ms, now_ms=now_ms)


def _cleanable(partition: Partition, facts: Sequence[SegmentFacts], checkpoint: int | None, now_ms: int) -> Cleanable:
    return cleanable(
        facts, checkpoint=checkpoint, start_offset=partition.start_offset, next_offset=partition.next_offset,
        last_stable_offset=partition.last_stable_offset, min_lag_ms=partition.config.min_compaction_lag_ms,
        now_ms=now_ms,
    )  # fmt: skip


def _facts(segment: Segment, config: TopicConfig) -> SegmentFacts:
    """The facts about a segment that planning needs, without opening a file for an answer that does not matter."""
    return SegmentFacts(
        base_offset=segment.base_offset,
        size=segment.size,
        largest_timestamp=segment.age_timestamp() if config.min_compaction_lag_ms > 0 else -1,
        first_timestamp=segment.first_timestamp() if config.max_compaction_lag_ms < LONG_MAX else -1,
    )


def _with_indexes(facts: SegmentFacts, segment: Segment) -> SegmentFacts:
    return replace(
        facts,
        index_bytes=segment.offsets.entries * _OFFSET_ENTRY_BYTES,
        time_index_bytes=segment.times.entries * _TIME_ENTRY_BYTES,
    )
