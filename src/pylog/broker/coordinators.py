"""The coordinators that a node has: made of their logs when they are asked for, and gone when it leads no more.

    groups         one `GroupCoordinator` for each partition of `__consumer_offsets`, by the hash of the group id
    transactions   one `TransactionCoordinator` for each of `__transaction_state`, by that of the transactional id

The topics are made at their first use. Transactions that an earlier owner has left open are seen to in the background
after the open. Which message is for which of them is for `coordinator_router`.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from pylog.broker.coordinator_host import CoordinatorHost
from pylog.broker.produce import ProduceHandler
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.transaction_markers import TransactionMarkers
from pylog.config import NodeConfig
from pylog.coordinator.effects import Coordinator, TopicInfo
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.errors import NotCoordinator, NotLeaderOrFollower, PylogError, TopicAlreadyExists
from pylog.protocol.messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC, NewTopic
from pylog.protocol.metadata_image import MetadataImage
from pylog.protocol.partitioner import partition_for
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock

logger = logging.getLogger("pylog")

GROUPS = GROUPS_TOPIC
TRANSACTIONS = TRANSACTIONS_TOPIC
NAMES_MAX = 10_000
"""How many names are kept with their coordinators."""


class Coordinators:
    """The coordinators of one node. Thread-safe.

    `is_lost` says of the host of a group's member that it is gone; `markers` ends transactions in their partitions;
    `wake` is told when a coordinator has something to do.
    """

    def __init__(
        self, node: ReplicaManager, producing: ProduceHandler, config: NodeConfig, clock: Clock, *,
        is_lost: Callable[[str], bool], wake: Callable[[int], None], markers: TransactionMarkers,
    ) -> None:  # fmt: skip
        self._node = node
        self._producing = producing
        self._config = config
        self._clock = clock
        self._is_lost = is_lost
        self._markers = markers
        self._wake = wake
        self._topics = _CurrentTopics(node)
        self._shards: dict[TopicPartition, CoordinatorHost] = {}
        self._named: dict[tuple[str, str], tuple[CoordinatorHost, TopicPartition]] = {}
        """The latest coordinator of some groups and transactional ids: to hash a name takes a while."""
        self._forgotten: dict[TopicPartition, CoordinatorHost] = {}
        """The last one of each partition that has another role now: a successor here takes up what is in no log."""
        # One that takes over may have markers to write at once, in this thread.
        self._loading = WholeLock(threading.RLock())
        self._producer_ids: Iterator[int] = iter(())
        self._giving_ids = WholeLock()
        self._is_unsettled = TRANSACTIONS in node.image.topics

    # --- which there are ---------------------------------------------------------------------------------------------

    def of(self, topic: str, name: str) -> CoordinatorHost:
        """The coordinator of a group, or of a transactional id. Raises NotCoordinator, CorruptBatch."""
        found = self._named.get((topic, name))
        if found is not None and self._is_current(*found):
            return found[0]
        key = self.partition(topic, name)
        shard = self.at(key)
        if len(self._named) >= NAMES_MAX:
            self._named.clear()
        self._named[topic, name] = shard, key
        return shard

    def partition(self, topic: str, name: str) -> TopicPartition:
        """Where the coordinator of a group, or of a transactional id, writes; the topic is made where there is none."""
        if topic not in self._node.image.topics:
            with suppress(TopicAlreadyExists):
                self._node.changes.create_topic(self._new_topic(topic))
        return TopicPartition(topic, partition_for(name, len(self._node.image.topics[topic].partitions)))

    def _new_topic(self, topic: str) -> NewTopic:
        config = self._config
        partitions, segment_bytes = {
            GROUPS: (config.offsets_topic_num_partitions, config.offsets_topic_segment_bytes),
            TRANSACTIONS: (config.transaction_state_log_num_partitions, config.transaction_state_log_segment_bytes),
        }[topic]
        return NewTopic(topic, partitions, {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes)})

    def at(self, key: TopicPartition) -> CoordinatorHost:
        """The coordinator that lives by a partition. Raises NotCoordinator, CorruptBatch."""
        shard = self._shards.get(key)
        if shard is not None and self._is_current(shard, key):
            return shard
        with self._loading:
            before = self._shards.get(key) or self._forgotten.get(key)
            if before is not None and self._is_current(before, key):
                return before
            if before is not None:
                before.abandon(
                    NotCoordinator(f"node {self._node.id} has begun anew with {key.topic}-{key.partition}: try again")
                )
            try:
                leader = self._node.roles.leader(*key)
            except NotLeaderOrFollower as error:
                raise NotCoordinator(str(error)) from error
            shard = self._shards[key] = CoordinatorHost(
                leader, self._machine(key), self._clock, self._producing, self._markers,
                # A leader takes its epoch when it first writes; it is the coordinator's, too.
                lambda epoch: self._node.roles.writer(*key, epoch=epoch),
            )  # fmt: skip
            if before is not None:
                shard.take_up(before)
                self._forgotten.pop(key, None)
        self.note_due(shard)
        return shard

    def _is_current(self, shard: CoordinatorHost, key: TopicPartition) -> bool:
        return self._node.roles.held(*key) is shard.leader and not shard.is_gone

    def _machine(self, key: TopicPartition) -> Coordinator:
        if key.topic == GROUPS:
            return GroupCoordinator(key.partition, self._config, self._topics, is_lost=self._is_lost)
        return TransactionCoordinator(key.partition, self._config, new_producer_id=self.new_producer_id)

    def new_producer_id(self) -> int:
        """A producer id that nobody ever had. Raises DiskFull, DurabilityUnknown."""
        with self._giving_ids:
            given = next(self._producer_ids, None)
            if given is None:
                self._producer_ids = iter(self._node.changes.allocate_producer_ids())
                given = next(self._producer_ids)
            return given

    def kept(self, topic: str) -> list[CoordinatorHost]:
        """Every coordinator that has ever written anything here. Raises what `at` raises."""
        return [self.at(key) for key in self.written(topic)]

    def written(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic of coordinators in which anything was ever written here."""
        image = self._node.image.topics.get(topic)
        keys = [TopicPartition(topic, number) for number in sorted(image.partitions)] if image is not None else []
        return [key for key in keys if self._node.directories.has_folder(self._node.topics.home(key), key)]

    def forget(self, key: TopicPartition) -> None:
        """This node has another role for a partition now."""
        with self._loading:
            shard = self._shards.pop(key, None)
            if shard is not None:
                self._forgotten[key] = shard
        if shard is not None:
            shard.abandon(NotCoordinator(f"node {self._node.id} does not lead {key.topic}-{key.partition} any more"))

    def close(self, error: PylogError) -> None:
        """Bring the logs up to date, and answer with `error` what waits."""
        for shard in list(self._shards.values()):
            shard.close(error)

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._is_unsettled:
            return self._clock.tick_ms()
        return min((shard.due_ms for shard in list(self._shards.values()) if shard.due_ms is not None), default=None)

    def note_due(self, shard: CoordinatorHost) -> None:
        """A coordinator may have something to do earlier than was known."""
        due = shard.due_ms
        if due is not None:
            self._wake(due)

    def tick(self, now_ms: int) -> None:
        """Do what is due. Nothing is raised: there is no caller to tell, and what could not be done stays due."""
        if self._is_unsettled:
            self._is_unsettled = False
            for key in self.written(TRANSACTIONS):
                try:
                    self.at(key)
                except PylogError as error:
                    logger.error("transactions that were left open cannot be ended: %s", error)
        for shard in list(self._shards.values()):
            if shard.due_ms is not None and shard.due_ms <= now_ms:
                shard.tick()


class _CurrentTopics:
    """The topics of a node's catalogue, as coordinators see them."""

    def __init__(self, node: ReplicaManager) -> None:
        self._node = node
        self._seen: MetadataImage | None = None
        self._named: dict[str, TopicInfo] = {}

    def named(self) -> Mapping[str, TopicInfo]:
        image = self._node.image
        if image is not self._seen:
            topics = image.topics.values()
            self._named = {topic.name: TopicInfo(topic.id, len(topic.partitions)) for topic in topics}
            self._seen = image
        return self._named
