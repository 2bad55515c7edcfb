"""A plugin of pytest that plants the fault that PLANTED names, of `unit.mutants`, before the tests are loaded."""

import os
from contextlib import ExitStack

from unit.mutants import MUTANTS

planted = ExitStack()


def pytest_configure() -> None:
    """Plant it."""
    (mutant,) = (one for one in MUTANTS if one.title == os.environ["PLANTED"])
    planted.enter_context(mutant.plant())


def pytest_unconfigure() -> None:
    """Take it out."""
    planted.close()
