"""The assignor of share groups: each partition to as few members as give all of them work (Kafka: SimpleAssignor).

With more members than partitions several members share a partition; otherwise each partition has one member. What a
member has it keeps, as far as that is fair.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from pylog.coordinator.group.consumer_records import Slot


def assign_simply(
    reads: Mapping[str, Collection[Slot]], before: Mapping[str, Iterable[Slot]]
) -> dict[str, frozenset[Slot]]:  # fmt: skip
    """The partitions of each member. `reads` has those that a member may have, `before` those that it has.

    Where all members read the same topics these are shared as one; otherwise each topic by itself.
    """
    kept = {member: [slot for slot in sorted(before.get(member, ())) if slot in own] for member, own in reads.items()}
    if len({frozenset(own) for own in reads.values()}) <= 1:
        return _shared([*reads], sorted({slot for own in reads.values() for slot in own}), kept)
    found: dict[str, frozenset[Slot]] = dict.fromkeys(reads, frozenset())
    for topic_id in sorted({slot[0] for own in reads.values() for slot in own}):
        of_topic = {member: [slot for slot in own if slot[0] == topic_id] for member, own in reads.items()}
        members = [member for member, own in of_topic.items() if own]
        slots = sorted({slot for own in of_topic.values() for slot in own})
        held = {member: [slot for slot in kept[member] if slot[0] == topic_id] for member in members}
        for member, given in _shared(members, slots, held).items():
            found[member] |= given
    return found


def _shared(members: list[str], slots: list[Slot], kept: Mapping[str, list[Slot]]) -> dict[str, frozenset[Slot]]:
    """Some partitions, shared by some members who may all have each of them."""
    if not members or not slots:
        return dict.fromkeys(members, frozenset())
    sharing = -(-len(members) // len(slots))
    total = sharing * len(slots)
    ends = [-(-total * number // len(members)) for number in range(len(members) + 1)]
    wanted = {member: ends[number + 1] - ends[number] for number, member in enumerate(members)}
    given: dict[str, set[Slot]] = {member: set() for member in members}
    holders: dict[Slot, set[str]] = {slot: set() for slot in slots}

    def give(member: str, slot: Slot) -> None:
        given[member].add(slot)
        holders[slot].add(member)

    for member in members:
        for slot in kept[member]:
            if len(given[member]) < wanted[member] and len(holders[slot]) < sharing:
                give(member, slot)
    unfilled = deque(member for member in members if len(given[member]) < wanted[member])
    for slot in slots:
        passed = 0
        while len(holders[slot]) < sharing and passed < len(unfilled):
            member = unfilled.popleft()
            if member in holders[slot]:
                passed += 1
            else:
                give(member, slot)
                passed = 0
            if len(given[member]) < wanted[member]:
                unfilled.append(member)
    return {member: frozenset(found) for member, found in given.items()}
