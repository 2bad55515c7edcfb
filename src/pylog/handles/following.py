"""`Following`: a log that copies topics of another one over a network, a pylog leader's or those of a Kafka cluster.

    refresh    Metadata and the topics' configs; then each partition follows its leader, in its epoch
    fetch      the node's fetchers do, by the transport of this network (`broker/follower_fetcher`)
    refused    a fetcher has met an error: leaders may have changed, so refresh

    what the leader's Metadata says of a partition      how it is fetched
    this node is one of its replicas                    as a replica: to the end of the log, and asking acknowledges
    it is not                                           as a consumer: what all replicas have; appends do not wait

The topics of coordinators come along where this node is one of their replicas, whatever topics were asked for: the
leader has brought them along by itself (`promotion`).

So a Kafka cluster, which knows nothing of this node, needs no word of its own. Batches are stored as they come, with
their offsets and leader epochs. Cluster id, topic ids and configs are the leader's.

Invariant: a role is given with the lock held, and only while the topic is followed. So nothing takes back what
`Log.lead` has decided.
"""

import logging
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar
from uuid import UUID

from pylog.broker.broker import Broker
from pylog.broker.follower_fetcher import LEADER_MOVED, LeaderEndPoint
from pylog.client.cluster import about, raise_first
from pylog.client.network.transport import reached
from pylog.controller.roles import Follow
from pylog.errors import (
    Closed,
    DuplicateBrokerRegistration,
    InconsistentTopicId,
    InvalidTopic,
    LeaderNotAvailable,
    LogDiverged,
    PylogError,
    UnsupportedVersion,
)
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages import (
    CONSUMER,
    INTERNAL_TOPICS,
    LATEST,
    NO_EPOCH,
    NO_HIGH_WATERMARK,
    NO_ID,
    ApiRequest,
    ConfigSource,
    Fetch,
    Fetched,
    FetchPart,
    ResourceType,
    Session,
)
from pylog.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from pylog.protocol.messages.records import ListOffsetsRequest, ListOffsetsResponse
from pylog.protocol.messages.topics import MetadataPartition, MetadataRequest, MetadataResponse, MetadataTopic
from pylog.record import TopicPartition
from pylog.replica import Follower
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock
from pylog.runtime.worker import Worker
from pylog.transport import ANY_NODE

__all__ = ["Following", "ReplicaLag"]

R = TypeVar("R")
logger = logging.getLogger("pylog.handles")

LOOK_MS = 500
REFRESH_MS = 1_000
"""How often it is looked for new topics and partitions while nothing is wrong: appends may wait for this copy there."""
CONFIGS_MS = 10_000
"""How often it is looked for new configs."""
SHAPING = ("segment.bytes", "segment.ms", "segment.jitter.ms", "segment.index.bytes", "index.interval.bytes")
"""The configs that decide where segments and index entries begin: with the leader's, the files come out the same."""
FINAL = (LogDiverged, InconsistentTopicId, InvalidTopic)
"""The errors of a partition that another request does not end."""

_open: "weakref.WeakSet[Following]" = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLag:
    """The lag of the copy of a partition."""

    next_offset: int
    """The end of the copy."""
    high_watermark: int
    """The high watermark of the leader, as of its last answer, or -1."""
    leader_end: int
    """How far the leader has shown its log to this copy: to the end where it counts this copy, to the high watermark
    otherwise; -1: it has not answered.
    """
    leader: int
    leader_epoch: int
    """The leader epoch in which it is followed; -1: it is not, for the moment."""
    is_in_sync: bool
    """Whether the leader has this copy in the ISR, so that it counts for acks=all, at its last Metadata."""
    error: PylogError | None
    """The reason why it does not come on, if it does not."""

    @property
    def lag(self) -> int:
        """The number of offsets that the leader shows and that are not here yet; -1: that is not known."""
        return -1 if self.leader_end < 0 else max(0, self.leader_end - self.next_offset)


