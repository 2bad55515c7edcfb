"""Which followers are in sync, driven by hand and by drawn histories, with time passed in."""

from hypothesis import given
from hypothesis import strategies as st

from pylog.replication.in_sync import InSync

LAG_MS = 100


def test_a_member_that_never_came_leaves_when_its_time_is_up() -> None:
    isr = InSync({2}, (), now_ms=0)
    assert not isr.lagging(5, LAG_MS, LAG_MS)
    assert isr.lagging(5, LAG_MS + 1, LAG_MS) == {2}
    assert isr.members == {2}, "until that is written down"
    isr.leave({2})
    assert (isr.members, isr.outside, isr.followers) == (frozenset(), {2}, {2})


def test_one_that_has_all_of_the_log_never_lags() -> None:
    isr = InSync({2}, (), now_ms=0)
    isr.fetched(2, 5, 5, 10)
    assert not isr.lagging(5, 10_000, LAG_MS)
    assert isr.lagging(6, 10_000, LAG_MS) == {2}


def test_a_follower_that_reaches_the_end_of_its_last_fetch_does_not_lag() -> None:
    isr = InSync({2}, (), now_ms=0)
    for step in range(1, 20):
        # The leader goes on while each fetch is under way: the follower is never at its end.
        isr.fetched(2, 10 * (step - 1), 10 * step, 50 * step)
        assert not isr.lagging(10 * step, 50 * step, LAG_MS)


def test_one_that_comes_and_falls_further_behind_leaves() -> None:
    isr = InSync({2}, (), now_ms=0)
    for step in range(1, 5):
        isr.fetched(2, step, 100 * step, 30 * step)
    assert isr.lagging(400, 120, LAG_MS) == {2}


def test_a_follower_joins_with_everything_below_the_bound() -> None:
    isr = InSync((), {2}, now_ms=0)
    assert not isr.join(2, 1), "it has said nothing"
    isr.fetched(2, 4, 9, 1)
    assert not isr.join(2, 5)
    assert isr.join(2, 4)
    assert not isr.join(2, 4), "it is in already"
    assert not isr.join(3, 0), "it is no follower"
    assert (isr.members, isr.outside) == ({2}, frozenset())


def test_a_follower_of_an_empty_log_may_join_and_has_a_whole_lag_time() -> None:
    isr = InSync((), {2}, now_ms=0)
    assert isr.join(2, 0)
    assert isr.reached(5) == 0
    assert not isr.lagging(5, LAG_MS, LAG_MS) and isr.lagging(5, LAG_MS + 1, LAG_MS) == {2}


def test_nothing_waits_for_a_follower_outside_until_it_is_near() -> None:
    isr = InSync((), {2}, now_ms=0)
    isr.fetched(2, 3, 10, 0)
    assert isr.reached(10) == 10
    isr.fetched(2, 10, 20, 1)
    assert isr.reached(20) == 10, "it has what was there at its fetch before: it could never join otherwise"
    isr.fetched(2, 20, 30, 2)
    assert isr.join(2, 10) and isr.reached(30) == 20


def test_nothing_waits_any_more_for_one_that_was_near_and_is_away() -> None:
    isr = InSync((), {2}, now_ms=0)
    isr.fetched(2, 10, 10, 0)
    assert isr.reached(20) == 10
    assert isr.lagging(20, LAG_MS, LAG_MS) == frozenset() and isr.reached(20) == 10
    assert isr.lagging(20, LAG_MS + 1, LAG_MS) == frozenset() and isr.reached(20) == 20


def test_those_that_are_missing_are_members_alone() -> None:
    isr = InSync({2, 3}, {4}, now_ms=0)
    isr.fetched(3, 7, 7, 0)
    assert isr.missing(7) == [2] and isr.missing(8) == [2, 3]
    assert isr.reached(7) == 0, "a member that has said nothing has nothing"


def test_placed_anew_a_member_keeps_its_end_and_one_from_outside_does_not() -> None:
    isr = InSync({2}, {3}, now_ms=0)
    isr.fetched(2, 7, 7, 0)
    isr.fetched(3, 7, 7, 0)
    isr.place({2}, {3}, 10)
    assert isr.reached(9) == 7 and not isr.join(3, 1)
    isr.place({2, 3}, (), 10)
    assert isr.reached(9) == 0
    isr.place((), {2}, 10)
    isr.place({2}, (), 10)
    assert isr.reached(9) == 0, "it has not said since that it is in sync what it has"


def test_the_minimum_is_never_more_than_there_are_replicas() -> None:
    isr = InSync({2}, {3}, now_ms=0)
    assert [isr.is_under(minimum) for minimum in (1, 2, 3, 4)] == [False, False, True, True]
    isr.leave({2})
    assert [isr.is_under(minimum) for minimum in (1, 2, 3)] == [False, True, True]
    assert not InSync((), (), now_ms=0).is_under(5)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("fetch"), st.sampled_from([2, 3])),
        st.tuples(st.just("take"), st.sampled_from([2, 3])),
        st.tuples(st.just("pass"), st.integers(1, 80)),
        st.tuples(st.just("look"), st.booleans()),
    ),
    max_size=60,
)


@given(STEPS)
def test_whoever_is_in_sync_has_everything_that_is_visible(steps: list[tuple[str, int]]) -> None:
    isr, now, end, visible = InSync({2}, {3}, now_ms=0), 0, 0, 0
    logs = {2: 0, 3: 0}
    for kind, value in steps:
        if kind == "append":
            end += value
        elif kind == "take":
            logs[value] = end
        elif kind == "fetch":
            isr.fetched(value, logs[value], end, now)
            isr.join(value, visible)
        elif kind == "pass":
            now += value
        elif lagging := isr.lagging(end, now, LAG_MS):
            # What was not written down has not happened.
            isr.leave(lagging if value else ())
        visible = max(visible, isr.reached(end))
        assert all(logs[node] >= visible for node in isr.members)
    # All that is awaited comes to an end: who is away leaves, and who comes is taken in.
    isr.leave(isr.lagging(end + 1, now + LAG_MS + 1, LAG_MS))
    assert isr.reached(end + 1) == end + 1
    isr.fetched(3, end + 1, end + 1, now)
    assert isr.join(3, end + 1)
