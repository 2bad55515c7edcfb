"""The messages of a classic group's members: join, sync, heartbeat, leave (Kafka:
GroupMetadataManager.classicGroup...).

Each function answers one message, now or by the ticket that it leaves with the member. A member may repeat a message
while an answer is waiting. Then the later ticket gets that answer, and the earlier one is told to join again: its
sender does not wait for it any more.
"""

from collections.abc import Callable

from pylog.coordinator.effects import Answer
from pylog.coordinator.group.classic import NEW_MEMBER_JOIN_MS, ClassicGroup, ClassicGroupState
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.members import ClassicGroupMember
from pylog.errors import (
    CorruptBatch,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
    ProtocolError,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.protocol.assignor import decode_assignment, decode_subscription
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
    not_joined,
)

NewMemberId = Callable[[str], str]


# --- join ------------------------------------------------------------------------------------------------------------


def join(
    group: ClassicGroup,
    message: JoinGroupRequest,
    session: Session,
    ticket: int,
    out: EffectsBuilder,
    new_member_id: NewMemberId,
) -> None:
    """Take a member into the next generation. Raises the ProtocolError that refuses it."""
    member_id = message.member_id
    if not _has_room(group, member_id):
        full = GroupMaxSizeReached(f"group {group.group_id!r} has {group.config.group_max_size} members: it is full")
        group.turn_away(member_id, full, out)
        raise full
    _check_protocols(group, message)
    if member_id in group.roster.pending and message.group_instance_id is None:
        _add(group, _member(message, session, member_id), message.protocol_type, ticket, out)
    elif member_id:
        _join_again(group, message, ticket, out)
    elif message.group_instance_id is not None:
        _join_static(group, message, session, ticket, out, new_member_id(message.group_instance_id))
    elif message.requires_known_member_id:
        given = new_member_id(session.client_id)
        group.roster.pending[given] = session.host
        group.await_session(given, message.session_timeout_ms, out)
        out.answer(ticket, not_joined(MemberIdRequired("join again with the id that you were given"), given))
    else:
        _add(group, _member(message, session, new_member_id(session.client_id)), message.protocol_type, ticket, out)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    most = group.config.group_max_size
    member = group.roster.members.get(member_id)
    if group.state is ClassicGroupState.EMPTY:
        return True
    if group.state is ClassicGroupState.PREPARING:
        return (member is not None and member.join is not None) or len(group.roster.joined()) < most
    return member is not None or len(group.roster) < most


def _check_protocols(group: ClassicGroup, message: JoinGroupRequest) -> None:
    names = [name for name, _ in message.named_protocols]
    if group.state is ClassicGroupState.EMPTY:
        if message.protocol_type and names:
            return
    elif message.protocol_type == group.protocol_type and group.roster.supports_any(names):
        return
    raise InconsistentGroupProtocol(
        f"{message.protocol_type!r} with {names}: group {group.group_id!r} is {group.protocol_type!r}, and a member "
        "has to name an assignor that all others know, too"
    )


def _member(message: JoinGroupRequest, session: Session, member_id: str) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id,
        message.group_instance_id,
        session.client_id,
        session.host,
        message.rebalance_timeout_ms,
        message.session_timeout_ms,
        message.named_protocols,
        is_new=True,
    )


def _add(group: ClassicGroup, member: ClassicGroupMember, protocol_type: str, ticket: int, out: EffectsBuilder) -> None:
    group.admit(member, protocol_type)
    member.join = ticket
    group.await_session(member.member_id, NEW_MEMBER_JOIN_MS, out)
    group.rebalance(out)


def _join_again(group: ClassicGroup, message: JoinGroupRequest, ticket: int, out: EffectsBuilder) -> None:
    member = group.roster.check(message.member_id, message.group_instance_id)
    is_same = member.protocols == message.named_protocols
    leads_stable = group.state is ClassicGroupState.STABLE and group.roster.leader == member.member_id
    if group.state is not ClassicGroupState.PREPARING and is_same and not leads_stable:
        # It missed the answer, or asks for news.
        out.answer(ticket, group.joined(member))
        return
    _update(group, member, message, ticket, out)
    group.rebalance(out)


def _update(
    group: ClassicGroup, member: ClassicGroupMember, message: JoinGroupRequest, ticket: int, out: EffectsBuilder
) -> None:
    if member.join is not None:
        out.answer(member.join, not_joined(RebalanceInProgress("the member has joined again")))
    group.roster.change_protocols(member, message.named_protocols)
    member.rebalance_timeout_ms = message.rebalance_timeout_ms
    member.session_timeout_ms = message.session_timeout_ms
    member.join = ticket


