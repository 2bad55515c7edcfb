"""The change of the protocol of a group with members (KIP-848; `group.consumer.migration.policy`).

    Classic   ---- a member joins by the consumer protocol ------------------------------->   Consumer
    Classic   <--- the last member of the consumer protocol goes, and others are left ----   Consumer

Either way one batch has it all: the records that delete the group of the one kind, then the group of the other.
Generation and epoch are the same number, so members go on with their partitions, and join again soon: on the way up for
the new member, on the way down for the partitions of the last one.

Two rules are stricter than Kafka's, which lets two members read a partition for a moment. A partition that a member has
yet to give up when the group goes up is given to no other before it has joined again without it. And the records of a
member when the group goes down have its present partitions, not those that it would get from others.

(Kafka: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup.)
"""

from collections.abc import Collection, Container, Iterable, Mapping

from pylog.coordinator.effects import Answer, LogRecord, Now
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    ClassicMember,
    ConsumerChange,
    Current,
    GroupEpoch,
    MemberState,
    MemberSubscription,
    Slot,
    TargetEpoch,
    consumer_record,
)
from pylog.coordinator.group.effects_builder import EffectsBuilder, Failed, not_stored, refuse
from pylog.coordinator.group.members import ClassicGroupMember, Roster
from pylog.coordinator.group.records import StoredGroup, StoredMember, group_record
from pylog.coordinator.group.target_assignment import topics_hash
from pylog.errors import CorruptBatch, GroupIdNotFound, PylogError, RebalanceInProgress, UnknownMemberId
from pylog.protocol.assignor import Subscription, decode_assignment, decode_subscription, encode_assignment
from pylog.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse, SyncGroupResponse, not_joined
from pylog.record import TopicPartition

ASSIGNMENT_VERSION = 3


def embedded_assignment(group: ConsumerGroup, slots: Iterable[Slot], metadata: bytes) -> bytes:
    """Partitions as a member of the classic protocol reads them, in the version in which it spoke."""
    names = {info.id: name for name, info in group.topics.named().items()}
    partitions = [TopicPartition(names[topic_id], number) for topic_id, number in sorted(slots) if topic_id in names]
    return encode_assignment(partitions, version=min(int.from_bytes(metadata[:2], "big"), ASSIGNMENT_VERSION))


# --- to the consumer protocol ----------------------------------------------------------------------------------------


def upgrade(group: ClassicGroup, into: ConsumerGroup, now: Now) -> list[ConsumerChange]:
    """Make `into` of the group; its records are to be logged behind the classic group's tombstone.

    Raises GroupIdNotFound: the policy forbids it, the members are no consumers, or there are too many of them.
    """
    if group.config.group_consumer_migration_policy not in ("bidirectional", "upgrade"):
        raise _stays(group, "and group.consumer.migration.policy lets it keep that")
    if not group.uses_consumer_protocol:
        raise _stays(group, f"which are no consumers but {group.protocol_type!r}")
    if len(group.roster) > group.config.group_consumer_max_size:
        raise _stays(group, f"which are more than {group.config.group_consumer_max_size}")
    try:
        said = {member.member_id: decode_subscription(member.protocols[0][1]) for member in _members(group)}
        given = {member.member_id: _given(member) for member in _members(group)}
    except CorruptBatch as error:
        raise _stays(group, f"of which one has an unreadable subscription: {error}") from None
    changes = _changes(group, into, said, given, now)
    for change in changes:
        into.replay(change)
    return changes


def _stays(group: ClassicGroup, why: str) -> GroupIdNotFound:
    text = f"group {group.group_id!r} has members of the classic protocol, {why}: join with group_protocol classic"
    return GroupIdNotFound(text)


def _members(group: ClassicGroup) -> list[ClassicGroupMember]:
    return list(group.roster.members.values())


def _given(member: ClassicGroupMember) -> list[TopicPartition]:
    partitions, user_data = decode_assignment(member.assignment)
    if user_data:
        raise CorruptBatch("its assignor has given it more than partitions, which would be lost")
    return partitions


def _changes(
    group: ClassicGroup,
    into: ConsumerGroup,
    said: Mapping[str, Subscription],
    given: Mapping[str, Iterable[TopicPartition]],
    now: Now,
) -> list[ConsumerChange]:
    topics = into.topics.named()
    taken: set[Slot] = set()

    def take(partitions: Iterable[TopicPartition]) -> frozenset[Slot]:
        there = [at for at in partitions if at.topic in topics and 0 <= at.partition < topics[at.topic].partitions]
        mine = frozenset((topics[at.topic].id, at.partition) for at in there) - taken
        taken.update(mine)
        return mine

    epoch = group.generation
    assigned = {member_id: take(partitions) for member_id, partitions in given.items()}
    revoking = {member_id: take(found.owned) for member_id, found in said.items()}
    read = {topic for found in said.values() for topic in found.topics}
    subscriptions = {member.member_id: _subscription(member, said[member.member_id]) for member in _members(group)}
    currents = {member_id: _current(epoch, assigned[member_id], revoking[member_id]) for member_id in subscriptions}
    name = group.group_id
    return [
        *(ConsumerChange(MEMBER, name, member_id, found) for member_id, found in subscriptions.items()),
        ConsumerChange(EPOCH, name, "", GroupEpoch(epoch, topics_hash(read, topics))),
        *(ConsumerChange(TARGET, name, member_id, slots) for member_id, slots in assigned.items()),
        ConsumerChange(TARGET_EPOCH, name, "", TargetEpoch(epoch, now.wall)),
        *(ConsumerChange(CURRENT, name, member_id, found) for member_id, found in currents.items()),
    ]


