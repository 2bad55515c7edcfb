"""The assignors beyond Kafka's vectors: what they promise of any group, odd claims, names and hostile bytes."""

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import CorruptBatch
from pylog.protocol.assignor import (
    ASSIGNORS,
    SERVER_ASSIGNORS,
    SubscribedMember,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylog.protocol.assignor.general import assign_general
from pylog.protocol.assignor.member import java_map_order, java_order, partitions_of
from pylog.record import TopicPartition

STICKY = ["sticky", "cooperative-sticky"]
PACKAGE = "org.apache.kafka.clients.consumer."


def owning(
    name: str, member_id: str, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int
) -> SubscribedMember:
    data = ASSIGNORS[name].user_data(owned, generation)
    return SubscribedMember(member_id, None, topics, owned, generation, data)


def part(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def check(
    topics: Mapping[str, int], members: Sequence[SubscribedMember], found: Mapping[str, list[TopicPartition]]
) -> None:
    """Every partition that has a subscriber has one owner, who is one of them; and no load could be more even."""
    wanted = {member.member_id: set(member.topics) for member in members}
    assert found.keys() == wanted.keys()
    given_out = [partition for mine in found.values() for partition in mine]
    everything = {
        partition
        for topic, count in topics.items()
        for partition in part(topic, *range(count))
        if any(topic in mine for mine in wanted.values())
    }
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == everything
    for member_id, mine in found.items():
        assert all(partition.topic in wanted[member_id] for partition in mine)


def is_even(found: Mapping[str, list[TopicPartition]], members: Sequence[SubscribedMember]) -> bool:
    wanted = {member.member_id: set(member.topics) for member in members}
    return not any(
        partition.topic in wanted[other] and len(found[other]) + 1 < len(mine)
        for mine in found.values()
        for partition in mine
        for other in found
    )


# --- names -----------------------------------------------------------------------------------------------------------


def test_only_cooperative_sticky_lets_members_keep_what_they_have() -> None:
    assert {name: found.protocols for name, found in ASSIGNORS.items()} == {
        "range": ("eager",),
        "roundrobin": ("eager",),
        "sticky": ("eager",),
        "cooperative-sticky": ("cooperative", "eager"),
    }


# --- any group -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_or_topics_has_an_empty_assignment(name: str) -> None:
    assignor = ASSIGNORS[name]
    assert assignor.assign({"a": 3}, []) == {}
    assert assignor.assign({}, [SubscribedMember("m", None, ["a"]), SubscribedMember("n", None, ["b"])]) == {
        "m": [],
        "n": [],
    }
    assert assignor.assign({"a": 2}, [SubscribedMember("m", None, ["a"]), SubscribedMember("n", None, [])]) == {
        "m": part("a", 0, 1),
        "n": [],
    }


groups = st.tuples(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 7), min_size=1),
    st.lists(st.lists(st.sampled_from("abcde"), unique=True), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)


@given(groups)
def test_an_assignor_gives_each_partition_to_one_subscriber(
    group: tuple[dict[str, int], list[list[str]], random.Random],
) -> None:
    topics, subscriptions, _ = group
    members = [SubscribedMember(f"m{number}", None, wanted) for number, wanted in enumerate(subscriptions)]
    for name, assignor in ASSIGNORS.items():
        found = assignor.assign(topics, members)
        check(topics, members, found)
        if name in STICKY:
            assert is_even(found, members)


@given(groups, st.sampled_from(STICKY))
def test_sticky_goes_on_from_any_claims(
    group: tuple[dict[str, int], list[list[str]], random.Random], name: str
) -> None:
    topics, subscriptions, rng = group
    everything = [partition for topic in "abcde" for partition in part(topic, *range(-1, 9))]
    members = [
        owning(name, f"m{number}", wanted, rng.sample(everything, rng.randrange(9)), rng.randrange(3))
        for number, wanted in enumerate(subscriptions)
    ]
    found = ASSIGNORS[name].assign(topics, members)
    if name == "cooperative-sticky":
        # What changes hands is free for a round, in which another partition may turn out to be better off elsewhere.
        for generation in range(4, 4 + len(everything)):
            given_before, members = (
                found,
                [
                    owning(name, member.member_id, member.topics, found[member.member_id], generation)
                    for member in members
                ],
            )
            found = ASSIGNORS[name].assign(topics, members)
            if found == given_before:
                break
    check(topics, members, found)


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("topics_of", [lambda n: ["a", "b"], lambda n: ["a", "b"][: 1 + n % 2]], ids=["same", "other"])
def test_a_member_that_leaves_moves_only_its_partitions(name: str, topics_of: object) -> None:
    assert callable(topics_of)
    topics = {"a": 40, "b": 40}
    assignor = ASSIGNORS[name]
    members = [SubscribedMember(f"m{number}", None, topics_of(number)) for number in range(8)]
    before = assignor.assign(topics, members)
    members = [owning(name, member.member_id, member.topics, before[member.member_id], 1) for member in members[1:]]
    after = assignor.assign(topics, members)
    check(topics, members, after)
    assert is_even(after, members)
    for member in members:
        assert set(before[member.member_id]) <= set(after[member.member_id])


def test_one_member_in_as_many_as_there_are_partitions_left_over_keeps_one_more() -> None:
    """Of 3 partitions one of two members has 2: the one that has them."""
    members = [owning("sticky", "m", ["a"], [], 1), owning("sticky", "n", ["a"], part("a", 0, 1, 2), 1)]
    assert ASSIGNORS["sticky"].assign({"a": 3}, members) == {"m": part("a", 2), "n": part("a", 0, 1)}


# --- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STICKY)
def test_of_two_claims_the_later_generation_keeps_the_partition(name: str) -> None:
    for first, second in ((1, 2), (2, 1)):
        members = [owning(name, "m", ["a"], part("a", 0), first), owning(name, "n", ["a"], part("a", 0), second)]
        found = ASSIGNORS[name].assign({"a": 2}, members)
        assert found == (
            {"m": part("a", 1), "n": part("a", 0)} if first < second else {"m": part("a", 0), "n": part("a", 1)}
        )


def test_two_claims_of_one_generation_are_both_lost() -> None:
    """A cooperative leader gives it out in the next round, when both have let go of it."""
    members = [
        owning("cooperative-sticky", "m", ["a"], part("a", 0, 1), 1),
        owning("cooperative-sticky", "n", ["a"], part("a", 0), 1),
    ]
    found = ASSIGNORS["cooperative-sticky"].assign({"a": 2}, members)
    assert found == {"m": part("a", 1), "n": []}


def test_cooperative_gives_nothing_to_two_at_once() -> None:
    cooperative = ASSIGNORS["cooperative-sticky"]
    topics = {"a": 4}
    members = [owning(cooperative.name, "m", ["a"], part("a", 0, 1, 2, 3), 1), SubscribedMember("n", None, ["a"])]
    first = cooperative.assign(topics, members)
    assert first == {"m": part("a", 0, 1), "n": []}
    members = [owning(cooperative.name, "m", ["a"], first["m"], 2), owning(cooperative.name, "n", ["a"], [], 2)]
    assert cooperative.assign(topics, members) == {"m": part("a", 0, 1), "n": part("a", 2, 3)}


def test_cooperative_reads_the_generation_of_an_old_client_in_its_user_data() -> None:
    cooperative = ASSIGNORS["cooperative-sticky"]
    old = SubscribedMember("m", None, ["a"], part("a", 0), -1, cooperative.user_data([], 5))
    none = SubscribedMember("n", None, ["a"], part("a", 0), -1, b"\0")
    assert cooperative.assign({"a": 2}, [old, none])["m"] == part("a", 0)


def test_sticky_reads_user_data_without_a_generation() -> None:
    sticky = ASSIGNORS["sticky"]
    data = sticky.user_data(part("a", 1), 7)
    assert data is not None
    members = [SubscribedMember("m", None, ["a"]), SubscribedMember("n", None, ["a"], (), -1, data[:-4])]
    assert sticky.assign({"a": 2}, members) == {"m": part("a", 0), "n": part("a", 1)}


def test_sticky_ignores_user_data_with_more_in_it() -> None:
    sticky = ASSIGNORS["sticky"]
    data = sticky.user_data(part("a", 1), 7)
    assert data is not None
    members = [SubscribedMember("m", None, ["a"]), SubscribedMember("n", None, ["a"], (), -1, data[:-4] + bytes(12))]
    assert sticky.assign({"a": 2}, members) == {"m": part("a", 0), "n": part("a", 1)}
    members = [SubscribedMember("m", None, ["a"], (), -1, data[:-4] + bytes(12)), SubscribedMember("n", None, ["a"])]
    assert sticky.assign({"a": 2}, members) == {"m": part("a", 0), "n": part("a", 1)}


@given(st.binary(max_size=40))
def test_sticky_takes_any_user_data(data: bytes) -> None:
    for name in STICKY:
        members = [SubscribedMember("m", None, ["a"], (), -1, data), SubscribedMember("n", None, ["a"])]
        check({"a": 3}, members, ASSIGNORS[name].assign({"a": 3}, members))


def test_sticky_says_nothing_before_its_first_generation() -> None:
    assert ASSIGNORS["sticky"].user_data([], -1) is None
    assert ASSIGNORS["cooperative-sticky"].user_data([], -1) == b"\xff\xff\xff\xff"
    assert ASSIGNORS["range"].user_data(part("a", 0), 3) is None


def test_an_earlier_owner_gets_its_partitions_back() -> None:
    """Of three that could take it, `z` had a-0 two generations ago."""
    sticky = "sticky"
    members = [
        owning(sticky, "m", ["a", "b"], part("a", 0, 1, 2), 2),
        owning(sticky, "n", ["a"], [], 2),
        owning(sticky, "z", ["a"], part("a", 0), 1),
    ]
    assert ASSIGNORS[sticky].assign({"a": 3}, members)["z"] == part("a", 0)


def test_a_changed_subscription_gives_up_partitions_it_no_longer_covers() -> None:
    members = [owning("sticky", "m", ["b"], part("a", 0, 1), 1), owning("sticky", "n", ["a", "b"], part("b", 0), 1)]
    found = ASSIGNORS["sticky"].assign({"a": 2, "b": 2}, members)
    assert found == {"m": part("b", 1, 0), "n": part("a", 0, 1)}


def test_a_partition_that_moves_again_counts_as_moved_from_where_it_was_first() -> None:
    """b-0 returns to m2, who has more than m1 by then, and goes on to m1."""
    subscriptions = {"m0": {"a", "b", "c"}, "m1": {"b"}, "m2": {"b", "c"}}
    owned = {"m0": part("a", 0, 1) + part("b", 0), "m1": [], "m2": part("c", 0)}
    found = assign_general({"a": 2, "b": 1, "c": 1}, subscriptions, owned, dict.fromkeys(part("b", 0), "m2"))
    assert found == {"m0": part("a", 0, 1), "m1": part("b", 0), "m2": part("c", 0)}


def test_no_topic_moves_both_ways_between_two_members() -> None:
    """What came from m2 goes back there before another partition of its topic does."""
    subscriptions = {"m0": {"a", "b", "c"}, "m1": {"b"}, "m2": {"a", "b", "c"}}
    owned = {"m0": part("a", 1, 2) + part("b", 0, 1) + part("c", 0, 2), "m1": [], "m2": part("c", 1)}
    found = assign_general({"a": 3, "b": 2, "c": 3}, subscriptions, owned, {})
    assert found == {"m0": part("c", 0, 2) + part("a", 1), "m1": part("b", 0, 1), "m2": part("c", 1) + part("a", 0, 2)}


def test_a_topic_without_subscribers_is_left_alone() -> None:
    assert assign_general({"a": 1, "b": 1}, {"m": {"a"}, "n": set()}, {"m": [], "n": []}, {}) == {
        "m": part("a", 0),
        "n": [],
    }


# --- order -----------------------------------------------------------------------------------------------------------


def test_strings_sort_by_their_utf16_units() -> None:
    assert sorted(["\ue000", "\U00010000", "a", "\ud800"], key=java_order) == ["a", "\ud800", "\U00010000", "\ue000"]


def test_a_java_map_goes_by_buckets() -> None:
    """ "Aa" and "BB" have the same hash; the thirteenth key doubles the buckets, and 13 gets before 1."""
    assert java_map_order(["BB", "Aa", "b", "a"]) == ["BB", "Aa", "a", "b"]
    assert java_map_order([str(number) for number in range(12, 0, -1)]) == (
        ["11", "12", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
    )
    assert java_map_order([str(number) for number in range(13, 0, -1)])[:4] == ["11", "12", "13", "1"]


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_comes_back_as_far_as_its_version_goes(version: int) -> None:
    whole = Subscription(["a", "b"], b"x", part("a", 0, 2), 7, "rack")
    fields = [("owned", 1), ("generation", 2), ("rack_id", 3)]
    lacking = {name: Subscription._field_defaults[name] for name, since in fields if version < since}
    assert decode_subscription(encode_subscription(whole, version)) == whole._replace(**lacking)


def test_a_newer_version_is_read_as_the_highest_known() -> None:
    subscription = Subscription(["a"], None, part("a", 1), 3, "rack")
    assert decode_subscription(b"\x00\x09" + encode_subscription(subscription)[2:] + b"more") == subscription
    assert decode_assignment(b"\x7f\xff" + encode_assignment(part("a", 1))[2:] + b"more") == (part("a", 1), None)


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == ([], None)
    assert decode_assignment(encode_assignment([], b"u")) == ([], b"u")


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_an_old_version_and_cut_bytes_are_refused(decode: object) -> None:
    assert callable(decode)
    for data in (b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x01"):
        with pytest.raises(CorruptBatch, match="this is no ConsumerProtocol"):
            decode(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except CorruptBatch:
            continue


def test_members_that_want_different_topics_are_given_partitions_in_the_end() -> None:
    """It moved partitions round and round for ever, to take back what had moved before (Kafka's PartitionMovements)."""
    topics = {"t": 12, "u": 10, "va": 5, "vb": 2}
    wanted = [{"t", "u", "vb"}, {"va"}, {"t", "u", "vb"}, {"va"}, {"t", "u", "vb"}, {"u", "va"}]
    had = [
        "u4 vb0 vb1 u3 t6 u5 t3 t9", "va3 va4 va2", "u7 t1 t4 u9 t7 t10 t0 u8", "va0 va1",
        "t2 u1 t5 t11 t8 u0 u6 u2", "",
    ]  # fmt: skip
    owned = [
        [TopicPartition(one.rstrip("0123456789"), int(one.lstrip("tuvab"))) for one in text.split()] for text in had
    ]
    names = ["228a", "31c7", "4eb5", "4f7a", "67f3", "ece6"]
    shared = assign_general(topics, dict(zip(names, wanted, strict=True)), dict(zip(names, owned, strict=True)), {})
    assert [len(shared[name]) for name in names] == [6, 3, 6, 2, 6, 6]
    assert sorted(key for keys in shared.values() for key in keys) == sorted(partitions_of(topics))


# --- uniform ---------------------------------------------------------------------------------------------------------


def test_a_chain_of_two_moves_makes_the_loads_even() -> None:
    """The example that Kafka's uniform assignor names as one that it leaves at 9, 10 and 11."""
    members = [
        SubscribedMember("K", None, ["a"], [TopicPartition("a", n) for n in range(9)]),
        SubscribedMember("L", None, ["a", "b"], [TopicPartition("a", 9), *(TopicPartition("b", n) for n in range(9))]),
        SubscribedMember("M", None, ["b"], [TopicPartition("b", n) for n in range(9, 20)]),
    ]
    found = SERVER_ASSIGNORS["uniform"]({"a": 10, "b": 20}, members)
    assert [len(mine) for mine in found.values()] == [10, 10, 10]


def test_chains_are_sought_among_all_members_of_a_larger_group() -> None:
    """Topic n is read by members n and n + 1, and the last member has nothing: all hand on what makes it even."""
    topics = {f"t{n}": 4 for n in range(5)}
    had = {n: [TopicPartition(f"t{n}", number) for number in range(4)] for n in range(5)}
    members = [
        SubscribedMember(f"m{n}", None, [topic for topic in (f"t{n - 1}", f"t{n}") if topic in topics], had.get(n, []))
        for n in range(6)
    ]
    found = SERVER_ASSIGNORS["uniform"](topics, members)
    assert sorted(len(mine) for mine in found.values()) == [3, 3, 3, 3, 4, 4]
    again = [member._replace(owned=found[member.member_id]) for member in members]
    assert SERVER_ASSIGNORS["uniform"](topics, again) == found
