"""The step from one segment to the next, with the producers' snapshot that begins it.

`append` decides that it is due, by `Segment.takes`.
"""

from pylog.commitlog.durability import Durability
from pylog.commitlog.local_log import LocalLog
from pylog.kernel import AppendState
from pylog.segment import Segment
from pylog.storage.producer_state import Producers


class Roller:
    """Begins the segments of one partition, with its lock held."""

    def __init__(self, state: AppendState, local: LocalLog, durability: Durability, producers: Producers) -> None:
        self._state = state
        self._local = local
        self._durability = durability
        self._producers = producers

    def roll(self, now_ms: int) -> Segment:
        """Begin a segment at the end of the log; an active one that is empty, and begins there, stays."""
        return self.roll_at(self._state.next_offset, now_ms)

    def roll_at(self, base_offset: int, now_ms: int) -> Segment:
        """The same at an offset that is the end of the log, or lies behind it."""
        with self._durability.in_doubt():
            return self.begin(base_offset, now_ms)

    def begin(self, base_offset: int, now_ms: int) -> Segment:
        """The same where an error latches nothing: the partition is being opened."""
        self._durability.check_in_place()
        self._local.check_in_place()
        segment = self._local.roll(base_offset, now_ms)
        self._local.snapshot(self._producers, base_offset)
        return segment
