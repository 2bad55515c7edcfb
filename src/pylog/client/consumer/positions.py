"""Where a consumer is in what it reads, and where it could be: seek, position, ends, times, lag."""

from collections.abc import Iterable, Mapping

from pylog.client.consumer.assignment import ConsumerAssignment
from pylog.client.consumer.single_thread import alone
from pylog.client.consumer.skip import Unreadable, past
from pylog.errors import RequestTimedOut
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.record import OffsetAndTimestamp, TopicPartition


class Positions(ConsumerAssignment):
    """The positions of a consumer."""

    @alone
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`. Outside the log, the next poll does what `auto_offset_reset` says."""
        if type(offset) is not int:
            raise TypeError(f"offset is {type(offset).__name__}, not int")
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: seek_to_end and seek_to_beginning go to the ends")
        (key,) = self._checked([partition])
        self._unread()
        self._subscription.move(key, offset)

    @alone
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record of these partitions, or of all assigned.

        The offset is looked up when it is needed.
        """
        self._reset(partitions, EARLIEST)

    @alone
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of these partitions, or of all assigned.

        The offset is looked up at the next poll or position.
        """
        self._reset(partitions, LATEST)

    def _reset(self, partitions: tuple[TopicPartition, ...], where: int) -> None:
        states = self._checked(partitions or self._subscription.states)
        self._unread()
        for key in states:
            self._subscription.move(key, None, where)

    @alone
    def skip(self) -> None:
        """Go past the record or batch that the last poll has raised CorruptBatch or DeserializationError for.

        What was damaged is not read any more, whole batches of it: this is the one call that does so. Raises ValueError
        when the last poll has not raised one of these, or somebody has moved since.
        """
        self._check_open()
        key, error = self._subscription.stuck or (None, None)
        state = None if key is None else self._subscription.states.get(key)
        if key is None or state is None or not isinstance(error, Unreadable):
            raise ValueError("there is nothing to skip: the last poll has not raised for a record it cannot read")
        self._unread()
        self._subscription.move(key, past(error, state, key, self._cluster, self.config))
        self._subscription.stuck = None

    @alone
    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` gives of a partition.

        Raises: NoOffsetForPartition, RequestTimedOut (after `default_api_timeout_ms`).
        """
        ((key, _),) = self._checked([partition]).items()
        in_loop = self._first_unseen().get(key)
        return self._position(key) if in_loop is None else in_loop

    def _position(self, key: TopicPartition) -> int:
        deadline = self._clock.tick_ms() + self.config.default_api_timeout_ms
        while True:
            now = self._clock.tick_ms()
            self._begin_made_again()
            state = self._subscription.states[key]
            if state.position is not None:
                return state.position
            if state.error is not None:
                error, state.error = state.error, None
                self._subscription.ready.pop(key, None)
                raise error
            self._offsets.ask(now)
            if not self._calls.deliver():
                if now >= deadline:
                    raise RequestTimedOut(f"the position in {key.topic}-{key.partition} was not found in time")
                self._calls.wait(min(deadline - now, self.config.retry_backoff_ms))

    @alone
    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition. Raises UnknownTopicOrPartition."""
        return self._ends(partitions, EARLIEST)

    @alone
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last visible record of each partition: the high watermark, or with read_committed the
        last stable offset.

        Raises UnknownTopicOrPartition.
        """
        return self._ends(partitions, LATEST)

    def _ends(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        self._check_open()
        return {key: part.offset for key, part in self._offsets.listed(dict.fromkeys(partitions, which)).items()}

    @alone
    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets the end of each assigned partition is ahead of the position: 0 when all was read.

        Raises what `position` and `end_offsets` raise.
        """
        self._check_open()
        ends = self._ends(self._subscription.states, LATEST)
        unseen = self._first_unseen()
        return {key: max(0, end - unseen.get(key, self._position(key))) for key, end in ends.items()}

    @alone
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition, in offset order, whose timestamp (ms) is at least the one given; or None.

        With timestamps out of order later records may be older than it. Raises UnknownTopicOrPartition, ValueError.
        """
        self._check_open()
        if not isinstance(timestamps, Mapping):
            raise TypeError(f"timestamps is a dict of partitions and times, not {type(timestamps).__name__}")
        for key, timestamp in timestamps.items():
            if type(timestamp) is not int:
                raise TypeError(f"timestamp for {key} is {type(timestamp).__name__}, not int (milliseconds)")
            if timestamp < 0:
                raise ValueError(f"timestamp {timestamp} for {key} is negative")
        return {
            key: OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch) if part.offset >= 0 else None
            for key, part in self._offsets.listed(timestamps).items()
        }

    @alone
    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partition numbers of a topic. Raises UnknownTopicOrPartition."""
        return {p.partition for p in self._cluster.topic(topic).partitions}

    @alone
    def topics(self) -> list[str]:
        """All topics there are, internal ones too."""
        return self._cluster.topic_names()
