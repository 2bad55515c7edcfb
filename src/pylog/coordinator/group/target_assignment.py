"""The target assignment of a group of the consumer protocol: its members' topics, and the server's assignors.

    uniform    as even as it can be, and as it was, as far as that is even; the default
    range      topic by topic, neighbouring partitions to the same member

Regular expressions match whole names of topics (`coordinator.patterns`). Internal topics (`__...`) never match: a
subscription has to name them.
"""

import hashlib
from collections.abc import Iterable, Mapping

from pylog.coordinator.effects import TopicInfo
from pylog.coordinator.group.consumer_records import MemberSubscription, Slot
from pylog.coordinator.patterns import matcher
from pylog.protocol.assignor import SERVER_ASSIGNORS, SubscribedMember
from pylog.record import TopicPartition

DEFAULT_ASSIGNOR = "uniform"
INTERNAL = "__"

TopicInfos = Mapping[str, TopicInfo]


def matching(regex: str, topics: TopicInfos) -> tuple[str, ...]:
    """The topics whose whole names match, sorted. Raises InvalidRegularExpression."""
    matches = matcher(regex)
    return tuple(sorted(name for name in topics if not name.startswith(INTERNAL) and matches(name)))


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
