"""The assignors without a memory: range and roundrobin (Kafka: RangeAssignor, RoundRobinAssignor).

Both take static members first, by their instance id, then the others by their member id: a static member that comes
back with another member id gets what it had.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from pylog.protocol.assignor.member import Assignment, SubscribedMember, java_order, partitions_of, subscribed
from pylog.record import TopicPartition


class _Eager:
    """An assignor without user data, whose members give all partitions back."""

    protocols = ("eager",)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None


class Range(_Eager):
    """Topic by topic: 10 partitions and 3 members make 0-3, 4-6, 7-9.

    Partitions of the same number stay together, over topics with as many partitions and the same members.
    """

    name = "range"

    def assign(self, topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic, subscribers in _subscribers(members).items():
            share, more = divmod(topics.get(topic, 0), len(subscribers))
            start = 0
            for place, member in enumerate(subscribers):
                end = start + share + (place < more)
                assignment[member.member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignment


class RoundRobinAssignor(_Eager):
    """All partitions of all topics in turn; a member that does not subscribe to a topic is passed over."""

    name = "roundrobin"

    def assign(self, topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = sorted(members, key=_order)
        places: dict[str, list[int]] = {}
        for place, member in enumerate(ordered):
            for topic in set(member.topics):
                places.setdefault(topic, []).append(place)
        turn = 0
        for partition in partitions_of(subscribed(topics, members)):
            eligible = places[partition.topic]
            place = eligible[bisect_left(eligible, turn) % len(eligible)]
            assignment[ordered[place].member_id].append(partition)
            turn = place + 1
        return assignment


def _order(member: SubscribedMember) -> tuple[bool, bytes]:
    instance = member.group_instance_id
    return instance is None, java_order(member.member_id if instance is None else instance)


def _subscribers(members: Sequence[SubscribedMember]) -> dict[str, list[SubscribedMember]]:
    """The members of each topic, both in order."""
    found: dict[str, list[SubscribedMember]] = {}
    for member in sorted(members, key=_order):
        for topic in set(member.topics):
            found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))
