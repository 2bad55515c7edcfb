"""The topic of a test of tables, wherever it lies."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog


@pytest.fixture(params=["files", "connected"])
def topic(log: pylog.Log, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The topic `t` in the process of the log, and over a network."""
    if request.param == "files":
        yield log.topic("t")
        return
    with log.serve() as server, pylog.connect(server.bootstrap_servers) as connected:
        yield connected.topic("t")
