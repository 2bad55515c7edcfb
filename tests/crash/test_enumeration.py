"""Every workload, cut at every operation: nothing acknowledged is lost, and nothing else is there.

A sample here, `make crash BUDGET=1000000` for as many states as one wants.
"""

import logging
from collections.abc import Iterator

import pytest

from .engine import Enumeration
from .mutants import MUTANTS, Mutant
from .workloads import WORKLOADS

STRIDE = 24
STRIDES = {
    "compaction": 288, "compaction_in_groups": 360, "compaction_twice": 960, "delete_records_and_segments": 72,
    "leader_change": 168, "metadata_snapshots": 360, "preallocate": 72, "producer_snapshots": 72, "recovery": 4,
    "retention_by_size": 96, "retention_of_everything": 72, "roll_by_size": 72, "roll_without_sync": 72, "scrub": 72,
    "topic_create": 120, "topic_delete": 144, "topic_move": 336, "topic_move_after_a_deletion": 224,
    "topic_recreate": 72, "transactions_abort": 72, "truncate_segments": 72,
}  # fmt: skip
SECOND_STRIDE = 24
"""Of how many states one is recovered: some 1,400 are left, the second crashes counted."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Recovery says what it cuts: here that is the point of it, tens of thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_crash_at_any_moment_loses_nothing(name: str) -> None:
    result = Enumeration(WORKLOADS[name], stride=STRIDES.get(name, STRIDE), second_stride=SECOND_STRIDE).finish()
    assert not result.failures, result.failures[0]
    assert result.states > 10


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_found(mutant: Mutant) -> None:
    with mutant.plant() as workload:
        result = Enumeration(workload).finish()
    assert bool(result.failures) != bool(mutant.masked), mutant.masked
