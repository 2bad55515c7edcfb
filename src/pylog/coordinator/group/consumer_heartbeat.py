"""The messages of a consumer group's members, and the answers to them (KIP-848).

A member says all in one message. The answer depends on the records of its changes. Where there is no news the answer
may be kept back: then it comes when the member's target changes, with the new target; or when its time is over. A
change of a group with such members has to wake it (`wake`).

Members are fenced when they send nothing for a session, or do not give up in time the partitions that they have to:
they are out, and their partitions are free.
"""

from collections.abc import Callable, Collection, Iterable

from pylog.coordinator.effects import Answer, LogRecord
from pylog.coordinator.group.checks import NOT_SAID
from pylog.coordinator.group.classic import STORE_AGAIN_MS
from pylog.coordinator.group.consumer_group import NEW_MEMBER, ConsumerGroup
from pylog.coordinator.group.consumer_records import Current, MemberState, MemberSubscription, Slot, by_topic_id
from pylog.coordinator.group.effects_builder import EffectsBuilder, Failed, refuse
from pylog.coordinator.group.migration import downgrade, turns_classic
from pylog.coordinator.group.update import GroupUpdate
from pylog.errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    IllegalGeneration,
    ProtocolError,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from pylog.protocol.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Session,
)
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)

EPOCHS_AFTER_MS = 100


# --- heartbeat -------------------------------------------------------------------------------------------------------


def heartbeat(
    group: ConsumerGroup,
    message: ConsumerGroupHeartbeatRequest,
    session: Session,
    ticket: int,
    out: EffectsBuilder,
    new_member_id: Callable[[str], str],
    records: Iterable[LogRecord] = (),
) -> None:
    """Hear a member; `records` are logged before its changes. Raises the ProtocolError that refuses it."""
    if message.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        _leave(group, message, ticket, out)
        return
    member_id = message.member_id or new_member_id(session.client_id)
    owned = _slots(message.topic_partitions)
    step = GroupUpdate(group, out.now, records)
    # What a classic leader has given its members is no target, and nothing where it had not come so far.
    was_classic = bool(step.records)
    before = _admit(group, step, message, member_id, owned)
    changed = step.subscribe(member_id, _subscription(step.subscriptions.get(member_id), message, session))
    step.refresh(changed=changed or was_classic)
    step.assign()
    current = step.reconcile(member_id, owned)
    group.release(member_id, _answer(group, member_id, before), out)
    group.cancel(("join", member_id), ("sync", member_id))
    session_timeout_ms = group.group_config.consumer_session_timeout_ms
    expect(group, member_id, out, session_timeout_ms)
    if current is not before:
        _expect_revocation(group, member_id, current, step.subscriptions[member_id].rebalance_timeout_ms, out)
    is_told = _is_full(message) or before.assigned.keys() != current.assigned.keys()
    wait = min(message.max_wait_ms, session_timeout_ms // 2)
    # The next heartbeat goes on where not all topics were looked at.
    is_known = group.seen is not None
    if wait > 0 and is_known and not step.records and not is_told:
        group.held[member_id] = ticket
        group.due(("held", member_id), wait, lambda group, out: _hold_over(group, member_id, out), out)
    else:
        carry_out(group, step, [Answer(ticket, _answer(group, member_id, current, is_told=is_told))], out)


def _slots(structs: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None) -> frozenset[Slot] | None:
    if structs is None:
        return None
    return frozenset((one.topic_id, partition) for one in structs for partition in one.partitions)


def _is_full(message: ConsumerGroupHeartbeatRequest) -> bool:
    """True if a member says all there is, because it joins or has missed an answer: it is told all, too."""
    reads = message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
    says_all = message.rebalance_timeout_ms != NOT_SAID and reads and message.topic_partitions is not None
    return message.member_epoch == JOIN_EPOCH or says_all


def _answer(
    group: ConsumerGroup, member_id: str, current: Current, *, is_told: bool = False
) -> ConsumerGroupHeartbeatResponse:
    told = ConsumerGroupHeartbeatResponse.Assignment
    parts = by_topic_id(current.assigned) if is_told else ()
    topics = [told.TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in parts]
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=current.epoch,
        heartbeat_interval_ms=group.group_config.consumer_heartbeat_interval_ms,
        assignment=told(topic_partitions=topics) if is_told else None,
    )  # fmt: skip


