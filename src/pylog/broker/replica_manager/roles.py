"""A node's role for each partition, over its log directories and its metadata log.

A partition gets its role at first use, from the metadata log: leader where the metadata log names this node, otherwise
follower (without a leader, until it is told from which one to fetch). From then on it goes by each change of the
metadata log (`Roles.apply`), whether it was decided here or elsewhere. A leader has its epoch, in the metadata log,
from the first append after an open on, so opening a directory to read it writes nothing. The epoch is the one that the
partition had when it closed cleanly, else a new one.

After an unclean stop every partition is opened and recovered at once, so that all cuts are known and the next clean
stop is clean for all of them.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pylog.broker.describe import describe_topics, unknown_partition
from pylog.broker.replica_manager.topics import LocalTopics
from pylog.commitlog.recovery import Quarantined, Recovered
from pylog.controller.roles import Follow, Lead
from pylog.errors import DiskFull, NotLeaderOrFollower, PylogError, StorageError
from pylog.logdirs.log_directory import LogDirectory
from pylog.partition import Partition
from pylog.protocol.messages import NO_EPOCH
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.metadata_image import MetadataDelta, PartitionImage
from pylog.record import TopicPartition
from pylog.replica import Follower, Leader
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock, opened

logger = logging.getLogger("pylog.broker")


class EndedRoles:
    """The roles that a change has ended. A role ends only into one of these: its maker hands over what the roles owe
    (`handover`).
    """

    def __init__(self) -> None:
        self.roles: list[tuple[TopicPartition, Leader | Follower]] = []


class CommitRecords(Protocol):
    """Writes down records of the controller, and has the node go by them: see `ReplicaManager.commit`."""

    def __call__(self, records: list[bytes], ended: EndedRoles | None = None) -> None: ...


class Roles:
    """The role of a node for each partition, taken up at first use. `lock` is held while a partition is opened.

    `visible_when_durable`: see `replica.Leader`.
    """

    def __init__(
        self, topics: LocalTopics, commit: CommitRecords, clock: Clock, lock: WholeLock, *, visible_when_durable: bool
    ) -> None:  # fmt: skip
        self.recovered: list[Recovered] = []
        self.quarantined: list[Quarantined] = []
        self.has_all_written = True
        """False where the files of an opened partition lack more than a write that a kill has ended, or may lack it."""
        self._topics = topics
        self._commit = commit
        self._controller = topics.controller.partitions
        self._clock = clock
        self._lock = lock
        self._visible_when_durable = visible_when_durable
        self._roles: dict[tuple[str, int], Leader | Follower] = {}
        self._broken: dict[TopicPartition, PylogError | None] = {}  # None: its next use tries again
        self._moved: set[tuple[str, int]] = set()  # since the node was opened
        self.has_followers = False
        """True once any partition has had followers; it stays true until the node is closed."""
        self.addresses: dict[int, tuple[str, int]] = {}
        """Where leaders elsewhere listen, as far as this node was told."""

    def recover(self) -> None:
        """Open the partitions of directories that were not closed cleanly at once, so that all cuts are known."""
        for key in self._topics.present:
            try:
                topic = self._topics.topic(key.topic)
                if not topic.home(key.partition).is_clean(key) and topic.exists(key.partition):
                    self.partition(*key)
            except PylogError as error:
                # One damaged partition is no reason to refuse the others; its next use raises this error.
                logger.error("%s-%d could not be opened: %s", *key, error, extra=key._asdict())
                self._broken[key] = None if isinstance(error, DiskFull) else error
            with opened():
                # There may be much to recover: Ctrl-C ends it between two partitions.
                pass

    def is_broken(self, directory: LogDirectory) -> bool:
        """Whether a partition in `directory` could not be opened, or given its place."""
        return any(self._topics.directories.has_folder(directory, key) for key in self._broken)

    def note_moved(self, key: TopicPartition, ended: EndedRoles) -> None:
        """Record that a partition lies elsewhere now: its last epoch must not go on, and its next use takes a role up
        again.
        """
        self._give(key, None, ended)
        self._moved.add(key)

    def refuse(self, key: TopicPartition, error: PylogError) -> None:
        """Make every use of a partition raise `error`."""
        self._broken[key] = error

    # --- roles -----------------------------------------------------------------------------------------------------

    def _give(self, key: TopicPartition, role: Leader | Follower | None, ended: EndedRoles | None) -> None:
        """Give a partition another role, or none until its next use."""
        assert ended is not None or key not in self._roles, "what the role owes would be lost"
        # The next role first: who sees that this one has ended looks for it.
        before = self._roles.pop(key, None) if role is None else self._roles.get(key)
        if role is not None:
            self._roles[key] = role
        if before is not None and ended is not None:
            before.has_ended = True
            ended.roles.append((key, before))

    def apply(self, delta: MetadataDelta, ended: EndedRoles | None) -> None:
        """Have the roles that are held go by a change of the metadata log. The others are taken up at their first use.

        Held roles change and end here. Two ends have no record: that of a partition that moves, and that of a follower
        that meets its leader again. Raises StorageError where an epoch cannot be noted in the log.
        """
        for topic in delta.topics_removed.values():
            for number in topic.partitions:
                key = TopicPartition(topic.name, number)
                self._broken.pop(key, None)
                if self._held_of(topic.id, key) is not None:
                    self._give(key, None, ended)
        for (topic_id, number), before in delta.partitions.items():
            image = self._topics.image.with_id(topic_id)
            if image is not None and before is not None:
                key = TopicPartition(image.name, number)
                role = self._held_of(topic_id, key)
                if role is not None:
                    self._go_by(key, role, before, image.partitions[number], ended)

    def _held_of(self, topic_id: uuid.UUID, key: TopicPartition) -> Leader | Follower | None:
        """The role for a partition of this topic; another one may have its name by now."""
        role = self._roles.get(key)
        return role if role is not None and role.partition.topic_id == topic_id else None

    def _go_by(
        self, key: TopicPartition, role: Leader | Follower, before: PartitionImage, state: PartitionImage,
        ended: EndedRoles | None,
    ) -> None:  # fmt: skip
        if self._controller.leader_of(state) != self._topics.node_id:
            if isinstance(role, Leader) or (role.leader, role.epoch) != (state.leader, state.leader_epoch):
                self._give(key, _follower(role.partition, state), ended)
        elif isinstance(role, Follower) or before.leader_epoch != state.leader_epoch:
            self._lead(key, role, state, ended)
        elif list(before.replicas) != list(state.replicas) or not self._followers_of(state)[0] <= role.isr:
            self._place(role, state)
        else:
            # Those who have joined count before it is written.
            role.shrink_isr(frozenset(before.isr) - frozenset(state.isr))

    def _lead(
        self, key: TopicPartition, role: Leader | Follower, state: PartitionImage, ended: EndedRoles | None
    ) -> None:
        """Lead in the epoch of the image: the role of a follower ends, a leader leads on."""
        followers, joining = self._followers_of(state)
        if isinstance(role, Leader):
            self.has_followers |= bool(followers or joining)
            role.lead_on(state.leader_epoch, followers, joining, self._clock.tick_ms())
        role.partition.begin_epoch(state.leader_epoch)
        if isinstance(role, Follower):
            role = self._make_leader(role.partition, state.leader_epoch, followers, joining)
            self._give(key, role, ended)
        role.advance()

    def _place(self, leader: Leader, state: PartitionImage) -> None:
        followers, joining = self._followers_of(state)
        self.has_followers |= bool(followers or joining)
        leader.set_followers(followers, joining, self._clock.tick_ms())

    def partition(self, topic: str, number: int) -> Partition:
        """The partition as this node keeps it, whatever its role. Raises UnknownTopicOrPartition, CorruptBatch."""
        return self.role(TopicPartition(topic, number)).partition

    def role(self, key: TopicPartition) -> Leader | Follower:
        """This node's role for a partition, which is opened at its first use."""
        role = self._roles.get(key)
        if role is not None:
            return role
        with self._lock:
            broken = self._broken.get(key)
            if broken is not None:
                raise broken.with_traceback(None)
            if key not in self._roles:
                self._roles[key] = self._make_role(key)
                self._broken.pop(key, None)
            return self._roles[key]

    @property
    def taken(self) -> list[Leader | Follower]:
        """All roles that this node has taken up."""
        return list(self._roles.values())

    def held(self, topic: str, number: int) -> Leader | Follower | None:
        """The role this node has taken up, if any: the question opens nothing."""
        return self._roles.get((topic, number))

    def _make_role(self, key: TopicPartition) -> Leader | Follower:
        image = self._topics.image.topics.get(key.topic)
        state = image.partitions.get(key.partition) if image is not None else None
        if state is None or self._topics.node_id not in state.replicas:
            raise unknown_partition(image, key)
        topic = self._topics.topic(key.topic)
        partition = topic.partition(key.partition, self._clock.wall_ms())
        self.recovered += [partition.recovered] if partition.recovered is not None else []
        self.quarantined += partition.quarantined
        self.has_all_written = self.has_all_written and partition.has_all_written
        if not partition.opened_clean:
            partition.sync()
        if self._controller.leader_of(state) != self._topics.node_id:
            return _follower(partition, state)
        followers, joining = self._followers_of(state)
        leader = self._make_leader(partition, None, followers, joining, state.leader_epoch)
        leader.advance()
        return leader

    def _followers_of(self, state: PartitionImage) -> tuple[frozenset[int], frozenset[int]]:
        """The followers of a partition that are in sync, and the others."""
        others = frozenset(state.replicas) - {self._topics.node_id}
        return others & set(state.isr), others - set(state.isr)

    def describe(self, asked: MetadataRequest) -> MetadataResponse:
        """Answer a Metadata request from the metadata log, with the addresses of leaders elsewhere; where no topic is
        asked for, of those that are followed.
        """
        described = describe_topics(self._topics.image, asked, self._controller.leader_of)
        described.cluster_id = self._topics.directories.first.cluster_id
        if self.addresses:
            broker = MetadataResponse.MetadataResponseBroker
            leaders = {part.leader_id for topic in described.topics for part in topic.partitions} or {
                role.leader for role in self.taken if isinstance(role, Follower)
            }
            for node in sorted(leaders & self.addresses.keys()):
                host, port = self.addresses[node]
                described.brokers.append(broker(node_id=node, host=host, port=port))
        return described

    def _make_leader(
        self, partition: Partition, epoch: int | None, followers: frozenset[int], joining: frozenset[int],
        told_epoch: int = NO_EPOCH,
    ) -> Leader:  # fmt: skip
        self.has_followers |= bool(followers or joining)
        return Leader(
            partition, epoch=epoch, followers=followers, joining=joining,
            visible_when_durable=self._visible_when_durable, told_epoch=told_epoch, now_ms=self._clock.tick_ms(),
        )  # fmt: skip

    def leader(self, topic: str, partition: int) -> Leader:
        """The leader role. Raises NotLeaderOrFollower where this node follows another."""
        role = self._roles.get((topic, partition)) or self.role(TopicPartition(topic, partition))
        if not isinstance(role, Leader):
            raise NotLeaderOrFollower(f"node {self._topics.node_id} follows node {role.leader} for {topic}-{partition}")
        return role

    def writer(self, topic: str, partition: int, *, epoch: int = NO_EPOCH) -> Leader:
        """The leader role with an epoch, so that it may append: with `epoch`, or a later one."""
        leader = self.leader(topic, partition)
        if leader.epoch is None or leader.epoch < epoch:
            with self._lock:
                # Looked up again: it may have become a follower's since, and the lead would be taken from its leader.
                leader = self.leader(topic, partition)
                if leader.epoch is None or leader.epoch < epoch:
                    self._begin(TopicPartition(topic, partition), leader, epoch)
        return leader

    def _begin(self, key: TopicPartition, leader: Leader, at_least: int) -> None:
        """Give a leader an epoch, so that it may append: `at_least` or a later one, all of whose records are here.

        The epoch is in the metadata log when this returns. After a clean close the last one goes on, and nothing is
        written.
        """
        log = leader.partition
        latest, is_spent, controller = log.epochs.latest, self._is_spent(key, log), self._controller
        if controller.epoch_goes_on(key, latest=latest, is_spent=is_spent, at_least=at_least):
            leader.begin(latest)
            return
        is_new = log.topic_id in self._topics.made
        records = controller.take_epoch(key, latest=latest, is_new=is_new, at_least=at_least)
        self._commit(records)
        if not records:
            # A crash between a roll and the append that it was for has left it. Whether the next batch begins a segment
            # is for the roll rules, as on every follower.
            log.drop_empty_tail()
            leader.begin(self._state(key).leader_epoch)

    def _state(self, key: TopicPartition) -> PartitionImage:
        return self._topics.image_of(key.topic).partitions[key.partition]

    def _is_spent(self, key: tuple[str, int], log: Partition) -> bool:
        """Whether the last epoch of a partition must not go on: records written in it may be missing."""
        return not log.as_closed or log.is_cut or key in self._moved

    def end_epochs(self) -> bool:
        """Replace every spent epoch, so that the next open does not take it for one that could go on.

        Returns whether that is durable. No role goes by it: the node closes.
        """
        spent: dict[TopicPartition, int | None] = {}
        for key in {*self._roles, *self._moved}:
            role = self._roles.get(key)
            if role is None:
                spent[TopicPartition(*key)] = None
            elif (role.partition.is_cut or role.epoch is None or isinstance(role, Follower)) and self._is_spent(
                key, role.partition
            ):
                spent[TopicPartition(*key)] = role.partition.epochs.latest
        try:
            records = self._controller.end_epochs(spent)
            if records:
                self._topics.metadata_log.commit(records)
        except StorageError as error:
            logger.error("the log is not closed cleanly, for no new leader epochs could be written: %s", error)
            return False
        return True

    def unused_epoch(self, key: TopicPartition) -> int:
        """See `PartitionControl.unused_epoch`."""
        with self._lock:
            return self._controller.unused_epoch(key, self.partition(*key).epochs.latest)

    def follows_any(self, topic: str) -> bool:
        """Whether another node leads a partition of a topic, as far as this one knows."""
        return any(state.leader != self._topics.node_id for state in self._topics.image_of(topic).partitions.values())

    # --- followers -------------------------------------------------------------------------------------------------

    def set_followers(self, topic: str, followers: frozenset[int], anew: frozenset[int]) -> list[Leader]:
        """Give the partitions of a topic that this node leads these followers.

        Those that are not in sync, and those of `anew`, are once they have caught up. Gives the roles, which may show
        more now. Raises DiskFull, DurabilityUnknown.
        """
        with self._lock:
            self._commit(self._controller.set_followers(topic, followers, anew))
            leaders = []
            for number, state in self._topics.image_of(topic).partitions.items():
                role = self._roles.get((topic, number))
                if isinstance(role, Leader):
                    # Also where nothing was to be written: what those of `anew` have said does not count any more.
                    self._place(role, state)
                    leaders.append(role)
            return leaders

    def register(self, node: int, directory_id: uuid.UUID) -> None:
        """Register a follower with the log directory that it names, unless it is.

        Raises DuplicateBrokerRegistration (its id has another log directory), DiskFull, DurabilityUnknown.
        """
        nodes = self._topics.controller.nodes
        if not nodes.is_known(node, directory_id):
            with self._lock:
                self._commit(nodes.register(node, directory_id, uuid.uuid4()))

    def unregister(self, nodes: Iterable[int]) -> None:
        """Remove the registrations of followers: the next one with such an id is registered."""
        with self._lock:
            self._commit(self._topics.controller.nodes.unregister(nodes))

    def drop_lagging(self, lagging: Mapping[Leader, frozenset[int]]) -> list[Leader]:
        """Take followers of partitions out of the ISR, which is written down first. (Kafka: AlterPartition)

        Gives the leaders that have dropped them. Where the disk refuses, they stay in it.
        """
        with self._lock:
            keys = {one: TopicPartition(one.partition.topic, one.partition.number) for one in lagging}
            held = [one for one in lagging if self._roles.get(keys[one]) is one]
            try:
                self._commit(self._controller.shrink_isr({keys[one]: lagging[one] for one in held}))
            except StorageError as error:
                logger.error("it could not be written down that followers have left the ISR: %s", error)
                return []
            for leader in held:
                # Also those whose join could not be written: the image does not have them.
                leader.shrink_isr(lagging[leader])
            return held

    def note_in_sync(self, node: int, keys: Sequence[TopicPartition]) -> None:
        """Write down that a follower of these partitions is in the ISR from now on. (Kafka: AlterPartition)

        Where the disk refuses, it is in it until this node is opened again, and then once it has caught up.
        """
        with self._lock:
            roles = [(key, self._roles.get(key)) for key in keys]
            # It may have left it again since, or the role is over.
            held = [key for key, role in roles if isinstance(role, Leader) and node in role.isr]
            try:
                self._commit(self._controller.expand_isr(node, held))
            except StorageError as error:
                logger.error(
                    "it could not be written down that node %d has caught up: %s", node, error, extra={"follower": node}
                )

    def lead(self, effect: Lead, ended: EndedRoles) -> Leader:
        """Become the leader of a partition in a given epoch, which is written down. A leader leads on.

        Raises FencedLeaderEpoch when the log has a newer one, LogDiverged when another node has led in it.
        """
        with self._lock:
            key = TopicPartition(effect.topic, effect.partition)
            self._commit(self._controller.lead(effect, self.role(key).partition.epochs.latest), ended)
            role = self.role(key)
            if not isinstance(role, Leader) or role.epoch != effect.leader_epoch:
                # The metadata log had it so already.
                self._lead(key, role, self._state(key), ended)
            return self.leader(*key)

    def follow(self, effect: Follow, ended: EndedRoles) -> Follower:
        """Become a follower.

        A topic that this node does not know is written into its metadata log first, so that this node does not lead it
        after the next open; so is the leader. Raises InvalidTopic, InconsistentTopicId (the name is another topic's),
        FencedLeaderEpoch (this node has records of a later leader), LogDiverged (another node has led in that epoch).
        """
        with self._lock:
            self._commit(self._topics.controller.topics.learn(effect, self._topics.directories.ids))
            key = TopicPartition(effect.topic, effect.partition)
            before = self.role(key)
            self._commit(self._controller.follow(effect, before.partition.epochs.latest), ended)
            if self.role(key) is before:
                # It meets its leader again, and compares the logs.
                self._give(key, _follower(before.partition, self._state(key)), ended)
            role = self.role(key)
            assert isinstance(role, Follower), "another node leads by the metadata log"
            return role


def _follower(partition: Partition, state: PartitionImage) -> Follower:
    return Follower(partition, leader=state.leader, epoch=state.leader_epoch, topic_id=partition.topic_id)
