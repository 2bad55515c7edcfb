"""A coordinator of groups under members that do what members do, and faults: see group_world.py. `SEEDS` says which."""

import pytest

from simulation.group_mutants import MUTANTS
from simulation.group_world import World
from simulation.seeds import playing, seeds
from support.mutant import Mutant

EVENTS = 400
CHUNKS = 4


def run(seed: int, world: type[World] = World, events: int = EVENTS) -> None:
    with playing(seed):
        world(seed).run(events)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_coordinator_under_faults_holds_its_invariants_and_heals(chunk: int) -> None:
    for seed in seeds(120)[chunk::CHUNKS]:
        run(seed)


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_a_planted_fault_is_found(mutant: Mutant) -> None:
    with mutant.plant(), pytest.raises(AssertionError):
        for seed in range(1000):
            run(seed)
