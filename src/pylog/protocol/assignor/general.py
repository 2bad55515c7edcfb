"""The sticky assignment where members subscribe to different topics (Kafka: AbstractStickyAssignor).

A member keeps every partition that it owns and still subscribes to. The rest goes to the member with the least, topics
with few subscribers first. Then partitions move, one at a time, from a member to one with at least two fewer, until no
more can; back to an earlier owner, where there is one that has room. Kafka undoes all of it if that made nothing more
even, which happened in no group that was tried.

A partition of a topic never goes from A to B while another one goes from B to A: the other one returns instead.

Members are numbers here, in the order of their ids, so that (load, number) sorts as Kafka's (size, id).
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from sortedcontainers import SortedList

from pylog.protocol.assignor.member import Assignment, partitions_of
from pylog.record import TopicPartition

Held = dict[TopicPartition, None]
"""The partitions of a member, in the order in which it got them."""


def assign_general(
    topics: Mapping[str, int],
    subscriptions: Mapping[str, AbstractSet[str]],
    owned: Mapping[str, Iterable[TopicPartition]],
    earlier: Mapping[TopicPartition, str],
) -> Assignment:
    """The assignment. `subscriptions` is by member id, in their order.

    `earlier` has the owner of a partition before its present owner, as far as that is known.
    """
    names = list(subscriptions)
    numbers = {name: number for number, name in enumerate(names)}
    balance = _Balance(topics, list(subscriptions.values()))
    assigned = set()
    for name, partitions in owned.items():
        number = numbers[name]
        for partition in partitions:
            if partition.topic in subscriptions[name]:
                balance.give(partition, number)
                assigned.add(partition)
    lost = any(partition not in assigned for partitions in owned.values() for partition in partitions)
    before = {partition: numbers[name] for partition, name in earlier.items() if partition.topic in subscriptions[name]}
    balance.run(assigned, before, move_all_at_once=lost)
    return {name: list(balance.held[number]) for number, name in enumerate(names)}


class _Movements:
    """The moves so far from one member to another, by topic."""

    def __init__(self) -> None:
        self._of: dict[TopicPartition, tuple[int, int]] = {}
        self._between: dict[tuple[str, int, int], Held] = {}

    def instead(self, partition: TopicPartition, source: int, target: int) -> TopicPartition:
        """The partition to move from `source` to `target`: one that came the other way, or else `partition` itself."""
        source, _ = self._of.get(partition, (source, target))
        back = self._between.get((partition.topic, target, source))
        return next(iter(back)) if back else partition

    def add(self, partition: TopicPartition, source: int, target: int) -> None:
        known = self._of.pop(partition, None)
        if known is not None:
            source = known[0]
            del self._between[partition.topic, *known][partition]
        if source != target:
            self._of[partition] = source, target
            self._between.setdefault((partition.topic, source, target), {})[partition] = None


class _Balance:
    """The partitions of each member, and the members from the least loaded to the most."""

    def __init__(self, topics: Mapping[str, int], subscriptions: list[AbstractSet[str]]) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._subscribers = dict.fromkeys(topics, 0)
        for subscription in subscriptions:
            for topic in subscription & topics.keys():
                self._subscribers[topic] += 1
        ordered = sorted(topics, key=lambda topic: (self._subscribers[topic], topic))
        self._all = partitions_of({topic: topics[topic] for topic in ordered})
        self.held: list[Held] = [{} for _ in subscriptions]
        self._owner: dict[TopicPartition, int] = {}
        self._loads: SortedList = SortedList((0, number) for number in range(len(subscriptions)))
        self._movements = _Movements()
        self._takes_back = True
        """Whether a move that is due may take back an earlier one instead."""

    def give(self, partition: TopicPartition, number: int) -> None:
        """Assign a free partition."""
        load = len(self.held[number])
        self._loads.remove((load, number))
        self.held[number][partition] = None
        self._owner[partition] = number
        self._loads.add((load + 1, number))

    def run(
        self, assigned: AbstractSet[TopicPartition], earlier: Mapping[TopicPartition, int], *, move_all_at_once: bool
    ) -> None:
        """Give out the unassigned partitions, then move partitions, the new ones first if that is allowed."""
        left = [partition for partition in self._all if partition not in assigned]
        for partition in left:
            number = self._least_loaded(partition.topic, below=len(self._all))
            if number is not None:
                self.give(partition, number)
        if not move_all_at_once:
            self._move(left, earlier)
        self._move(self._all, earlier)

    def _least_loaded(self, topic: str, below: int) -> int | None:
        """The subscriber of a topic that has least, if it has less than `below`."""
        for load, number in self._loads:
            if load >= below:
                break
            if topic in self._subscriptions[number]:
                return int(number)
        return None

    def _move(self, partitions: list[TopicPartition], earlier: Mapping[TopicPartition, int]) -> None:
        """Move partitions until no more can be moved. Those with one subscriber never can."""
        movable = [partition for partition in partitions if self._subscribers[partition.topic] > 1]
        seen = set()
        while self._move_each(movable, earlier):
            owners = tuple(self._owner[partition] for partition in movable)
            # Taking back an earlier move instead may undo the purpose of others, round and round: Kafka's would never
            # end. Without it every move levels the loads.
            self._takes_back &= owners not in seen
            seen.add(owners)

    def _move_each(self, partitions: list[TopicPartition], earlier: Mapping[TopicPartition, int]) -> bool:
        moved = False
        for partition in partitions:
            load = len(self.held[self._owner[partition]])
            before = earlier.get(partition)
            if before is not None and len(self.held[before]) < load - 1:
                target: int | None = before
            else:
                target = self._least_loaded(partition.topic, below=load - 1)
            if target is not None:
                self._hand_over(partition, target)
                moved = True
        return moved

    def _hand_over(self, partition: TopicPartition, target: int) -> None:
        if self._takes_back:
            partition = self._movements.instead(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._loads.remove((len(self.held[source]), source))
        self._movements.add(partition, source, target)
        del self.held[source][partition]
        self._loads.add((len(self.held[source]), source))
        self.give(partition, target)
