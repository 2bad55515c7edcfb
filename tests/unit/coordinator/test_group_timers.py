"""Deadlines come in order, once, at the time that was said last."""

from hypothesis import given
from hypothesis import strategies as st

from pylog.coordinator.effects import Now
from pylog.coordinator.group.effects_builder import EffectsBuilder
from pylog.coordinator.group.timers import GroupTimers

OUT = EffectsBuilder(Now(0, 0))


def drained(deadlines: GroupTimers, until: int, done: list[str]) -> list[str]:
    done.clear()
    while (action := deadlines.pop(until)) is not None:
        action(OUT)
    return list(done)


def test_due_actions_come_once_and_in_order_of_time() -> None:
    done: list[str] = []
    deadlines = GroupTimers()
    assert deadlines.next_ms is None
    for name, due in (("b", 2), ("a", 1), ("c", 3)):
        deadlines.set(name, due, lambda out, name=name: done.append(name))  # type: ignore[misc]
    assert deadlines.next_ms == 1
    assert drained(deadlines, 2, done) == ["a", "b"]
    assert drained(deadlines, 2, done) == []
    assert drained(deadlines, 9, done) == ["c"]
    assert deadlines.next_ms is None


def test_a_deadline_put_off_a_million_times_takes_one_place() -> None:
    deadlines = GroupTimers()
    for due in range(10_000):
        deadlines.set("s", due, lambda out: None)
    assert len(deadlines._heap) == 1
    assert deadlines.pop(9_998) is None
    assert deadlines.next_ms == 9_999


operations = st.lists(st.tuples(st.sampled_from(["set", "cancel", "pop"]), st.sampled_from("abc"), st.integers(0, 20)))


@given(operations)
def test_timers_behave_as_a_dict_of_times(steps: list[tuple[str, str, int]]) -> None:
    done: list[str] = []
    model: dict[str, int] = {}
    deadlines = GroupTimers()
    for step, key, when in steps:
        if step == "set":
            model[key] = when
            deadlines.set(key, when, lambda out, key=key: done.append(key))  # type: ignore[misc]
        elif step == "cancel":
            model.pop(key, None)
            deadlines.cancel(key)
        else:
            due = {key for key, at in model.items() if at <= when}
            assert set(drained(deadlines, when, done)) == due
            for key in due:
                del model[key]
        assert deadlines.next_ms == min(model.values(), default=None)
