"""A client's view of the nodes: the topics and the leaders of their partitions, asked for once and kept.

A caller that needs an unknown topic waits for the answer. Where a node answers NotLeaderOrFollower, the
topic is asked for without waiting, as threads that bring answers hear that; the old view serves until the answer comes.

    Cluster          what is known, what is sent, and the calls that wait in their own thread
    ClusterRounds    the same calls in rounds, for a client that has one place at which it waits
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeVar, overload
from uuid import UUID

from pylog.errors import (
    Closed,
    LeaderNotAvailable,
    PylogError,
    RequestTimedOut,
    UnknownServer,
    UnknownTopicOrPartition,
)
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import (
    ApiRequest,
    ApiResponse,
    Message,
    Session,
)
from pylog.protocol.messages.records import ListedOffset, ListOffsetsRequest
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse, MetadataTopic
from pylog.record import TopicPartition
from pylog.runtime.future import Future, failed
from pylog.runtime.rounds import Rounds, finished
from pylog.transport import PendingAnswer, Transport

ANSWER_SECONDS = 60.0
"""How long a call waits for its answer (Kafka: default.api.timeout.ms)."""
P = TypeVar("P")
R = TypeVar("R")


class Wait(Protocol):
    """A way to wait for an answer."""

    def __call__(self, future: Future[R], seconds: float, /) -> Rounds[R]:
        """The result of a future within so many seconds. Raises TimeoutError without a result."""


def checked_names(what: str, names: Iterable[str]) -> list[str]:
    """Names from a caller. Raises TypeError, also for one str in place of several, which would be taken by letters."""
    if isinstance(names, str):
        raise TypeError(f"{what} is a list of names, not a str")
    return [checked_name(what, name) for name in names]


def checked_name(what: str, name: object) -> str:
    """A name from a caller. Raises TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"{what}: {name!r} is no name, but {type(name).__name__}")
    return name


