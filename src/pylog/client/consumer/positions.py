"""Where a consumer is in its partitions, and how far their ends are: position, reset, skip, lag."""

from collections.abc import Iterable, Mapping

from pylog.client.cluster import Cluster
from pylog.client.consumer.assignment import Assignment
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.skip import Unreadable, past
from pylog.client.consumer.subscription import SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import RequestTimedOut
from pylog.protocol.messages import LATEST
from pylog.record import OffsetAndMetadata, TopicPartition, checked_positions
from pylog.runtime.clock import Clock
from pylog.runtime.rounds import Rounds


class Positions:
    """The positions of one consumer. A record that a loop has not come to is ahead of its position."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig,
        clock: Clock, loop: LoopRecords, assignment: Assignment, offsets: OffsetFetcher,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._assignment = assignment
        self._offsets = offsets
        self._loop = loop

    def seek(self, keys: Iterable[TopicPartition], offset: int) -> None:
        """See `Consumer.seek`."""
        if type(offset) is not int:
            raise TypeError(f"offset is {type(offset).__name__}, not int")
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: seek_to_end and seek_to_beginning go to the ends")
        self.move(keys, offset)

    def move(self, keys: Iterable[TopicPartition], offset: int | None, reset: int | None = None) -> None:
        """Go on at `offset` in these partitions; None: where `reset` says (EARLIEST, LATEST or a time)."""
        wanted = list(keys)
        self._loop.take_back()
        for key in wanted:
            self._subscription.move(key, offset, reset)

    def skip(self) -> Rounds[None]:
        """Go past what the last poll has raised for. Raises ValueError where that was nothing unreadable."""
        key, error = self._subscription.stuck or (None, None)
        state = None if key is None else self._subscription.states.get(key)
        if key is None or state is None or not isinstance(error, Unreadable):
            raise ValueError("there is nothing to skip: the last poll has not raised for a record it cannot read")
        self._loop.take_back()
        following = yield from past(error, state, key, self._cluster, self._config)
        self._subscription.move(key, following, leader_epoch=state.leader_epoch)
        self._subscription.stuck = None

    def to_commit(
        self, given: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit: `given`, or else all positions; with `enable.auto.offset.store` off the stored ones.

        A given offset settles what was read of its partition so far. No automatic commit goes over it before more is
        read.
        """
        if given is None and not self._config.enable_auto_offset_store:
            return self._subscription.stored()
        positions = self._subscription.positions()
        for key, record in self._loop.first_unseen().items():
            if key in positions:
                positions[key] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        if given is None:
            return positions
        wanted = checked_positions(given)
        for key in wanted.keys() & positions.keys():
            self._subscription.states[key].settled = positions[key].offset
        return wanted

    def of(self, key: TopicPartition) -> Rounds[int]:
        """The offset of the next record. Raises NoOffsetForPartition, RequestTimedOut."""
        in_loop = self._loop.first_unseen().get(key)
        return (yield from self._look_up(key)) if in_loop is None else in_loop.offset

    def _look_up(self, key: TopicPartition) -> Rounds[int]:
        deadline = self._clock.tick_ms() + self._config.default_api_timeout_ms
        while True:
            now = self._clock.tick_ms()
            self._assignment.begin_made_again()
            # Meanwhile it may be taken away.
            state = self._subscription.checked([key])[key]
            if state.position is not None:
                return state.position
            if state.error is not None:
                error, state.error = state.error, None
                self._subscription.ready.pop(key, None)
                raise error
            self._offsets.ask(now)
            if not self._requests.deliver():
                if now >= deadline:
                    raise RequestTimedOut(
                        f"the position in {key.topic}-{key.partition} was not found in time: {self._requests.who()} "
                        "was asked"
                    )
                yield min(deadline - now, self._config.retry_backoff_ms)

    def ends(self, keys: Iterable[TopicPartition], which: int) -> Rounds[dict[TopicPartition, int]]:
        """The offsets at one end of these partitions. Raises UnknownTopicOrPartition."""
        listed = yield from self._offsets.listed(dict.fromkeys(keys, which))
        return {key: part.offset for key, part in listed.items()}

    def lag(self) -> Rounds[dict[TopicPartition, int]]:
        """The lag of the position behind the end of each assigned partition. Raises as `ends` and `of` do."""
        ends = yield from self.ends(self._subscription.states, LATEST)
        lags = {}
        for key, end in ends.items():
            position = yield from self.of(key)
            lags[key] = max(0, end - position)
        return lags
