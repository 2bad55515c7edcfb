"""The way of a member from its present partitions to its target (Kafka: CurrentAssignmentBuilder; KIP-848).

    STABLE  ------->  UNREVOKED  ------->  UNRELEASED  ------->  STABLE
            it has to            it no longer          the others'
            give up some         says to have them     are free

It skips a state for which there is no reason. Its epoch becomes that of the target when it has given up all that it has
to: from then on it may commit for its new partitions, and for none of its old ones. It gets each partition of its
target as soon as no other member has it, even if other members are not as far: there is no barrier.

Invariant: a partition that is assigned to a member, or that it gives up, is in no other member.
"""

from collections.abc import Container
from collections.abc import Set as AbstractSet

from pylog.coordinator.group.consumer_records import Current, MemberState, Slot, Slots
from pylog.errors import FencedMemberEpoch


def reconcile(
    current: Current,
    target_epoch: int,
    target: AbstractSet[Slot],
    taken: Container[Slot],
    owned: AbstractSet[Slot] | None = None,
) -> Current:
    """The next state of a member; the same object where there is no change.

    `taken` has the partitions that any member has or gives up; `owned` those that the member says to have, None: the
    same as before. Raises FencedMemberEpoch for a member with partitions in an unknown state: it is not known which it
    gives up.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            found = _step(current, current.epoch, target_epoch, target, taken, owned)
        case MemberState.UNREVOKED:
            if _has_any(current.revoking, owned):
                return current
            found = _step(current, current.epoch + 1, target_epoch, target, taken, owned)
        case MemberState.UNRELEASED:
            found = _step(current, current.epoch, target_epoch, target, taken, owned)
        case _:
            if owned is None or owned:
                raise FencedMemberEpoch("the member's state is not known here: give up all partitions and join again")
            found = _step(current, target_epoch, target_epoch, target, taken, owned)
    return current if found._replace(previous_epoch=current.previous_epoch) == current else found


def _has_any(slots: Slots, owned: AbstractSet[Slot] | None) -> bool:
    return owned is None or not owned.isdisjoint(slots)


def _step(
    current: Current,
    epoch: int,
    target_epoch: int,
    target: AbstractSet[Slot],
    taken: Container[Slot],
    owned: AbstractSet[Slot] | None,
) -> Current:
    kept = {slot: given for slot, given in current.assigned.items() if slot in target}
    revoking = {slot: given for slot, given in current.assigned.items() if slot not in target}
    if revoking and _has_any(revoking, owned):
        return Current(epoch, current.epoch, MemberState.UNREVOKED, kept, revoking)
    free = {slot: target_epoch for slot in target if slot not in kept and slot not in taken}
    assigned = {**kept, **free}
    state = MemberState.STABLE if len(assigned) == len(target) else MemberState.UNRELEASED
    return Current(target_epoch, current.epoch, state, assigned)
