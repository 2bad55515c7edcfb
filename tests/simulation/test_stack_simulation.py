"""Many seeds of a whole log, node and clients, in one thread: see stack_world.py. `STACK` says which."""

import pytest

from .seeds import playing, seeds
from .stack_mutants import MUTANTS
from .stack_world import play
from .transaction_mutants import Mutant

CHUNKS = 3
MUTANT_SEEDS = 100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_stack_under_faults_loses_and_doubles_nothing_and_ends(chunk: int) -> None:
    for seed in seeds(6, "STACK")[chunk::CHUNKS]:
        with playing(seed, "STACK"):
            play(seed)


def test_a_batch_that_a_node_has_forgotten_lies_somewhere() -> None:
    play(218)


def test_a_seed_alone_replays_a_run() -> None:
    first, second = play(7), play(7)
    assert (first.counts, first.history) == (second.counts, second.history)


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}: {mutant.name}")
def test_the_simulation_finds_a_planted_fault(mutant: Mutant) -> None:
    """One of a few seeds fails; without the fault, none of them does."""
    with mutant.plant(), pytest.raises((AssertionError, LookupError, TypeError, ValueError)):
        for seed in range(MUTANT_SEEDS):
            play(seed)
