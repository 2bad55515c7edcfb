"""Many seeds of a whole log, node and clients, in one thread: see stack_world.py.

`STACK` says how many seeds are tried, or which, as `SEEDS` does in test_group_simulation.
"""

import os

import pytest

from .stack_world import play

CHUNKS = 10


def seeds() -> range:
    first, _, last = os.environ.get("STACK", "100").rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_happens_nothing_is_lost_or_doubled_and_everything_ends(chunk: int) -> None:
    for seed in seeds()[chunk::CHUNKS]:
        try:
            play(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: STACK={seed}-{seed} runs it again: {error!r}") from error


def test_a_seed_says_everything() -> None:
    first, second = play(7), play(7)
    assert (first.counts, first.history) == (second.counts, second.history)
