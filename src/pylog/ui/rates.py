"""The growth of partitions: by their ends of now and of a while ago.

a sample every few seconds, kept for a minute -> records and bytes a second over that minute, or what there is of it
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition

__all__ = ["GrowthRate", "Rates"]

WINDOW_MS = 60_000
SPAN_MS_MIN = 1000
"""Below that a rate would jump about."""


class GrowthRate(NamedTuple):
    """Growth a second."""

    records: float
    size: float


class Rates:
    """The samples of the last minute. One thread notes, any may ask."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Mapping[TopicPartition, Ends]]] = deque()

    def note(self, tick_ms: int, ends: Mapping[TopicPartition, Ends]) -> None:
        """Add a sample; those that are too old go, except one that is just beyond the window."""
        self._samples.append((tick_ms, ends))
        while len(self._samples) > 2 and self._samples[1][0] <= tick_ms - WINDOW_MS:
            self._samples.popleft()

    def of(self, keys: Iterable[TopicPartition]) -> GrowthRate | None:
        """The growth of partitions together; None while there are no two samples that are a second apart.

        What retention drops meanwhile is no negative growth.
        """
        samples = list(self._samples)
        if not samples or samples[-1][0] - samples[0][0] < SPAN_MS_MIN:
            return None
        (first_ms, first), (last_ms, last) = samples[0], samples[-1]
        seconds = (last_ms - first_ms) / 1000
        records = size = 0
        for key in keys:
            if key in first and key in last:
                records += max(0, last[key].end - first[key].end)
                size += max(0, last[key].size - first[key].size)
        return GrowthRate(records / seconds, size / seconds)
