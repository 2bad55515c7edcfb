"""The uniform assignor: every partition has one owner that reads it, and no assignment is more even."""

from collections import Counter
from itertools import combinations_with_replacement, product

import hypothesis.strategies as st
from hypothesis import given

from pylog.protocol.assignor import SERVER_ASSIGNORS, Assignment, SubscribedMember
from pylog.record import TopicPartition

Group = tuple[dict[str, int], list[SubscribedMember]]
NAMES = "abcde"
IDS = "KLMNOPQ"


@st.composite
def groups(draw: st.DrawFn, members: int, topics: int, partitions: int) -> Group:
    """Members that read different topics; some of what they had before is there, and not always theirs to read."""
    counts = {name: draw(st.integers(1, partitions)) for name in NAMES[: draw(st.integers(1, topics))]}
    reads = st.sets(st.sampled_from(list(counts)))
    subscriptions = {member_id: draw(reads) for member_id in IDS[: draw(st.integers(1, members))]}
    owners = st.sampled_from([None, *subscriptions])
    owned = {(name, number): draw(owners) for name, count in counts.items() for number in range(count)}
    had: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
    for slot, owner in owned.items():
        if owner is not None:
            had[owner].append(TopicPartition(*slot))
    return counts, [
        SubscribedMember(member_id, None, sorted(read), had[member_id]) for member_id, read in subscriptions.items()
    ]


def assigned(group: Group) -> Assignment:
    """The assignment, which is whole."""
    counts, members = group
    found = SERVER_ASSIGNORS["uniform"](counts, members)
    reads = {member.member_id: set(member.topics) for member in members}
    assert all(partition.topic in reads[owner] for owner, mine in found.items() for partition in mine)
    read = set().union(*reads.values())
    every = Counter(TopicPartition(name, number) for name in read for number in range(counts[name]))
    assert Counter(partition for mine in found.values() for partition in mine) == every
    return found


def squares(loads: list[int]) -> int:
    return sum(load * load for load in loads)


def least_squares(counts: dict[str, int], members: list[SubscribedMember]) -> int:
    """The least that any assignment has, by trying them all: of a topic it matters how many each reader has."""
    ways = []
    for name, count in counts.items():
        readers = [place for place, member in enumerate(members) if name in member.topics]
        ways.append([Counter(way) for way in combinations_with_replacement(readers, count)] if readers else [Counter()])
    return min(squares([sum(way[place] for way in found) for place in range(len(members))]) for found in product(*ways))


@given(groups(members=4, topics=3, partitions=3))
def test_a_small_group_is_as_even_as_the_best_of_all_assignments(group: Group) -> None:
    loads = [len(mine) for mine in assigned(group).values()]
    assert squares(loads) == least_squares(*group)


@given(groups(members=7, topics=5, partitions=9))
def test_no_chain_of_moves_leads_to_a_member_with_two_fewer(group: Group) -> None:
    found = assigned(group)
    reads = {member.member_id: set(member.topics) for member in group[1]}
    gives = {
        owner: {other for other in found if {partition.topic for partition in mine} & reads[other]}
        for owner, mine in found.items()
    }
    for owner, mine in found.items():
        reached, new = {owner}, {owner}
        while new:
            new = set().union(*(gives[other] for other in new)) - reached
            reached |= new
        assert all(len(found[other]) >= len(mine) - 1 for other in reached)


@given(groups(members=7, topics=5, partitions=9))
def test_an_assignment_made_again_moves_nothing(group: Group) -> None:
    found = assigned(group)
    again = [member._replace(owned=found[member.member_id]) for member in group[1]]
    after = assigned((group[0], again))
    assert {owner: set(mine) for owner, mine in after.items()} == {owner: set(mine) for owner, mine in found.items()}
