"""The offsets at which a consumer begins, and at which partitions begin and end: OffsetFetch and ListOffsets.

    seek                      the position is there
    seek_to_beginning, -end   ListOffsets
    otherwise                 what the group has committed, and where it has nothing, `auto_offset_reset`

`ask` is for `poll` and waits for nothing. The calls below it wait for their answers.
(Kafka: OffsetFetcher, ConsumerCoordinator.)
"""

from collections.abc import Iterable, Mapping

from pylog.client.cluster import Cluster
from pylog.client.consumer.leader_lookup import LeaderLookup, States
from pylog.client.consumer.pending_requests import PendingRequests
from pylog.client.consumer.subscription import PartitionState, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.config.offset_reset import duration_ms
from pylog.errors import COORDINATOR_AWAY, NoOffsetForPartition, UnstableOffsetCommit
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import EARLIEST, LATEST
from pylog.protocol.messages.offsets import FetchedOffset, OffsetFetchRequest
from pylog.protocol.messages.records import ListedOffset, ListOffsetsRequest
from pylog.record import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, checked_partition
from pylog.runtime.clock import Clock
from pylog.runtime.rounds import Rounds


class OffsetFetcher:
    """The offsets that one consumer asks for."""

    def __init__(
        self,
        requests: PendingRequests,
        cluster: Cluster,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._leaders = LeaderLookup(requests, cluster, subscription, config, clock)
        self._isolation = Isolation.named(config.isolation_level)

    @property
    def reset(self) -> int | None:
        """Where `auto_offset_reset` leads, as ListOffsets has it: EARLIEST, LATEST, a time in ms; None: nowhere."""
        policy = self._config.auto_offset_reset
        if policy.startswith("by_duration:"):
            return max(0, self._clock.wall_ms() - duration_ms(policy))
        return {"earliest": EARLIEST, "latest": LATEST}.get(policy)

    # --- positions -------------------------------------------------------------------------------------------------

    def ask(self, now_ms: int) -> None:
        """Ask for the positions that are not known."""
        unknown: dict[TopicPartition, PartitionState] = {}
        resets: dict[TopicPartition, int] = {}
        for key, state in self._subscription.states.items():
            if state.position is not None or not state.is_quiet or now_ms < state.retry_ms:
                continue
            if state.reset is None and self._config.group_id is not None and not state.looked_up:
                unknown[key] = state
                continue
            where = self.reset if state.reset is None else state.reset
            if where is None:
                self._subscription.fail(key, _no_offset(key))
            else:
                resets[key] = where
        if unknown:
            self._ask_committed(unknown)
        if resets:
            self._ask_ends(resets)

    def _ask_committed(self, states: States) -> None:
        group_id = self._config.group_id
        assert group_id is not None, "only groups commit"
        node = self._cluster.coordinator("group", group_id)
        message = OffsetFetchRequest.of(group_id, states, require_stable=True)
        self._leaders.send(node, message, states, self._take_committed)

    def _take_committed(self, key: TopicPartition, state: PartitionState, part: FetchedOffset) -> None:
        if part.error is not None:
            self._leaders.refused(key, part.error)
            return
        state.looked_up = True
        if part.committed_offset >= 0:
            state.move(part.committed_offset, leader_epoch=part.committed_leader_epoch)
            state.committed = part.committed_offset

    def _ask_ends(self, resets: dict[TopicPartition, int]) -> None:
        states = {key: self._subscription.states[key] for key in resets}

        def message(keys: list[TopicPartition]) -> ListOffsetsRequest:
            return ListOffsetsRequest.of({key: resets[key] for key in keys}, self._isolation)

        self._leaders.send_to_leaders(states, message, self._take_end)

    def _take_end(self, key: TopicPartition, state: PartitionState, part: ListedOffset) -> None:
        if part.error is not None:
            self._leaders.refused(key, part.error)
        elif part.offset < 0:
            # No record is as young as that: the next one will be.
            state.reset = LATEST
        else:
            state.move(part.offset)

    # --- calls that wait for their answer ----------------------------------------------------------------------------

    def listed(self, wanted: Mapping[TopicPartition, int]) -> Rounds[dict[TopicPartition, ListedOffset]]:
        """The offsets of these times, by ListOffsets. Raises UnknownTopicOrPartition."""
        times = {checked_partition(key): timestamp for key, timestamp in wanted.items()}
        found = yield from self._cluster.rounds.list_offsets(times, self._isolation)
        for part in found.values():
            if part.error is not None:
                raise part.error
        return found

    def for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Rounds[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """See `Consumer.offsets_for_times`."""
        if not isinstance(timestamps, Mapping):
            raise TypeError(f"timestamps is a dict of partitions and times, not {type(timestamps).__name__}")
        for key, timestamp in timestamps.items():
            if type(timestamp) is not int:
                raise TypeError(f"timestamp for {key} is {type(timestamp).__name__}, not int (milliseconds)")
            if timestamp < 0:
                raise ValueError(f"timestamp {timestamp} for {key} is negative")
        listed = yield from self.listed(timestamps)
        return {
            key: OffsetAndTimestamp(part.offset, part.timestamp, part.leader_epoch) if part.offset >= 0 else None
            for key, part in listed.items()
        }

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Rounds[dict[TopicPartition, OffsetAndMetadata | None]]:
        """The committed offsets of the group, or None. Waits for transactions that have not ended.

        Raises what the coordinator answers; UnstableOffsetCommit when a transaction stays open for too long.
        """
        keys = [checked_partition(key) for key in partitions]
        if not keys:
            return {}
        deadline = self._clock.tick_ms() + self._config.default_api_timeout_ms
        while True:
            try:
                parts = yield from self._committed(group_id, keys, deadline)
                return {key: part.position if part.committed_offset >= 0 else None for key, part in parts.items()}
            except (*COORDINATOR_AWAY, UnstableOffsetCommit):
                if self._clock.tick_ms() >= deadline:
                    raise
                yield self._config.retry_backoff_ms

    def _committed(
        self, group_id: str, keys: list[TopicPartition], deadline_ms: int
    ) -> Rounds[dict[TopicPartition, FetchedOffset]]:
        message = OffsetFetchRequest.of(group_id, keys, require_stable=True)
        left = max(0, deadline_ms - self._clock.tick_ms()) / 1000
        node = self._cluster.coordinator("group", group_id)
        answer = yield from self._cluster.rounds.ask(message, node=node, seconds=left)
        error = message.first_error(answer)
        if error is not None:
            raise error
        return message.found(answer)


def _no_offset(key: TopicPartition) -> NoOffsetForPartition:
    return NoOffsetForPartition(
        f"{key.topic}-{key.partition} has no position and auto_offset_reset is none: seek first"
    )
