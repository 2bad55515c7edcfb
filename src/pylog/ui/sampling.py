"""A look at the whole log, which the server takes every few seconds, so that no page waits for it.

how far each partition reaches      rates (`rates`), and sizes
how far groups are behind           the lag of topics
what recoveries could not read      damaged topics
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.requests import Request

from pylog.errors import PylogError
from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition
from pylog.ui.damage import lost_ranges
from pylog.ui.source import Source

__all__ = ["GROUPS_MAX", "Sample", "sample", "sample_of"]

GROUPS_MAX = 200
"""How many groups are asked for their offsets or members, each by itself."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the log at a time."""

    ends: Mapping[TopicPartition, Ends]
    lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By group and topic."""
    damaged: frozenset[str] = frozenset()
    """Topics."""

    def lag_of_topic(self) -> dict[str, int]:
        """The lag of all groups together, by topic."""
        found = Counter[str]()
        for (_, topic), lag in self.lags.items():
            found[topic] += lag
        return found

    def counted(self) -> dict[tuple[str, str], int]:
        """The numbers of which a history is kept, by what is counted and the topic or group."""
        found = Counter[tuple[str, str]]()
        for key, one in self.ends.items():
            found["records", key.topic] += one.end
            found["bytes", key.topic] += one.size
        for (group, topic), lag in self.lags.items():
            found["lag of group", group] += lag
            found["lag", topic] += lag
        return found


def sample(source: Source) -> Sample:
    """Look at the log. Raises PylogError."""
    ends = source.ends()
    try:
        damaged = frozenset(one.key.topic for one in lost_ranges(source))
    except PylogError:
        # A log directory cannot be read: the pages of the node and of damage name it, and topics are shown without.
        damaged = frozenset()
    return Sample(ends, _lags(source, ends), damaged)


def sample_of(request: Request) -> Sample:
    """The last look; the first page takes one itself."""
    last: Sample | None = request.app.state.sample
    return sample(request.app.state.source) if last is None else last


def _lags(source: Source, ends: Mapping[TopicPartition, Ends]) -> dict[tuple[str, str], int]:
    lags = Counter[tuple[str, str]]()
    admin = source.log.admin
    for listed in admin.list_groups()[:GROUPS_MAX]:
        try:
            committed = admin.committed(listed.group_id)
        except PylogError:
            # It has ended meanwhile, or a coordinator is on its way.
            continue
        for key, one in committed.items():
            if key in ends:
                lags[listed.group_id, key.topic] += max(0, ends[key].end - one.offset)
    return lags
