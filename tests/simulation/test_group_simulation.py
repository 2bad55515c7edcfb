"""A coordinator of groups under members that do what members do, and faults: see group_world.py.

`SEEDS` says how many seeds are tried, or which: "2000", "17", "1000-1999" ("17" alone means the first 17).
"""

import os

import pytest

from simulation.group_mutants import MUTANTS, Mutant
from simulation.group_world import World

EVENTS = 400
CHUNKS = 8


def seeds() -> range:
    first, _, last = os.environ.get("SEEDS", "1000").rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def run(seed: int, world: type[World] = World, events: int = EVENTS) -> None:
    try:
        world(seed).run(events)
    except Exception as error:
        raise AssertionError(f"seed {seed}: SEEDS={seed}-{seed} runs it again: {error!r}") from error


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_coordinator_under_faults_holds_its_invariants_and_heals(chunk: int) -> None:
    for seed in seeds()[chunk::CHUNKS]:
        run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_a_planted_fault_is_found(mutant: Mutant) -> None:
    with mutant.plant(), pytest.raises(AssertionError):
        for seed in range(1000):
            run(seed)
