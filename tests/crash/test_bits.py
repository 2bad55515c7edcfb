"""A sample of all flipped bits and cut files (`bits`); `make bits` tries every one."""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .bits import HOW, Damage, Subject, damages, kind_of, make, promised, tree_of

EACH = 2
"""How many damages of each kind are tried in each kind of file."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Damage is logged, and here there is nothing else."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("how", HOW)
def test_every_flipped_bit_and_every_cut_is_reported(tmp_path: Path, how: str) -> None:
    make(tmp_path / "log", how)
    tree = tree_of(tmp_path / "log")
    every: dict[tuple[str, str], list[Damage]] = {}
    for damage in damages(promised(tree) if how == "lazy" else tree):
        every.setdefault((kind_of(damage.file), damage.kind), []).append(damage)
    subject = Subject(tree, tmp_path / "copy")
    chance, outcomes = random.Random(how), Counter[str]()
    for number, damage in enumerate(one for group in every.values() for one in chance.sample(group, EACH)):
        for way, outcome in subject.judge(damage, again=number % 4 == 0).items():
            assert not outcome.startswith("SILENT"), f"{damage} {way}: {outcome}"
            outcomes[outcome.split()[0]] += 1
    # What a roll has synced is not read at the open that follows a kill.
    expected = ("same", "error") if how == "lazy" else ("same", "error", "quarantine")
    assert min(outcomes[one] for one in expected) > 0, outcomes
