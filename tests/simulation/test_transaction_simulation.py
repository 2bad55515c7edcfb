"""Many seeds of a transaction coordinator alone. `SEEDS` says which."""

import pytest

from .seeds import playing, seeds
from .transaction_clients import Clients
from .transaction_mutants import MUTANTS, Mutant
from .transaction_world import ViolatedError

PORTIONS = 4
MUTANT_SEEDS = 400


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_transactions_under_faults_are_whole(portion: int) -> None:
    for seed in seeds(400)[portion::PORTIONS]:
        with playing(seed):
            Clients(seed).run()


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}: {mutant.name}")
def test_the_simulation_finds_a_planted_fault(mutant: Mutant) -> None:
    """One of the first seeds fails; without the fault, none of them does."""
    with mutant.plant():
        assert any(not holds(seed) for seed in range(MUTANT_SEEDS))


def holds(seed: int) -> bool:
    try:
        Clients(seed).run()
    except ViolatedError:
        return False
    return True
