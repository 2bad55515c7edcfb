"""The coordinator of the groups in one partition of `__consumer_offsets` (Kafka: GroupCoordinatorShard).

    message  ->  which group, of which protocol  ->  classic_join, consumer_heartbeat, or offset_commit (both protocols)

It counts on its host for this: an `Append` is replayed, or reported as failed, before the next event comes in. So the
replayed state is the state of the log, at every moment.
"""

import uuid
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from pylog.config import DynamicBrokerConfig
from pylog.coordinator.effects import Answer, Append, Effect, LogRecord, Now, Stamp, TopicsView
from pylog.coordinator.group import (
    checks,
    classic_join,
    classic_members,
    consumer_heartbeat,
    migration,
    share_heartbeat,
    share_offsets,
)
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.committed_offsets import CommittedOffsets
from pylog.coordinator.group.consumer_group import ConsumerGroup
from pylog.coordinator.group.consumer_records import EPOCH, ConsumerChange, decode_consumer
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored, undone
from pylog.coordinator.group.group_protocol import Census, Group
from pylog.coordinator.group.offset_commit import Committing
from pylog.coordinator.group.records import (
    CONSUMER_TYPES,
    GroupChange,
    OffsetChange,
    StoredGroup,
    decode,
    group_record,
    record_type,
)
from pylog.coordinator.group.share_group import ShareGroup
from pylog.coordinator.group.share_groups import ShareGroups
from pylog.coordinator.group.share_records import SHARE_TYPES, decode_share
from pylog.coordinator.group.timers import GroupTimers
from pylog.errors import (
    GroupIdNotFound,
    GroupNotEmpty,
    InconsistentGroupProtocol,
    InvalidGroupId,
    ProtocolError,
    PylogError,
    UnknownMemberId,
)
from pylog.protocol.messages import JOIN_EPOCH, Session
from pylog.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
)
from pylog.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from pylog.protocol.operations import of_group
from pylog.record import TopicPartition

TOMBSTONES_AT_ONCE = 1000
"""The records, roughly, that one look for offsets to delete writes in a batch; then other events get a turn."""
FORGET_AGAIN_MS = 100
"""The time until another look for offsets of deleted topics, while there were some."""


def _client_and_uuid(client_id: str) -> str:
    return f"{client_id}-{uuid.uuid4()}"


