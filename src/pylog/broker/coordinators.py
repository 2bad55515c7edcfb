"""The coordinators of a node: each is made of its log when it is asked for, and goes when the node leads no more.

    groups         one `GroupCoordinator` for each partition of `__consumer_offsets`, by the hash of the group id
    transactions   one `TransactionCoordinator` for each of `__transaction_state`, by that of the transactional id
    share states   one `ShareCoordinator` for each of `__share_group_state`, by that of group, topic and partition

The topics are made at their first use. The coordinators of transactions that an earlier owner has left open are made in
the background after the open. `coordinator_router` chooses the coordinator of a message.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.produce import ProduceHandler
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.transaction_markers import TransactionMarkers
from pylog.coordinator.effects import Ask, Coordinator, TopicInfo
from pylog.errors import NotCoordinator, NotLeaderOrFollower, PylogError, TopicAlreadyExists, UnknownTopicOrPartition
from pylog.protocol.messages import GROUPS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC, NewTopic
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.partitioner import partition_for
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock

logger = logging.getLogger("pylog.broker")

GROUPS = GROUPS_TOPIC
TRANSACTIONS = TRANSACTIONS_TOPIC
SHARE_STATES = SHARE_STATES_TOPIC
LITTLE_BYTES = 4 << 20
"""How large the log of a coordinator is at most that is made for its upkeep alone."""
NAMES_MAX = 10_000
"""How many names are kept with their coordinators."""


class Coordinators:
    """The coordinators of one node. Thread-safe.

    `is_lost` says of the host of a group's member that it is gone; `markers` ends transactions in their partitions;
    `wake` is told when a coordinator has something to do.
    """

    def __init__(
        self, replica_manager: ReplicaManager, produce: ProduceHandler, clock: Clock, *,
        is_lost: Callable[[str], bool], wake: Callable[[int], object], markers: TransactionMarkers,
        ask: Callable[[CoordinatorHost, Ask, PylogError | None], None],
    ) -> None:  # fmt: skip
        self._replica_manager = replica_manager
        self._produce = produce
        self._config = replica_manager.configs.given
        self._clock = clock
        self._is_lost = is_lost
        self._markers = markers
        self._ask = ask
        self._wake = wake
        self._topics = _CurrentTopics(replica_manager)
        self._hosts: dict[TopicPartition, CoordinatorHost] = {}
        self._named: dict[tuple[str, str], tuple[CoordinatorHost, TopicPartition]] = {}
        """The latest coordinator of some groups and transactional ids: to hash a name takes a while."""
        self._forgotten: dict[TopicPartition, CoordinatorHost] = {}
        """Those that were ahead of their log when the node lost its partition: a successor here takes that up."""
        # One that takes over may have markers to write at once, in this thread.
        self._loading = WholeLock(threading.RLock())
        self._producer_ids: Iterator[int] = iter(())
        self._giving_ids = WholeLock()
        self._is_unsettled = TRANSACTIONS in replica_manager.image.topics

    # --- which there are ---------------------------------------------------------------------------------------------

    def of(self, topic: str, name: str) -> CoordinatorHost:
        """The coordinator of a group, of a transactional id, or of a share partition. Raises NotCoordinator,
        CorruptBatch.
        """
        found = self.ready(topic, name)
        if found is not None:
            return found
        key = self.partition(topic, name)
        host = self.at(key)
        if len(self._named) >= NAMES_MAX:
            self._named.clear()
        self._named[topic, name] = host, key
        return host

    def ready(self, topic: str, name: str) -> CoordinatorHost | None:
        """The coordinator of a name that was asked for before, if it is still the one."""
        found = self._named.get((topic, name))
        return found[0] if found is not None and self._is_current(*found) else None

    def partition(self, topic: str, name: str) -> TopicPartition:
        """The partition of the coordinator of such a name; the topic is made where it is missing.

        Raises UnknownTopicOrPartition: it has no partitions.
        """
        if topic not in self._replica_manager.image.topics:
            with suppress(TopicAlreadyExists):
                self._replica_manager.changes.create_topic(self._new_topic(topic))
        count = len(self._replica_manager.image.topics[topic].partitions)
        if not count:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partitions, by the metadata log: delete it")
        return TopicPartition(topic, partition_for(name, count))

    def _new_topic(self, topic: str) -> NewTopic:
        config = self._config
        compacted = {"cleanup.policy": "compact"}
        partitions, segment_bytes, policy = {
            GROUPS: (config.offsets_topic_num_partitions, config.offsets_topic_segment_bytes, compacted),
            TRANSACTIONS: (
                config.transaction_state_log_num_partitions, config.transaction_state_log_segment_bytes, compacted,
            ),
            # Its coordinators drop what is said again.
            SHARE_STATES: (
                config.share_coordinator_state_topic_num_partitions, config.share_coordinator_state_topic_segment_bytes,
                {"cleanup.policy": "delete", "retention.ms": "-1"},
            ),
        }[topic]  # fmt: skip
        return NewTopic(topic, partitions, {**policy, "segment.bytes": str(segment_bytes)})

    def at(self, key: TopicPartition) -> CoordinatorHost:
        """The coordinator that lives by a partition. Raises NotCoordinator, CorruptBatch."""
        host = self._hosts.get(key)
        if host is not None and self._is_current(host, key):
            return host
        with self._loading:
            before = self._hosts.get(key) or self._forgotten.get(key)
            if before is not None and self._is_current(before, key):
                return before
            if before is not None:
                before.abandon(
                    NotCoordinator(
                        f"node {self._replica_manager.id} has begun again with {key.topic}-{key.partition}: try again"
                    )
                )
            try:
                leader = self._replica_manager.roles.leader(*key)
            except NotLeaderOrFollower as error:
                raise NotCoordinator(str(error)) from error
            host = self._hosts[key] = CoordinatorHost(
                leader, self._machine(key), self._clock, self._produce, self._markers,
                # A leader takes its epoch when it first writes; it is the coordinator's, too.
                lambda epoch: self._replica_manager.roles.writer(*key, epoch=epoch),
                lambda offset: self._drop_before(key, offset),
                self._ask,
            )  # fmt: skip
            if before is not None:
                host.take_up(before)
                self._forgotten.pop(key, None)
        self.note_due(host)
        return host

    def little(self, key: TopicPartition) -> CoordinatorHost | None:
        """The coordinator that lives by a partition; None where it would have to read more than `LITTLE_BYTES` first.

        Such a one is left until somebody asks for it. Raises as `at`.
        """
        known = self._hosts.get(key)
        if known is None or not self._is_current(known, key):
            try:
                if self._replica_manager.roles.leader(*key).partition.size > LITTLE_BYTES:
                    return None
            except NotLeaderOrFollower as error:
                raise NotCoordinator(str(error)) from error
        return self.at(key)

    def _is_current(self, host: CoordinatorHost, key: TopicPartition) -> bool:
        return self._replica_manager.roles.held(*key) is host.leader and host.gone is None

    def _drop_before(self, key: TopicPartition, offset: int) -> None:
        """Drop what lies below an offset of a coordinator's log. Where the disk refuses it, it stays."""
        error = self._replica_manager.changes.drop_before(key, offset)
        if error is not None:
            logger.warning("old records of %s-%d stay: %s", *key, error, extra=key._asdict())

    def _machine(self, key: TopicPartition) -> Coordinator:
        if key.topic == GROUPS:
            from pylog.coordinator.group import GroupCoordinator

            return GroupCoordinator(key.partition, self._replica_manager.configs, self._topics, is_lost=self._is_lost)
        if key.topic == SHARE_STATES:
            from pylog.coordinator.share.coordinator import ShareCoordinator

            return ShareCoordinator(key.partition, self._config, self._topics)
        from pylog.coordinator.transaction import TransactionCoordinator

        return TransactionCoordinator(key.partition, self._config, new_producer_id=self.new_producer_id)

    def new_producer_id(self) -> int:
        """A producer id that was never given before. Raises DiskFull, DurabilityUnknown."""
        with self._giving_ids:
            given = next(self._producer_ids, None)
            if given is None or given < self._replica_manager.cluster_changes.producer_ids_from:
                self._producer_ids = iter(self._replica_manager.cluster_changes.allocate_producer_ids())
                given = next(self._producer_ids)
            return given

    def made(self, topic: str) -> list[CoordinatorHost]:
        """The coordinators of a topic that were asked for since the open."""
        return [host for key, host in list(self._hosts.items()) if key.topic == topic]

    def kept(self, topic: str) -> list[CoordinatorHost]:
        """The coordinators that have ever written anything here. Raises what `at` raises."""
        return [self.at(key) for key in self.written(topic)]

    def written(self, topic: str) -> list[TopicPartition]:
        """The partitions of a coordinators' topic that were ever written here."""
        image = self._replica_manager.image.topics.get(topic)
        keys = [TopicPartition(topic, number) for number in sorted(image.partitions)] if image is not None else []
        return [
            key
            for key in keys
            if self._replica_manager.directories.has_folder(self._replica_manager.topics.home(key), key)
        ]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Enclose a change of leaders: a coordinator that is made meanwhile answers after it."""
        with self._loading:
            yield

    def forget(self, key: TopicPartition) -> None:
        """Abandon the coordinator of a partition for which this node has another role now."""
        with self._loading:
            host = self._hosts.pop(key, None)
            if host is not None and host.machine.is_ahead:
                self._forgotten[key] = host
        if host is not None:
            host.abandon(
                NotCoordinator(f"node {self._replica_manager.id} does not lead {key.topic}-{key.partition} any more")
            )

    def close(self, error: PylogError) -> None:
        """Bring the logs up to date, and fail each message that waits with `error`."""
        with ExitStack() as closing:
            for host in reversed(list(self._hosts.values())):
                # Each ends, whatever another one raises: its callers wait.
                closing.callback(host.close, error)

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """The time at which `tick` has something to do."""
        if self._is_unsettled:
            return self._clock.tick_ms()
        return min((host.due_ms for host in list(self._hosts.values()) if host.due_ms is not None), default=None)

    def note_due(self, host: CoordinatorHost) -> None:
        """Note that a coordinator may have something to do earlier than was known."""
        due = host.due_ms
        if due is not None:
            self._wake(due)

    def tick(self, now_ms: int) -> None:
        """Do what is due. No error is raised, as no caller waits: work that could not be done stays due."""
        if self._is_unsettled:
            self._is_unsettled = False
            for key in self.written(TRANSACTIONS):
                try:
                    self.at(key)
                except NotCoordinator:
                    # Its leader ends them.
                    continue
                except PylogError as error:
                    logger.error("transactions that were left open cannot be ended: %s", error)
        for host in list(self._hosts.values()):
            if host.due_ms is not None and host.due_ms <= now_ms:
                host.tick()


class _CurrentTopics:
    """The topics of a node's metadata image, as coordinators see them."""

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replica_manager = replica_manager
        self._seen: MetadataImage | None = None
        self._named: dict[str, TopicInfo] = {}

    def named(self) -> Mapping[str, TopicInfo]:
        image = self._replica_manager.image
        if image is not self._seen:
            topics = image.topics.values()
            self._named = {topic.name: TopicInfo(topic.id, len(topic.partitions)) for topic in topics}
            self._seen = image
        return self._named