class Following:
    """Topics of this log that copy those of a leader elsewhere. Thread-safe. Made by `Log.follow`, which see.

    Closing it stops the copying; what is here stays.

    >>> leader = log.serve("127.0.0.1:0")
    >>> copy = pylog.open(":memory:", node_id=7)
    >>> following = copy.follow(leader.bootstrap_servers)
    >>> following.topics
    ['orders']
    """

    def __init__(
        self, broker: Broker, bootstrap_servers: str | Sequence[str], topics: Iterable[str] | None,
        configs: Mapping[str, object], clock: Clock,
    ) -> None:  # fmt: skip
        self._broker = broker
        self._clock = clock
        self._topics = None if topics is None else list(dict.fromkeys(topics))
        self.leader, self._network, self._transport = reached(bootstrap_servers, configs, clock)
        self._session = Session(client_id=f"replica-{broker.node_id}")
        self._lock = WholeLock()
        self._closed = False
        self._released: set[str] = set()
        """The topics that this node leads now."""
        self._stopped: dict[TopicPartition, PylogError] = {}
        self._roles: dict[TopicPartition, tuple[LeaderEndPoint, int, UUID, bool]] = {}
        """The leader of each partition, its epoch, the id of the topic, and whether the leader counts this copy."""
        self._configs_ms = 0
        self._leaders: set[LeaderEndPoint] = set()
        self._ends: dict[TopicPartition, int] = {}
        """How far the leaders have shown their logs."""
        self._said = ""
        self._due_ms = clock.tick_ms() + REFRESH_MS
        self._is_begun = False
        self._worker = Worker(f"pylog-following-{broker.node_id}", clock, self._due, self._work)
        _open.add(self)
        try:
            self._worker.begin()
            self._refresh(is_first=True)
        except BaseException:
            self.close()
            raise
        self._is_begun = True
        self._worker.wake()

    def __repr__(self) -> str:
        return f"<Following {self.leader} with {len(self._roles)} partitions>"

    # --- what it tells -----------------------------------------------------------------------------------------------

    @property
    def topics(self) -> list[str]:
        """The names of the topics that are followed, sorted."""
        return sorted({key.topic for key in list(self._roles)})

    def lag(self) -> dict[TopicPartition, ReplicaLag]:
        """The lag of each partition, and its error, if any.

        The leaders are asked where their logs end. What one does not answer within half a second is as it was before.

        >>> following.lag()[orders].leader
        1
        """
        self._ask_ends()
        return self._lags()

    def _lags(self) -> dict[TopicPartition, ReplicaLag]:
        return {key: self._lag(key, *role) for key, role in sorted(dict(self._roles).items())}

    def _ask_ends(self) -> None:
        asked: dict[LeaderEndPoint, dict[TopicPartition, int]] = {}
        for key, (leader, epoch, *_) in dict(self._roles).items():
            asked.setdefault(leader, {})[key] = epoch
        answers = []
        for leader, epochs in asked.items():
            replica_id = self._broker.node_id if leader.is_replica else CONSUMER
            with suppress(PylogError):
                message = ListOffsetsRequest.of(dict.fromkeys(epochs, LATEST), replica_id=replica_id, epochs=epochs)
                answers.append(leader.transport.send(leader.node, message, self._session))
        until_ms = self._clock.tick_ms() + LOOK_MS
        for answer in answers:
            with suppress(PylogError, TimeoutError):
                listed: ListOffsetsResponse = answer.result(max(0, until_ms - self._clock.tick_ms()) / 1000)
                for topic in listed.topics:
                    for one in topic.partitions:
                        if one.error is None:
                            self._ends[TopicPartition(topic.name, one.partition_index)] = one.offset

    def _lag(self, key: TopicPartition, leader: LeaderEndPoint, epoch: int, _: UUID, counts: bool) -> ReplicaLag:
        role = self._broker.node.roles.held(*key)
        follower = role if isinstance(role, Follower) else None
        high_watermark = follower.leader_high_watermark if follower is not None else -1
        return ReplicaLag(
            next_offset=role.partition.next_offset if role is not None else 0, high_watermark=high_watermark,
            leader_end=max(self._ends.get(key, -1), high_watermark),
            leader=leader.node, leader_epoch=epoch, is_in_sync=counts,
            error=self._stopped.get(key) or (follower.error if follower is not None else None),
        )  # fmt: skip

    # --- refreshing --------------------------------------------------------------------------------------------------

    def _due(self) -> int | None:
        # Two refreshes at once could go by an older answer behind a newer one.
        return self._due_ms if self._is_begun else None

    def _refused(self, error: PylogError) -> None:
        # In the thread of a fetcher.
        if not self._closed:
            self._due_ms = min(self._due_ms, self._clock.tick_ms())
            self._worker.wake()

    def _work(self) -> None:
        self._due_ms = self._clock.tick_ms() + REFRESH_MS
        try:
            self._refresh()
            self._said = ""
        except Closed:
            pass
        except PylogError as error:
            if self._said != str(error):
                logger.warning("the leader at %s does not say what it leads: %s", self.leader, error)
                self._said = str(error)
        # Whatever is refused meanwhile waits for this long: it is asked again no more often.
        self._rest()

    def _rest(self) -> None:
        rest_ms = self._broker.config.replica_fetch_backoff_ms
        troubled = self._said or any(lag.error is not None for lag in self._lags().values())
        self._due_ms = self._clock.tick_ms() + (rest_ms if troubled else REFRESH_MS)

    def _refresh(self, *, is_first: bool = False) -> None:
        """Ask what is led where, and go by it. Raises what is wrong with the leader; with `is_first` also what is
        wrong with a topic or a partition of it.
        """
        asked = None if self._topics is None else list(dict.fromkeys([*self._topics, *sorted(INTERNAL_TOPICS)]))
        found: MetadataResponse = self._ask(MetadataRequest.of(asked))
        self._check_nodes(found)
        self._broker.join_cluster(found.cluster_id or "")
        told = {topic.name or "": topic for topic in found.named(asked)}
        wanted = {name: one for name, one in told.items() if self._is_asked_for(name) or self._comes_along(name, one)}
        if is_first:
            raise_first(one.error and about("topic", name, one.error) for name, one in wanted.items())
        topics = {name: one for name, one in wanted.items() if one.error is None and name not in self._released}
        configs = self._due_configs(list(topics))
        if is_first:
            self._register(topics)
        nodes = found.nodes
        for name, topic in topics.items():
            for part in topic.partitions:
                try:
                    self._follow(name, topic, part, nodes.get(part.leader_id), configs.get(name, {}))
                except PylogError as error:
                    if is_first and not isinstance(error, LeaderNotAvailable):
                        raise
                    self._note(TopicPartition(name, part.partition_index), error)
            self._take_config(name, configs)

    def _register(self, topics: Mapping[str, MetadataTopic]) -> None:
        """Tell the id of the directory to the leaders that have this node as a replica.

        One partition of each leader is enough. The fetch acknowledges nothing. Raises DuplicateBrokerRegistration.
        """
        parts = {
            part.leader_id: FetchPart(
                name, part.partition_index, 0, 1, part.leader_epoch, high_watermark=NO_HIGH_WATERMARK,
                topic_id=topic.topic_id, directory_id=self._broker.directory_id,
            )
            for name, topic in topics.items() for part in topic.partitions
            if self._broker.node_id in part.replica_nodes and part.leader_id >= 0
        }  # fmt: skip
        for node, part in parts.items():
            message = Fetch([part], replica_id=self._broker.node_id, max_wait_ms=0)
            fetched: Fetched = self._transport.send(node, message, self._session).result()
            if isinstance(fetched.parts[0].error, DuplicateBrokerRegistration):
                raise DuplicateBrokerRegistration(
                    f"another node {self._broker.node_id} follows the leader at {self.leader}: open this log with "
                    "another node_id, or, if it takes the place of that node, call lead(topic, followers="
                    f"{{{self._broker.node_id}}}) on the leader again"
                )

    def _is_asked_for(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    def _comes_along(self, name: str, topic: MetadataTopic) -> bool:
        """Whether the leader has made this node a replica of a topic of coordinators, and no other Following has it."""
        others = [other for other in list(_open) if other is not self and other._broker is self._broker]
        return (
            topic.error is None
            and any(self._broker.node_id in part.replica_nodes for part in topic.partitions)
            and not any(other._has(name) for other in others)
        )

    def _due_configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        now = self._clock.tick_ms()
        if now < self._configs_ms:
            # A topic is made here with its config.
            return self._configs([name for name in names if not self._has(name)])
        self._configs_ms = now + CONFIGS_MS
        return self._configs(names)

    def _ask(self, message: ApiRequest[R]) -> R:
        answer: R = self._transport.send(ANY_NODE, message, self._session).result()
        return answer

    def _check_nodes(self, found: MetadataResponse) -> None:
        if self._broker.node_id in found.nodes:
            raise DuplicateBrokerRegistration(
                f"the leader at {self.leader} has a node {self._broker.node_id}, and so is this one: open this log "
                "with another node_id (a directory keeps the one that it was made with)"
            )
        if not found.cluster_id:
            raise UnsupportedVersion(f"the leader at {self.leader} is too old: it does not tell the id of its cluster")

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        """The overrides that the topics get here: those that they have, and what shapes their files."""
        asked = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name)
                for name in names
            ]
        )
        found: DescribeConfigsResponse = self._ask(asked) if names else DescribeConfigsResponse()
        own = self._broker.topic_config({}).to_kafka()
        return {
            topic.resource_name: {
                one.name: one.value or ""
                for one in topic.configs
                if one.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
                or (one.name in SHAPING and one.value != own[one.name])
            }
            for topic in found.results
            if topic.error is None
        }

    def _take_config(self, topic: str, configs: Mapping[str, dict[str, str]]) -> None:
        with self._lock:
            if not self._closed and topic in configs and topic not in self._released and self._has(topic):
                self._broker.node.cluster_changes.take_topic_config(topic, configs[topic])

    def _has(self, topic: str) -> bool:
        return any(key.topic == topic for key in self._roles)

    def _follow(
        self, name: str, topic: MetadataTopic, part: MetadataPartition, address: tuple[str, int] | None,
        config: dict[str, str],
    ) -> None:  # fmt: skip
        key = TopicPartition(name, part.partition_index)
        if part.leader_id < 0:
            raise LeaderNotAvailable(f"{key.topic}-{key.partition} has no leader for the moment")
        if topic.topic_id == NO_ID:
            raise UnsupportedVersion(f"the leader at {self.leader} is too old: it does not tell the ids of topics")
        is_replica = self._broker.node_id in part.replica_nodes
        leader = LeaderEndPoint(part.leader_id, self._transport, self._refused, is_replica, address)
        with self._lock:
            role = leader, part.leader_epoch, topic.topic_id, self._broker.node_id in part.isr_nodes
            if self._closed or key in self._stopped or key.topic in self._released or self._roles.get(key) == role:
                return
            effect = Follow(
                topic=name, topic_id=topic.topic_id, partition=key.partition, partitions=len(topic.partitions),
                leader=part.leader_id, leader_epoch=part.leader_epoch, config=config, counts=role[-1],
            )  # fmt: skip
            # An error leaves the partition without a fetcher: the next refresh gives it one.
            self._roles[key] = leader, NO_EPOCH, topic.topic_id, False
            self._broker.apply(effect, leader)
            self._roles[key] = role
            self._leaders.add(leader)

    def _note(self, key: TopicPartition, error: PylogError) -> None:
        """Note what is wrong with a partition, which stays as it is."""
        role = self._broker.node.roles.held(*key)
        if isinstance(error, FINAL):
            self._stopped[key] = error
        if not isinstance(role, Follower) or str(role.error) != str(error):
            level = logging.INFO if isinstance(error, LEADER_MOVED) else logging.WARNING
            logger.log(level, "%s-%d cannot be followed: %s", *key, error, extra=key._asdict())
        if isinstance(role, Follower):
            role.error = error

    # --- the end -----------------------------------------------------------------------------------------------------

    def release(self, topics: Iterable[str]) -> None:
        """Follow these topics no more: this node is about to lead them."""
        with self._lock:
            self._released.update(topics)
            self._roles = {key: role for key, role in self._roles.items() if key.topic not in self._released}

    def measure(self, found: Metrics) -> None:
        """Add the numbers of the connections to the leader. How far the copies are is among those of the node."""
        self._network.measure(found)

    def close(self) -> None:
        """Stop copying. What is here stays, and can be followed on. Again: nothing.

        >>> following.close()
        """
        with self._lock:
            self._closed = True
            leaders, self._leaders, self._roles = self._leaders, set(), {}
        for leader in leaders:
            self._broker.leave(leader)
        self._network.close()
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def abandon(self) -> None:
        """Let go of the sockets in a forked child: the copying is its parent's."""
        self._network.abandon()


def _forked() -> None:
    for following in list(_open):
        following.abandon()


os.register_at_fork(after_in_child=_forked)
