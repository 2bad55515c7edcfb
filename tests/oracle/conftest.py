"""What the tests against files of a real Kafka share.

They run on the project's own small set (tests/golden) and on the one that tests/conftest.py finds (`fixtures`), which
alone has facts.
"""

from pathlib import Path

import pytest

from pylog.files import DiskFiles

GOLDEN = Path(__file__).parents[1] / "golden"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fixtures" in metafunc.fixturenames and "facts" not in metafunc.fixturenames:
        metafunc.parametrize("fixtures", [GOLDEN, None], ids=["golden", "given"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def facts(fixtures: Path) -> Path:
    """The folder of vectors taken from Kafka's classes."""
    folder = fixtures / "facts"
    if not folder.is_dir():
        pytest.skip(f"no facts: {folder} is absent; set PYLOG_FIXTURES to a folder that has one")
    return folder


@pytest.fixture
def reader() -> DiskFiles:
    """The files of the disk, for one test: their descriptors go with it."""
    return DiskFiles(read_only=True)
