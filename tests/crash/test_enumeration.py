"""Every workload, cut at every operation: nothing acknowledged is lost, and nothing else is there.

A sample here, `make crash BUDGET=1000000` for as many states as one wants.
"""

import logging
from collections.abc import Iterator

import pytest

from .engine import Enumeration
from .mutants import MUTANTS, Mutant
from .workloads import WORKLOADS

STRIDE = 12
STRIDES = {
    "compaction": 144, "compaction_in_groups": 180, "compaction_twice": 480, "delete_records_and_segments": 36,
    "leader_change": 84, "metadata_snapshots": 180, "preallocate": 36, "producer_snapshots": 36, "recovery": 2,
    "retention_by_size": 48, "retention_of_everything": 36, "roll_by_size": 36, "roll_without_sync": 36, "scrub": 36,
    "topic_create": 60, "topic_delete": 72, "topic_move": 168, "topic_move_after_a_deletion": 112,
    "topic_recreate": 36, "transactions_abort": 36, "truncate_segments": 36,
}  # fmt: skip
SECOND_STRIDE = 24
"""Of how many states one is recovered: some 2,800 are left, the second crashes counted."""


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
    assert result.states > 20


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_fault_is_found(mutant: Mutant) -> None:
    with mutant.plant() as workload:
        result = Enumeration(workload).finish()
    assert bool(result.failures) != bool(mutant.masked), mutant.masked
