"""Sweeps: periodic work over all partitions, due by when it ran last, in this open of the log or in an earlier one.

A directory that is opened for moments only (a cron job, Spark's sink) never lives through an interval. So the first log
directory keeps when a sweep ran last. A sweep that has to end midway keeps how far it came, and the next one goes on
there when it is due: a close waits for some partitions at most.

    {"retention": {"ms": 1700000000000, "after": ["topic", 3]}, "offsets": {"ms": 1700000000000}}

Times are of the wall clock. Where one lies ahead, the clock was set back, and the sweep is due at once. The file is not
synced. Where it is lost or damaged, intervals begin again, from the first partition on.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pylog.errors import StorageError
from pylog.logdirs.log_directory import LogDirectory
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

logger = logging.getLogger("pylog.broker")

HOUSEKEEPING = ".pylog-housekeeping"


@dataclass(frozen=True, slots=True)
class Sweep:
    """One kind of work. `steps` does it to the partitions behind one, or to all (None), in their order, and gives each
    that is done with. It raises nothing for a single partition.
    """

    interval_ms: int
    steps: Callable[[TopicPartition | None], Iterator[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Last:
    """When a sweep ran last (ms), and after which partition the next one goes on; None after a whole one."""

    ms: int
    after: TopicPartition | None = None


class Sweeps:
    """The sweeps of one node by their names. Nothing is read before `waits_ms` is asked."""

    def __init__(self, directory: LogDirectory, clock: Clock, sweeps: Mapping[str, Sweep]) -> None:
        self._directory = directory
        self._clock = clock
        self._sweeps = sweeps
        self._last: dict[str, Last] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._sweeps

    def waits_ms(self) -> dict[str, int]:
        """The time until each sweep runs. One that never ran waits for a whole interval from now on."""
        now_ms = self._clock.wall_ms()
        self._last = self._read()
        if self._last.keys() != self._sweeps.keys():
            self._last = {name: self._last.get(name, Last(now_ms)) for name in self._sweeps}
            self.keep()
        return {
            # A time that lies ahead is no reason to wait.
            name: max(0, last.ms + self._sweeps[name].interval_ms - now_ms) if last.ms <= now_ms else 0
            for name, last in self._last.items()
        }

    def run(self, name: str, goes_on: Callable[[], bool]) -> bool:
        """Go on where the last one ended, for one partition at least, while `goes_on()`; gives whether all are done.

        Raises what naming the partitions raises.
        """
        after = self._last[name].after
        steps = self._sweeps[name].steps(after)
        done = next(steps, None)
        if done is None and after is not None:
            # The last one had come to the end without knowing.
            steps = self._sweeps[name].steps(None)
            done = next(steps, None)
        while done is not None and goes_on():
            done = next(steps, None)
        self._last[name] = Last(self._clock.wall_ms(), done)
        return done is None

    def keep(self) -> None:
        """Write down what has run. Where the disk refuses, the next open does it again: that is logged alone."""
        kept = {
            name: {"ms": last.ms} | ({"after": last.after} if last.after is not None else {})
            for name, last in self._last.items()
        }
        try:
            # Another directory in its place has times of its own.
            self._directory.check_in_place()
            self._directory.write_note(HOUSEKEEPING, json.dumps(kept, separators=(",", ":")))
        except StorageError as error:
            logger.debug("the times of housekeeping are not kept: %s", error)

    def _read(self) -> dict[str, Last]:
        try:
            found = json.loads(self._directory.read_note(HOUSEKEEPING) or "")
        except (ValueError, RecursionError):
            return {}
        read = {name: _last_of(found.get(name)) for name in self._sweeps} if isinstance(found, dict) else {}
        return {name: last for name, last in read.items() if last is not None}


def _last_of(found: object) -> Last | None:
    match found:
        case {"ms": int(ms), "after": [str(topic), int(number)]}:
            return Last(ms, TopicPartition(topic, number))
        case {"ms": int(ms)}:
            return Last(ms)
    return None
