"""Each request in each version that a server serves: the answer decodes, and has no error but the expected ones.

Fields that a version lacks are left out.
"""

import pytest

from conformance.wire.conftest import Topics
from pylog.protocol import schema
from pylog.protocol.schema.table import load
from support.every_request import MESSAGES, errors_in, fitting, requests_for
from support.raw_client import Body, WireClient
from support.wire_requests import TIMEOUT_MS, Requests


@pytest.fixture
def every(wire: WireClient, topics: Topics) -> dict[str, tuple[Body, set[str]]]:
    topic = topics.create()
    return requests_for(topic, Requests(wire).topic_id(topic))


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_is_answered(wire: WireClient, every: dict[str, tuple[Body, set[str]]], name: str) -> None:
    request = schema.message(f"{name}Request")
    body, allowed = every[name]
    served = wire.versions.get(request.api_key)
    if served is None:
        pytest.skip(f"the server does not serve {name}")

    for version in range(max(served[0], request.versions[0]), min(served[1], request.versions[1]) + 1):
        asked = fitting(load(f"{name}Request").fields, version, {"timeoutMs": TIMEOUT_MS, **body})
        answer = wire.ask(name, asked, version=version)

        assert errors_in(answer) <= allowed, f"{name} version {version}: {answer}"


def test_all_keys_of_kafka_are_served(wire: WireClient) -> None:
    missing = [name for name in MESSAGES if schema.message(f"{name}Request").api_key not in wire.versions]
    assert not missing
