"""A node as the others see it: it answers messages, waits for what has to be waited for, and works in the background.

    handle(message, session) -> Future
        Produce       append -> sync, if due -> Leader.advance -> answer, or let it wait until the high watermark has
                      passed the batch (acks=all, with followers): see `produce`
        Fetch         Leader.fetch  -> answer, or park it until there is something to read or its time is up
        ListOffsets, Metadata, CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs, DeleteRecords...

A node waits here and in `produce` alone; its threads (`worker`) sleep by themselves.

`apply(Lead | Follow)` is the one entry by which roles are given: by hand now, by elections later.

Answers that wait are in `purgatory`: the thread that makes an offset move releases them, or the worker when time is up.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import ClassVar, TypeVar
from uuid import UUID

from pylog.broker.alarm import Alarm
from pylog.broker.alter_configs import all_of, changed, some_of
from pylog.broker.auto_create import described
from pylog.broker.coordinator_router import CoordinatorRouter
from pylog.broker.create_topics import Creation
from pylog.broker.delete_topics import topics_deleted
from pylog.broker.describe import describe_quorum
from pylog.broker.descriptions import Routes, at_once, descriptions
from pylog.broker.flush_scheduler import FlushScheduler
from pylog.broker.follower_fetcher import LeaderEndPoint
from pylog.broker.followers import Followers
from pylog.broker.guarantees import Guarantees
from pylog.broker.handover import Handover
from pylog.broker.housekeeping import Housekeeping
from pylog.broker.isr_changes import IsrChanges
from pylog.broker.measures import Measures
from pylog.broker.produce import ProduceHandler
from pylog.broker.promotion import Promotion
from pylog.broker.purgatory import Purgatory
from pylog.broker.reads import Reads
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.share_fetch import ShareFetches
from pylog.commitlog.recovery import Quarantined, Recovered
from pylog.config import DynamicBrokerConfig, NodeConfig, TopicConfig
from pylog.controller.roles import Follow, Lead
from pylog.errors import Closed, PylogError
from pylog.files import Files
from pylog.logdirs.log_directory import CleaningFacts
from pylog.partition import Appended, Partition
from pylog.protocol.batch import Batch
from pylog.protocol.messages import ClientGone, DescribeQuorum, Fetch, Message, ProduceRequest, Replacement, Session
from pylog.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from pylog.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceChange,
)
from pylog.protocol.messages.quotas import AlterClientQuotasRequest
from pylog.protocol.messages.records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from pylog.protocol.messages.share import ShareAcknowledgeRequest, ShareFetchRequest
from pylog.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
)
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest
from pylog.protocol.metadata_image import MetadataImage
from pylog.record import TopicPartition
from pylog.replica import Follower, Leader
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future, completed
from pylog.runtime.signals import WHOLE, whole
from pylog.runtime.worker import Worker
from pylog.transport import PendingAnswer, Transport

logger = logging.getLogger("pylog.broker")

A = TypeVar("A")


class Broker:
    """One node over its log directories. Thread-safe.

    `flush`: "sync" (an append is acknowledged and visible when it is durable), "interval" (durable within
    `flush_interval_ms`), "none" (when the operating system pleases, and at a clean close).
    """

    process: ClassVar[object] = object()
    """Another one in a forked child: asking for the id of the process would be a system call."""

    def __init__(
        self, files: Files, paths: Sequence[str], *, config: NodeConfig, clock: Clock, transport: Transport,
        node_id: int | None, flush: str,
    ) -> None:  # fmt: skip
        self.config = config
        """The config that the node was opened with; `configs` has what it goes by now."""
        self._flush = flush
        self._transport = transport
        self._clock = clock
        self._made_in = Broker.process
        self._closed = False
        self._worker = Worker("pylog-broker", clock, self._due, self.work)
        self.node = ReplicaManager(files, paths, config, clock, node_id=node_id, visible_when_durable=flush == "sync")
        self._followers = Followers(self.node.id, self.directory_id, clock, config, self._followed)
        self._alarm = Alarm()
        self.housekeeping = Housekeeping(
            self.node, clock, self._alarm,
            lambda topic, after: self._coordinating.expire(topic, after),  # noqa: PLW0108 (it is made below)
        )  # fmt: skip
        self._flush_scheduler = FlushScheduler(
            self.node, clock, flush, config.flush_interval_ms, self._alarm, self._worker.wake
        )  # fmt: skip
        # The two need each other: a follower that has read on lets appends go that wait for it.
        self._reads = Reads(
            self.node, clock, lambda partition: self._purgatory.release(partition),  # noqa: PLW0108 (as below)
            lambda leader: self._guarantees.isr_changed(leader),  # noqa: PLW0108 (as below)
        )  # fmt: skip
        self._purgatory: Purgatory = Purgatory(
            self.node, clock, self._reads.fetch, self._reads.given, self._reads.list_offsets, self._worker.wake,
            lambda leader: self._guarantees.hurry(leader),  # noqa: PLW0108 (it is made in the next line)
        )  # fmt: skip
        self._guarantees = Guarantees(
            self.node, self._purgatory, clock, self._alarm, self._note_append, self._worker.wake_by,
            syncs=flush == "sync",
        )  # fmt: skip
        # The two need each other: what is produced joins transactions, and what coordinators write is made safe.
        self._produce = ProduceHandler(
            self.node, self._purgatory, self._guarantees, clock, self._alarm, self._note_append,
            lambda *batch: self._coordinating.enroll(*batch),  # noqa: PLW0108 (it is made in the next line)
            self._worker.wake,
        )  # fmt: skip
        self._coordinating = CoordinatorRouter(self.node, self._produce, clock, self._worker.wake_by)
        self._share_fetches = ShareFetches(
            self.node, clock, self._purgatory, lambda message: self._coordinating.handle(message, Session()),
            self._worker.wake, self._reads.given_to_share, self._guarantees.hurry, self._coordinating.may_block,
        )  # fmt: skip
        self._changing_roles = Handover(
            self._guarantees, self._coordinating, self._purgatory, self._share_fetches
        ).changing_roles
        self._isr_changes = IsrChanges(self.node.roles, clock, config, self._shrunk)
        self._promotion = Promotion(self.node, self._coordinating, self.apply, self._guarantees.advance)
        self.measure = Measures(
            self.node, self._produce, self._reads, self._purgatory, self._coordinating, self.housekeeping,
            self._share_fetches,
        ).measure  # fmt: skip
        self._routes = self._routes_of() | descriptions(
            files, paths, self.node.directories.failures, lambda: self.image, self.configs, self.node.id,
            self._share_fetches.standings,
        )  # fmt: skip
        try:
            self._coordinating.settle()
            self._worker.begin()
            transport.attach(self.node.id, self.handle)
        except BaseException:
            self._worker.close()
            self.node.close()
            raise
        # Transactions may have been left open.
        self._worker.wake()

    def _routes_of(self) -> Routes:
        """The function that answers each class of message of a session. Coordinators answer all others."""
        node = self.node
        creation = Creation(
            node.id, self.configs, lambda: self.image, partial(_attempt, node.changes.create_topic),
            partial(_attempt, node.changes.create_partitions),
        )  # fmt: skip
        return {
            ProduceRequest: self._produce.produce,
            Fetch: self._purgatory.fetch,
            ListOffsetsRequest: self._purgatory.list_offsets,
            OffsetForLeaderEpochRequest: self._reads.epoch_ends,
            MetadataRequest: at_once(partial(described, node, self.config)),
            CreateTopicsRequest: lambda message, _: self._changed(creation.topics(message)),
            CreatePartitionsRequest: lambda message, _: self._changed(creation.partitions(message)),
            DeleteTopicsRequest: lambda message, _: self._changed(
                topics_deleted(message, self.image, partial(_attempt, self._delete_topic))
            ),
            AlterConfigsRequest: partial(self._alter_configs, all_of),
            IncrementalAlterConfigsRequest: partial(self._alter_configs, some_of),
            AlterReplicaLogDirsRequest: self._alter_log_dirs,
            DeleteRecordsRequest: self._delete_records,
            ShareFetchRequest: self._share_fetches.fetch,
            ShareAcknowledgeRequest: self._share_fetches.acknowledge,
            ClientGone: self._share_fetches.client_gone,
            DescribeQuorum: at_once(lambda _: describe_quorum(node.topics.metadata_log)),
            AlterUserScramCredentialsRequest: at_once(node.cluster_changes.alter_users),
            CreateAclsRequest: at_once(node.cluster_changes.create_acls),
            DeleteAclsRequest: at_once(node.cluster_changes.delete_acls),
            AlterClientQuotasRequest: at_once(node.cluster_changes.alter_quotas),
        }

    @property
    def configs(self) -> DynamicBrokerConfig:
        """The configs in force on the node: `config`, and what was set since."""
        return self.node.configs

    @property
    def node_id(self) -> int:
        return self.node.id

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, as in the directory's `meta.properties`."""
        return self.node.directories.first.cluster_id

    @property
    def directory_id(self) -> UUID:
        """The id of the first log directory, by which leaders tell this node from another one with its id."""
        return self.node.directories.first.directory_id

    def check_in_place(self) -> None:
        """Raise DirectoryReplaced where the first directory is not the one any more that was opened."""
        self.node.directories.first.check_in_place()

    def announce(self, text: str) -> None:
        """Let other processes read a text, in the lock file of the first directory. Raises StorageError."""
        self.node.directories.first.announce(text)

    @property
    def image(self) -> MetadataImage:
        """The topics of this node's catalogue."""
        return self.node.image

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The effective config of a topic with these overrides on this node."""
        return self.node.topics.config_of(overrides)

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """The damage below what was durable that opening has found."""
        return tuple(self.node.roles.quarantined)

    @property
    def recovered(self) -> tuple[Recovered, ...]:
        """The torn tails that opening cut off."""
        return tuple(self.node.roles.recovered)

    def partition(self, topic: str, number: int) -> Partition:
        """The partition as it is stored here. Raises UnknownTopicOrPartition, CorruptBatch, Closed."""
        self._check_usable()
        return self.node.roles.partition(topic, number)

    def cleaning(self, topic: str, number: int) -> CleaningFacts | None:
        """The state of cleaning a partition since the log was opened; None where nothing was cleaned."""
        state = self.housekeeping.cleanings.get(TopicPartition(topic, number))
        return None if state is None else state.shown()

    def handle(self, message: Message, session: Session) -> PendingAnswer:
        """Answer a message; errors of single partitions are values in the answer. Raises Closed.

        A Produce whose records have to be durable shares a sync with others: a caller that waits may `drive` it.
        """
        self._check_usable()
        with WHOLE:
            route = self._routes.get(type(message))
            return self._coordinating.handle(message, session) if route is None else route(message, session)

    def append(self, topic: str, partition: int, batch: Batch, now_ms: int) -> Appended:
        """See `ProduceHandler.append_safely`. Raises Closed."""
        self._check_usable()
        return self._produce.append_safely(topic, partition, batch, now_ms)

    def process_ended(self, name: str) -> None:
        """Wait no more for what a process was that has ended: `name` is the host of its sessions."""
        self._coordinating.host_lost(name)

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed("this log is closed")
        if self._made_in is not Broker.process:
            raise Closed("this log was opened before the process forked: open it again in the child")

    def apply(self, effect: Lead | Follow, leader: LeaderEndPoint | None = None) -> None:
        """Give this node a role for a partition; it replaces the one it had.

        `leader`: how to reach the one to follow; None: by the transport of this node.
        Raises what `Roles.lead` and `Roles.follow` raise.
        """
        self._check_usable()
        key = TopicPartition(effect.topic, effect.partition)
        self._followers.unfollow(key)
        if isinstance(effect, Lead):
            with self._changing_roles() as ended:
                self.node.roles.lead(effect, ended)
            # Answers that wait for another epoch, or for other followers.
            self._purgatory.release_all(key)
            self._worker.wake()
            return
        with self._changing_roles() as ended:
            follower = self.node.roles.follow(effect, ended)
        if leader is not None and leader.address is not None:
            self.node.roles.addresses[leader.node] = leader.address
        near = LeaderEndPoint(effect.leader, self._transport)
        self._followers.follow(key, follower, leader or near)

    def _shrunk(self, leader: Leader) -> None:
        """Followers have left the ISR: show what no longer waits for them, or refuse it where too few are left."""
        self._guarantees.isr_changed(leader)
        self._purgatory.release_all((leader.partition.topic, leader.partition.number))

    def lead(self, topic: str, followers: Iterable[int]) -> dict[int, int]:
        """Lead each partition of a topic in an epoch that was never used; gives the epochs by partition.

        Raises UnknownTopicOrPartition, and what `Roles.lead` raises.
        """
        self._check_usable()
        return self._promotion.lead(topic, followers)

    def led_with(self, topic: str) -> list[str]:
        """The topics whose lead this node takes with that of a topic, itself first. Raises UnknownTopicOrPartition."""
        return [topic, *self._promotion.along(topic)]

    def join_cluster(self, cluster_id: str) -> None:
        """Be of this cluster from now on. Raises InconsistentClusterId where there are topics of another one."""
        self._check_usable()
        self.node.join_cluster(cluster_id)

    def leave(self, leader: LeaderEndPoint) -> None:
        """Fetch nothing from a leader any more; the roles stay, and what is here."""
        self._followers.leave(leader)

    def _followed(self, follower: Follower) -> None:
        """A follower's log changed; the next fetch will claim to have the records, so they must be as safe as
        promised.
        """
        self._note_append(follower.partition)
        if self._flush == "sync":
            follower.partition.sync()

    # --- topics ----------------------------------------------------------------------------------------

    def _changed(self, answer: A) -> Future[A]:
        # Of deleted topics and moved partitions there are files to remove.
        self.housekeeping.wake()
        return completed(answer)

    def _alter_configs(
        self, read: Callable[..., ResourceChange], message: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        session: Session,
    ) -> Future[AlterConfigsResponse | IncrementalAlterConfigsResponse]:  # fmt: skip
        alter = partial(self.node.cluster_changes.alter_configs, validate_only=message.validate_only)
        answer = message.answered(changed(message, read, alter))
        self.housekeeping.reconfigure()
        return completed(answer)

    def _alter_log_dirs(
        self, message: AlterReplicaLogDirsRequest, session: Session
    ) -> Future[AlterReplicaLogDirsResponse]:  # fmt: skip
        return self._changed(message.answered([_attempt(self._move, one) for one in message.replacements]))

    def _move(self, wanted: Replacement) -> None:
        with self._changing_roles() as ended:
            self.node.changes.move(wanted, ended)

    def _delete_topic(self, name: str) -> None:
        image = self.image.topics.get(name)
        keys = [] if image is None else [TopicPartition(name, number) for number in image.partitions]
        for key in keys:
            self._followers.unfollow(key)
        with self._changing_roles() as ended:
            self.node.changes.delete_topic(name, ended)
        self.housekeeping.forget(keys)
        self._reads.counts.pop(name, None)
        self._produce.failures.pop(name, None)
        if image is not None:
            self._coordinating.topic_deleted(name, image.id)

    def _delete_records(self, message: DeleteRecordsRequest, session: Session) -> Future[DeleteRecordsResponse]:
        parts = self.node.changes.delete_records({key: one.offset for key, one in message.keyed()})
        if any(part.error is None for part in parts.values()):
            self._produce.room.note()
            self.housekeeping.note_deleted()
        return completed(message.answered(lambda key, _: parts[key]))

    # --- background ------------------------------------------------------------------------------------------------

    def _note_append(self, partition: Partition) -> None:
        """Note an append: there is work to do some day, and a sync where `flush` says so."""
        self._alarm.is_armed = False
        self.housekeeping.note_append(partition)
        self._flush_scheduler.note_append(partition)

    def _due(self) -> int | None:
        times = [
            self._purgatory.next_deadline, self._flush_scheduler.due_ms, self._guarantees.due_ms,
            self._coordinating.due_ms, self._produce.room.due_ms, self._isr_changes.due_ms, self._share_fetches.due_ms,
        ]  # fmt: skip
        return min((due for due in times if due is not None), default=None)

    def work(self) -> None:
        """Do everything that is due: the worker does, or a simulation of time."""
        now = self._clock.tick_ms()
        self._purgatory.expire(now)
        self._produce.room.work(now)
        self._share_fetches.work(now)
        self._coordinating.tick(now)
        # Behind them: the markers that they have written may be due at once.
        self._guarantees.work(now)
        self._isr_changes.work(now)
        self._flush_scheduler.work(now)

    def sync(self) -> None:
        """Make everything appended so far durable, whatever the flush mode. Raises DurabilityUnknown, after it has
        synced the partitions that could be.
        """
        self._flush_scheduler.sync()

    def hurry(self) -> bool:
        """Let no answer wait for followers, or for room, longer than a follower that lives takes to come by: this node
        is about to close, which is what True says.
        """
        deadline = self._clock.tick_ms() + self.config.replica_fetch_backoff_ms
        self._produce.room.hurry(deadline)
        self._purgatory.hurry(deadline)
        return True

    @whole
    def close(self) -> None:
        """Stop the background work, answer what still waits with what there is, close the node. Twice is once, unless
        the node could not be closed whole: see there.
        """
        if self._closed:
            if self._made_in is Broker.process:
                self.node.close()
            return
        self._closed = True
        self._transport.detach(self.node.id)
        if self._made_in is not Broker.process:
            return
        with ExitStack() as closing:
            # Last in, first out: each ends, whatever another one raises, or its thread would go on over closed files.
            closing.callback(self.node.close)
            closing.callback(self._purgatory.close)
            closing.callback(self.housekeeping.close)
            closing.callback(self._coordinating.close, Closed("this log is closed"))
            closing.callback(self._worker.close)
            closing.callback(self._produce.close)
            closing.callback(self.housekeeping.finish)
            for close in self._followers.closers():
                closing.callback(close)


def _forked() -> None:
    Broker.process = object()


os.register_at_fork(after_in_child=_forked)


def _attempt(change: Callable[..., None], argument: object, **more: object) -> PylogError | None:
    try:
        change(argument, **more)
    except PylogError as error:
        return error.with_traceback(None)
    return None
