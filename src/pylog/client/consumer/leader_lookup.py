"""Requests about a consumer's partitions: which node they go to, for whom an answer counts, what a refusal means.

    send to leaders --> known leader:    the message; each part of its answer goes to `take`
                    --> a replica:       the same, where the leader has named one to read from
                    --> unknown leader:  a group's partition rests until the topics are looked at again;
                                         another one waits for what the metadata say, and fails where they say no

An answer counts for a partition only while its state still waits for it. Nothing here waits.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pylog.client.cluster import Cluster
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.subscription import PartitionState, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import (
    COORDINATOR_AWAY,
    FencedLeaderEpoch,
    LeaderNotAvailable,
    LogTruncation,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    PylogError,
    ReplicaNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from pylog.protocol.messages import Message
from pylog.protocol.messages.api import PartitionsRequest
from pylog.protocol.messages.offsets import OffsetFetchRequest
from pylog.protocol.messages.topics import MetadataResponse
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

QUIET = (
    *COORDINATOR_AWAY,
    NotLeaderOrFollower,
    LeaderNotAvailable,
    LogTruncation,
    ReplicaNotAvailable,
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
    UnknownTopicId,
    OffsetNotAvailable,
    UnstableOffsetCommit,
)
"""Errors that say that the answer is elsewhere, or will be: the partition is asked about again, after a while."""

States = Mapping[TopicPartition, PartitionState]
Take = Callable[[TopicPartition, PartitionState, Any], object]


class LeaderLookup:
    """The requests of one consumer about its partitions."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._clock = clock

    def send_to_leaders(
        self, states: States, message: Callable[[list[TopicPartition]], Message], take: Take, wait_ms: int = 0, *,
        reads: bool = False,
    ) -> None:  # fmt: skip
        """Send each leader the message that `message` makes of its partitions; `take` gets the parts of the answers.
        One that `reads` goes to a replica where the leader has named one.
        """
        grouped: dict[int, list[TopicPartition]] = {}
        unknown: list[TopicPartition] = []
        for key, state in states.items():
            node = self._replica(state) if reads else None
            if node is None:
                node = self._cluster.known_leader(key)
            if node is not None:
                grouped.setdefault(node, []).append(key)
            elif self._subscription.is_shared:
                # Its topic is gone, or has become larger.
                self._rest_until_looked(key)
            else:
                unknown.append(key)
        for node, keys in grouped.items():
            self.send(node, message(keys), {key: states[key] for key in keys}, take, wait_ms)
        if unknown:
            names = list(dict.fromkeys(key.topic for key in unknown))
            request = self._requests.add(
                self._cluster.send_any(self._cluster.question(names)), partial(self._informed, names)
            )
            for key in unknown:
                states[key].asked = request

    def _replica(self, state: PartitionState) -> int | None:
        if state.replica is not None and self._clock.tick_ms() >= state.replica_until_ms:
            state.replica = None
        return state.replica

    def send(self, node: int, message: Message, states: States, take: Take, wait_ms: int = 0) -> None:
        """Send a node a message about these partitions; `take` gets the parts of the answer, errors too."""
        request = self._requests.add(
            self._cluster.send(node, message), partial(self._answered, message, states, take), wait_ms
        )
        for state in states.values():
            state.asked, state.asks_replica = request, node == state.replica

    def _answered(
        self, message: Message, states: States, take: Take, request: PendingRequest, answer: Any
    ) -> None:  # fmt: skip
        current = _freed(states, request)
        error = answer if isinstance(answer, PylogError) else getattr(answer, "error", None)
        if error is None and isinstance(message, OffsetFetchRequest):
            error = message.group_error(answer)
        if error is not None:
            for key in current:
                self.refused(key, error)
            return
        if isinstance(message, PartitionsRequest | OffsetFetchRequest):
            for key, part in message.found(answer).items():
                if key in current:
                    take(key, current[key], part)
            return
        for part in answer.parts:
            key = TopicPartition(part.topic, part.partition)
            if key in current:
                take(key, current[key], part)

    def _informed(self, names: list[str], request: PendingRequest, answer: MetadataResponse | PylogError) -> None:
        current = _freed(self._subscription.states, request)
        errors: dict[str | None, PylogError | None] = {}
        if isinstance(answer, PylogError):
            errors = dict.fromkeys(names, answer)
        else:
            self._cluster.learn(answer, names)
            errors = {topic.name: topic.error for topic in answer.topics}
        for key in current:
            if self._cluster.known_leader(key) is None:
                self._missing(key, errors.get(key.topic))

    def _missing(self, key: TopicPartition, error: PylogError | None) -> None:
        if isinstance(error, QUIET):
            self._rest(key)
        else:
            text = f"topic {key.topic!r} has no partition {key.partition}"
            self._subscription.fail(key, error or UnknownTopicOrPartition(text))

    def refused(self, key: TopicPartition, error: PylogError) -> None:
        """A node has answered with an error: ask again after a while, or let the next poll raise it."""
        self._cluster.heard(key, error)
        state = self._subscription.states[key]
        if state.asks_replica:
            # It says nothing of the leader, which is asked next.
            state.replica, state.asks_replica = None, False
            self._rest(key)
        elif isinstance(error, QUIET):
            self._rest(key)
        elif isinstance(error, UnknownTopicOrPartition) and self._subscription.is_shared:
            # The group takes it away soon.
            self._rest_until_looked(key)
        else:
            self._subscription.fail(key, error)

    def _rest_until_looked(self, key: TopicPartition) -> None:
        self._subscription.is_stale = True
        self._rest(key)

    def _rest(self, key: TopicPartition) -> None:
        self._subscription.states[key].retry_ms = self._clock.tick_ms() + self._config.retry_backoff_ms


def _freed(states: States, request: PendingRequest) -> dict[TopicPartition, PartitionState]:
    """The states that wait for just this answer, and wait no more. A moved position waits for another one, or none."""
    current = {key: state for key, state in states.items() if state.asked is request}
    for state in current.values():
        state.asked = None
    return current
