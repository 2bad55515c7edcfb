"""A share partition beside a naive model, under faults: see share_partition_world.py. `SEEDS` says which seeds."""

import pytest

from simulation.seeds import playing, seeds
from simulation.share_partition_mutants import MUTANTS
from simulation.share_partition_world import World
from support.mutant import Mutant

EVENTS = 150


def run(seed: int, events: int = EVENTS) -> None:
    with playing(seed):
        World(seed).run(events)


def test_a_share_partition_does_what_the_model_does() -> None:
    for seed in seeds(60):
        run(seed)


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_a_planted_fault_is_found(mutant: Mutant) -> None:
    with mutant.plant(), pytest.raises(AssertionError):
        for seed in range(300):
            run(seed)
