"""The messages of classic members in a group of the consumer protocol (KIP-848), as long as it has both kinds.

    JoinGroup    as a heartbeat of the other protocol: what the member reads and owns; answered at once, without barrier
    SyncGroup    the member's present partitions, in the embedded protocol of its assignors
    Heartbeat    whether it has to join again to go on towards its target; kept back while it has not
    LeaveGroup   it goes

A generation is the epoch of the member. No member leads: the coordinator assigns. (Kafka: GroupMetadataManager
.classicGroup...ToConsumerGroup.)
"""

from pylog.coordinator.effects import Answer
from pylog.coordinator.group.classic_join import NewMemberId
from pylog.coordinator.group.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from pylog.coordinator.group.consumer_heartbeat import (
    await_join,
    carry_out,
    check_classic,
    check_room,
    expect,
    release_classic,
    remove,
)
from pylog.coordinator.group.consumer_records import ClassicMember, MemberState, MemberSubscription, Slot
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.migration import embedded_assignment, turn_classic, turns_classic
from pylog.coordinator.group.update import GroupUpdate
from pylog.errors import (
    CorruptBatch,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    ProtocolError,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import Subscription, decode_subscription
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
    not_joined,
)

# --- join ------------------------------------------------------------------------------------------------------------


def join(
    group: ConsumerGroup,
    message: JoinGroupRequest,
    session: Session,
    ticket: int,
    out: EffectsBuilder,
    new_member_id: NewMemberId,
) -> None:
    """Take a member in, or let it go on. Raises the ProtocolError that refuses it."""
    instance_id = message.group_instance_id
    member_id = message.member_id or new_member_id(session.client_id if instance_id is None else instance_id)
    holder = None if instance_id is None else group.static.get(instance_id)
    if holder is None and member_id not in group.subscriptions:
        check_room(group)
    said = _said(group, message)
    if not message.member_id and instance_id is None and message.requires_known_member_id:
        given = MemberIdRequired("join again with the id that you were given")
        out.answer(ticket, not_joined(given, member_id))
        return
    if message.member_id and (instance_id is not None or said.owned):
        # A client with partitions was a member. One that is not a member any more has to know that, for others have
        # them. (Kafka takes in a dynamic member under any id, and its old partitions have two members for a moment.)
        group.current(member_id, instance_id)
    subscription = _subscription(message, session, said)
    if holder is None or holder == member_id:
        _go_on(group, GroupUpdate(group, out.now), member_id, subscription, said, ticket, out)
        return
    fenced = FencedInstanceId(f"{member_id!r} has the instance id {instance_id!r} now")
    group.release(holder, ConsumerGroupHeartbeatResponse(error=fenced, member_id=holder), out)
    if group.subscriptions[holder].classic is None and turns_classic(group, [holder], coming=1):
        _replace_last(group, holder, member_id, subscription, ticket, out)
        return
    step = GroupUpdate(group, out.now)
    step.replace(holder, member_id)
    _go_on(group, step, member_id, subscription, said, ticket, out)


def _said(group: ConsumerGroup, message: JoinGroupRequest) -> Subscription:
    """The subscription in a join. Raises InconsistentGroupProtocol for members that cannot be in this group."""
    if group.config.group_consumer_migration_policy == "disabled":
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} has members of the consumer protocol, and group.consumer.migration.policy is "
            "disabled: join with group_protocol consumer"
        )
    offered = [one.name for one in message.protocols]
    names = set(offered)
    for found in group.subscriptions.values():
        names &= names if found.classic is None else {name for name, _ in found.classic.protocols}
    if message.protocol_type != PROTOCOL_TYPE or not names:
        raise InconsistentGroupProtocol(
            f"{message.protocol_type!r} with {offered}: group {group.group_id!r} has "
            "consumers, and a member has to name an assignor that all others of the classic protocol know, too"
        )
    try:
        return decode_subscription(message.protocols[0].metadata)
    except CorruptBatch as error:
        raise InconsistentGroupProtocol(f"the subscription of the member cannot be read: {error}") from None


def _subscription(message: JoinGroupRequest, session: Session, said: Subscription) -> MemberSubscription:
    return MemberSubscription(
        message.group_instance_id,
        said.rack_id,
        session.client_id,
        session.host,
        tuple(sorted(set(said.topics))),
        None,
        message.rebalance_timeout_ms,
        None,
        ClassicMember(message.session_timeout_ms, tuple(message.named_protocols)),
    )


