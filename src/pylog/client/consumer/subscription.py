"""The topics, the pattern and the partitions of a consumer, and how far it is in each.

    position    the offset of the next record that `poll` gives; None until it is known
    reset       where to look for a position: EARLIEST, LATEST or a time in milliseconds; None: not decided
    fetched     bytes that lie ahead of the position
    replica     the node to read from in place of the leader, which has named it
    asked       the request in flight whose answer counts for this partition

A move of the position drops the fetched bytes and the request in flight, so that a late answer changes nothing
(librdkafka 2.1.1, 2.4.0). A partition that is taken away and comes back has a new state, and so has one of a topic that
was made again. (Kafka: SubscriptionState.)
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from pylog.client.consumer.pending_requests import PendingRequest
from pylog.errors import PylogError
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import INTERNAL_TOPICS
from pylog.record import ConsumerRecord, OffsetAndMetadata, TopicPartition, checked_partition

Polled: TypeAlias = "ConsumerRecord[Any, Any]"
"""A record as a poll gives it: of what types its key and its value are is for the deserializers."""


class RebalanceListener:
    """Is told what a group gives to a consumer and takes from it, inside `poll`. Any object that has some of these
    methods is one, too. What a method raises comes out of `poll`, when the rebalance step is done.

    (Kafka: ConsumerRebalanceListener.)

    >>> class Told(pylog.RebalanceListener):
    ...     def on_partitions_assigned(self, partitions):
    ...         print("assigned:", partitions)
    >>> consumer = log.consumer(group_id="billing", auto_offset_reset="earliest")
    >>> consumer.subscribe(["orders"], listener=Told())
    >>> record = next(consumer)
    assigned: [TopicPartition(topic='orders', partition=0)]
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """These go to another member, and are still here: the last chance to commit. Never called with none.

        >>> class Committing(pylog.RebalanceListener):
        ...     def on_partitions_revoked(self, partitions):
        ...         consumer.commit()
        >>> consumer.subscribe(["orders"], listener=Committing())
        """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """These are new here. Called at the end of each rebalance, even where none are.

        >>> class Replaying(pylog.RebalanceListener):
        ...     def on_partitions_assigned(self, partitions):
        ...         consumer.seek_to_beginning(*partitions)
        >>> consumer.subscribe(["orders"], listener=Replaying())
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may have these already: a commit would be refused. Where there is no such method,
        `on_partitions_revoked` is called. Never called with none.

        >>> class Forgetting(pylog.RebalanceListener):
        ...     def on_partitions_lost(self, partitions):
        ...         print("work is dropped:", partitions)
        >>> consumer.subscribe(["orders"], listener=Forgetting())
        """
        self.on_partitions_revoked(partitions)


LISTENER_METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


class FetchedSource(Protocol):
    """The fetched records of a partition that were not given out yet."""

    next_offset: int
    leader_epoch: int

    def take(self, count: int) -> list[Polled]:
        """Up to `count` records from `next_offset` on; none when there are no more. Raises, again and again."""


@dataclass(slots=True, eq=False)
class PartitionState:
    """The state of a consumer in one partition."""

    topic_id: UUID
    position: int | None = None
    leader_epoch: int = -1
    """Of the last record before the position, or of the one at it; -1: not known. With it the leader tells whether the
    log was cut below the position (KIP-320).
    """
    committed: int | None = None
    """The position that was last committed, as far as it is known."""
    settled: int | None = None
    """The position at which the program has committed an offset of its own choice: it is not committed by itself."""
    stored: OffsetAndMetadata | None = None
    """What `store_offsets` was given, to be committed."""
    reset: int | None = None
    looked_up: bool = False
    """True once the committed offset was looked up."""
    paused: bool = False
    leaving: bool = False
    """True while it is about to be revoked: no more records of it are given."""
    fetched: FetchedSource | None = None
    error: PylogError | None = None
    """The error that the next poll raises."""
    asked: PendingRequest | None = None
    records: int = 0
    """How many polls have given."""
    bytes: int = 0
    """How many were fetched."""
    end: int = -1
    """The end that the last fetch has named; -1: none."""
    retry_ms: int = 0
    """The tick before which nothing is asked again, after an error."""
    replica: int | None = None
    asks_replica: bool = False
    """True if the question in flight, or the last one, went to the replica."""
    replica_until_ms: int = 0
    """The tick at which the leader is asked again whether there is a better one."""

    def move(self, offset: int | None, reset: int | None = None, leader_epoch: int = -1) -> None:
        """Go on at `offset`; None: where `reset` says. `leader_epoch` as in the attribute."""
        self.position = offset
        self.reset = reset
        self.leader_epoch = leader_epoch
        self.drop()

    def drop(self) -> None:
        """Drop the fetched bytes and the request in flight."""
        self.fetched = self.error = self.asked = None

    @property
    def is_quiet(self) -> bool:
        """True when there is nothing to give, and nothing in flight."""
        return self.fetched is None and self.error is None and self.asked is None