class GroupCoordinator:
    """Satisfies `effects.Coordinator` for the groups of one partition.

    `new_member_id` makes the id of a member out of its client id, or of its instance id where it is static. `is_lost`
    tells of a member's host whether it is gone, when a coordinator begins.
    """

    def __init__(
        self,
        partition: int,
        configs: DynamicBrokerConfig,
        topics: TopicsView,
        *,
        is_lost: Callable[[str], bool],
        new_member_id: Callable[[str], str] = _client_and_uuid,
    ) -> None:
        self.partition = partition
        self._configs = configs
        self._config = config = configs.given
        self._is_lost = is_lost
        self._new_member_id = new_member_id
        self._groups: dict[str, Group] = {}
        self._offsets = CommittedOffsets()
        self._committing = Committing(self._offsets, self._groups, config, topics)
        self._topics = topics
        self._deadlines = GroupTimers()
        self._share = ShareGroups(self._groups, configs, topics, self._deadlines)
        self._to_clean: deque[str] = deque()
        self._end = self.safe_end = 0
        self._offset_commits = self._classic_rebalances = self._consumer_rebalances = 0

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: LogRecord, stamp: Stamp | None = None) -> None:
        """Take over a record. Raises UnsupportedFormat, CorruptBatch."""
        kind = record_type(record)
        if kind in CONSUMER_TYPES:
            self._replay_consumer(decode_consumer(record))
            return
        if kind in SHARE_TYPES:
            self._share.replay(decode_share(record), self._end)
            return
        change = decode(record)
        if isinstance(change, GroupChange):
            self._replay_group(change)
        else:
            self._replay_offset(change, stamp)

    def _replay_offset(self, change: OffsetChange, stamp: Stamp | None) -> None:
        if change.committed is not None:
            self._offset_commits += 1
            if change.group_id not in self._groups:
                self._groups[change.group_id] = self._classic(change.group_id)
        if stamp is None and self._end > self.safe_end:
            self._offsets.keep(change, self._end, self.safe_end)
        self._offsets.replay(change, None if stamp is None else stamp.producer_id)

    def _replay_group(self, change: GroupChange) -> None:
        group = self._groups.get(change.group_id)
        if change.stored is None:
            if isinstance(group, ClassicGroup):
                group.close()
                del self._groups[change.group_id]
            return
        classic = group if isinstance(group, ClassicGroup) else self._classic(change.group_id)
        before = None if classic.stored is None else classic.stored.generation
        self._classic_rebalances += bool(change.stored.members) and change.stored.generation != before
        classic.replay(change.stored)
        classic.logged_end = self._end
        self._groups[change.group_id] = classic

    def _replay_consumer(self, change: ConsumerChange) -> None:
        group = self._groups.get(change.group_id)
        if not isinstance(group, ConsumerGroup):
            if change.value is None:
                return
            if group is not None:
                group.close()
            group = self._groups[change.group_id] = self._consumer(change.group_id)
        group.replay(change)
        group.logged_end = self._end
        self._consumer_rebalances += change.kind == EPOCH and change.value is not None
        if change.kind == EPOCH and change.value is None:
            group.close()
            del self._groups[change.group_id]

    def _consumer(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self._configs, self._topics, self._deadlines, self._groups)

    def _classic(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._config, self._deadlines)

    def appended(self, append: Append, end: int) -> None:
        """Take over an Append of its own."""
        self._end = end
        if len(append.says) == len(append.records):
            for change in append.says:
                self._replay_offset(change, append.stamp)
        else:
            for record in append.records:
                self.replay(record, append.stamp)

    def unsafe(self, message: object = None) -> Mapping[TopicPartition, int]:
        """No transaction ends here."""
        return {}

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """See `unsafe`."""

    is_ahead = False
    """The state of a group is in its log."""

    def write_down(self, now: Now) -> list[Effect]:
        """See `is_ahead`."""
        return []

    def take_up(self, predecessor: object, now: Now) -> None:
        """See `is_ahead`."""

    def replay_marker(self, stamp: Stamp, *, committed: bool) -> None:
        """End a transaction: its offsets count from now on, or never did."""
        self._offsets.replay_marker(stamp.producer_id, committed=committed)

    def take_over(self, now: Now) -> list[Effect]:
        """Begin where the log ends: members have a session's time to be heard of, lost ones have none."""
        out = EffectsBuilder(now)
        self._offset_commits = self._classic_rebalances = self._consumer_rebalances = 0
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                group.take_over(out, self._is_lost, self._topics.named())
            elif isinstance(group, ConsumerGroup):
                consumer_heartbeat.load(group, out, self._is_lost)
            else:
                assert isinstance(group, ShareGroup), "there are three protocols"
                share_heartbeat.load(group, out, self._is_lost)
        self._look_again(out)
        return out.effects()

    def host_lost(self, name: str, now: Now) -> list[Effect]:
        """Let each group lose its members on a host that is gone, as the next thing that is due."""
        out = EffectsBuilder(now)
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                group.expect_loss(name, out)
            elif isinstance(group, ConsumerGroup):
                consumer_heartbeat.expect_loss(group, name, out)
            else:
                assert isinstance(group, ShareGroup), "there are three protocols"
                share_heartbeat.expect_loss(group, name, out)
        return out.effects()

    def append_failed(self, append: Append, error: PylogError, now: Now) -> list[Effect]:
        """Undo the changes that rest on a failed append, and tell the members that wait for it."""
        return undone(append, error, now)

    def census(self, now: Now) -> Census:
        """The groups, and what was counted."""
        groups = [(group.listed(), self._offsets.of(group_id)) for group_id, group in self._groups.items()]
        return Census(groups, self._offset_commits, self._classic_rebalances, self._consumer_rebalances)

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """The earliest deadline."""
        return self._deadlines.next_ms

    def tick(self, now: Now) -> list[Effect]:
        """Do what is due, up to the first step that has to be logged; the rest stays due."""
        out = EffectsBuilder(now)
        while not out.has_records:
            action = self._deadlines.pop(now.tick)
            if action is None:
                break
            action(out)
        return out.effects()

    def expire(self, now: Now) -> list[Effect]:
        """Look for expired offsets now; see `tick`."""
        self._deadlines.set("offsets", now.tick, self._look_for_expired)
        return self.tick(now)

    def topic_deleted(self, name: str, topic_id: uuid.UUID, now: Now) -> list[Effect]:
        """Delete the committed offsets of a topic that is gone (Kafka: onPartitionsDeleted)."""
        out = EffectsBuilder(now)
        self._committing.topic_deleted(name, topic_id)
        self._forget_deleted(out)
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                share_offsets.topic_deleted(group, topic_id, out)
        return out.effects()

    def _forget_deleted(self, out: EffectsBuilder) -> None:
        records = self._committing.forgotten()
        if records:
            out.write(records[:TOMBSTONES_AT_ONCE])
            # After the first lot there may be more, and where that could not be logged there is as much as before.
            self._deadlines.set("topics", out.now.tick + FORGET_AGAIN_MS, self._forget_deleted)

    def _look_again(self, out: EffectsBuilder) -> None:
        due = out.now.tick + self._config.offsets_retention_check_interval_ms
        self._deadlines.set("offsets", due, self._look_for_expired)

    def _look_for_expired(self, out: EffectsBuilder) -> None:
        if not self._to_clean:
            self._to_clean.extend(self._groups)
        records: list[LogRecord] = []
        while self._to_clean and len(records) < TOMBSTONES_AT_ONCE:
            group = self._groups.get(self._to_clean.popleft())
            if group is not None:
                records += self._committing.expired(group, out.now)
        if records:
            out.write(records)
        if self._to_clean:
            self._deadlines.set("offsets", out.now.tick, self._look_for_expired)
        else:
            self._look_again(out)

    # --- messages ----------------------------------------------------------------------------------------------------

    def handle(self, message: object, session: Session, ticket: int, now: Now) -> list[Effect]:
        """Answer a message about a group of this partition, or about all of them."""
        out = EffectsBuilder(now)
        try:
            self._dispatch(message, session, ticket, out)
        except ProtocolError as error:
            out.answer(ticket, checks.refusal(message, error))
        return out.effects()

    def _dispatch(self, message: object, session: Session, ticket: int, out: EffectsBuilder) -> None:
        match message:
            case JoinGroupRequest():
                self._join(message, session, ticket, out)
            case SyncGroupRequest() | HeartbeatRequest() | LeaveGroupRequest():
                self._hear_classic(message, ticket, out)
            case OffsetCommitRequest():
                self._committing.commit(message, ticket, out)
            case TxnOffsetCommitRequest():
                checks.check_group_id(message.group_id)
                self._committing.commit_in_transaction(message, ticket, out)
            case OffsetFetchRequest():
                self._offsets.note_safe(self.safe_end)
                self._committing.fetch(message, ticket, out)
            case OffsetDeleteRequest():
                checks.check_group_id(message.group_id)
                self._committing.delete(message, ticket, out)
            case ListGroupsRequest():
                out.answer(ticket, self._listed(message))
            case DescribeGroupsRequest():
                out.answer(ticket, self._described_classic(message))
            case ConsumerGroupDescribeRequest():
                out.answer(ticket, self._described_consumer(message))
            case DeleteGroupsRequest():
                self._delete(message, ticket, out)
            case ConsumerGroupHeartbeatRequest():
                self._consumer_heartbeat(message, session, ticket, out)
            case _:
                self._share.dispatch(message, session, ticket, out)

    def _join(self, message: JoinGroupRequest, session: Session, ticket: int, out: EffectsBuilder) -> None:
        checks.check_group_id(message.group_id)
        config = self._config
        checks.check_join(message, session, config.group_min_session_timeout_ms, config.group_max_session_timeout_ms)
        found = self._groups.get(message.group_id)
        if found is None and message.member_id:
            raise UnknownMemberId(f"there is no group {message.group_id!r} with member {message.member_id!r}")
        if isinstance(found, ShareGroup):
            raise InconsistentGroupProtocol(f"group {message.group_id!r} is a share group")
        if isinstance(found, ConsumerGroup) and not found.is_empty:
            classic_members.join(found, message, session, ticket, out, self._new_member_id)
            return
        group = found if isinstance(found, ClassicGroup) else self._classic(message.group_id)
        classic_join.join(group, message, session, ticket, out, self._new_member_id)
        if found is not group:
            self._groups[message.group_id] = group
            group.state_ms = out.now.wall
            empty = StoredGroup("", 0, None, None, out.now.wall)
            before = [] if found is None else found.tombstones()

            def failed(error: PylogError, out: EffectsBuilder) -> None:
                # The log has another group now, which the members have to find here again.
                if found is not None:
                    self._groups[message.group_id] = found
                    group.dissolve(out, not_stored(error))

            out.write([*before, group_record(message.group_id, empty)], (), failed)

    def _consumer_heartbeat(
        self, message: ConsumerGroupHeartbeatRequest, session: Session, ticket: int, out: EffectsBuilder
    ) -> None:
        """Hear a member. One that joins a classic group makes it a consumer group, if the policy allows."""
        checks.check_heartbeat(message, session)
        found = self._groups.get(message.group_id)
        if isinstance(found, ConsumerGroup):
            consumer_heartbeat.heartbeat(found, message, session, ticket, out, self._new_member_id)
            return
        if message.member_epoch != JOIN_EPOCH or isinstance(found, ShareGroup):
            raise GroupIdNotFound(f"there is no group {message.group_id!r} of the consumer protocol: join it")
        group = self._consumer(message.group_id)
        if not isinstance(found, ClassicGroup) or found.is_empty:
            before = [] if found is None else found.tombstones()
            consumer_heartbeat.heartbeat(group, message, session, ticket, out, self._new_member_id, before)
            return
        before = migration.upgrade_records(found, migration.upgrade(found, group, out.now))
        consumer_heartbeat.heartbeat(group, message, session, ticket, out, self._new_member_id, before)
        migration.tell_upgraded(found, out)
        classic_members.take_over(group, out)

    def _hear_classic(
        self, message: SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest, ticket: int, out: EffectsBuilder
    ) -> None:
        """Hear a member of the classic protocol, in a group of either."""
        checks.check_group_id(message.group_id)
        match self._groups.get(message.group_id), message:
            case ClassicGroup() as group, SyncGroupRequest():
                classic_join.sync(group, message, ticket, out)
            case ClassicGroup() as group, HeartbeatRequest():
                classic_join.heartbeat(group, message, ticket, out)
            case ClassicGroup() as group, LeaveGroupRequest():
                classic_join.leave(group, message, ticket, out)
            case ConsumerGroup() as group, SyncGroupRequest():
                classic_members.sync(group, message, ticket, out)
            case ConsumerGroup() as group, HeartbeatRequest():
                classic_members.heartbeat(group, message, ticket, out)
            case ConsumerGroup() as group, LeaveGroupRequest():
                classic_members.leave(group, message, ticket, out)
            case _:
                raise UnknownMemberId(f"there is no group {message.group_id!r}: join it")

    def _listed(self, message: ListGroupsRequest) -> ListGroupsResponse:
        states = {state.lower() for state in message.states_filter}
        types = {kind.lower() for kind in message.types_filter}
        every = [group.listed() for group in self._groups.values()]
        return ListGroupsResponse(
            groups=[
                group
                for group in every
                if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
            ]
        )

    def _described_classic(self, message: DescribeGroupsRequest) -> DescribeGroupsResponse:
        answer = DescribeGroupsResponse()
        for group_id in message.groups:
            group = self._groups.get(group_id)
            if isinstance(group, ClassicGroup):
                found = group.described()
                found.authorized_operations = of_group(is_asked=message.include_authorized_operations)
            else:
                of_other = f"group {group_id!r} is not one of the classic protocol: ask for one of its own"
                error = GroupIdNotFound(f"there is no group {group_id!r}" if group is None else of_other)
                found = answer.DescribedGroup(group_id=group_id, error=error, group_state="Dead")
            answer.groups.append(found)
        return answer

    def _described_consumer(self, message: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        answer = ConsumerGroupDescribeResponse()
        groups = [self._groups.get(group_id) for group_id in message.group_ids]
        names: dict[uuid.UUID, str] = {}
        if any(isinstance(group, ConsumerGroup) for group in groups):
            names = {info.id: name for name, info in self._topics.named().items()}
        for group_id, group in zip(message.group_ids, groups, strict=True):
            if isinstance(group, ConsumerGroup):
                found = group.described(names)
                found.authorized_operations = of_group(is_asked=message.include_authorized_operations)
            else:
                of_other = f"group {group_id!r} is not one of the consumer protocol"
                error = GroupIdNotFound(f"there is no group {group_id!r}" if group is None else of_other)
                found = answer.DescribedGroup(
                    group_id=group_id, error=error if group_id else InvalidGroupId("a group has a name")
                )
            answer.groups.append(found)
        return answer

    def _delete(
        self, message: DeleteGroupsRequest, ticket: int, out: EffectsBuilder,
        forgotten: Mapping[str, PylogError | None] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Delete groups; of share groups the share coordinator forgets the state before, of one after the other."""

        for group_id in message.groups_names:
            then = partial(self._delete_next, message, ticket, forgotten, group_id)
            if group_id not in forgotten and self._share.forget_state(group_id, out, then):
                out.write((), (), lambda error, out: out.answer(ticket, message.refused(not_stored(error))))
                return
        errors: list[PylogError | None] = []
        records: dict[str, list[LogRecord]] = {}
        for group_id in message.groups_names:
            group = self._groups.get(group_id)
            if forgotten.get(group_id) is not None:
                errors.append(forgotten[group_id])
            elif group is None:
                errors.append(GroupIdNotFound(f"there is no group {group_id!r}"))
            elif not group.is_empty:
                errors.append(GroupNotEmpty(f"group {group_id!r} has members: let them leave first"))
            else:
                errors.append(None)
                records[group_id] = [*self._committing.all_tombstones(group_id), *group.tombstones()]
        if not records:
            out.answer(ticket, message.answered(errors))
            return

        def failed(error: PylogError, out: EffectsBuilder) -> None:
            out.answer(ticket, message.answered([known or not_stored(error) for known in errors]))

        every = [record for of_group in records.values() for record in of_group]
        out.write(every, [Answer(ticket, message.answered(errors))], failed)

    def _delete_next(
        self, message: DeleteGroupsRequest, ticket: int, forgotten: Mapping[str, PylogError | None], group_id: str,
        error: PylogError | None, out: EffectsBuilder,
    ) -> None:  # fmt: skip
        """Go on where the share coordinator has forgotten a group, or why it has not."""
        self._delete(message, ticket, out, {**forgotten, group_id: error})
