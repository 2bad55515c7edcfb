"""A sample of all flipped bits and cut files (`bits`); `make bits` tries every one."""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .bits import HOW, Damage, Subject, damages, kind_of, make, promised, tree_of

EACH = 1
"""How many damages of each kind are tried in each kind of file."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Damage is logged, and here there is nothing else."""
    logging.getLogger("pylog").propagate = False
    yield
    logging.getLogger("pylog").propagate = True


@pytest.mark.parametrize("how", HOW)
def test_every_flipped_bit_and_every_cut_is_reported(tmp_path: Path, how: str) -> None:
    make(tmp_path / "log", how)
    tree = tree_of(tmp_path / "log")
    every: dict[tuple[str, str], list[Damage]] = {}
    for damage in damages(promised(tree) if how == "lazy" else tree):
        every.setdefault((kind_of(damage.file), damage.kind), []).append(damage)
    subject = Subject(tree, tmp_path / "copy")
    chance, outcomes = random.Random(how), Counter[str]()
    # The ways to leave a log share the kinds between them.
    tried = list(every.values())[HOW.index(how) :: len(HOW)]
    for number, damage in enumerate(one for group in tried for one in chance.sample(group, EACH)):
        for way, outcome in subject.judge(damage, again=number % 4 == 0).items():
            assert not outcome.startswith("SILENT"), f"{damage} {way}: {outcome}"
            outcomes[outcome.split()[0]] += 1
    assert min(outcomes["same"], outcomes["error"]) > 0, outcomes


@pytest.mark.parametrize("how", HOW)
def test_a_start_that_is_raised_by_a_flipped_bit_hides_nothing_without_a_word(tmp_path: Path, how: str) -> None:
    """`log-start-offset-checkpoint` is text without a checksum: 5 becomes 7."""
    make(tmp_path / "log", how)
    file = "log-start-offset-checkpoint"
    tree = tree_of(tmp_path / "log")
    bit = 8 * tree[file].rindex(b"5") + 1
    outcomes = Subject(tree, tmp_path / "copy").judge(Damage(file, "flip", bit), again=True)
    word = "same" if how == "closed" else "warning"
    assert outcomes == {"read": "same", "own": word, "again": word}