class SubscriptionState:
    """The topics, the partitions and their states."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """Subscribed to, by name or because the pattern matches."""
        self.pattern: re.Pattern[str] | None = None
        self.listener: object | None = None
        self.states: dict[TopicPartition, PartitionState] = {}
        self.ready: dict[TopicPartition, PartitionState] = {}
        """Those with something fetched, or an error to raise, in the order in which it came."""
        self.stuck: tuple[TopicPartition, PylogError] | None = None
        """Where the last poll has raised, and what."""
        self.is_shared = False
        """True where a group gives partitions and takes them."""
        self.counted: dict[str, tuple[int, int]] = {}
        """Records and bytes of the partitions, by topic, that are not read any more."""
        self.is_stale = False
        """True when a topic of these is not known any more, so that the topics have to be looked at."""

    @property
    def is_by_topic(self) -> bool:
        """True when topics were subscribed to, so that partitions come and go."""
        return bool(self.topics) or self.pattern is not None

    def checked(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of these partitions. Raises ValueError where one is not read, TypeError."""
        found = {}
        for partition in partitions:
            key = checked_partition(partition)
            if key not in self.states:
                raise ValueError(
                    f"{key.topic}-{key.partition} is not assigned to this consumer: assign or subscribe first"
                )
            found[key] = self.states[key]
        return found

    def store(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See `Consumer.store_offsets`. Raises ValueError, TypeError."""
        states = self.checked(offsets)
        for key, state in states.items():
            state.stored = offsets[key]

    def stored(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The stored offsets, to be committed."""
        return {key: state.stored for key, state in self.states.items() if state.stored is not None}

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """All positions that are known."""
        return {
            key: OffsetAndMetadata(state.position, "", state.leader_epoch)
            for key, state in self.states.items()
            if state.position is not None
        }

    def matching(self, names: Iterable[str], *, internal: bool) -> frozenset[str]:
        """The topics of these that the pattern matches as a whole, as Kafka has it."""
        assert self.pattern is not None
        match = self.pattern.fullmatch
        return frozenset(name for name in names if (internal or name not in INTERNAL_TOPICS) and match(name))

    def assign(self, partitions: Collection[tuple[TopicPartition, UUID]]) -> None:
        """Read exactly these. A partition of the topic with the same id that is read already stays as it is."""
        states: dict[TopicPartition, PartitionState] = {}
        for key, topic_id in partitions:
            known = self.states.get(key)
            if known is None or known.topic_id != topic_id:
                known = PartitionState(topic_id, paused=known is not None and known.paused)
            states[key] = known
        for key, state in self.states.items():
            if states.get(key) is not state:
                self._end(key, state)
        self.states = states

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for key in partitions:
            state = self.states.pop(key, None)
            if state is not None:
                self._end(key, state)

    def _end(self, key: TopicPartition, state: PartitionState) -> None:
        state.drop()
        self.ready.pop(key, None)
        records, size = self.counted.get(key.topic, (0, 0))
        self.counted[key.topic] = records + state.records, size + state.bytes

    def measure(self, found: Metrics, client_id: str) -> None:
        """Add the numbers of now."""
        states = list(self.states.items())
        counts = [*self.counted.items(), *((key.topic, (state.records, state.bytes)) for key, state in states)]
        for topic, (records, size) in counts:
            found.add(table.RECORDS_CONSUMED, records, client_id=client_id, topic=topic)
            found.add(table.BYTES_CONSUMED, size, client_id=client_id, topic=topic)
        for key, state in states:
            position = state.position
            if position is not None and state.end >= 0:
                tags = {"client_id": client_id, "topic": key.topic, "partition": key.partition}
                found.add(table.RECORDS_LAG, max(0, state.end - position), **tags)
        found.add(table.ASSIGNED_PARTITIONS, len(states), client_id=client_id)

    def move(self, key: TopicPartition, offset: int | None, reset: int | None = None, leader_epoch: int = -1) -> None:
        """Set the position in a partition."""
        self.states[key].move(offset, reset, leader_epoch)
        self.ready.pop(key, None)

    def fail(self, key: TopicPartition, error: PylogError) -> None:
        """Let the next poll raise this."""
        state = self.states[key]
        state.error = error
        self.ready[key] = state

    def turn(self) -> None:
        """Let another partition be the first: the first one gets bytes first, and none starves."""
        if len(self.states) > 1:
            first = next(iter(self.states))
            self.states[first] = self.states.pop(first)

    def take(self, count: int) -> list[Polled]:
        """Take up to `count` of the fetched records, and move the positions past them.

        Raises the error of the first partition that has one, and notes it in `stuck`: the error of an answer once, as
        the partition is asked about again, and that of a record again and again.
        """
        records: list[Polled] = []
        for key, state in list(self.ready.items()) if self.ready else ():
            if state.paused or state.leaving:
                continue
            try:
                if state.error is not None:
                    raise state.error.with_traceback(None)
                fetched, before = state.fetched, len(records)
                assert fetched is not None, "a ready partition has something"
                try:
                    while len(records) < count and (taken := fetched.take(count - len(records))):
                        records = records + taken if records else taken
                finally:
                    state.records += len(records) - before
                    state.position = fetched.next_offset
                    state.leader_epoch = fetched.leader_epoch
            except PylogError as error:
                if records:
                    # The good records go out first, or they would be lost: the next poll comes here again.
                    return records
                self.stuck = key, error
                del self.ready[key]
                if state.error is None:
                    # Behind the others, so that the next polls get what they have.
                    self.ready[key] = state
                state.error = None
                raise
            except BaseException:
                # The fetched bytes may be half decoded.
                if key in self.states:
                    self.move(key, state.position, leader_epoch=state.leader_epoch)
                self.take_back(records)
                raise
            if len(records) >= count:
                break
            state.fetched = None
            # A deserializer may have closed the log.
            self.ready.pop(key, None)
        return records

    def take_back(self, records: list[Polled]) -> None:
        """Read these again, as after Ctrl-C in a deserializer: the caller did not get them."""
        for record in reversed(records):
            key = TopicPartition(record.topic, record.partition)
            if key in self.states:
                self.move(key, record.offset, leader_epoch=record.leader_epoch)
