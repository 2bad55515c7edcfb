"""The offsets that bound what may be seen of a partition, and the word of them: for other processes, and for the next
open.

    start_offset <= last_stable_offset <= high_watermark <= next_offset        (half-open)

What comes in is published after its bytes are in the file and never before; what is taken away is announced by a new
generation, before it goes. A start is durable in two places before it is answered, and both are lowered before a log is
cut below it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pylog.commitlog.durability import Durability
from pylog.errors import DiskFull, OffsetOutOfRange
from pylog.kernel import AppendState
from pylog.record import TopicPartition
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS, Checkpoints
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import Producers


class Watermarks:
    """It writes `start_offset`, `high_watermark`, `generation` and `cuts` in the state; with the lock held, unless it
    takes it.
    """

    def __init__(
        self, state: AppendState, key: TopicPartition, durability: Durability, epochs: LeaderEpochs,
        producers: Producers, checkpoints: Checkpoints | None,
    ) -> None:  # fmt: skip
        self._state = state
        self._key = key
        self._durability = durability
        self._epochs = epochs
        self._producers = producers
        self._checkpoints = checkpoints

    def begin_at(self, start_offset: int, high_watermark: int) -> None:
        """Take the offsets of a log that was just opened, and publish them in a new generation."""
        state, before = self._state, self._durability.published_generation()
        state.start_offset = start_offset
        state.high_watermark = min(max(high_watermark, start_offset), state.next_offset)
        self._producers.advance(state.high_watermark)
        state.generation = (before | 1) + 1 if before is not None else 0
        state.publish()

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to `offset`, never down and never past the end, and publish it.

        Gives whether it moved.
        """
        state = self._state
        with self._durability.lock:
            if offset > state.next_offset:
                offset = state.next_offset
            if offset <= state.high_watermark:
                return False
            if state.first_unstable_offset >= 0:
                # Before anybody can see more.
                self._producers.advance(offset)
            state.high_watermark = offset
            self._durability.show()
            return True

    # --- the start -------------------------------------------------------------------------------------------------

    def start_at(self, offset: int) -> bool:
        """Move the start of the log up to `offset`, never down; gives whether it moved. Raises OffsetOutOfRange above
        the high watermark.
        """
        self._durability.check_usable()
        if not 0 <= offset <= self._state.high_watermark:
            raise OffsetOutOfRange(
                f"{self._key.topic}-{self._key.partition} cannot start at offset {offset}: "
                f"only what is below the high watermark, {self._state.high_watermark}, may be deleted"
            )
        return self.advance_start(offset)

    def advance_start(self, offset: int) -> bool:
        """The same of an offset that is known to be below the high watermark."""
        state = self._state
        if offset <= state.start_offset:
            return False
        before, state.start_offset = state.start_offset, offset
        with self._durability.in_doubt():
            try:
                state.publish()
            except DiskFull:
                state.start_offset = before
                raise
            self._epochs.truncate_start(offset)
            self._producers.start_at(offset)
        return True

    def delete_records(self, offset: int) -> int:
        """Let the log start at `offset` (-1: at the high watermark); gives the new start, published in both slots.

        Raises NotLeaderOrFollower where this node follows, and as `start_at`.
        """
        state = self._state
        with self._durability.lock:
            self._durability.check_led()
            self.start_at(state.high_watermark if offset == -1 else offset)
            with self._durability.in_doubt():
                self._durability.show()
            return state.start_offset

    def note_start(self) -> None:
        """Let the log directory remember where the log starts, which was published durably."""
        with self._durability.lock:
            # What a checkpoint says of a log that was deleted is believed of the next one of its name.
            if self._checkpoints is not None and not self._state.is_closed:
                self._checkpoints.note(START_OFFSETS, self._key, self._state.start_offset)

    def lower_start(self, end: int, start: int) -> None:
        """The log is about to be cut at `end`, and may start lower then: no checkpoint may say more."""
        if self._checkpoints is not None:
            self._checkpoints.lower(self._key, end, start)
        self._state.start_offset = start

    # --- what other processes and the next open go by --------------------------------------------------------------

    def checkpoint(self, first_base_offset: int) -> None:
        """Publish how far it is durable, and let the log directory remember it; its files are written afterwards."""
        state, known = self._state, self._checkpoints
        with self._durability.lock:
            state.publish()
            if known is None:
                return
            start = state.start_offset if state.start_offset > first_base_offset else None
            known.note(RECOVERY_POINTS, self._key, state.durable_offset)
            known.note(HIGH_WATERMARKS, self._key, state.high_watermark)
            known.note(START_OFFSETS, self._key, start)

    @contextmanager
    def changing_files(self) -> Iterator[None]:
        """Around a change of files that readers may know: the generation is odd meanwhile, for readers in other
        processes too. DiskFull ends the change, and readers hear of that with what is published next.
        """
        state = self._state
        with self._durability.in_doubt():
            self._durability.check_in_place()
            # Odd before already where a change was given up half-way.
            state.generation += 1 + state.generation % 2
            try:
                state.publish()
                yield
            except DiskFull:
                state.generation += 1
                raise
            state.generation += 1
            self._durability.show()

    @contextmanager
    def taking_away(self, offset: int, durable_offset: int) -> Iterator[None]:
        """Around a change that takes away what lies at `offset` and beyond.

        Readers in other processes are told first that there is less to see.
        """
        state = self._state
        state.high_watermark = min(state.high_watermark, offset)
        state.durable_offset = min(state.durable_offset, durable_offset)
        state.cuts += 1
        with self.changing_files():
            # Before the files get shorter: else the next open would miss what was taken away on purpose.
            self._durability.publish_durably()
            with self._durability.not_half_done(f"was being cut at offset {offset}"):
                yield
