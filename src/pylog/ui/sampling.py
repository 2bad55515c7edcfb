"""A look at the whole log, which the server takes every few seconds, so that no page waits long for it.

how far each partition reaches      rates (`rates`), and sizes
how far groups are behind           the lag of topics
what recoveries could not read      damaged topics
"""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from pylog.errors import PylogError
from pylog.handles.topic_facts import Ends
from pylog.record import TopicPartition
from pylog.runtime.threads import started
from pylog.ui.damage import lost_ranges
from pylog.ui.source import Source

__all__ = ["GROUPS_MAX", "PATIENCE_SECONDS", "LogLooks", "LogSample", "sample"]

GROUPS_MAX = 200
"""How many groups are asked for their offsets or members, each by itself."""
PATIENCE_SECONDS = 0.05
"""How long a page waits for the first look. With 10,000 topics that takes a second."""


@dataclass(frozen=True, slots=True)
class LogSample:
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


def sample(source: Source) -> LogSample:
    """Look at the log. Raises PylogError."""
    ends = source.ends()
    try:
        damaged = frozenset(one.key.topic for one in lost_ranges(source))
    except PylogError:
        # A log directory cannot be read: the pages of the node and of damage name it, and topics are shown without.
        damaged = frozenset()
    return LogSample(ends, _lags(source, ends), damaged)


class LogLooks:
    """The looks at one log, one at a time. Thread-safe."""

    def __init__(self, source: Source, patience_seconds: float) -> None:
        self._source = source
        self._patience_seconds = patience_seconds
        self._lock = Lock()
        self._running: Future[LogSample] | None = None
        self._last: LogSample | None = None

    def take(self) -> LogSample:
        """Wait for a look, and keep it as the last one. Raises PylogError."""
        self._last = self._begun().result()
        return self._last

    def last(self) -> LogSample | None:
        """The last look. Before there is one: the first, or None where it does not end in time. Raises PylogError."""
        if self._last is not None:
            return self._last
        first = self._begun()
        wait([first], self._patience_seconds)
        return first.result() if first.done() else None

    def _begun(self) -> Future[LogSample]:
        """The running look, which pages and the server share; a new one where none runs."""
        with self._lock:
            if self._running is None or self._running.done():
                future = Future[LogSample]()
                started(partial(self._look, future), "pylog-ui-look")
                self._running = future
            return self._running

    def _look(self, future: Future[LogSample]) -> None:
        try:
            future.set_result(sample(self._source))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)


def _lags(source: Source, ends: Mapping[TopicPartition, Ends]) -> dict[tuple[str, str], int]:
    lags = Counter[tuple[str, str]]()
    admin = source.log.admin
    for listed in admin.list_groups()[:GROUPS_MAX]:
        try:
            if listed.type == "Share":
                behind = {key: one.lag or 0 for key, one in admin.lag(listed.group_id).items()}
            else:
                committed = admin.committed(listed.group_id)
                behind = {key: max(0, ends[key].end - one.offset) for key, one in committed.items() if key in ends}
        except PylogError:
            # It has ended meanwhile, or a coordinator is on its way.
            continue
        for key, lag in behind.items():
            lags[listed.group_id, key.topic] += lag
    return lags
