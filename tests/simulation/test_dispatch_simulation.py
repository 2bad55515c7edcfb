"""Many seeds of a producer's batches in flight before a node that forgets, refuses and is silent. `SEEDS` says which.

The last test shows that the seeds see enough.
"""

from typing import Any

import pytest

from pylog.client.in_flight import InFlight
from pylog.client.in_flight_batch import InFlightBatch
from pylog.client.lane import Lane

from .dispatch_world import World
from .seeds import playing, seeds

PORTIONS = 4
PLANTED_SEEDS = 1000
"""What the node may have is numbered again in one of 400 alone: nearly always something tells whether it has it."""

_delivered, _parts, _may_take = InFlight.delivered, InFlight._parts, InFlight.may_take


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_delivered_records_are_in_the_log_once_and_in_order(portion: int) -> None:
    for seed in seeds(80)[portion::PORTIONS]:
        with playing(seed):
            World(seed).run()


def _forgetting(in_flight: InFlight, batch: InFlightBatch) -> bool:
    is_delivered = _delivered(in_flight, batch)
    if is_delivered and batch.key not in in_flight.busy:
        del in_flight._lanes[batch.key]
    return is_delivered


def _overtaking(in_flight: InFlight, key: Any) -> bool | None:
    lane = in_flight._lanes.get(key)
    waits = lane is not None and lane.producer == in_flight.producer and 0 < lane.in_flight < len(lane.unanswered)
    return waits or _may_take(in_flight, key)


def _same_numbers(batch: InFlightBatch, first: int, loads: tuple[Any, Any]) -> list[InFlightBatch]:
    parts = _parts(batch, first, loads)
    for part in parts:
        part.position = batch.position
    return parts


# The numbers are those of the bugs that others had, in the order of the project's list; 0: not on it.
MUTANTS: dict[str, tuple[type, str, Any]] = {
    "63: a lane begins anew with the numbers it had": (Lane, "begin", lambda lane, me: setattr(lane, "producer", me)),
    "64: a lane with nothing to do is forgotten": (InFlight, "delivered", _forgetting),
    "70: what the node may have is numbered again": (
        InFlightBatch,
        "doubtful",
        property(lambda _: False, lambda *_: None),
    ),
    "0: a newer batch overtakes one that waits": (InFlight, "may_take", _overtaking),
    "0: a gap is passed over": (Lane, "leave_gap", lambda lane, batch: None),
    "0: a part of a batch has the numbers of the whole": (InFlight, "_parts", staticmethod(_same_numbers)),
}


@pytest.mark.planted
@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_finds_a_planted_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the first seeds fails; without the fault, none of them does."""
    place, attribute, planted = MUTANTS[name]
    monkeypatch.setattr(place, attribute, planted)
    assert any(not holds(seed) for seed in range(PLANTED_SEEDS))


def holds(seed: int) -> bool:
    try:
        World(seed).run()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError):
        return False
    return True
