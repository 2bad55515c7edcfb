"""The messages of a share group's members, and the answers to them (KIP-932).

As in a consumer group (`consumer_heartbeat`) a heartbeat without news may be kept back. It is answered when the member
gets other partitions, or when its time is over.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any
from uuid import UUID

from pylog.coordinator.effects import Answer, Effect, Now
from pylog.coordinator.group.classic import STORE_AGAIN_MS
from pylog.coordinator.group.consumer_records import Slot, by_topic_id
from pylog.coordinator.group.effects_builder import EffectsBuilder, Failed, refuse
from pylog.coordinator.group.share_group import NEW_MEMBER, ShareGroup
from pylog.coordinator.group.share_records import Begun, PartitionStates, ShareCurrent, ShareMember
from pylog.coordinator.group.share_update import ShareGroupUpdate
from pylog.errors import FencedMemberEpoch, GroupMaxSizeReached, PylogError, UnknownMemberId
from pylog.protocol.messages import JOIN_EPOCH, LEAVE_EPOCH, Session
from pylog.protocol.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from pylog.protocol.messages.share_state import InitializeShareGroupStateRequest

# --- heartbeat -------------------------------------------------------------------------------------------------------


def heartbeat(
    group: ShareGroup, message: ShareGroupHeartbeatRequest, session: Session, ticket: int, out: EffectsBuilder
) -> None:
    """Hear a member. Raises the ProtocolError that refuses it."""
    member_id = message.member_id
    if message.member_epoch == LEAVE_EPOCH:
        _leave(group, member_id, ticket, out)
        return
    before = _admit(group, message)
    step = ShareGroupUpdate(group, out.now)
    step.refresh(changed=step.subscribe(member_id, _member(group.members.get(member_id), message, session)))
    step.assign()
    current = step.reconcile(member_id)
    question = step.begin()
    group.release(member_id, _answer(group, member_id, before), out)
    expect(group, member_id, out)
    is_full = message.member_epoch == JOIN_EPOCH or message.subscribed_topic_names is not None
    is_told = is_full or before.assigned != current.assigned
    wait = min(message.max_wait_ms, group.group_config.share_session_timeout_ms // 2)
    if wait > 0 and not step.records and not is_told:
        group.held[member_id] = ticket
        group.due(("held", member_id), wait, lambda group, out: _hold_over(group, member_id, out), out)
        return
    answer = Answer(ticket, _answer(group, member_id, current, is_told=is_told))
    _carry_out_and_ask(group, step, [answer], question, out)


def _admit(group: ShareGroup, message: ShareGroupHeartbeatRequest) -> ShareCurrent:
    """The member's state, which may be new here. Raises the ProtocolError that refuses it."""
    member_id, epoch = message.member_id, message.member_epoch
    most = group.config.group_share_max_size
    if member_id not in group.members and len(group.members) >= most:
        raise GroupMaxSizeReached(f"group {group.group_id!r} has {most} members: it is full")
    if epoch == JOIN_EPOCH:
        return group.currents.get(member_id, NEW_MEMBER)
    current = group.current(member_id)
    if epoch not in (current.epoch, current.previous_epoch):
        raise FencedMemberEpoch(
            f"{member_id!r} is in epoch {current.epoch}, not {epoch}: give up all partitions and join again"
        )
    return current


def _member(before: ShareMember | None, message: ShareGroupHeartbeatRequest, session: Session) -> ShareMember:
    known, names = before or ShareMember(), message.subscribed_topic_names
    return ShareMember(
        known.rack_id if message.rack_id is None else message.rack_id, session.client_id, session.host,
        known.topics if names is None else tuple(sorted(set(names))),
    )  # fmt: skip


def _answer(
    group: ShareGroup, member_id: str, current: ShareCurrent, *, is_told: bool = False
) -> ShareGroupHeartbeatResponse:
    told = ShareGroupHeartbeatResponse.Assignment
    parts = by_topic_id(current.assigned) if is_told else ()
    topics = [told.TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in parts]
    return ShareGroupHeartbeatResponse(
        member_id=member_id, member_epoch=current.epoch,
        heartbeat_interval_ms=group.group_config.share_heartbeat_interval_ms,
        assignment=told(topic_partitions=topics) if is_told else None,
    )  # fmt: skip


# --- the state of partitions -----------------------------------------------------------------------------------------


def _carry_out_and_ask(
    group: ShareGroup,
    step: ShareGroupUpdate,
    answers: list[Answer],
    question: InitializeShareGroupStateRequest | None,
    out: EffectsBuilder,
) -> None:
    """Carry out an update, then ask the share coordinator to begin partitions. Where it cannot, the next heartbeat asks
    again.
    """
    if question is None:
        carry_out(group, step, answers, out)
        return
    asked = {(topic_id, part.partition) for topic_id, part in question.keyed()}
    group.asked |= asked

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        group.asked -= asked

    def told(answer: Any, now: Now) -> list[Effect]:
        group.asked -= asked
        out = EffectsBuilder(now)
        is_begun = not isinstance(answer, PylogError) and question.first_error(answer) is None
        note_begun(group.live, asked if is_begun else frozenset(), asked, out)
        return out.effects()

    carry_out(group, step, answers, out, failed)
    out.ask(question, told)


