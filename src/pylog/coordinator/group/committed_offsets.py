"""The offsets of the groups of one partition: committed ones, and those of open transactions. Only replay changes them.

An offset that was committed in a transaction is pending until the marker is there. Then it counts, unless an offset for
the same partition was logged after it and counts already: the order in the log decides, not the order of the ends
(Kafka: OffsetMetadataManager). A tombstone takes the committed offset and all pending ones.

What is replayed counts at once for what is logged next. What is told is what is safe: until the record of a change is,
`safe` gives what counted before it. A marker's change is told at once: its transaction is decided, so a marker that is
lost is written again before anything else.

Each replayed record gets a place, one higher than the one before. Places are not the offsets of the log, but have the
same order, and no other property of them is used.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from pylog.coordinator.group.records import Committed, OffsetChange
from pylog.record import TopicPartition


class _Placed(NamedTuple):
    place: int
    committed: Committed


_Partitions = dict[TopicPartition, _Placed]


class CommittedOffsets:
    """The committed offsets, by group and partition."""

    def __init__(self) -> None:
        self._unsafe: deque[tuple[int, str, TopicPartition]] = deque()
        """The changes that are not safe, in the order of the log, and where each ends."""
        self._before: dict[str, dict[TopicPartition, list[tuple[int, Committed | None]]]] = {}
        """What counted before each of them, by group and partition, and where the change ends."""
        self._place = 0
        self._committed: dict[str, _Partitions] = {}
        self._pending: dict[int, dict[str, _Partitions]] = {}  # by producer id; no group without a partition
        self._open: dict[str, set[int]] = {}  # the producers with pending offsets in a group

    def replay(self, change: OffsetChange, producer_id: int | None) -> None:
        """Take over a record; `producer_id` is that of its transaction, if it has one."""
        self._place += 1
        group_id, partition, committed = change
        if committed is None:
            self._remove(group_id, partition)
        elif producer_id is None:
            self._committed.setdefault(group_id, {})[partition] = _Placed(self._place, committed)
        else:
            groups = self._pending.setdefault(producer_id, {})
            groups.setdefault(group_id, {})[partition] = _Placed(self._place, committed)
            self._open.setdefault(group_id, set()).add(producer_id)

    def keep(self, change: OffsetChange, end: int, safe_end: int) -> None:
        """Keep what counts before a change that is to be replayed: it is told until the log is safe up to `end`."""
        if self._unsafe:
            self.note_safe(safe_end)
        group_id, partition, _ = change
        placed = self._committed.get(group_id, {}).get(partition)
        self._unsafe.append((end, group_id, partition))
        kept = self._before.setdefault(group_id, {}).setdefault(partition, [])
        kept.append((end, None if placed is None else placed.committed))

    def note_safe(self, upto: int) -> None:
        """Tell the changes up to there, where the log is safe."""
        while self._unsafe and self._unsafe[0][0] <= upto:
            end, group_id, partition = self._unsafe.popleft()
            kept = self._before.get(group_id, {}).get(partition)
            if kept and kept[0][0] == end:
                del kept[0]
                if not kept:
                    self._tell(group_id, partition)

    def _tell(self, group_id: str, partition: TopicPartition) -> None:
        """Keep nothing of a partition: what counts is told."""
        kept = self._before.get(group_id)
        if kept is not None and kept.pop(partition, None) is not None and not kept:
            del self._before[group_id]

    def safe(self, group_id: str, partition: TopicPartition) -> Committed | None:
        """The committed offset of a group for a partition, as far as it is safe."""
        kept = self._before.get(group_id, {}).get(partition)
        return kept[0][1] if kept else self.get(group_id, partition)

    def _remove(self, group_id: str, partition: TopicPartition) -> None:
        found = self._committed.get(group_id)
        if found is not None and found.pop(partition, None) is not None and not found:
            del self._committed[group_id]
        for producer_id in list(self._open.get(group_id, ())):
            pending = self._pending[producer_id][group_id]
            if pending.pop(partition, None) is not None and not pending:
                del self._pending[producer_id][group_id]
                self._close(group_id, producer_id)

    def _close(self, group_id: str, producer_id: int) -> None:
        producers = self._open[group_id]
        producers.remove(producer_id)
        if not producers:
            del self._open[group_id]

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """End a producer's transaction."""
        ended = self._pending.pop(producer_id, {})
        for group_id, partitions in ended.items():
            self._close(group_id, producer_id)
            if not committed:
                continue
            known = self._committed.setdefault(group_id, {})
            for partition, placed in partitions.items():
                before = known.get(partition)
                if before is None or before.place < placed.place:
                    known[partition] = placed
                    self._tell(group_id, partition)

    def of(self, group_id: str) -> dict[TopicPartition, Committed]:
        """The committed offsets of a group; {} where it has none."""
        return {partition: placed.committed for partition, placed in self._committed.get(group_id, {}).items()}

    def get(self, group_id: str, partition: TopicPartition) -> Committed | None:
        """The committed offset of a group for a partition."""
        placed = self._committed.get(group_id, {}).get(partition)
        return None if placed is None else placed.committed

    @property
    def place(self) -> int:
        """The place of the last record that was replayed."""
        return self._place

    def of_topics(self, gone: Mapping[tuple[str, UUID], int]) -> list[tuple[str, TopicPartition]]:
        """(group, partition) of the offsets, committed or pending, of topics with these names and ids.

        `gone` has the place of each topic up to which they count: later ones may be of another topic of that name.
        """
        found: dict[tuple[str, TopicPartition], None] = {}
        for groups in (self._committed, *self._pending.values()):
            for group_id, partitions in groups.items():
                for at, placed in partitions.items():
                    if gone.get((at.topic, placed.committed.topic_id), -1) >= placed.place:
                        found[group_id, at] = None
        return list(found)

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """True if an open transaction has an offset of the group for this partition."""
        return any(partition in self._pending[producer][group_id] for producer in self._open.get(group_id, ()))

    def has_pending(self, group_id: str) -> bool:
        """True if an open transaction has an offset of the group."""
        return group_id in self._open

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """All partitions for which the group has an offset, committed or pending."""
        found = dict.fromkeys(self._committed.get(group_id, ()))
        found |= dict.fromkeys(self._before.get(group_id, ()))
        for producer_id in self._open.get(group_id, ()):
            found |= dict.fromkeys(self._pending[producer_id][group_id])
        return list(found)
