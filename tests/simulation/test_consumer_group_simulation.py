"""Groups of the consumer protocol under members that do what members do, and faults: see consumer_group_world.py.

`SEEDS` says which.
"""

import pytest

from simulation.consumer_group_world import Simulation
from simulation.consumer_members import MemberSimulation
from simulation.mixed_members import MixedSimulation
from simulation.seeds import playing, seeds

EVENTS = 120
CHUNKS = 4


def run(seed: int, world: type[Simulation]) -> None:
    with playing(seed):
        simulation = world(seed)
        simulation.run(EVENTS)
        simulation.heal()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_consumer_groups_under_faults_hold_their_invariants_and_heal(chunk: int) -> None:
    for seed in seeds(120)[chunk::CHUNKS]:
        run(seed, Simulation)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_consumer_groups_of_real_members_hold_their_invariants(chunk: int) -> None:
    for seed in seeds(80)[chunk::CHUNKS]:
        run(seed, MemberSimulation)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mixed_groups_hold_their_invariants(chunk: int) -> None:
    for seed in seeds(40)[chunk::CHUNKS]:
        run(seed, MixedSimulation)


def test_a_static_member_that_reads_more_now_goes_on_with_what_it_had() -> None:
    run(5195, MixedSimulation)