def _subscription(
    before: MemberSubscription | None, message: ConsumerGroupHeartbeatRequest, session: Session
) -> MemberSubscription:
    """The member's metadata: the new values, and the old ones elsewhere. An empty regex subscribes to nothing."""
    known = before or MemberSubscription()
    names, regex, timeout = message.subscribed_topic_names, message.subscribed_topic_regex, message.rebalance_timeout_ms
    return MemberSubscription(
        known.instance_id if message.instance_id is None else message.instance_id,
        known.rack_id if message.rack_id is None else message.rack_id,
        session.client_id,
        session.host,
        known.topics if names is None else tuple(sorted(set(names))),
        known.regex if regex is None else regex or None,
        known.rebalance_timeout_ms if timeout == NOT_SAID else timeout,
        known.server_assignor if message.server_assignor is None else message.server_assignor,
    )


def _admit(
    group: ConsumerGroup,
    step: GroupUpdate,
    message: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: frozenset[Slot] | None,
) -> Current:
    """The member's state, which may be new here. Raises the ProtocolError that refuses it."""
    joins = message.member_epoch == JOIN_EPOCH
    holder = None if message.instance_id is None else group.static.get(message.instance_id)
    if joins and holder is not None and holder != member_id:
        is_classic = group.subscriptions[holder].classic is not None
        if not is_classic and group.currents.get(holder, NEW_MEMBER).epoch != LEAVE_STATIC_EPOCH:
            raise UnreleasedInstanceId(
                f"{message.instance_id!r} is the instance id of member {holder!r}, which has not left: let it leave, "
                "or wait until its session is over"
            )
        step.replace(holder, member_id)
        return step.currents[member_id]
    if joins and member_id not in group.subscriptions:
        check_room(group)
        return NEW_MEMBER
    current = group.current(member_id, message.instance_id)
    _check_epoch(member_id, current, message.member_epoch, owned)
    return current


def check_room(group: ConsumerGroup) -> None:
    """Raise GroupMaxSizeReached where the group has no room."""
    most = group.config.group_consumer_max_size
    if len(group.subscriptions) >= most:
        raise GroupMaxSizeReached(f"group {group.group_id!r} has {most} members: it is full")


def _check_epoch(member_id: str, current: Current, epoch: int, owned: frozenset[Slot] | None) -> None:
    """Check that a member is in its epoch, or in the one before.

    It may be in the one before where it has missed an answer and has no partition that it must not have. Raises
    FencedMemberEpoch.
    """
    missed_one = epoch == current.previous_epoch and owned is not None and owned <= current.assigned.keys()
    if epoch > current.epoch or (epoch < current.epoch and not missed_one):
        raise FencedMemberEpoch(
            f"{member_id!r} is in epoch {current.epoch}, not {epoch}: give up all partitions and join again"
        )


# --- what follows ----------------------------------------------------------------------------------------------------


def carry_out(
    group: ConsumerGroup, step: GroupUpdate, answers: list[Answer], out: EffectsBuilder, failed: Failed | None = None
) -> None:
    """Log the update, if it has records, and answer when all that the answers tell of is safe."""
    if not step.records and not answers:
        return

    def undo(error: PylogError, out: EffectsBuilder) -> None:
        refuse(answers, error, out)
        if failed is not None:
            failed(error, out)

    out.write(step.records, answers, undo, tells=group.logged_end)
    if step.records and (group.held or group.waiting):
        group.due("wake", 0, wake, out)


def wake(group: ConsumerGroup, out: EffectsBuilder) -> None:
    """Tell members whose heartbeats are kept back their new targets.

    Members with a new epoch and no other news hear all together, when no more has happened for a moment: otherwise each
    new member would make all others send a heartbeat.
    """
    step = GroupUpdate(group, out.now)
    step.refresh(changed=False)
    step.assign()
    answers = []
    if not step.records:
        for member_id in list(group.held):
            found = step.next_of(member_id)
            if found.assigned.keys() != group.currents[member_id].assigned.keys():
                step.give(member_id, found)
                answers.append(_held_answer(group, member_id, found, out))
    for member_id in list(group.waiting):
        _tell_classic(group, member_id, out)
    if any(group.currents[member_id].epoch != group.target_epoch.epoch for member_id in group.held):
        group.due("epochs", EPOCHS_AFTER_MS, _tell_epochs, out)
    carry_out(group, step, answers, out)


