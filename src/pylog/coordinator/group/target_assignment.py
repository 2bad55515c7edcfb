"""The target assignment of a group of the consumer protocol: its members' topics, and the server's assignors.

    uniform    as even as it can be, and as it was, as far as that is even; the default
    range      topic by topic, neighbouring partitions to the same member

Regular expressions match whole names of topics (`coordinator.patterns`). Internal topics (`__...`) never match: a
subscription has to name them.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pylog.coordinator.effects import TopicInfo
from pylog.coordinator.group.consumer_records import MemberSubscription, Slot
from pylog.coordinator.patterns import matcher
from pylog.protocol.assignor import SERVER_ASSIGNORS, SubscribedMember
from pylog.record import TopicPartition

DEFAULT_ASSIGNOR = "uniform"
INTERNAL = "__"

TopicInfos = Mapping[str, TopicInfo]


class Matches(NamedTuple):
    """The topics that match an expression, sorted, among those that were `looked` at."""

    looked: Collection[str] = ()
    topics: tuple[str, ...] = ()
    work: int = 0
    """How many steps times letters it took to match these after the ones before."""


def matching(regex: str, topics: TopicInfos, before: Matches, work_max: int) -> Matches:
    """The topics whose whole names match: `before`, and those of the others for which there is work left.

    All were looked at where `looked` is `topics`. Raises InvalidRegularExpression.
    """
    fits, steps = matcher(regex)
    found = [name for name in before.topics if name in topics]
    others = [name for name in topics if name not in before.looked]
    work = 0
    for count, name in enumerate(others):
        if work >= work_max:
            looked = {name for name in before.looked if name in topics}.union(others[:count])
            return Matches(looked, tuple(sorted(found)), work)
        work += steps * len(name)
        if not name.startswith(INTERNAL) and fits(name):
            found.append(name)
    return Matches(topics, tuple(sorted(found)), work)


def topics_hash(names: Iterable[str], topics: TopicInfos) -> int:
    """A number (int64) that changes when one of these topics comes, goes, or gets partitions; 0 without topics.

    Kafka's is another one (XXH3): a coordinator only compares it with its own, and a change of it costs one rebalance.
    """
    hasher = hashlib.blake2b(digest_size=8)
    there = sorted(name for name in names if name in topics)
    for name in there:
        hasher.update(f"{name} {topics[name].id} {topics[name].partitions}\n".encode())
    return int.from_bytes(hasher.digest(), "big", signed=True) if there else 0


def preferred_assignor(subscriptions: Iterable[MemberSubscription]) -> str:
    """The assignor that most members ask for; the default where none does, or where votes tie."""
    votes = dict.fromkeys(SERVER_ASSIGNORS, 0)
    for subscription in subscriptions:
        if subscription.server_assignor in votes:
            votes[subscription.server_assignor] += 1
    return max(votes, key=lambda name: (votes[name], name == DEFAULT_ASSIGNOR))


def make_target(
    subscriptions: Mapping[str, MemberSubscription],
    reads: Mapping[str, Iterable[str]],
    before: Mapping[str, Iterable[Slot]],
    topics: TopicInfos,
) -> dict[str, frozenset[Slot]]:
    """The target of each member. `reads` has the topics of each member, `before` its target until now."""
    names = {info.id: name for name, info in topics.items()}
    members = [
        SubscribedMember(
            member_id,
            subscription.instance_id,
            [topic for topic in reads[member_id] if topic in topics],
            [
                TopicPartition(names[topic_id], part)
                for topic_id, part in before.get(member_id, ())
                if topic_id in names
            ],
        )
        for member_id, subscription in subscriptions.items()
    ]
    assign = SERVER_ASSIGNORS[preferred_assignor(subscriptions.values())]
    assigned = assign({name: info.partitions for name, info in topics.items()}, members)
    return {
        member_id: frozenset((topics[topic].id, partition) for topic, partition in partitions)
        for member_id, partitions in assigned.items()
    }
