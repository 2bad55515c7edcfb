"""A signal at a few places of every public call; `make interrupts` takes all of them.

Who waits for a lock of his own waits for ever: then the process is ended, and says where it stood.
"""

import faulthandler
from collections.abc import Iterator
from pathlib import Path

import pytest

from interrupts.calls import CALLS, World, attempt, recover
from interrupts.campaign import STUCK_SECONDS


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# Where a generator is collected nobody hears of what is raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_handler_may_append_read_and_close(name: str, tmp_path: Path) -> None:
    order = list(CALLS).index(name)
    world = World(tmp_path, ("sync", "none")[order % 2])
    last = attempt(world, name, "use", 0)
    for mode, tries in (("use", 1), ("twice", 1), ("close", 1), ("raise", 1)):
        # Another place in every call, and in every mode.
        for number in range(tries):
            attempt(world, name, mode, 1 + (last * (number * 7 + order + len(mode))) // (7 * tries) % last)
            recover(world, mode)
    world.judge()
    world.close()
