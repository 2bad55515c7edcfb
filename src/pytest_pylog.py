"""The pytest plugin of pylog: a Kafka for tests, without a container. It imports pylog when a fixture is first used.

pylog_server            a server that every Kafka client can use, with a registry of schemas, anew for each test; see
                        `pylog.testing.StandIn`
pylog_server_module     one for a module
pylog_server_session    one for the session; with pytest-xdist, one in each worker
pylog_log               an open log in memory, without a server, anew for each test; see `pylog.Log`
pylog_log_module, pylog_log_session
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pylog import Log
    from pylog.testing import StandIn


def _server() -> "Iterator[StandIn]":
    """A Kafka for tests; see `pylog.testing.StandIn`."""
    from pylog.testing import StandIn

    with StandIn(schema_registry=True) as server:
        yield server


def _log() -> "Iterator[Log]":
    """An open log in memory; see `pylog.Log`."""
    import pylog

    with pylog.open(":memory:") as log:
        yield log


pylog_server = pytest.fixture(_server, name="pylog_server")
pylog_server_module = pytest.fixture(_server, scope="module", name="pylog_server_module")
pylog_server_session = pytest.fixture(_server, scope="session", name="pylog_server_session")
pylog_log = pytest.fixture(_log, name="pylog_log")
pylog_log_module = pytest.fixture(_log, scope="module", name="pylog_log_module")
pylog_log_session = pytest.fixture(_log, scope="session", name="pylog_log_session")