def _join_static(
    group: ClassicGroup, message: JoinGroupRequest, session: Session, ticket: int, out: EffectsBuilder, member_id: str
) -> None:
    assert message.group_instance_id is not None
    old_id = group.roster.static(message.group_instance_id)
    member = _member(message, session, member_id)
    if old_id is None:
        _add(group, member, message.protocol_type, ticket, out)
        return
    old = group.roster.members[old_id]
    member.assignment, member.is_new = old.assignment, False
    group.replace_static(old, member, out)
    is_stable = group.state is ClassicGroupState.STABLE and group.roster.choose_protocol() == group.protocol
    if is_stable and not _was_to_join_again(group, old):
        _keep_assignment(group, old, member, ticket, out)
        return
    member.join = ticket
    if group.state is ClassicGroupState.PREPARING:
        group.complete_if_joined(out)
    else:
        group.prepare(out)


def _was_to_join_again(group: ClassicGroup, member: ClassicGroupMember) -> bool:
    """True if a member had more than it was given, so that it had to give something back and then to join again.

    A static member that takes its place does not know that. (Kafka does not ask; there the partition would have no
    owner until the next rebalance.)
    """
    if group.protocol_type != "consumer" or not member.assignment:
        return False
    try:
        had = decode_subscription(member.metadata(group.protocol)).owned
        given, _ = decode_assignment(member.assignment)
    except CorruptBatch:
        return False  # not the bytes of a client that is known here
    return not set(had) <= set(given)


def _keep_assignment(
    group: ClassicGroup, old: ClassicGroupMember, member: ClassicGroupMember, ticket: int, out: EffectsBuilder
) -> None:
    """Take a static member back: only its id changes, and that is logged (KIP-345, KIP-814)."""
    leads = group.roster.leader == member.member_id
    answer = group.joined(member)
    answer.skip_assignment = leads

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        group.replace_static(member, old, out)
        out.answer(ticket, not_joined(not_stored(error), generation_id=group.generation))

    assignments = {one.member_id: one.assignment for one in group.roster.members.values()}
    group.store(out, assignments, [Answer(ticket, answer)], failed)


# --- sync, heartbeat, leave ------------------------------------------------------------------------------------------


def sync(group: ClassicGroup, message: SyncGroupRequest, ticket: int, out: EffectsBuilder) -> None:
    """Give a member its assignment, when there is one. Raises the ProtocolError that refuses it."""
    member = group.roster.check(message.member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    for said, real in ((message.protocol_type, group.protocol_type), (message.protocol_name, group.protocol)):
        if said is not None and real is not None and said != real:
            raise InconsistentGroupProtocol(f"group {group.group_id!r} has {real!r}, not {said!r}: join it again")
    if group.state is ClassicGroupState.PREPARING:
        raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again")
    group.synced(member.member_id)
    if group.state is ClassicGroupState.STABLE:
        answer = SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )
        out.answer_when_safe(ticket, answer, lambda error: message.refused(not_stored(error)), tells=group.logged_end)
        return
    if member.sync is not None:
        out.answer(member.sync, SyncGroupResponse(error=RebalanceInProgress("the member has asked again")))
    member.sync = ticket
    if group.roster.leader == member.member_id:
        group.assign({one.member_id: one.assignment for one in message.assignments}, out)


def heartbeat(group: ClassicGroup, message: HeartbeatRequest, ticket: int, out: EffectsBuilder) -> None:
    """Tell a member whether it has to join again. Raises the ProtocolError that says so.

    An answer that is kept back comes before half the session is over, so that the member can send the next heartbeat.
    """
    member = group.roster.check(message.member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    group.refresh(member, out)
    if group.state is ClassicGroupState.PREPARING:
        raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again")
    wait = min(message.max_wait_ms, member.session_timeout_ms // 2)
    if wait > 0:
        group.hold(member, ticket, wait, out)
    else:
        out.answer(ticket, HeartbeatResponse())


def leave(group: ClassicGroup, message: LeaveGroupRequest, ticket: int, out: EffectsBuilder) -> None:
    """Let members go; each has an error of its own."""
    errors: list[PylogError | None] = []
    for leaving in message.members:
        try:
            _leave(group, leaving, out)
            errors.append(None)
        except ProtocolError as error:
            errors.append(error)
    out.answer(ticket, message.answered(errors))
    if None in errors:
        group.members_left(out)


def _leave(group: ClassicGroup, leaving: LeaveGroupRequest.MemberIdentity, out: EffectsBuilder) -> None:
    member_id = leaving.member_id
    if member_id in group.roster.pending:
        group.forget_pending(member_id)
        return
    if not member_id:
        found = group.roster.static(leaving.group_instance_id) if leaving.group_instance_id is not None else None
        if found is None:
            raise UnknownMemberId(f"no member of this group has the instance id {leaving.group_instance_id!r}")
        member = group.roster.members[found]
    else:
        member = group.roster.check(member_id, leaving.group_instance_id)
    group.drop(member, out, UnknownMemberId(f"{member.member_id!r} has left the group"))
