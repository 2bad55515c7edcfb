"""A log with a bit of everything, and the pages that show it."""

import json
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

import pylog
from pylog.config.typed import NodeOptions
from pylog.files import DiskFiles
from pylog.ui.application import application
from pylog.ui.security import Policy
from pylog.ui.source import Source
from support.visitor import Visitor

PATIENT = 240.0
"""Pages of tests wait for the first look, however busy the machine is."""
HOSTILE = b"<script>alert(1)</script>"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pylog.Log]:
    """`clicks` has 90 records in three partitions; `orders` is hostile in part. Tests that change something make
    topics of their own.
    """
    config: NodeOptions = {
        # So that a test can append as if there were no coordinator.
        "transaction.partition.verification.enable": False,
        # Fifty partitions of each take longer than the tests.
        "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1,
    }  # fmt: skip
    with pylog.open(tmp_path_factory.mktemp("ui") / "data", flush="none", config=config) as opened:
        opened.create_topic("clicks", partitions=3)
        opened.create_topic("orders")
        with opened.producer(linger_ms=1000) as producer:
            for one in range(90):
                value = json.dumps({"page": f"/shop/{one}"}).encode()
                producer.send(
                    "clicks", value, partition=one % 3, timestamp_ms=1_000_000 + one, headers=[("n", b"%d" % one)]
                )
            for data in (HOSTILE, b"\x00\xff" * 200, b"", None, b'{"paid": [1, 2]}'):
                producer.send("orders", data, key=HOSTILE)
        yield opened


def pages_of(log: pylog.Log, *, can_write: bool = True, policy: Policy | None = None) -> Visitor:
    """A visitor of the pages of a log on disk."""
    source = Source(
        "data", log, DiskFiles(read_only=True), (log.path,), (lambda: nullcontext(log)) if can_write else None
    )
    app = application(source, policy or Policy(csrf="the secret"), patience_seconds=PATIENT)
    return Visitor(app, csrf="the secret")


@pytest.fixture
def pages(log: pylog.Log) -> Visitor:
    """The pages, with changes allowed."""
    return pages_of(log)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Visitor]:
    """The pages of a log behind a network, with changes allowed."""
    with pylog.serve(":memory:") as server, pylog.connect(server.bootstrap_servers) as connected:
        connected.create_topic("clicks", partitions=2)
        with connected.producer() as producer:
            for one in range(40):
                producer.send("clicks", b"value %d" % one, partition=one % 2)
        source = Source("elsewhere", connected, change=lambda: nullcontext(connected))
        app = application(source, Policy(csrf="the secret"), patience_seconds=PATIENT)
        yield Visitor(app, csrf="the secret")
