"""The partitions that a consumer reads, as it was told and as the topics change.

The topics are looked at now and then. A consumer without a group takes over what it sees; a consumer with a group tells
its member, which lets the group assign again. (Kafka: ConsumerMetadata.)
"""

import logging
import re
from collections.abc import Iterable

from pylog.client.cluster import Cluster, checked_name
from pylog.client.consumer.group_member import GroupMember
from pylog.client.consumer.loop_records import LoopRecords
from pylog.client.consumer.pending_requests import PendingRequest, PendingRequests
from pylog.client.consumer.subscription import LISTENER_METHODS, SubscriptionState
from pylog.config import ConsumerConfig
from pylog.errors import PylogError, UnknownTopicOrPartition
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.record import TopicPartition, checked_partition
from pylog.runtime.clock import Clock
from pylog.runtime.rounds import Rounds

logger = logging.getLogger("pylog.client")

CLOSE_MS = 30_000
"""How long a consumer waits for its group when it leaves."""


class Assignment:
    """Keeps the partitions of one consumer up to date."""

    def __init__(
        self, requests: PendingRequests, cluster: Cluster, subscription: SubscriptionState, config: ConsumerConfig,
        clock: Clock, group: GroupMember | None, loop: LoopRecords,
    ) -> None:  # fmt: skip
        self._requests = requests
        self._cluster = cluster
        self._subscription = subscription
        self._config = config
        self._group = group
        self._loop = loop
        # Nothing was asked yet: the first look need not wait.
        self._looked_ms = clock.tick_ms() - config.retry_backoff_ms
        self._looking: PendingRequest | None = None
        self._compared: tuple[object, object] = (None, None)
        """The view and the partitions that `begin_made_again` has seen last."""

    # --- as it is told -----------------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listener: object | None
    ) -> Rounds[None]:
        """See `Consumer.subscribe`."""
        if (topics is None) == (pattern is None):
            raise ValueError("subscribe takes either topics or a pattern")
        if listener is not None and self._group is None:
            raise ValueError("a listener needs a group_id: without a group no partition is taken away")
        if listener is not None and not any(hasattr(listener, name) for name in LISTENER_METHODS):
            raise TypeError(f"listener is {type(listener).__name__}, and has none of {', '.join(LISTENER_METHODS)}")
        given = [topics] if isinstance(topics, str) else topics or ()
        names = frozenset(checked_name("topics", name) for name in given)
        compiled = None if pattern is None else re.compile(pattern)
        if topics is not None and not names:
            yield from self.assign(())
            return
        # A topic that matched a pattern and was deleted must not come back by a question about it.
        self._cluster.creates = self._config.allow_auto_create_topics and compiled is None
        yield from self._look_up(sorted(names - self._cluster.known().keys()))
        self._loop.take_back()
        yield from self._subscribe(names, compiled, listener)

    def _look_up(self, names: list[str]) -> Rounds[None]:
        if not names:
            return
        answer = yield from self._cluster.rounds.ask(self._cluster.question(names))
        for topic in self._cluster.learn(answer, names):
            if isinstance(topic.error, UnknownTopicOrPartition):
                logger.warning("%s; it is read as soon as it is made", topic.error)
            elif topic.error is not None:
                raise topic.error

    def _subscribe(
        self, names: frozenset[str], pattern: re.Pattern[str] | None, listener: object | None
    ) -> Rounds[None]:
        subscription = self._subscription
        if pattern is not None:
            yield from self._cluster.rounds.refresh()
        subscription.pattern, subscription.listener = pattern, listener
        if pattern is not None:
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

    def assign(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        """See `Consumer.assign`."""
        keys = list(dict.fromkeys(checked_partition(key) for key in partitions))
        self._cluster.creates = self._config.allow_auto_create_topics
        for key in keys:
            yield from self._cluster.rounds.leader(key)
        self._loop.take_back()
        yield from self.leave("it was assigned partitions by hand", CLOSE_MS)
        ids = {}
        for key in keys:
            state = self._subscription.states.get(key)
            ids[key] = (yield from self._cluster.rounds.topic(key.topic)).topic_id if state is None else state.topic_id
        self._subscription.assign(list(ids.items()))

    def leave(self, reason: str, timeout_ms: int, *, commit: bool = True) -> Rounds[None]:
        """Subscribe to nothing, and leave the group. Raises what the listener raises."""
        subscription = self._subscription
        subscription.topics, subscription.pattern = frozenset(), None
        if self._group is not None and subscription.is_shared:
            try:
                yield from self._group.leave(reason, timeout_ms, commit=commit)
            finally:
                subscription.is_shared = False

    def _matching(self) -> frozenset[str]:
        return self._subscription.matching(self._cluster.known(), internal=not self._config.exclude_internal_topics)

    def _assign_all(self) -> None:
        """Without a group: read every partition of the topics that are there, and of a missing one what was read."""
        there = self._cluster.known(self._subscription.topics)
        kept = [
            (key, state.topic_id)
            for key, state in self._subscription.states.items()
            if key.topic in self._subscription.topics and key.topic not in there
        ]
        found = [
            (TopicPartition(name, part.partition_index), topic.topic_id)
            for name, topic in there.items()
            for part in topic.partitions
        ]
        self._subscription.assign(kept + found)

    # --- as the topics change ----------------------------------------------------------------------------------------

    def look(self, now_ms: int, age_ms: int) -> None:
        """Ask which topics there are, where the last look is `age_ms` old."""
        subscription = self._subscription
        if self._looking is not None or not subscription.is_by_topic:
            return
        if self._is_lacking:
            age_ms = min(age_ms, self._config.retry_backoff_ms)
        if now_ms < self._looked_ms + age_ms:
            return
        self._looked_ms = now_ms
        subscription.is_stale = False
        self._looking = self._requests.add(self._cluster.send_any(MetadataRequest.of()), self._looked)

    @property
    def _is_lacking(self) -> bool:
        """True when reading cannot go on before the topics were looked at."""
        return self._subscription.is_stale or (self._group is not None and self._group.lacks_topics)

    def rests_ms(self, now_ms: int) -> list[int]:
        """The time until each of the questions is asked again."""
        rests = [state.retry_ms - now_ms for state in self._subscription.states.values() if state.retry_ms > now_ms]
        if self._is_lacking and self._looking is None:
            rests.append(max(1, self._looked_ms + self._config.retry_backoff_ms - now_ms))
        return rests

    def _looked(self, request: PendingRequest, answer: MetadataResponse | PylogError) -> None:
        self._looking = None
        if isinstance(answer, PylogError):
            # A topic that is missing is asked about again.
            self._compared = (None, None)
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

    def begin_made_again(self) -> None:
        """Begin again in topics that were deleted and made again: what is known of the old one means nothing there.

        A topic that is not known rests as it is: `LeaderLookup` asks for it, or a group takes it away.
        """
        subscription = self._subscription
        view, states = self._cluster.view, subscription.states
        if view is self._compared[0] and states is self._compared[1]:
            return
        self._compared = view, states
        known = {key.topic: state.topic_id for key, state in subscription.states.items()}
        topics = self._cluster.known(known)
        if subscription.is_shared:
            subscription.is_stale |= len(topics) < len(known)
        again = {name: topic.topic_id for name, topic in topics.items() if topic.topic_id != known[name]}
        if not again:
            return
        if subscription.is_by_topic and not subscription.is_shared:
            self._assign_all()
            return
        subscription.assign([(key, again.get(key.topic, state.topic_id)) for key, state in subscription.states.items()])
