"""Readers keep the logs that they open for the process: each test closes those of its own."""

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def places_are_closed() -> Iterator[None]:
    yield
    if importlib.util.find_spec("pyarrow"):
        from pylog.spark.place import _places

        while _places:
            _places.popitem()[1].close()