def _tell_epochs(group: ConsumerGroup, out: EffectsBuilder) -> None:
    step = GroupUpdate(group, out.now)
    answers = []
    for member_id in list(group.held):
        found = step.reconcile(member_id)
        if found is not group.currents[member_id]:
            answers.append(_held_answer(group, member_id, found, out))
    carry_out(group, step, answers, out)


def _hold_over(group: ConsumerGroup, member_id: str, out: EffectsBuilder) -> None:
    """Answer a heartbeat that was kept back, as its time is over."""
    step = GroupUpdate(group, out.now)
    step.refresh(changed=False)
    step.assign()
    current = step.reconcile(member_id)
    carry_out(group, step, [_held_answer(group, member_id, current, out)], out)


def _held_answer(group: ConsumerGroup, member_id: str, current: Current, out: EffectsBuilder) -> Answer:
    """The answer to a member whose heartbeat was kept back until now."""
    before = group.currents[member_id]
    if current is not before:
        _expect_revocation(group, member_id, current, group.subscriptions[member_id].rebalance_timeout_ms, out)
    group.cancel(("held", member_id))
    is_told = before.assigned.keys() != current.assigned.keys()
    return Answer(group.held.pop(member_id), _answer(group, member_id, current, is_told=is_told))


# --- members of the classic protocol that wait -----------------------------------------------------------------------


def check_classic(group: ConsumerGroup, message: HeartbeatRequest, out: EffectsBuilder) -> None:
    """Raise the news for a member of the classic protocol: that it has to join again, or is no member any more."""
    member_id = message.member_id
    current, _ = group.classic(member_id, message.group_instance_id)
    if message.generation_id != current.epoch:
        raise IllegalGeneration(f"{member_id!r} is in generation {current.epoch}, not {message.generation_id}: join")
    if group.has_to_join(member_id):
        await_join(group, member_id, out)
        raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing: join again")


def _tell_classic(group: ConsumerGroup, member_id: str, out: EffectsBuilder) -> None:
    """Answer a heartbeat that is kept back, if there is news by now."""
    try:
        check_classic(group, group.waiting[member_id][1], out)
    except ProtocolError as error:
        release_classic(group, member_id, out, error)


def release_classic(group: ConsumerGroup, member_id: str, out: EffectsBuilder, error: PylogError | None = None) -> None:
    """Answer a heartbeat of such a member that is kept back, if there is one."""
    if member_id in group.waiting:
        ticket, _ = group.waiting.pop(member_id)
        group.cancel(("held", member_id))
        out.answer(ticket, HeartbeatResponse(error=error))


def await_join(group: ConsumerGroup, member_id: str, out: EffectsBuilder) -> None:
    """Expect a member that was told so to join again in time, counted from the first time that it was told."""
    if not group.is_due(("join", member_id)):
        timeout_ms = max(group.subscriptions[member_id].rebalance_timeout_ms, 0)
        expect(group, member_id, out, timeout_ms, "join")


# --- time ------------------------------------------------------------------------------------------------------------


def expect(group: ConsumerGroup, member_id: str, out: EffectsBuilder, within_ms: int, what: str = "session") -> None:
    """Expect a sign of life of a member in time, or the end of its revocation: otherwise it is out."""
    group.due((what, member_id), within_ms, lambda group, out: _time_over(group, member_id, out), out)


def _expect_revocation(
    group: ConsumerGroup, member_id: str, current: Current, timeout_ms: int, out: EffectsBuilder
) -> None:
    """Expect a member to give up in time the partitions that it has to."""

    def over(group: ConsumerGroup, out: EffectsBuilder) -> None:
        found = group.currents.get(member_id, NEW_MEMBER)
        if found.state is MemberState.UNREVOKED and found.epoch == current.epoch:
            fence(group, [member_id], out)

    if current.state is MemberState.UNREVOKED:
        group.due(("revocation", member_id), timeout_ms, over, out)
    else:
        group.cancel(("revocation", member_id))