def checked_words(what: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    """Words of a few, in whatever case, as they are known. Raises TypeError, ValueError."""
    by_lower = {one.lower(): one for one in known}
    wanted = checked_names(what, given)
    strange = [one for one in wanted if one.lower() not in by_lower]
    if strange:
        raise ValueError(f"{what}: {', '.join(strange)} is none of {', '.join(by_lower.values())}")
    return [by_lower[one.lower()] for one in wanted]


def sole(parts: Sequence[P], what: str) -> P:
    """The part of an answer to a request that asks about one thing. Raises UnknownServer where it has another number
    of parts.
    """
    if len(parts) != 1:
        raise UnknownServer(f"the node was asked about {what} alone, and answers about {len(parts)}")
    return parts[0]


def about(what: str, name: str, error: PylogError) -> PylogError:
    """The error of an answer about one thing, which names it: a response may have no place for the text of an error."""
    return error if name in str(error) else type(error)(f"{what} {name!r}: {error}")


def raise_first(errors: Iterable[PylogError | None]) -> None:
    """Raise the first error of the parts of an answer, if one has any."""
    for error in errors:
        if error is not None:
            raise error


def _in_its_thread(future: Future[R], seconds: float) -> Rounds[R]:
    yield from ()
    return future.result(seconds)


class Cluster:
    """A client's view of the nodes behind `transport`; `node` is the one that is asked about topics.

    `wait` is how `rounds` wait for an answer, for a client that has one place at which it waits; `seconds` is how long
    where a call does not say so. While `creates` is True, a question about a missing topic makes that topic, if the
    node allows it.
    """

    def __init__(
        self, transport: Transport, node: int, client_id: str, wait: Wait = _in_its_thread, *, creates: bool = False,
        seconds: float = ANSWER_SECONDS,
    ) -> None:  # fmt: skip
        self._transport = transport
        self._node = node
        self.creates = creates
        self._session = Session(client_id=client_id)
        self._end: str | None = None
        """Why nothing is sent any more."""
        self._topics: dict[str, MetadataTopic] = {}
        self._destinations: dict[str, dict[int, tuple[UUID, int]]] = {}
        """Topic id and leader by topic and partition, of the partitions that something was sent to."""
        self._renewing: set[str] = set()
        self.view = object()
        """Another object after each answer: what was derived from the topics may be out of date."""
        self.rounds = ClusterRounds(self, wait, seconds)

    @property
    def node(self) -> int:
        """The node that is asked about topics."""
        return self._node

    def send(self, node: int, message: Message) -> PendingAnswer:
        """Send to a node; the future is its answer. After `release` it is Closed."""
        if self._end is not None:
            return failed(Closed(self._end))
        return self._transport.send(node, message, self._session)

    def question(self, names: list[str] | None) -> MetadataRequest:
        """The request about these topics, or all."""
        return MetadataRequest.of(names, creates=self.creates and names is not None)

    @property
    def who(self) -> str:
        """The node that this client is attached to, for a message."""
        return self._transport.name(self._node)

    def release(self, reason: str) -> None:
        """Send nothing more: the client is closed, as `reason` says."""
        self._end = reason
        self._transport.forget(self._session)

    def send_any(self, message: Message) -> PendingAnswer:
        """Send to the node that this client is attached to, as any would do."""
        return self.send(self._node, message)

    def name(self, node: int) -> str:
        """A node, for a message."""
        return self._transport.name(node)

    @overload
    def ask(self, message: ApiRequest[R], *, node: int | None = None, seconds: float | None = None) -> R: ...
    @overload
    def ask(self, message: Message, *, node: int | None = None, seconds: float | None = None) -> Any: ...
    def ask(self, message: Message, *, node: int | None = None, seconds: float | None = None) -> Any:
        """See `ClusterRounds.ask`."""
        return finished(self.rounds.ask(message, node=node, seconds=seconds))

    def refresh(self, names: list[str] | None = None, *, seconds: float | None = None) -> None:
        """See `ClusterRounds.refresh`."""
        finished(self.rounds.refresh(names, seconds=seconds))

    def learn(self, answer: MetadataResponse, names: list[str] | None) -> list[MetadataTopic]:
        """Take over a node's answer about these topics, or all, and return them. An error names its topic."""
        topics = answer.named(names)
        # Piece by piece: another thread may be learning of other topics.
        for topic in topics:
            name = topic.name or ""
            self._destinations.pop(name, None)
            if topic.error is None:
                topic.partitions.sort(key=attrgetter("partition_index"))
                self._topics[name] = topic
            else:
                topic.error = about("topic", name, topic.error)
                self._topics.pop(name, None)
        if names is None:
            for name in set(self._topics) - {topic.name for topic in topics}:
                self._topics.pop(name, None)
                self._destinations.pop(name, None)
        self.view = object()
        return topics

    def topic(self, name: str, *, seconds: float | None = None) -> MetadataTopic:
        """See `ClusterRounds.topic`."""
        return self._topics.get(name) or finished(self.rounds.topic(name, seconds=seconds))

    def known(self, names: Iterable[str] | None = None) -> dict[str, MetadataTopic]:
        """These topics, or all, by name, as far as they are known, without asking a node."""
        found = {name: self._topics.get(name) for name in sorted(self._topics.copy() if names is None else names)}
        return {name: topic for name, topic in found.items() if topic is not None}

    def known_leader(self, key: TopicPartition) -> int | None:
        """The node that leads a partition, as far as that is known, without asking a node."""
        topic = self._topics.get(key.topic)
        for state in () if topic is None else topic.partitions:
            if state.partition_index == key.partition:
                return state.leader_id
        return None

    def leader(self, key: TopicPartition) -> int:
        """See `ClusterRounds.leader`."""
        node = self.known_leader(key)
        return finished(self.rounds.leader(key)) if node is None else node

    def destination(self, key: TopicPartition) -> tuple[UUID, int]:
        """The id of a topic and the node that leads the partition. It waits for nothing, as threads that bring answers
        ask for it. Raises as `leader` does, and LeaderNotAvailable: a node was asked, and has not answered yet.
        """
        found = self._destinations.get(key.topic)
        if found is not None and key.partition in found:
            return found[key.partition]
        node = self.known_leader(key)
        if node is None:
            self._ask_at_once(key.topic)
            node = self.leader(key)
        destination = self.topic(key.topic).topic_id, node
        self._destinations.setdefault(key.topic, {})[key.partition] = destination
        return destination

    def _ask_at_once(self, name: str) -> None:
        """Ask about a topic. Raises LeaderNotAvailable where the answer is not there at once, and the topic's error."""
        answer = self.send_any(self.question([name]))
        if not answer.done():
            answer.add_done_callback(partial(self._renewed, name))
            raise LeaderNotAvailable(f"topic {name!r}: the leaders of its partitions are asked for")
        raise_first(topic.error for topic in self.learn(answer.result(), [name]))

    def topics(self) -> dict[str, MetadataTopic]:
        """See `ClusterRounds.topics`."""
        return finished(self.rounds.topics())

    def coordinator(self, kind: str, key: str) -> int:
        """The node that coordinates a "group" or a "transaction": the one this client is attached to."""
        return self._node

    def by_leader(self, keys: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by the node that leads them."""
        grouped: dict[int, list[TopicPartition]] = {}
        for key in keys:
            grouped.setdefault(self.leader(key), []).append(key)
        return grouped

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:  # fmt: skip
        """See `ClusterRounds.list_offsets`."""
        return finished(self.rounds.list_offsets(times, isolation))

    def heard(self, key: TopicPartition, error: PylogError) -> None:
        """Note an error of a node: the view of the topic may be out of date."""
        if getattr(error, "retriable", False):
            self.renew(key.topic)

    def renew(self, name: str) -> None:
        """Ask about a topic, and do not wait for the answer."""
        if name not in self._renewing:
            self._renewing.add(name)
            try:
                self.send_any(self.question([name])).add_done_callback(partial(self._renewed, name))
            except PylogError:
                # It cannot be asked: the next refusal tries again.
                self._renewing.discard(name)

    def _renewed(self, name: str, answer: Future[MetadataResponse]) -> None:
        self._renewing.discard(name)
        if answer.exception() is None:
            self.learn(answer.result(), [name])


class ClusterRounds:
    """The calls of a cluster that wait for answers. `wait` is how, `seconds` is how long where a call does not say."""

    def __init__(self, cluster: Cluster, wait: Wait, seconds: float) -> None:
        self._cluster = cluster
        self._wait = wait
        self._seconds = seconds

    def ask(self, message: Message, *, node: int | None = None, seconds: float | None = None) -> Rounds[Any]:
        """Send to a node, or to the one that this client is attached to, and wait for the answer.

        Raises RequestTimedOut without an answer after so many seconds, and the error of an answer as a whole.
        """
        cluster = self._cluster
        asked = cluster.node if node is None else node
        seconds = self._seconds if seconds is None else seconds
        try:
            answer = yield from self._wait(cluster.send(asked, message), seconds)
        except TimeoutError:
            what = type(message).__name__
            raise RequestTimedOut(f"{cluster.name(asked)} has not answered a {what} in {seconds:g} s") from None
        if isinstance(answer, ApiResponse) and answer.error is not None:
            raise answer.error
        return answer

    def refresh(self, names: list[str] | None = None, *, seconds: float | None = None) -> Rounds[None]:
        """Ask about these topics, or all; those that are gone are forgotten. Raises as `ask` does."""
        self._cluster.learn((yield from self.ask(self._cluster.question(names), seconds=seconds)), names)

    def topic(self, name: str, *, seconds: float | None = None) -> Rounds[MetadataTopic]:
        """A topic; asked about where it is not known. Raises UnknownTopicOrPartition, and as `ask` does."""
        for found in self._cluster.known([name]).values():
            return found
        answer = yield from self.ask(self._cluster.question([name]), seconds=seconds)
        (told,) = self._cluster.learn(answer, [name])
        if told.error is not None:
            raise told.error
        return told

    def topics(self) -> Rounds[dict[str, MetadataTopic]]:
        """All topics there are now, by name."""
        yield from self.refresh()
        return self._cluster.known()

    def leader(self, key: TopicPartition) -> Rounds[int]:
        """The node that leads a partition; asked again where it is not known. Raises UnknownTopicOrPartition."""
        node = self._cluster.known_leader(key)
        if node is None:
            yield from self.topic(key.topic)
            node = self._cluster.known_leader(key)
        if node is None:
            # The topic may have got more.
            yield from self.refresh([key.topic])
            partitions = (yield from self.topic(key.topic)).partitions
            node = self._cluster.known_leader(key)
            if node is None:
                raise UnknownTopicOrPartition(
                    f"topic {key.topic!r} has no partition {key.partition}; it has {len(partitions)}, from 0 on"
                )
        return node

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation
    ) -> Rounds[dict[TopicPartition, ListedOffset]]:  # fmt: skip
        """The answer of ListOffsets for each partition and its time; the error of one is in its part."""
        found: dict[TopicPartition, ListedOffset] = {}
        asked: dict[int, dict[TopicPartition, int]] = {}
        for key, timestamp in times.items():
            try:
                leader = yield from self.leader(key)
                asked.setdefault(leader, {})[key] = timestamp
            except UnknownTopicOrPartition as error:
                found[key] = ListedOffset(partition_index=key.partition, error=error)
        for node, known in asked.items():
            message = ListOffsetsRequest.of(known, isolation)
            answer = yield from self.ask(message, node=node)
            for key, listed in message.found(answer).items():
                found[key] = listed
                if listed.error is not None:
                    self._cluster.heard(key, listed.error)
        return {key: found[key] for key in times}
