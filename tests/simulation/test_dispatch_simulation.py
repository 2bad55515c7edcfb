"""Many seeds of a producer's dispatch before a node that forgets, refuses and is silent: SEEDS from SEED on.

A failure names its seed: SEED=n SEEDS=1 runs it again. The last test shows that the seeds see enough.
"""

import os

import pytest

from .dispatch_world import World

SEEDS = int(os.environ.get("SEEDS", "1000"))
FIRST = int(os.environ.get("SEED", "0"))
PORTIONS = 4


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_what_is_delivered_is_there_once_and_in_order(portion: int) -> None:
    for seed in range(FIRST + portion, FIRST + SEEDS, PORTIONS):
        try:
            World(seed).run()
        except Exception as error:
            error.add_note(f"SEED={seed} SEEDS=1 runs it again")
            raise
