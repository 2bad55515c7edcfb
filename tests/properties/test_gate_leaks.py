"""No answer tells what a client may not describe: a node that has the topics and one without them give the same one.

The client may do everything with groups and transactional ids, and nothing with topics and the cluster. Any request of
any key in any version is sent to both nodes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pylog
from pylog import AclBinding, AclOperation, AclResourceType
from pylog.errors import PylogError
from pylog.protocol.batch import encode
from pylog.protocol.schema.table import load
from pylog.server.api.call import NoResponse, Reply
from pylog.server.api.table import APIS
from support.sampling import every
from support.schema_values import SIMPLE, struct_values
from support.wire_client import request_frame
from support.wire_node import WireNode, decoded

VERSIONS = [(api.name, version) for api in APIS.values() for version in range(api.low, api.high + 1)]
GOOD = bytes(encode([(b"v", b"k", 5, ())], now_ms=5).data)
NUMBERS = st.sampled_from([-2, -1, 0, 1, 2])
VALUES = SIMPLE | {
    "string": st.sampled_from(["", "t", "u", "g", "absent", "__consumer_offsets", "bad name"]),
    "int16": NUMBERS, "int32": NUMBERS, "int64": NUMBERS,
    "records": st.sampled_from([b"", b"x", GOOD]),
    "maxWaitMs": st.just(0), "sessionTimeoutMs": st.just(10_000), "validateOnly": st.just(True),
}  # fmt: skip
CHANCE = frozenset(
    {
        "clusterId",
        "sessionId",
        "memberId",
        "clientInstanceId",
        "subscriptionId",
        "memberEpoch",
        "leader",
        "generationId",
    }
)
"""What differs between any two nodes."""
USER = "User:alice"


class Nodes(NamedTuple):
    full: WireNode
    empty: WireNode


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    config = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with pylog.open(":memory:", config=config) as full, pylog.open(":memory:", config=config) as empty:
        for name in ("t", "u"):
            full.create_topic(name, 2)[0].append([pylog.Record(b"x")])
        for log in (full, empty):
            log.create_topic("both")
            kinds = AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID
            log.admin.create_acls([AclBinding(kind, "*", USER, AclOperation.ALL) for kind in kinds])
            # Coordinators make their topics at the first write.
            with log.consumer(group_id="warm") as consumer:
                consumer.commit({pylog.TopicPartition("both", 0): 0})
            with log.producer(transactional_id="warm"):
                pass
        yield Nodes(WireNode(full, authorizer="standard"), WireNode(empty, authorizer="standard"))


def answer(node: WireNode, frame: bytes) -> Any:
    """The answer without chance, or the name of the error that ends the connection."""
    try:
        call, outcome = node.call(frame, USER)
    except PylogError as error:
        return type(error).__name__
    if isinstance(outcome, Reply):
        return "waits"
    return repr(outcome) if isinstance(outcome, NoResponse) else settled(decoded(call, outcome))


def settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: settled(one) for name, one in value.items() if name not in CHANCE}
    return [settled(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "version"), every(2, VERSIONS))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_an_answer_is_the_same_without_the_topics(
    nodes: Nodes, name: str, version: int, data: st.DataObject
) -> None:  # fmt: skip
    frame = request_frame(name, version, data.draw(struct_values(load(f"{name}Request").fields, version, VALUES)))[4:]
    assert answer(nodes.full, frame) == answer(nodes.empty, frame)
