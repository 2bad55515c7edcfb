"""The step that makes an assignment as even as it can be, where members subscribe to different topics.

A partition may go from A to B if B subscribes to its topic. Along a chain A -> B -> ... -> Z each member hands one on:
A has one less then, Z one more, and all others as many as before. No assignment is more even than one in which no chain
leads from a member to one that has two fewer, by any measure that a move from a larger load to a smaller one improves.
(It is a semi-matching, and such a chain an alternating path.)

Kafka's uniform assignor moves partitions of one topic after another, which are chains of one move, and leaves 9, 10 and
11 where a chain of two makes 10 of each.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from pylog.protocol.assignor.member import Assignment
from pylog.record import TopicPartition


def even_out(
    assignment: Assignment, subscriptions: Mapping[str, AbstractSet[str]], owned: Mapping[str, Iterable[TopicPartition]]
) -> None:
    """Hand partitions on until the loads are as even as can be.

    A member rather keeps the partitions that it owned than others. Lowest loads come first. Where no chain leads to a
    member with the least from one with two more, it is done, and so is every member from which a chain leads to it: no
    other member's chain leads to any of them, and no later step changes that.
    """
    loads = _Loads(assignment, owned)
    left = set(subscriptions)
    while left:
        chain, reached = loads.chain(left, subscriptions)
        if chain:
            for source, topic, target in chain:
                loads.hand_on(source, topic, target)
        else:
            left -= reached


class _Loads:
    """The partitions of each member, by topic."""

    def __init__(self, assignment: Assignment, owned: Mapping[str, Iterable[TopicPartition]]) -> None:
        self._assignment = assignment
        self._owned = {member_id: frozenset(owned.get(member_id, ())) for member_id in assignment}
        self._holders: dict[str, dict[str, int]] = {}
        for member_id, partitions in assignment.items():
            for partition in partitions:
                of_topic = self._holders.setdefault(partition.topic, {})
                of_topic[member_id] = of_topic.get(member_id, 0) + 1

    def chain(
        self, left: AbstractSet[str], subscriptions: Mapping[str, AbstractSet[str]]
    ) -> tuple[list[tuple[str, str, str]], AbstractSet[str]]:
        """The shortest chain from a member with two more to one of those with the least.

        Its steps are (from, topic, to), in order. Without such a chain: all members from which chains lead to them.
        """
        least = min(len(self._assignment[member_id]) for member_id in left)
        ends = [member_id for member_id in self._assignment if member_id in left and self._load(member_id) == least]
        step: dict[str, tuple[str, str]] = {}
        reached = set(ends)
        topics: set[str] = set()
        queue = deque(ends)
        while queue:
            target = queue.popleft()
            for topic in sorted(subscriptions[target] - topics):
                topics.add(topic)
                for source in self._holders.get(topic, {}):
                    if source in reached or source not in left:
                        continue
                    step[source] = topic, target
                    if self._load(source) >= least + 2:
                        return _steps(source, step), reached
                    reached.add(source)
                    queue.append(source)
        return [], reached

    def _load(self, member_id: str) -> int:
        return len(self._assignment[member_id])

    def hand_on(self, source: str, topic: str, target: str) -> None:
        """Move a partition: one that comes back to its owner, else one that is not its holder's own, else its own."""
        mine = [partition for partition in self._assignment[source] if partition.topic == topic]
        kept, wanted = self._owned[source], self._owned[target]
        moved = max(mine, key=lambda partition: (partition in wanted, partition not in kept, partition.partition))
        self._assignment[source].remove(moved)
        self._assignment[target].append(moved)
        of_topic = self._holders[topic]
        of_topic[target] = of_topic.get(target, 0) + 1
        of_topic[source] -= 1
        if not of_topic[source]:
            del of_topic[source]


def _steps(source: str, step: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str]]:
    found = []
    while source in step:
        topic, target = step[source]
        found.append((source, topic, target))
        source = target
    return found
