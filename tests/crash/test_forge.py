"""A few forged files of every kind (`forge`); `make forge` tries a hundred thousand, with bounds of time and memory."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.forge import Case, make_logs
from tests.crash.forging import FORGERS, Forger, Tree, order


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is refused is logged, and here there is nothing else."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> list[Tree]:
    return make_logs(tmp_path_factory.mktemp("logs"))


def test_forged_files_give_records_or_typed_errors(tmp_path: Path, trees: list[Tree]) -> None:
    for at, kind in enumerate(FORGERS):
        case = Case(trees, 3 * order().index(kind) + at % len(trees), tmp_path / kind)
        case.run()
        assert not case.wrong, f"{kind}, {case.forged.name}: {case.wrong[0]}"


def test_the_same_number_is_the_same_case(trees: list[Tree]) -> None:
    for forger in FORGERS.values():
        made = [forger(Forger(trees[0], number)) for number in (5, 5, 6, 7, 8, 9)]
        assert made[0] == made[1] and len({one.data for one in made}) > 1, made[0]