def note_begun(group: ShareGroup, slots: AbstractSet[Slot], asked: AbstractSet[Slot], out: EffectsBuilder) -> None:
    """Note that partitions have a state, of those that were `asked` for; members can have them from now on."""
    states = group.states
    left = {
        topic_id: Begun(one.name, rest)
        for topic_id, one in states.initializing.items()
        if (rest := one.partitions - {number for other, number in asked if other == topic_id})
    }
    initialized = dict(states.initialized)
    for topic_id, numbers in by_topic_id(slots):
        known = initialized.get(topic_id) or states.initializing.get(topic_id)
        name = known.name if known is not None else _name(group, topic_id)
        before = initialized[topic_id].partitions if topic_id in initialized else frozenset()
        initialized[topic_id] = Begun(name, before | frozenset(numbers))
    found = PartitionStates(left, initialized, states.deleting)
    if found != states:
        out.write([group.state_record(found)])
        if group.held:
            group.due("wake", 0, wake, out)


def _name(group: ShareGroup, topic_id: UUID) -> str:
    return next((name for name, info in group.topics.named().items() if info.id == topic_id), "<UNKNOWN>")


# --- what follows ----------------------------------------------------------------------------------------------------


def carry_out(
    group: ShareGroup, step: ShareGroupUpdate, answers: list[Answer], out: EffectsBuilder, failed: Failed | None = None
) -> None:
    """Log the update, if it has records, and answer when all that the answers tell of is safe."""
    if not step.records and not answers:
        return

    def undo(error: PylogError, out: EffectsBuilder) -> None:
        refuse(answers, error, out)
        if failed is not None:
            failed(error, out)

    out.write(step.records, answers, undo, tells=group.logged_end)
    if step.records and group.held:
        group.due("wake", 0, wake, out)


def wake(group: ShareGroup, out: EffectsBuilder) -> None:
    """Tell members whose heartbeats are kept back of other partitions."""
    step = ShareGroupUpdate(group, out.now)
    step.refresh(changed=False)
    step.assign()
    answers = [
        _held_answer(group, member_id, step.reconcile(member_id))
        for member_id in list(group.held)
        if step.targets.get(member_id, frozenset()) != group.currents[member_id].assigned
    ]
    carry_out(group, step, answers, out)


def _hold_over(group: ShareGroup, member_id: str, out: EffectsBuilder) -> None:
    """Answer a heartbeat that was kept back, as its time is over."""
    step = ShareGroupUpdate(group, out.now)
    step.refresh(changed=False)
    step.assign()
    current = step.reconcile(member_id)
    question = step.begin()
    _carry_out_and_ask(group, step, [_held_answer(group, member_id, current)], question, out)


def _held_answer(group: ShareGroup, member_id: str, current: ShareCurrent) -> Answer:
    group.cancel(("held", member_id))
    is_told = group.currents[member_id].assigned != current.assigned
    return Answer(group.held.pop(member_id), _answer(group, member_id, current, is_told=is_told))


# --- time ------------------------------------------------------------------------------------------------------------


def expect(group: ShareGroup, member_id: str, out: EffectsBuilder, within_ms: int | None = None) -> None:
    """Expect a sign of life of a member in time: otherwise it is out."""
    timeout = group.group_config.share_session_timeout_ms if within_ms is None else within_ms
    group.due(("session", member_id), timeout, lambda group, out: fence(group, [member_id], out), out)


def fence(group: ShareGroup, member_ids: list[str], out: EffectsBuilder) -> None:
    """Remove members; where that cannot be logged it is tried again."""
    gone = [member_id for member_id in member_ids if member_id in group.members]

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        for member_id in gone:
            expect(group, member_id, out, STORE_AGAIN_MS)

    for member_id in gone:
        error = UnknownMemberId(f"{member_id!r} was not heard of in time: join again")
        group.release(member_id, ShareGroupHeartbeatResponse(error=error, member_id=member_id), out)
    if gone:
        _remove(group, gone, [], out, failed)


def _leave(group: ShareGroup, member_id: str, ticket: int, out: EffectsBuilder) -> None:
    group.current(member_id)
    error = UnknownMemberId(f"{member_id!r} has left group {group.group_id!r}")
    group.release(member_id, ShareGroupHeartbeatResponse(error=error, member_id=member_id), out)
    group.cancel(("session", member_id))
    answer = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
    _remove(group, [member_id], [Answer(ticket, answer)], out)


def _remove(
    group: ShareGroup, member_ids: list[str], answers: list[Answer], out: EffectsBuilder, failed: Failed | None = None
) -> None:
    step = ShareGroupUpdate(group, out.now)
    for member_id in member_ids:
        step.remove(member_id)
    step.refresh(changed=True)
    carry_out(group, step, answers, out, failed)


def load(group: ShareGroup, out: EffectsBuilder, is_lost: Callable[[str], bool]) -> None:
    """Begin where the log ends. Members whose process is gone are lost at once."""
    for member_id in group.members:
        expect(group, member_id, out)
    lose(group, out, is_lost)


def expect_loss(group: ShareGroup, host: str, out: EffectsBuilder) -> None:
    """Lose the members on a host that is gone, as the next thing that is due."""
    if any(member.client_host == host for member in group.members.values()):
        group.due(("host", host), 0, lambda group, out: lose(group, out, lambda other: other == host), out)


def lose(group: ShareGroup, out: EffectsBuilder, is_lost: Callable[[str], bool]) -> None:
    """Remove the members on a host that is gone: they will not be back."""
    fence(group, [member_id for member_id, member in group.members.items() if is_lost(member.client_host)], out)
