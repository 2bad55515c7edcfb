"""Any request of any key in any version: it has a response that its version can say, or it is refused.

One run has half of the versions. The bodies are drawn from the schemas, the node is a real one in memory. Numbers of
partitions are small, and topics have few names.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylog.errors import PylogError
from pylog.protocol.batch import encode
from pylog.protocol.schema.table import load
from pylog.server.api.call import NoResponse, Reply
from pylog.server.api.table import APIS
from pylog.server.dispatch import read_request
from support.sampling import every
from support.schema_values import SIMPLE, struct_values
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded, wire_node

VERSIONS = [(api.name, version) for api in APIS.values() for version in range(api.low, api.high + 1)]
GOOD = bytes(encode([(b"v", b"k", 5, ())], now_ms=5).data)
NUMBERS = st.sampled_from([-3, -2, -1, 0, 1, 2, 5])
TEXTS = st.sampled_from(["", "t", "u", "g", "tx", "retention.ms", "5", "bad name", "é"])
VALUES = SIMPLE | {
    "string": TEXTS,
    "int16": NUMBERS,
    "int32": NUMBERS,
    "int64": NUMBERS | st.sampled_from([2**62, -(2**62)]),
    "records": st.sampled_from([b"", b"x", GOOD, GOOD + GOOD, GOOD[:-1] + b"?"]) | st.binary(max_size=100),
    "maxWaitMs": st.just(0),
    "sessionTimeoutMs": st.just(10_000),
}


@pytest.fixture(scope="module")
def node() -> Iterator[WireNode]:
    with wire_node(group_consumer_heartbeat_interval_ms=10, group_consumer_min_heartbeat_interval_ms=10) as made:
        made.log.create_topic("t", 2)
        yield made


@pytest.mark.parametrize(("name", "version"), every(2, VERSIONS))
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_request_has_a_response_that_its_version_can_say(
    node: WireNode, name: str, version: int, data: st.DataObject
) -> None:  # fmt: skip
    body = data.draw(struct_values(load(f"{name}Request").fields, version, VALUES))
    if name == "DescribeTopicPartitions" and body["cursor"] is None:
        body["topics"] = body["topics"][:1]

    call, outcome = node.call(request_frame(name, version, body)[4:])

    if not isinstance(outcome, Reply | NoResponse):
        response = decoded(call, outcome)
        assert_answers(name, body, response)


def assert_answers(name: str, body: dict[str, Any], response: dict[str, Any]) -> None:
    """The response has as many topics, groups and resources as the request, where they are listed alike."""
    for asked, answered in (("topicData", "responses"), ("resources", "results"), ("coordinatorKeys", "coordinators")):
        if name in ("Produce", "DescribeConfigs", "FindCoordinator") and asked in body and body[asked] is not None:
            assert len(body[asked]) == len(response[answered])


@given(st.sampled_from(VERSIONS), st.binary(max_size=60), st.binary(max_size=12))
def test_any_bytes_behind_a_header_are_a_request_or_refused(
    place: tuple[str, int], data: bytes, header: bytes
) -> None:  # fmt: skip
    name, version = place
    key = load(f"{name}Request").api_key
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + header + data

    try:
        call = read_request(bytearray(frame), "/host")
    except PylogError:
        return
    assert call.version == version


@given(st.binary(max_size=40))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        read_request(bytearray(data), "/host")
    except PylogError:
        return
