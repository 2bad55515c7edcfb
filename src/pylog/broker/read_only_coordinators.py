"""The coordinators of a log that another process owns: their state is the replay of their logs.

A coordinator is made of its partition's log at the first question, as its owner's successor would make it, and kept
until the log grows. It answers only questions that change nothing. State that is in no log, members that are joining
among it, is known to its owner alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from pylog.broker.coordinator_host import replay_log
from pylog.broker.coordinators import GROUPS, SHARE_STATES, TRANSACTIONS
from pylog.broker.read_only_catalogue import ReadOnlyCatalogue
from pylog.broker.share_lags import with_lags
from pylog.coordinator.effects import Answer, Append, Ask, Coordinator, Now, TopicInfo
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.share.coordinator import ShareCoordinator
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.protocol.messages import Session
from pylog.protocol.messages.api import AllNodesRequest, NamesRequest
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    group_of,
)
from pylog.protocol.messages.offsets import OffsetFetchRequest
from pylog.protocol.messages.share import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
)
from pylog.protocol.messages.share_state import StateRequest, share_partition_name
from pylog.protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from pylog.protocol.partitioner import partition_for
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock

R = TypeVar("R")


class ReadOnlyCoordinators:
    """Answers for the coordinators of a log that is only read. Thread-safe."""

    def __init__(self, catalogue: ReadOnlyCatalogue, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._machines: dict[TopicPartition, tuple[Coordinator, int]] = {}
        answers: dict[type, Callable[[Any], object]] = {
            OffsetFetchRequest: lambda message: self._ask(self._of(GROUPS, group_of(message)), message),
            ListGroupsRequest: partial(self._by_all, GROUPS),
            DescribeGroupsRequest: partial(self._by_names, GROUPS),
            ConsumerGroupDescribeRequest: partial(self._by_names, GROUPS),
            ShareGroupDescribeRequest: partial(self._by_names, GROUPS),
            DescribeShareGroupOffsetsRequest: self._share_offsets,
            ListTransactionsRequest: partial(self._by_all, TRANSACTIONS),
            DescribeTransactionsRequest: partial(self._by_names, TRANSACTIONS),
        }
        self.routes = {kind: partial(self._answer, answer) for kind, answer in answers.items()}

    def _answer(self, answer: Callable[[Any], object], message: object) -> object:
        with self._catalogue.lock:
            # A topic of the coordinators' may be new.
            self._catalogue.now()
            return answer(message)

    def _by_all(self, topic: str, message: AllNodesRequest[R]) -> R:
        return message.joined(self._ask(one, message) for one in self._all(topic))

    def _by_names(self, topic: str, message: NamesRequest[R]) -> R:
        return message.joined(self._ask(self._of(topic, name), message.only([name])) for name in message.names)

    def _share_offsets(self, message: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
        answers = [
            self._ask(self._of(GROUPS, one.group_id), replace(message, groups=[one])) for one in message.groups
        ]  # fmt: skip
        groups = [group for answer in answers for group in answer.groups]
        return with_lags(groups, lambda *name: self._catalogue.find(*name).high_watermark)

    def _share_states(self, message: StateRequest[R]) -> R:
        parts: dict[TopicPartition, list[tuple[UUID, int]]] = {}
        for topic_id, asked in message.keyed():
            name = share_partition_name(message.group_id, topic_id, asked.partition)
            parts.setdefault(self._of(SHARE_STATES, name), []).append((topic_id, asked.partition))
        return message.joined([self._ask(key, message.only(keys)) for key, keys in parts.items()])

    def named(self) -> Mapping[str, TopicInfo]:
        """The topics, as `effects.Topics` has them."""
        topics = self._catalogue.image.topics.values()
        return {topic.name: TopicInfo(topic.id, len(topic.partitions)) for topic in topics}

    def _all(self, topic: str) -> list[TopicPartition]:
        image = self._catalogue.image.topics.get(topic)
        return [TopicPartition(topic, number) for number in sorted(image.partitions)] if image is not None else []

    def _of(self, topic: str, key: str) -> TopicPartition:
        # Where there is none, any number will do: its log is empty.
        return TopicPartition(topic, partition_for(key, len(self._all(topic)) or 1))

    def _ask(self, key: TopicPartition, message: object) -> Any:
        (effect,) = self._successor(key).handle(message, Session(), 0, self._now())
        if isinstance(effect, Ask):
            assert isinstance(effect.message, StateRequest), "the share coordinator alone is asked"
            (effect,) = effect.told(self._share_states(effect.message), self._now())
        if isinstance(effect, Append):
            # The answer waits until its records are safe: here only safe records are read.
            assert not effect.records, "a question changes nothing"
            (effect,) = effect.answers
        assert isinstance(effect, Answer), "a question is answered at once"
        return effect.message

    def _now(self) -> Now:
        return Now(self._clock.wall_ms(), self._clock.tick_ms())

    def _successor(self, key: TopicPartition) -> Coordinator:
        partition = self._catalogue.find(*key) if key.topic in self._catalogue.image.topics else None
        end = partition.high_watermark if partition is not None else 0
        known, position = self._machines.get(key, (None, 0))
        if known is not None and position == end:
            return known
        machine = self._machine(key)
        if partition is not None:
            replay_log(partition, machine, partition.start_offset, end)
        # Its effects are for its owner to carry out.
        machine.take_over(self._now())
        self._machines[key] = machine, end
        return machine

    def _machine(self, key: TopicPartition) -> Coordinator:
        if key.topic == GROUPS:
            return GroupCoordinator(key.partition, self._catalogue.configs, self, is_lost=lambda _: False)
        if key.topic == SHARE_STATES:
            return ShareCoordinator(key.partition, self._catalogue.configs.given, self)
        return TransactionCoordinator(key.partition, self._catalogue.configs.given, new_producer_id=lambda: -1)