def _subscription(member: ClassicGroupMember, said: Subscription) -> MemberSubscription:
    return MemberSubscription(
        member.group_instance_id,
        said.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(said.topics))),
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, tuple(member.protocols)),
    )


def _current(epoch: int, assigned: Iterable[Slot], revoking: Collection[Slot]) -> Current:
    state = MemberState.UNREVOKED if revoking else MemberState.STABLE
    return Current(epoch, epoch, state, dict.fromkeys(assigned, epoch), dict.fromkeys(revoking, epoch))


def upgrade_records(group: ClassicGroup, changes: Iterable[ConsumerChange]) -> list[LogRecord]:
    """The records that come first where a classic group becomes one of the consumer protocol."""
    return [*group.tombstones(), *(consumer_record(*change) for change in changes)]


def tell_upgraded(group: ClassicGroup, out: EffectsBuilder) -> None:
    """Make members join again that wait for an answer of the classic group, once it is gone."""
    error = RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again")
    answers = []
    for member in _members(group):
        if member.join is not None:
            answers.append(Answer(member.join, not_joined(error, member.member_id)))
        if member.sync is not None:
            answers.append(Answer(member.sync, SyncGroupResponse(error=error)))
        if member.heartbeat is not None:
            answers.append(Answer(member.heartbeat, HeartbeatResponse(error=error)))
    out.write((), answers)


# --- to the classic protocol -----------------------------------------------------------------------------------------


def turns_classic(group: ConsumerGroup, leaving: Collection[str], coming: int = 0) -> bool:
    """True if the group turns classic without the leaving members, and with so many new ones."""
    left = [found.classic for member_id, found in group.subscriptions.items() if member_id not in leaving]
    classic = [found for found in left if found is not None]
    common = set.intersection(*({name for name, _ in found.protocols} for found in classic)) if classic else {""}
    return (
        len(classic) == len(left)
        and bool(common)
        and 0 < len(left) + coming <= group.config.group_max_size
        and group.config.group_consumer_migration_policy in ("bidirectional", "downgrade")
    )


def downgrade(
    group: ConsumerGroup, leaving: Collection[str], answers: list[Answer], out: EffectsBuilder, failed: Failed | None
) -> None:
    """Make it a classic group without the leaving members; the others join again."""
    left = {member_id: found for member_id, found in group.subscriptions.items() if member_id not in leaving}
    turn_classic(group, left, group.currents, answers, out, failed).prepare(out)


def turn_classic(
    group: ConsumerGroup,
    members: Mapping[str, MemberSubscription],
    currents: Mapping[str, Current],
    answers: list[Answer],
    out: EffectsBuilder,
    failed: Failed | None = None,
) -> ClassicGroup:
    """The classic group of these members. It has the group's id from now on, and is to rebalance now."""
    stored = _stored(group, members, currents, out.now)
    classic = ClassicGroup(group.group_id, group.config, group.deadlines)
    classic.replay(stored)
    classic.load(out, lambda host: False)

    def undo(error: PylogError, out: EffectsBuilder) -> None:
        classic.dissolve(out, not_stored(error))
        group.give_way(group)
        refuse(answers, error, out)
        if failed is not None:
            failed(error, out)

    told = [_told(group, waiting, members) for waiting in group.waiting.values()]
    out.write([*group.tombstones(), group_record(group.group_id, stored)], [*answers, *told], undo)
    group.give_way(classic)
    return classic


def _told(group: ConsumerGroup, waiting: tuple[int, HeartbeatRequest], members: Container[str]) -> Answer:
    """The answer to a member whose heartbeat is kept back."""
    ticket, said = waiting
    if said.member_id in members:
        return Answer(
            ticket, HeartbeatResponse(error=RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again"))
        )
    return Answer(
        ticket, HeartbeatResponse(error=UnknownMemberId(f"{said.member_id!r} is no member of the group any more: join"))
    )


def _stored(
    group: ConsumerGroup, members: Mapping[str, MemberSubscription], currents: Mapping[str, Current], now: Now
) -> StoredGroup:
    roster = Roster()
    for member_id, found in members.items():
        assert found.classic is not None, "a member of the consumer protocol is in no classic group"
        roster.add(
            ClassicGroupMember(
                member_id,
                found.instance_id,
                found.client_id,
                found.client_host,
                max(found.rebalance_timeout_ms, 0),
                found.classic.session_timeout_ms,
                list(found.classic.protocols),
            )
        )
    protocol = roster.choose_protocol()
    stored: list[StoredMember] = []
    for member in roster.members.values():
        assignment = embedded_assignment(group, currents[member.member_id].assigned, member.metadata(protocol))
        stored.append(member.stored(protocol, assignment))
    epoch = group.epoch.epoch
    return StoredGroup(PROTOCOL_TYPE, epoch, protocol, roster.leader, now.wall, tuple(stored))