def _time_over(group: ConsumerGroup, member_id: str, out: EffectsBuilder) -> None:
    if member_id in group.subscriptions:
        fence(group, [member_id], out)


def fence(group: ConsumerGroup, member_ids: list[str], out: EffectsBuilder) -> None:
    """Remove members; where that cannot be logged it is tried again."""
    for member_id in member_ids:
        gone = UnknownMemberId(f"{member_id!r} was not heard of in time, or did not give up its partitions: join again")
        group.release(member_id, ConsumerGroupHeartbeatResponse(error=gone, member_id=member_id), out)

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        for member_id in member_ids:
            expect(group, member_id, out, STORE_AGAIN_MS)

    remove(group, member_ids, [], out, failed)


def remove(
    group: ConsumerGroup,
    member_ids: Collection[str],
    answers: list[Answer],
    out: EffectsBuilder,
    failed: Failed | None = None,
) -> None:
    """Remove members and free their partitions; if only classic members are left, the group turns classic."""
    if turns_classic(group, member_ids):
        downgrade(group, member_ids, answers, out, failed)
        return
    step = GroupUpdate(group, out.now)
    for member_id in member_ids:
        step.remove(member_id)
    step.refresh(changed=True)
    carry_out(group, step, answers, out, failed)


def load(group: ConsumerGroup, out: EffectsBuilder, is_lost: Callable[[str], bool]) -> None:
    """Begin where the log ends. Members whose process is gone are lost at once."""
    for member_id, subscription in group.subscriptions.items():
        expect(group, member_id, out, group.session_timeout_ms(member_id))
        current = group.currents.get(member_id, NEW_MEMBER)
        if subscription.classic is None:
            _expect_revocation(group, member_id, current, subscription.rebalance_timeout_ms, out)
    lose(group, out, is_lost)


def expect_loss(group: ConsumerGroup, host: str, out: EffectsBuilder) -> None:
    """Lose the members on a host that is gone, as the next thing that is due."""
    if any(subscription.client_host == host for subscription in group.subscriptions.values()):
        group.due(("host", host), 0, lambda group, out: lose(group, out, lambda other: other == host), out)


def lose(group: ConsumerGroup, out: EffectsBuilder, is_lost: Callable[[str], bool]) -> None:
    """Remove dynamic members on a host that is gone: they will not be back.

    Static ones may be. As if they had left to come back they keep their partitions for a session, and let go of their
    instance ids: no process is left that could still use them.
    """
    lost = []
    step = GroupUpdate(group, out.now)
    for member_id, subscription in group.subscriptions.items():
        current = group.currents.get(member_id, NEW_MEMBER)
        if not is_lost(subscription.client_host):
            continue
        if subscription.instance_id is None:
            lost.append(member_id)
        elif current.epoch != LEAVE_STATIC_EPOCH:
            step.give(member_id, _away(current))
    if step.records:
        out.write(step.records)
    if lost:
        fence(group, lost, out)


def _away(current: Current) -> Current:
    """The state of a static member that may be back."""
    return current._replace(epoch=LEAVE_STATIC_EPOCH, revoking={})


def _leave(group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest, ticket: int, out: EffectsBuilder) -> None:
    """Let a member go; a static one may say that it will be back, and keeps its partitions for a session."""
    member_id = message.member_id
    current = group.current(member_id, message.instance_id)
    gone = UnknownMemberId(f"{member_id!r} has left group {group.group_id!r}")
    group.release(member_id, ConsumerGroupHeartbeatResponse(error=gone, member_id=member_id), out)
    answers = [Answer(ticket, ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=message.member_epoch))]
    if message.member_epoch != LEAVE_STATIC_EPOCH:
        remove(group, [member_id], answers, out)
        return
    step = GroupUpdate(group, out.now)
    step.give(member_id, _away(current))
    carry_out(group, step, answers, out)
