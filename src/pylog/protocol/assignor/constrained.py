"""The sticky assignment where all members subscribe to the same topics (Kafka: AbstractStickyAssignor).

With P partitions and M members each member gets P // M of them, and P % M of the members get one more. A member keeps
its own partitions, up to that; the rest goes in turn to the members that have too few, then to those that may have one
more.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pylog.protocol.assignor.member import Assignment, java_order, partitions_of
from pylog.record import TopicPartition


def assign_constrained(
    topics: Mapping[str, int], owned: Mapping[str, Iterable[TopicPartition]], contested: AbstractSet[TopicPartition]
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """The assignment, and the new owner of each partition that changes hands by it.

    `owned` is by member id; its first members keep one more. A contested partition has no owner, and its new owner has
    to wait: another member may still have it.
    """
    if not owned:
        return {}, {}
    least, more = divmod(sum(topics.values()), len(owned))
    claims = {member_id: [found for found in owned[member_id] if found not in contested] for member_id in owned}
    assignment, given_up, below, at_least = _keep(claims, least, more)
    kept = {partition for partitions in assignment.values() for partition in partitions}
    moving: dict[TopicPartition, str] = {}
    for partition in partitions_of(topics):
        if partition in kept:
            continue
        member_id = (below or at_least).popleft()
        mine = assignment[member_id]
        mine.append(partition)
        if len(mine) < least:
            below.append(member_id)
        elif len(mine) == least:
            at_least.append(member_id)
        if partition in contested or given_up.get(partition, member_id) != member_id:
            moving[partition] = member_id
    return assignment, moving


def _keep(
    claims: Mapping[str, Sequence[TopicPartition]], least: int, more: int
) -> tuple[Assignment, dict[TopicPartition, str], deque[str], deque[str]]:
    """The partitions that members keep, those that they give up (and which member), and two queues of members.

    The queues: members with less than `least`, and members that may have one more.
    """
    assignment: Assignment = {}
    given_up: dict[TopicPartition, str] = {}
    below: list[str] = []
    at_least: list[str] = []
    for member_id, partitions in claims.items():
        mine = sorted(partitions, key=lambda found: (found.partition, found.topic))
        keep = least
        if len(mine) > least and more:
            keep, more = least + 1, more - 1
        elif len(mine) >= least:
            at_least.append(member_id)
        else:
            below.append(member_id)
        assignment[member_id] = mine[:keep]
        given_up.update(dict.fromkeys(mine[keep:], member_id))
    return assignment, given_up, deque(sorted(below, key=java_order)), deque(sorted(at_least, key=java_order))