def _go_on(
    group: ConsumerGroup,
    step: GroupUpdate,
    member_id: str,
    subscription: MemberSubscription,
    said: Subscription,
    ticket: int,
    out: EffectsBuilder,
) -> None:
    """Let a member go on towards its target, and answer how far it is."""
    assert subscription.classic is not None
    step.refresh(changed=step.subscribe(member_id, subscription))
    step.assign()
    current = step.reconcile(member_id, _owned(group, said))
    release_classic(group, member_id, out)
    group.cancel(("join", member_id), ("revocation", member_id))
    expect(group, member_id, out, subscription.classic.session_timeout_ms)
    expect(group, member_id, out, subscription.rebalance_timeout_ms, "sync")
    name, _ = subscription.classic.first
    joined = JoinGroupResponse(
        generation_id=current.epoch, protocol_type=PROTOCOL_TYPE, protocol_name=name, member_id=member_id
    )
    carry_out(group, step, [Answer(ticket, joined)], out)


def _owned(group: ConsumerGroup, said: Subscription) -> frozenset[Slot]:
    topics = group.topics.named()
    return frozenset((topics[topic].id, partition) for topic, partition in said.owned if topic in topics)


def _replace_last(
    group: ConsumerGroup,
    old_id: str,
    member_id: str,
    subscription: MemberSubscription,
    ticket: int,
    out: EffectsBuilder,
) -> None:
    """Turn the group classic: its last member of the consumer protocol is back by the classic one."""
    members = {id_: found for id_, found in group.subscriptions.items() if id_ != old_id} | {member_id: subscription}
    currents = {**group.currents, member_id: group.currents[old_id]}
    classic = turn_classic(group, members, currents, [], out)
    classic.roster.members[member_id].join = ticket
    classic.prepare(out)


# --- sync, heartbeat, leave ------------------------------------------------------------------------------------------


def sync(group: ConsumerGroup, message: SyncGroupRequest, ticket: int, out: EffectsBuilder) -> None:
    """Tell a member its partitions. Raises the ProtocolError that refuses it."""
    member_id = message.member_id
    current, said = group.classic(member_id, message.group_instance_id)
    name, metadata = said.first
    if message.generation_id != current.epoch:
        raise IllegalGeneration(f"{member_id!r} is in generation {current.epoch}, not {message.generation_id}: join")
    for given, real in ((message.protocol_type, PROTOCOL_TYPE), (message.protocol_name, name)):
        if given is not None and given != real:
            raise InconsistentGroupProtocol(f"{member_id!r} has {real!r}, not {given!r}: join again")
    if group.epoch.epoch > current.epoch and current.state is not MemberState.UNREVOKED:
        await_join(group, member_id, out)
        raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again")
    group.cancel(("sync", member_id))
    expect(group, member_id, out, said.session_timeout_ms)
    assignment = embedded_assignment(group, current.assigned, metadata)
    answer = SyncGroupResponse(
        protocol_type=message.protocol_type, protocol_name=message.protocol_name, assignment=assignment
    )
    out.answer_when_safe(ticket, answer, lambda error: message.refused(not_stored(error)), tells=group.logged_end)


def heartbeat(group: ConsumerGroup, message: HeartbeatRequest, ticket: int, out: EffectsBuilder) -> None:
    """Tell a member when it has to join again. Raises the ProtocolError that says so."""
    member_id = message.member_id
    _, said = group.classic(member_id, message.group_instance_id)
    release_classic(group, member_id, out)
    expect(group, member_id, out, said.session_timeout_ms)
    check_classic(group, message, out)
    wait = min(message.max_wait_ms, said.session_timeout_ms // 2)
    if wait > 0:
        group.waiting[member_id] = ticket, message
        group.due(("held", member_id), wait, lambda group, out: release_classic(group, member_id, out), out)
    else:
        out.answer(ticket, HeartbeatResponse())


def leave(group: ConsumerGroup, message: LeaveGroupRequest, ticket: int, out: EffectsBuilder) -> None:
    """Let members go; each has an error of its own."""
    errors: list[PylogError | None] = []
    gone: list[str] = []
    for leaving in message.members:
        try:
            member_id = _leaving(group, leaving)
            if member_id in gone:
                raise UnknownMemberId(f"{member_id!r} is named twice")
            gone.append(member_id)
            errors.append(None)
        except ProtocolError as error:
            errors.append(error)
    answer = message.answered(errors)
    if gone:
        remove(group, gone, [Answer(ticket, answer)], out)
    else:
        out.answer(ticket, answer)


def _leaving(group: ConsumerGroup, leaving: LeaveGroupRequest.MemberIdentity) -> str:
    """The id of a member of either protocol that leaves. A static one may be named by its instance id alone."""
    instance_id, member_id = leaving.group_instance_id, leaving.member_id
    if instance_id is not None and not member_id:
        member_id = group.static.get(instance_id, "")
    group.current(member_id, instance_id)
    return member_id


def take_over(group: ConsumerGroup, out: EffectsBuilder) -> None:
    """Take over a group that was a classic one until now: the deadlines of its members go on in this one."""
    for member_id in group.subscriptions:
        group.cancel(*((what, member_id) for what in ("join", "sync", "revocation", "held")))
        expect(group, member_id, out, group.session_timeout_ms(member_id))
