"""What a consumer reads: `subscribe` and `assign`, and what follows the topics as they change.

Topics are looked at now and then. A consumer without a group takes over what it sees; one with a group tells its
member, which lets the group assign anew. (Kafka: KafkaConsumer, ConsumerMetadata.)
"""

import itertools
import logging
import re
from collections.abc import Iterable
from operator import length_hint
from typing import Any
from uuid import UUID

from pylog.client.cluster import Cluster, checked_name
from pylog.client.consumer.fetcher import Fetcher
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.offsets import OffsetFetcher
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.single_thread import SingleThread, alone
from pylog.client.consumer.subscription import LISTENER_METHODS, PartitionState, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import PylogError, UnknownTopicOrPartition
from pylog.protocol.messages import Metadata
from pylog.record import ConsumerRecord, TopicPartition, checked_partition
from pylog.runtime.clock import Clock
from pylog.transport import Transport

logger = logging.getLogger("pylog")

CLOSE_MS = 30_000
_numbers = itertools.count(1)  # a member id begins with its client's


class ConsumerAssignment(SingleThread):
    """What is read, of a consumer."""

    def __init__(self, transport: Transport, node: int, config: ConsumerConfig, clock: Clock) -> None:
        super().__init__()
        self.config = config
        self._clock = clock
        self._cluster = Cluster(transport, node, config.client_id or f"consumer-{next(_numbers)}")
        self._calls = PendingRequests(self._cluster, clock)
        self._subscription = SubscriptionState()
        shared = (self._calls, self._cluster, self._subscription, config, clock)
        self._fetching = Fetcher(*shared)
        self._offsets = OffsetFetcher(*shared)
        self._group = None if config.group_id is None else GroupMember(*shared)
        # Nothing was asked yet: what is lacking need not wait.
        self._looked_ms = clock.tick_ms() - config.retry_backoff_ms
        self._looking: PendingRequest | None = None
        self._polled: list[ConsumerRecord] = []  # by a loop over this consumer
        self._unseen = iter(self._polled)  # of these, what the loop has not come to

    @alone
    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches `pattern`, in place of what was read before.

        With a group the next polls join it and get a share; `listener`, a `RebalanceListener` or any object with some
        of its methods, is told what comes and goes. Without one all partitions are read from now on, and there is
        nothing to listen to. New topics that match, and new partitions, are read when they are seen: within a second
        where there is nothing else to do, after `metadata_max_age_ms` at the latest. So is a topic that is not there
        yet, which is logged, as in Kafka. Raises InvalidTopic (no topic can have that name), TypeError (a name that is
        no str); nothing changes then.
        """
        self._check_open()
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe takes either topics or a pattern")
        if listener is not None and self._group is None:
            raise ValueError("a listener needs a group_id: without a group nobody takes partitions away")
        if listener is not None and not any(hasattr(listener, name) for name in LISTENER_METHODS):
            raise TypeError(f"listener is {type(listener).__name__}, and has none of {', '.join(LISTENER_METHODS)}")
        given = [topics] if isinstance(topics, str) else topics or ()
        names = frozenset(checked_name("topics", name) for name in given)
        compiled = None if pattern is None else re.compile(pattern)
        if topics is not None and not names:
            self.unsubscribe()
            return
        for name in sorted(names):
            try:
                self._cluster.topic(name)
            except UnknownTopicOrPartition as error:
                logger.warning("%s; it is read as soon as it is made", error)
        self._unread()
        self._follow(names, compiled, listener)

    def _follow(self, names: frozenset[str], pattern: re.Pattern[str] | None, listener: object | None) -> None:
        subscription = self._subscription
        subscription.pattern, subscription.listener = pattern, listener
        if pattern is not None:
            self._cluster.refresh()
            names = self._matching()
        if self._group is None:
            subscription.topics = names
            self._assign_all()
            return
        if not subscription.is_shared:
            subscription.assign([])
            subscription.is_shared = True
        self._group.subscribe(names)
        subscription.topics = names

    @alone
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; a consumer that has subscribed leaves its group.

        Positions of partitions that stay are kept. Raises UnknownTopicOrPartition; nothing changes then.
        """
        self._check_open()
        keys = list(dict.fromkeys(checked_partition(key) for key in partitions))
        for key in keys:
            self._cluster.leader(key)
        self._unread()
        self._leave("it was assigned partitions by hand", CLOSE_MS)
        self._subscription.assign([(key, self._topic_id(key)) for key in keys])

    def _topic_id(self, key: TopicPartition) -> UUID:
        known = self._subscription.states.get(key)
        return self._cluster.topic(key.topic).id if known is None else known.topic_id

    @alone
    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self.assign([])

    def _leave(self, reason: str, timeout_ms: int, *, commit: bool = True) -> None:
        subscription = self._subscription
        subscription.topics, subscription.pattern = frozenset(), None
        if self._group is not None and subscription.is_shared:
            try:
                self._group.leave(reason, timeout_ms, commit=commit)
            finally:
                subscription.is_shared = False

    def _matching(self) -> frozenset[str]:
        names = [topic.name for topic in self._cluster.known()]
        return self._subscription.matching(names, internal=not self.config.exclude_internal_topics)

    def _assign_all(self) -> None:
        """Without a group: read every partition of the topics that are there, and of one that is not, what was read."""
        there = {topic.name: topic for topic in self._cluster.known(self._subscription.topics)}
        kept = [
            (key, state.topic_id)
            for key, state in self._subscription.states.items()
            if key.topic in self._subscription.topics and key.topic not in there
        ]
        self._subscription.assign(
            kept + [(TopicPartition(name, p.partition), t.id) for name, t in there.items() for p in t.partitions]
        )

    @alone
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._subscription.states)

    @alone
    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._subscription.topics)

    @alone
    def pause(self, *partitions: TopicPartition) -> None:
        """Give no records of these partitions until `resume`; what was fetched is kept."""
        states = self._checked(partitions)
        self._unread()
        for state in states.values():
            state.paused = True

    @alone
    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        for state in self._checked(partitions).values():
            state.paused = False

    @alone
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {key for key, state in self._subscription.states.items() if state.paused}

    def _checked(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        self._check_open()
        found = {}
        for partition in partitions:
            key = checked_partition(partition)
            if key not in self._subscription.states:
                raise ValueError(
                    f"{key.topic}-{key.partition} is not assigned to this consumer: assign or subscribe first"
                )
            found[key] = self._subscription.states[key]
        return found

    # --- what changes ------------------------------------------------------------------------------------------------

    def _look(self, now_ms: int, age_ms: int) -> None:
        """Ask which topics there are, where that was long ago."""
        subscription = self._subscription
        if self._looking is not None or not subscription.is_by_topic:
            return
        if self._is_lacking:
            age_ms = min(age_ms, self.config.retry_backoff_ms)
        if now_ms < self._looked_ms + age_ms:
            return
        self._looked_ms = now_ms
        subscription.is_stale = False
        self._looking = self._calls.send(self._cluster.node, Metadata(None), self._looked)

    @property
    def _is_lacking(self) -> bool:
        """Whether it takes a look to go on."""
        return self._subscription.is_stale or (self._group is not None and self._group.lacks_topics)

    def _rests_ms(self, now_ms: int) -> list[int]:
        """How long it is still until something is asked again."""
        rests = [state.retry_ms - now_ms for state in self._subscription.states.values() if state.retry_ms > now_ms]
        if self._is_lacking and self._looking is None:
            rests.append(max(1, self._looked_ms + self.config.retry_backoff_ms - now_ms))
        return rests

    def _looked(self, call: PendingRequest, answer: Any) -> None:
        self._looking = None
        if isinstance(answer, PylogError):
            return
        self._cluster.learn(answer, None)
        subscription = self._subscription
        if subscription.pattern is not None:
            subscription.topics = self._matching()
        if not subscription.is_shared:
            if subscription.is_by_topic:
                self._assign_all()
        elif self._group is not None:
            self._group.subscribe(subscription.topics)
            self._group.look()

    def _begin_made_again(self) -> None:
        """Begin anew in topics that were deleted and made again: what is known of the old one means nothing there."""
        subscription = self._subscription
        known = {key.topic: state.topic_id for key, state in subscription.states.items()}
        if subscription.is_shared:
            # Of what is gone the group hears.
            now = {topic.name: topic for topic in self._cluster.known(known)}
            subscription.is_stale |= len(now) < len(known)
        else:
            now = {name: self._cluster.topic(name) for name in known}
        again = {name for name, topic in now.items() if topic.id != known[name]}
        if not again:
            return
        if subscription.is_by_topic and not subscription.is_shared:
            self._assign_all()
            return
        subscription.assign(
            [
                (key, now[key.topic].id if key.topic in again else state.topic_id)
                for key, state in subscription.states.items()
            ]
        )

    # --- what a loop has not come to ---------------------------------------------------------------------------------

    def _left_of_loop(self) -> list[ConsumerRecord]:
        """What a loop over this consumer has polled and not come to yet."""
        return self._polled[len(self._polled) - length_hint(self._unseen) :]

    def _first_unseen(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that a loop over this consumer has polled and not come to."""
        return {TopicPartition(r.topic, r.partition): r.offset for r in reversed(self._left_of_loop())}

    def _unread(self) -> None:
        """Take back what a loop over this consumer has polled but not come to yet: it will be read again."""
        if not self._polled:
            return
        for key, offset in self._first_unseen().items():
            if key in self._subscription.states:
                self._subscription.move(key, offset)
        # Emptying the list ends the iterator over it, wherever the loop is.
        self._polled.clear()
