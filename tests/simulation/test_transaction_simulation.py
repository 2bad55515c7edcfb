"""Many seeds of a transaction coordinator alone: SEEDS (default 2,000) from SEED (default 0) on.

A failure names its seed: SEED=n SEEDS=1 runs it again.
"""

import os

import pytest

from .transaction_clients import Clients
from .transaction_mutants import MUTANTS, Mutant

SEEDS = int(os.environ.get("SEEDS", "2000"))
FIRST = int(os.environ.get("SEED", "0"))
PORTIONS = 8
MUTANT_SEEDS = 400


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_whatever_happens_transactions_are_whole(portion: int) -> None:
    for seed in range(FIRST + portion, FIRST + SEEDS, PORTIONS):
        try:
            Clients(seed).run()
        except Exception as error:
            error.add_note(f"SEED={seed} SEEDS=1 runs it again")
            raise


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.number}: {mutant.name}")
def test_the_simulation_finds(mutant: Mutant) -> None:
    """One of the first seeds fails; without the fault, none of them does."""
    with mutant.plant():
        assert any(not holds(seed) for seed in range(MUTANT_SEEDS))


def holds(seed: int) -> bool:
    try:
        Clients(seed).run()
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError):
        return False
    return True
