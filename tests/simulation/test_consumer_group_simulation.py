"""Groups of the consumer protocol under members that do what members do, and faults: see consumer_group_world.py.

`SEEDS` says how many seeds are tried, or which, as in test_group_simulation.
"""

import os

import pytest

from simulation.consumer_group_world import Simulation
from simulation.consumer_members import MemberSimulation

EVENTS = 120
CHUNKS = 8


def seeds(usual: str) -> range:
    first, _, last = os.environ.get("SEEDS", usual).rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def run(seed: int, world: type[Simulation]) -> None:
    try:
        simulation = world(seed)
        simulation.run(EVENTS)
        simulation.heal()
    except Exception as error:
        raise AssertionError(f"seed {seed}: SEEDS={seed}-{seed} runs it again: {error!r}") from error


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_consumer_groups_under_faults_hold_their_invariants_and_heal(chunk: int) -> None:
    for seed in seeds("500")[chunk::CHUNKS]:
        run(seed, Simulation)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_so_they_do_with_the_members_that_consumers_have(chunk: int) -> None:
    for seed in seeds("300")[chunk::CHUNKS]:
        run(seed, MemberSimulation)
