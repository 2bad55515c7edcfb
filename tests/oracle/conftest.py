"""What the tests against files of a real Kafka share. Where the files lie is said in tests/conftest.py (`fixtures`)."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def facts(fixtures: Path) -> Path:
    """The folder of vectors taken from Kafka's classes."""
    folder = fixtures / "facts"
    if not folder.is_dir():
        pytest.skip(f"no facts: {folder} is absent; set PYLOG_FIXTURES to a folder that has one")
    return folder
