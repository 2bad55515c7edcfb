"""What waits for an offset or a deadline is given out once, and in time."""

from pylog.broker.delayed_operations import DelayedOperations


def test_an_offset_releases_operations_that_wait_for_it_or_for_less() -> None:
    pending: DelayedOperations[str] = DelayedOperations()
    for name, offset in (("c", 30), ("a", 10), ("b", 20), ("b too", 20)):
        pending.add(name, [("p", offset)], 1000)
    assert pending.reached(("p", 9)) == [] and pending.reached(("other", 99)) == []
    assert pending.reached(("p", 20)) == ["a", "b", "b too"]
    assert pending.reached(("p", 20)) == [] and len(pending) == 1
    assert pending.reached(("p", 30)) == ["c"]


def test_an_operation_that_waits_for_several_leaves_with_the_first() -> None:
    pending: DelayedOperations[str] = DelayedOperations()
    pending.add("x", [("p", 5), ("q", 7)], 1000)
    assert pending.reached(("q", 8)) == ["x"]
    assert pending.reached(("p", 5)) == [] and pending.expired(2000) == [] and len(pending) == 0


def test_deadlines_come_in_their_order() -> None:
    pending: DelayedOperations[str] = DelayedOperations()
    for name, deadline in (("late", 30), ("early", 10), ("middle", 20)):
        pending.add(name, [("p", 1)], deadline)
    assert pending.next_deadline == 10
    assert pending.expired(9) == []
    assert pending.expired(20) == ["early", "middle"]
    assert pending.next_deadline == 30
    assert pending.reached(("p", 1)) == ["late"]
    assert pending.next_deadline is None


def test_draining_gives_everything_once() -> None:
    pending: DelayedOperations[int] = DelayedOperations()
    for number in range(5):
        pending.add(number, [("p", number)], 10)
    assert sorted(pending.drain()) == [0, 1, 2, 3, 4]
    assert pending.drain() == [] and pending.expired(99) == [] and pending.reached(("p", 99)) == []


def test_the_same_item_may_wait_twice() -> None:
    pending: DelayedOperations[str] = DelayedOperations()
    pending.add("x", [("p", 1), ("p", 2)], 10)
    pending.add("x", [("p", 1)], 10)
    assert pending.reached(("p", 1)) == ["x", "x"]
    assert len(pending) == 0


def test_a_released_operation_is_not_kept() -> None:
    """A consumer of an idle partition waits for the same offset again and again."""
    pending: DelayedOperations[int] = DelayedOperations()
    for now in range(1000):
        pending.add(now, [("p", 5), ("q", 7)], now)
        assert pending.expired(now) == [now]
    assert sum(map(len, pending._waiting.values())) <= 2
    pending.add(-1, [("p", 3), ("q", 9)], 5000)
    assert pending.reached(("p", 4)) == [-1]
    assert pending.reached(("p", 99)) == pending.reached(("q", 99)) == []
    assert not pending._waiting


def test_operations_that_left_are_not_kept_behind_one_that_waits_for_long() -> None:
    pending: DelayedOperations[int] = DelayedOperations()
    pending.add(-1, [("p", 4)], 10)
    for number in range(10_000):
        assert pending.remove(pending.add(number, [("p", 5), ("left", 5)], 10**9))

    assert len(pending._deadlines) < 3000
    assert sum(map(len, pending._waiting.values())) < 3000
    assert pending.reached(("p", 5), ("left", 5)) == [-1]
    assert pending.next_deadline is None
