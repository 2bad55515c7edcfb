"""The agenda of a loop: posts, times, and appointments that are given up."""

import selectors
import weakref
from collections.abc import Iterator

import pytest

from pylog.runtime.agenda import CANCELLED_MAX, Agenda
from pylog.testing.clock import SimClock


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def agenda(clock: SimClock) -> Iterator[Agenda]:
    with selectors.DefaultSelector() as selector:
        made = Agenda(clock, selector)
        yield made
        made.close()


def test_calls_are_made_in_the_order_of_their_times(agenda: Agenda, clock: SimClock) -> None:
    made: list[str] = []
    start = clock.tick_ms()
    agenda.at(start + 20, lambda: made.append("late"))
    agenda.at(start + 10, lambda: made.append("early"))
    agenda.post(lambda: made.append("posted"))

    agenda.call_due(clock.tick_ms())
    assert made == ["posted"]
    clock.advance(20)
    agenda.call_due(clock.tick_ms())
    assert made == ["posted", "early", "late"]


def test_a_call_that_is_cancelled_is_not_made_and_let_go_at_once(agenda: Agenda, clock: SimClock) -> None:
    class Held:
        def call(self) -> None:
            raise AssertionError("it was cancelled")

    held = Held()
    gone = weakref.ref(held)
    appointment = agenda.at(clock.tick_ms() + 10, held.call)
    agenda.cancel(appointment)
    agenda.cancel(appointment)
    del held
    assert gone() is None

    clock.advance(10)
    agenda.call_due(clock.tick_ms())
    assert agenda.timeout is None


def test_cancelled_calls_do_not_pile_up(agenda: Agenda, clock: SimClock) -> None:
    made: list[int] = []
    far = clock.tick_ms() + 600_000
    for _ in range(50 * CANCELLED_MAX):
        agenda.cancel(agenda.at(far, lambda: made.append(0)))
    agenda.at(far, lambda: made.append(1))
    assert len(agenda._deadlines) <= CANCELLED_MAX + 2

    clock.advance(600_000)
    agenda.call_due(clock.tick_ms())
    assert made == [1]


def test_an_appointment_that_was_kept_is_not_cancelled(agenda: Agenda, clock: SimClock) -> None:
    made: list[int] = []
    appointment = agenda.at(clock.tick_ms(), lambda: made.append(1))
    agenda.call_due(clock.tick_ms())

    agenda.cancel(appointment)

    assert made == [1] and agenda.timeout is None


def test_a_loop_that_ends_makes_every_call_that_is_left(agenda: Agenda, clock: SimClock) -> None:
    made: list[str] = []
    agenda.cancel(agenda.at(clock.tick_ms() + 1, lambda: made.append("cancelled")))
    agenda.at(clock.tick_ms() + 600_000, lambda: made.append("late"))
    agenda.post(lambda: made.append("posted"))

    agenda.call_all()

    assert made == ["posted", "late"] and agenda.timeout is None


def test_what_is_to_be_done_early_is_done_once_and_in_order(agenda: Agenda, clock: SimClock) -> None:
    made: list[str] = []

    def again() -> None:
        made.append("again")
        agenda.at(clock.tick_ms() + 5, again)

    agenda.at(clock.tick_ms() + 600_000, lambda: made.append("late"))
    agenda.at(clock.tick_ms() + 10, again)
    agenda.cancel(agenda.at(clock.tick_ms() + 20, again))

    agenda.call_early()

    assert made == ["again", "late"] and agenda.timeout == 0.005


def test_each_post_is_made_once_by_whichever_thread_is_at_it(agenda: Agenda) -> None:
    made: list[str] = []

    def first() -> None:
        made.append("first")
        agenda.call_posted()

    agenda.post(first)
    agenda.post(lambda: made.append("second"))
    agenda.call_posted()

    assert made == ["first", "second"]


def test_a_call_that_is_due_at_once_waits_for_the_next_turn(agenda: Agenda, clock: SimClock) -> None:
    made: list[int] = []

    def again() -> None:
        made.append(len(made))
        clock.advance(1)
        agenda.at(clock.tick_ms(), again)

    agenda.at(clock.tick_ms(), again)
    agenda.call_due(clock.tick_ms())
    assert made == [0]


def test_a_forked_child_forgets_the_calls_of_its_parent(clock: SimClock) -> None:
    with selectors.DefaultSelector() as selector:
        made = Agenda(clock, selector)
        made.post(lambda: None)
        made.at(clock.tick_ms(), lambda: None)
        made.abandon()
        assert made.timeout is None
