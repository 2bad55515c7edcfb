"""What all tests share: how hard hypothesis tries, and where the files of a real Kafka lie.

`PYLOG_FIXTURES` names the folder (default ../shared/fixtures beside the project). Tests learn names, counts and
contents from its files; where it is absent they skip and say so, and run on the small set of tests/golden alone.
`HYPOTHESIS_PROFILE=deep` looks twenty-five times longer, and at all places of which `support.sampling` takes some.
"""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.killed import halt_all
from support.surroundings import Surroundings

ROOT = Path(__file__).parent.parent
LONGEST_ID = 60
LONG = "tests/crash/test_kill.py", "tests/docs/test_examples.py", "tests/crash/test_closing.py", "tests/spark"
"""Few tests that take long. They begin first, or one worker is busy with them when the others have ended."""
FIXTURES = Path(os.environ.get("PYLOG_FIXTURES") or ROOT.parent / "shared" / "fixtures")

# A shell lets what it runs in the background ignore Ctrl-C, and all processes of that inherit it; some tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two processes on a busy machine make single examples slow now and then: that is no failure.
settings.register_profile("usual", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("usual"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


@pytest.fixture(autouse=True)
def a_process_as_it_was() -> Iterator[None]:
    """Put back what the command changes in its process for good: where pylog's warnings go, and what SIGTERM does. And
    end the threads of killed nodes; see `killed_at_last`.
    """
    logger, terminated = logging.getLogger("pylog"), signal.getsignal(signal.SIGTERM)
    handlers, propagates = [*logger.handlers], logger.propagate
    yield
    halt_all()
    logger.handlers[:], logger.propagate = handlers, propagates
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, terminated)


@pytest.fixture(scope="session")
def fixtures(request: pytest.FixtureRequest) -> Path:
    """The folder of files that a real Kafka wrote; those of tests/oracle run on tests/golden, too (its conftest.py)."""
    folder: Path = getattr(request, "param", None) or FIXTURES
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"no fixtures: {folder}/manifest.json is absent; set PYLOG_FIXTURES to a folder of Kafka's files")
    return folder


def pytest_make_parametrize_id(val: object) -> str | None:
    """Cut the part of a test's name that is a long value: some have 12 MB, and each process is sent all names."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_ID:
        return None
    return f"{ascii(val[:LONGEST_ID]).strip('b')[1:-1]}...{len(val)}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` a worker takes one file after the other, and all files of Spark, which share a session."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        takes_last = True

        def _split_scope(self, nodeid: str) -> str:
            return "tests/spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if config.getoption("--shuffle") is None:
                # Files of many tests come first, and keep a processor busy; those of few wait for processes and disks.
                # One of each by turns, or nothing but waiting is left at the end.
                self.takes_last = not self.takes_last
                if self.takes_last:
                    self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
                for scope in filter(self.workqueue.__contains__, LONG):
                    self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return ByFile(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run the files in a random order, the same for the same seed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--shuffle` files change their places; the tests of a file, which share fixtures, stay together."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        files = sorted({item.path for item in items})
        Random(seed).shuffle(files)
        places = {path: place for place, path in enumerate(files)}
        items.sort(key=lambda item: places[item.path])


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Surroundings())


def pytest_collectstart() -> None:
    """Collect without the garbage collector: there is next to no garbage, and its looks take half of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector: it stays until the end, and takes half a second a look."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep what the tests of a file have left for good out of the garbage collector, too: modules, caches, reports.

    After 4,000 tests a look at all objects would take 0.16 s, and a seventh of the suite's time would be such looks.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect(1)
        gc.freeze()


def pytest_report_header() -> list[str]:
    there = (FIXTURES / "manifest.json").is_file()
    return [f"fixtures: {FIXTURES}{'' if there else ' (ABSENT: their tests run on tests/golden alone)'}"]
