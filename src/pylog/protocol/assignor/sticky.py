"""The assignors that leave partitions where they are (Kafka: StickyAssignor, CooperativeStickyAssignor; KIP-54, 429).

A sticky member gives all back when the group rebalances, so it says in its user data what it had:

    i32 number of topics, (i16 length, name, i32 count, i32 partition...)..., i32 generation       sticky
    i32 generation                                                                  cooperative-sticky

(the generation of the first was added later, and is missing in the oldest). A cooperative member keeps its partitions
and lists them in its subscription. User data that makes no sense is ignored: the member starts again.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.errors import CorruptBatch
from pylog.protocol.assignor.constrained import assign_constrained
from pylog.protocol.assignor.evening import even_out
from pylog.protocol.assignor.general import assign_general
from pylog.protocol.assignor.member import (
    NO_GENERATION,
    Assignment,
    SubscribedMember,
    java_map_order,
    java_order,
    subscribed,
)
from pylog.protocol.assignor.subscription import by_topic, partitions_in
from pylog.protocol.schema import message
from pylog.record import TopicPartition

# User data of sticky is laid out as a ConsumerProtocolAssignment without the user data at its end, a null.
_PARTITIONS = message("ConsumerProtocolAssignment")
_NULL = b"\xff\xff\xff\xff"
_GENERATION = struct.Struct(">i")


class Said(NamedTuple):
    """A member's account of its past: its partitions, and their generation."""

    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


@dataclass(slots=True)
class Claims:
    """The partitions that the members own, after a comparison of all their claims.

    Of two members that claim the same partition the one of the later generation keeps it. Two members of the same
    generation both lose it: one of them must be wrong.
    """

    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    earlier: dict[TopicPartition, str] = field(default_factory=dict)
    """The owner before the last generation, as far as a member says so."""


def resolve_claims(topics: Mapping[str, int], said: Mapping[str, Said]) -> Claims:
    """Compare the claims, in the order of `said`; partitions that do not exist are left out."""
    claims = Claims(earlier=_earlier(said))
    owner: dict[TopicPartition, str] = {}
    for member_id, (partitions, generation) in said.items():
        mine = claims.owned[member_id] = {}
        for partition in partitions:
            if not 0 <= partition.partition < topics.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is None or generation > said[other].generation:
                mine[partition] = None
            elif generation == said[other].generation:
                claims.contested.add(partition)
            else:
                continue
            if other is not None:
                claims.owned[other].pop(partition, None)
            owner[partition] = member_id
    return claims


def _earlier(said: Mapping[str, Said]) -> dict[TopicPartition, str]:
    latest = max((member.generation for member in said.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, (partitions, generation) in said.items():
        if generation < latest:
            for partition in partitions:
                if partition not in found or generation > found[partition][0]:
                    found[partition] = generation, member_id
    return {partition: member_id for partition, (_, member_id) in found.items()}


def _assign(
    topics: Mapping[str, int], members: Sequence[SubscribedMember], says: Callable[[SubscribedMember], Said]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and the new owner of each partition that changes hands by it; None: not computed."""
    by_id = {member.member_id: member for member in sorted(members, key=lambda member: java_order(member.member_id))}
    there = subscribed(topics, members)
    claims = resolve_claims(there, {member_id: says(by_id[member_id]) for member_id in java_map_order(list(by_id))})
    subscriptions = {member_id: frozenset(by_id[member_id].topics) for member_id in by_id}
    if len(set(subscriptions.values())) <= 1:
        return assign_constrained(there, claims.owned, claims.contested)
    return assign_general(there, subscriptions, claims.owned, claims.earlier), None


class Sticky:
    """As even as possible, and of all even assignments one that moves little."""

    name = "sticky"
    protocols = ("eager",)

    def assign(self, topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
        return _assign(topics, members, _said_in_user_data)[0]

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """None before the first assignment, which is before the first generation."""
        if generation < 0:
            return None
        topics = {struct["topic"]: struct for struct in by_topic(owned)}
        ordered = java_map_order(list(reversed(topics)))  # Kafka puts each new topic first into its bucket
        partitions = _PARTITIONS.encode(0, {"assignedPartitions": [topics[name] for name in ordered]})
        return partitions.removesuffix(_NULL) + _GENERATION.pack(generation)


class CooperativeSticky:
    """As sticky, but no partition is given to a member while another one still has it.

    Such a partition is given out in the next rebalance, which the member starts that has let go of it.
    """

    name = "cooperative-sticky"
    protocols = ("cooperative", "eager")

    def assign(self, topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
        assignment, moving = _assign(topics, members, _said_in_subscription)
        if moving is None:
            moving = _moving(members, assignment)
        for member_id in set(moving.values()):
            assignment[member_id] = [found for found in assignment[member_id] if moving.get(found) != member_id]
        return assignment

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return _GENERATION.pack(generation)


def assign_uniform(topics: Mapping[str, int], members: Sequence[SubscribedMember]) -> Assignment:
    """The assignment that Kafka's coordinator calls uniform: as sticky, from the target before (UniformAssignor).

    `owned` is that target. Kafka leaves open which of several even assignments it gives: its own depends on the order
    of maps. Where subscriptions differ Kafka's may be less even than this one, which is as even as any can be.
    """
    assignment, moving = _assign(topics, members, lambda member: Said(member.owned))
    if moving is None:
        subscriptions = {member.member_id: frozenset(member.topics) for member in members}
        even_out(assignment, subscriptions, {member.member_id: member.owned for member in members})
    return assignment


def _moving(members: Sequence[SubscribedMember], assignment: Assignment) -> dict[TopicPartition, str]:
    """The partitions that a member is given and another one has to give up."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member in members:
        owned, assigned = set(member.owned), set(assignment[member.member_id])
        added.update(dict.fromkeys(assigned - owned, member.member_id))
        revoked |= owned - assigned
    return {partition: member_id for partition, member_id in added.items() if partition in revoked}


def _said_in_user_data(member: SubscribedMember) -> Said:
    data = member.user_data or b""
    for partitions, generation in ((data[:-4], data[-4:]), (data, b"")):
        try:
            value, end = _PARTITIONS.decode(0, partitions + _NULL)
        except CorruptBatch:
            continue
        if end == len(partitions) + 4:
            return Said(partitions_in(value["assignedPartitions"]), _generation(generation))
    return Said()


def _said_in_subscription(member: SubscribedMember) -> Said:
    """The claim of a member's subscription. Before version 2 it has no generation: user data may have one."""
    generation = member.generation
    return Said(member.owned, generation if generation >= 0 else _generation(member.user_data or b""))


def _generation(data: bytes) -> int:
    return int(_GENERATION.unpack_from(data)[0]) if len(data) >= _GENERATION.size else NO_GENERATION
