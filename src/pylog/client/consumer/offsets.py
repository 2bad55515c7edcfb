"""Where a consumer begins in its partitions, and where they begin and end: OffsetFetch and ListOffsets.

    seek                      the position is there
    seek_to_beginning, -end   ListOffsets
    otherwise                 what the group has committed, and where it has nothing, `auto_offset_reset`

`ask` is for `poll`: it waits for nothing, and an answer counts only where nobody has moved since. The rest waits.
(Kafka: OffsetFetcher, ConsumerCoordinator.)
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pylog.client.cluster import Cluster
from pylog.client.consumer.leader_lookup import LeaderLookup
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.subscription import PartitionState, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.config.clients import duration_ms
from pylog.errors import (
    COORDINATOR_AWAY,
    NoOffsetForPartition,
    PylogError,
    UnstableOffsetCommit,
)
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import (
    EARLIEST,
    LATEST,
    ListedOffsets,
    ListedPart,
    ListOffsets,
    ListOffsetsPart,
    OffsetFetch,
    OffsetFetchedPart,
    OffsetsFetched,
)
from pylog.record import OffsetAndMetadata, TopicPartition, checked_partition
from pylog.runtime.clock import Clock

States = dict[TopicPartition, PartitionState]


class OffsetFetcher:
    """The offsets that one consumer asks for."""

    def __init__(
        self,
        calls: PendingRequests,
        cluster: Cluster,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock
        self._leaders = LeaderLookup(cluster, subscription, config, clock)
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
        missing = {
            key: state
            for key, state in self._subscription.states.items()
            if state.position is None and state.is_quiet and now_ms >= state.retry_ms
        }
        if not missing:
            return
        unknown: States = {}
        resets: dict[TopicPartition, int] = {}
        for key, state in missing.items():
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
        for node, keys in self._leaders.of(resets).items():
            states = {key: missing[key] for key in keys}
            message = ListOffsets([ListOffsetsPart(*key, resets[key]) for key in keys], self._isolation)
            self._mark(states, self._calls.send(node, message, partial(self._listed, states, resets)))

    def _ask_committed(self, states: States) -> None:
        group_id = self._config.group_id
        assert group_id is not None, "only groups commit"
        message = OffsetFetch(group_id, list(states), require_stable=True)
        node = self._cluster.coordinator("group", group_id)
        self._mark(states, self._calls.send(node, message, partial(self._fetched, states)))

    @staticmethod
    def _mark(states: States, call: PendingRequest) -> None:
        for state in states.values():
            state.asked = call

    @staticmethod
    def _still(states: States, call: PendingRequest) -> States:
        """Those that wait for just this answer, and wait no more."""
        current = {key: state for key, state in states.items() if state.asked is call}
        for state in current.values():
            state.asked = None
        return current

    def _fetched(self, states: States, call: PendingRequest, answer: Any) -> None:
        current = self._still(states, call)
        error = answer if isinstance(answer, PylogError) else answer.error
        if error is not None:
            for key in current:
                self._leaders.refused(key, error)
            return
        assert isinstance(answer, OffsetsFetched)
        for part in answer.parts:
            key = TopicPartition(part.topic, part.partition)
            if key not in current:
                continue
            state = current[key]
            if part.error is not None:
                self._leaders.refused(key, part.error)
                continue
            state.looked_up = True
            if part.offset >= 0:
                state.move(part.offset)
                state.committed, state.leader_epoch = part.offset, part.leader_epoch

    def _listed(self, states: States, resets: dict[TopicPartition, int], call: PendingRequest, answer: Any) -> None:
        current = self._still(states, call)
        if isinstance(answer, PylogError):
            for key in current:
                self._leaders.refused(key, answer)
            return
        assert isinstance(answer, ListedOffsets)
        for part in answer.parts:
            key = TopicPartition(part.topic, part.partition)
            if key not in current:
                continue
            state = current[key]
            if part.error is not None:
                self._leaders.refused(key, part.error)
            elif part.offset < 0:
                # No record is as young as that: the next one will be.
                state.reset = LATEST
            else:
                state.move(part.offset)

    # --- what waits for its answer ---------------------------------------------------------------------------------

    def listed(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedPart]:
        """What ListOffsets says of these times. Raises UnknownTopicOrPartition."""
        times = {checked_partition(key): timestamp for key, timestamp in wanted.items()}
        found = self._cluster.list_offsets(times, self._isolation, self._config.default_api_timeout_ms / 1000)
        for part in found.values():
            if part.error is not None:
                raise part.error
        return found

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        """What the group has committed; None where that is nothing. Waits for transactions that have not ended.

        Raises what the coordinator answers; UnstableOffsetCommit when a transaction stays open for too long.
        """
        keys = [checked_partition(key) for key in partitions]
        if not keys:
            return {}
        deadline = self._clock.tick_ms() + self._config.default_api_timeout_ms
        while True:
            try:
                parts = self._committed(group_id, keys, deadline)
                return {
                    key: OffsetAndMetadata(part.offset, part.metadata, part.leader_epoch) if part.offset >= 0 else None
                    for key, part in parts.items()
                }
            except (*COORDINATOR_AWAY, UnstableOffsetCommit):
                if self._clock.tick_ms() >= deadline:
                    raise
                self._calls.wait(self._config.retry_backoff_ms)

    def _committed(
        self, group_id: str, keys: list[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetFetchedPart]:
        message = OffsetFetch(group_id, keys, require_stable=True)
        left = max(0, deadline_ms - self._clock.tick_ms()) / 1000
        node = self._cluster.coordinator("group", group_id)
        answer: OffsetsFetched = self._cluster.ask(message, node=node, seconds=left)
        error = next((part.error for part in answer.parts if part.error is not None), answer.error)
        if error is not None:
            raise error
        found = {TopicPartition(part.topic, part.partition): part for part in answer.parts}
        return {key: found[key] for key in keys}


def _no_offset(key: TopicPartition) -> NoOffsetForPartition:
    return NoOffsetForPartition(
        f"{key.topic}-{key.partition} has no position and auto_offset_reset is none: seek first"
    )
