"""The classes of requests and responses, held to the table of schemas; and their bytes, held to those of dicts."""

import dataclasses
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import field
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.errors import CorruptBatch, DiskFull, NotLeaderOrFollower, PylogError, UnknownServer, UnsupportedFormat
from pylog.protocol.messages.api import ApiRequest, ApiResponse, api_message
from pylog.protocol.messages.groups import DescribeGroupsResponse
from pylog.protocol.messages.message import OURS
from pylog.protocol.messages.requests import REQUESTS
from pylog.protocol.messages.transactions import ListTransactionsRequest
from pylog.protocol.messages.users import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from pylog.protocol.schema import message
from pylog.protocol.schema.classes import ERROR, ERROR_CODES, ERROR_MESSAGE, attribute, ours
from pylog.protocol.schema.table import ZERO_UUID, Field, load
from support.sampling import every
from support.schema_values import SIMPLE, same, struct_values

# --- a request and a response that have all kinds of fields -----------------------------------------------------------


@api_message
class FetchResponse(ApiResponse):
    @api_message
    class FetchableTopicResponse:
        @api_message
        class PartitionData:
            @api_message
            class EpochEndOffset:
                epoch: int = -1
                end_offset: int = -1

            @api_message
            class LeaderIdAndEpoch:
                leader_id: int = -1
                leader_epoch: int = -1

            @api_message
            class SnapshotId:
                end_offset: int = -1
                epoch: int = -1

            @api_message
            class AbortedTransaction:
                producer_id: int
                first_offset: int

            partition_index: int
            error: PylogError | None = None
            high_watermark: int = 0
            last_stable_offset: int = -1
            log_start_offset: int = -1
            diverging_epoch: EpochEndOffset | None = None
            current_leader: LeaderIdAndEpoch | None = None
            snapshot_id: SnapshotId | None = None
            aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
            preferred_read_replica: int = -1
            records: memoryview | None = None

        topic: str = ""
        topic_id: uuid.UUID = ZERO_UUID
        partitions: list[PartitionData] = field(default_factory=list)

    @api_message
    class NodeEndpoint:
        node_id: int
        host: str
        port: int
        rack: str | None = None

    throttle_time_ms: int = 0
    error: PylogError | None = None
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


@api_message
class FetchRequest(ApiRequest[FetchResponse]):
    @api_message
    class ReplicaState:
        replica_id: int = -1
        replica_epoch: int = -1

    @api_message
    class FetchTopic:
        @api_message
        class FetchPartition:
            partition: int
            current_leader_epoch: int = -1
            fetch_offset: int = 0
            last_fetched_epoch: int = -1
            log_start_offset: int = -1
            partition_max_bytes: int = 0
            replica_directory_id: uuid.UUID = ZERO_UUID
            high_watermark: int = (1 << 63) - 1

        topic: str = ""
        topic_id: uuid.UUID = ZERO_UUID
        partitions: list[FetchPartition] = field(default_factory=list)

    @api_message
    class ForgottenTopic:
        topic: str = ""
        topic_id: uuid.UUID = ZERO_UUID
        partitions: list[int] = field(default_factory=list)

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""


@api_message
class DescribeTopicPartitionsResponse(ApiResponse):
    throttle_time_ms: int = 0


@api_message
class DescribeTopicPartitionsRequest(ApiRequest[DescribeTopicPartitionsResponse]):
    @api_message
    class TopicRequest:
        name: str

    @api_message
    class Cursor:
        topic_name: str
        partition_index: int

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


ALL_KINDS: list[type[Any]] = [FetchRequest, FetchResponse, DescribeTopicPartitionsRequest]
MOVED: list[type[Any]] = [kind for request in REQUESTS.values() for kind in (request, request.response)]
VERSIONS = [
    pytest.param(kind, version, id=f"{kind.__name__} {version}")
    for kind in ALL_KINDS + MOVED
    for version in range(message(kind.__name__).versions.low, message(kind.__name__).versions.high + 1)
]

# --- the classes ------------------------------------------------------------------------------------------------------

PYTHON = {"bool": bool, "string": str, "bytes": bytes, "records": memoryview, "uuid": uuid.UUID, "float64": float}


def structs(kind: type[Any], fields: tuple[Field, ...]) -> Iterator[tuple[type[Any], tuple[Field, ...]]]:
    """A class and the classes in it, each with the fields of its struct."""
    yield kind, fields
    annotations = {one.name: one.type for one in dataclasses.fields(kind)}
    for one in fields:
        if one.fields:
            yield from structs(element(annotations[attribute(one)]), one.fields)


def element(annotation: Any) -> Any:
    """The type of the elements of a list, or the type itself, without None."""
    given = [one for one in get_args(annotation) if one is not NoneType] if NoneType in get_args(annotation) else []
    annotation = given[0] if given else annotation
    return get_args(annotation)[0] if get_origin(annotation) in (list, Sequence) else annotation


def wanted(one: Field, made: Any, default: object) -> Any:
    """The annotation that a field has to have. `made`: the class of its structs. `default`: one that is nearly always
    empty may be () then.
    """
    kind = made if one.fields else PYTHON.get(one.kind, int)
    if one.is_array:
        kind = Sequence[kind] if default == () else list[kind]
    may_lack = is_tagged_struct(one) or one.nullable.low <= one.nullable.high or one.default is None
    return kind | None if may_lack else kind


def is_tagged_struct(one: Field) -> bool:
    """Whether a field is not written where it is at its default, which is None then."""
    return bool(one.fields) and not one.is_array and one.tagged.low <= one.tagged.high


@pytest.mark.parametrize("kind", ALL_KINDS[:2] + MOVED, ids=lambda kind: kind.__name__)
def test_a_class_has_the_fields_of_its_schema_with_their_types_and_defaults(kind: type[Any]) -> None:
    for made, schema in structs(kind, load(kind.__name__).fields):
        attributes = {one.name: one for one in dataclasses.fields(made) if one.metadata != OURS}
        assert attributes.keys() == {attribute(one) for one in schema}, made
        # A decoder gives one value to all messages.
        assert all(default is not dataclasses.MISSING for _, default in ours(made)), made
        for one in schema:
            found = attributes[attribute(one)]
            if attribute(one) == ERROR:
                assert (found.type, found.default) == (PylogError | None, None)
                continue
            inner = element(found.type)
            assert found.type == wanted(one, inner, found.default), f"{made.__qualname__}.{found.name}"
            if one.fields:
                assert inner.__qualname__.rpartition(".")[2] == one.kind
            if found.default_factory is not dataclasses.MISSING:
                assert found.default_factory is (list if one.is_array else inner)
            elif is_tagged_struct(one):
                assert found.default is None
            elif found.default is not dataclasses.MISSING:
                assert found.default == one.default, f"{made.__qualname__}.{found.name}"


@pytest.mark.parametrize("kind", REQUESTS.values(), ids=lambda kind: kind.__name__)
def test_a_request_has_the_response_of_its_key(kind: type[ApiRequest[Any]]) -> None:
    assert kind.response.__name__ == f"{kind.api_name()}Response"
    assert message(kind.__name__).api_key == message(kind.response.__name__).api_key
    assert issubclass(kind.response, ApiResponse)


# --- their bytes ------------------------------------------------------------------------------------------------------

VALUES = SIMPLE | dict.fromkeys(ERROR_CODES, st.sampled_from([0, 3, 41]))


def told(value: Any) -> Any:
    """A decoded dict, without the texts of errors: a code without one gets one."""
    if isinstance(value, dict):
        return {name: told(one) for name, one in value.items() if name != ERROR_MESSAGE}
    return [told(one) for one in value] if isinstance(value, list) else value


@settings(max_examples=2)
@pytest.mark.parametrize(("kind", "version"), every(2, VERSIONS))
@given(data=st.data())
def test_a_message_has_the_bytes_of_its_dict_and_comes_out_of_them(
    kind: type[Any], version: int, data: st.DataObject
) -> None:  # fmt: skip
    schema = message(kind.__name__)
    value = data.draw(struct_values(load(kind.__name__).fields, version, VALUES))
    made, end = schema.decode(version, schema.encode(version, value), into=kind)

    again = schema.encode(version, made)
    assert same(told(schema.decode(version, again)[0]), told(schema.decode(version, schema.encode(version, value))[0]))
    assert schema.encode(version, schema.decode(version, again, into=kind)[0]) == again
    assert type(made) is kind and end == len(schema.encode(version, value))


@settings(max_examples=4)
@pytest.mark.parametrize("kind", ALL_KINDS + MOVED, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_bytes_are_a_message_where_they_are_a_dict(kind: type[Any], data: st.DataObject) -> None:
    schema = message(kind.__name__)
    version = schema.versions.high
    good = bytearray(schema.encode(version, data.draw(struct_values(load(kind.__name__).fields, version, VALUES))))
    for at in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=3)) if good else ():
        good[at] = data.draw(st.integers(0, 255))

    outcomes = []
    for into in (None, kind):
        try:
            outcomes.append(schema.decode(version, good, into=into)[1])
        except CorruptBatch as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_bytes_of_a_message_outlive_their_frame_and_records_are_views() -> None:
    schema = message("AlterUserScramCredentialsRequest")
    frame = bytearray(schema.encode(0, {"upsertions": [{"name": "a", "salt": b"salt"}]}))
    (found,) = schema.decode(0, frame, into=AlterUserScramCredentialsRequest)[0].upsertions
    frame[:] = bytes(len(frame))
    assert found.salt == b"salt"

    parts = [{"topic": "t", "partitions": [{"partitionIndex": 0, "records": b"batch"}]}]
    frame = bytearray(message("FetchResponse").encode(12, {"responses": parts}))
    answer, _ = message("FetchResponse").decode(12, frame, into=FetchResponse)
    assert isinstance(answer.responses[0].partitions[0].records, memoryview)


def test_what_is_ours_is_not_on_the_wire_and_comes_at_its_default() -> None:
    group = DescribeGroupsResponse.DescribedGroup(group_id="g", coordinator=3, generation=9)
    data = message("DescribeGroupsResponse").encode(5, DescribeGroupsResponse(groups=[group]))
    (found,) = message("DescribeGroupsResponse").decode(5, data, into=DescribeGroupsResponse)[0].groups
    assert (found.group_id, found.coordinator, found.generation) == ("g", -1, -1)


def test_unknown_tags_are_passed_over() -> None:
    schema = message("ListTransactionsRequest")
    found, _ = schema.decode(1, schema.encode(1, {"_tags": {9: b"new"}}), into=ListTransactionsRequest)
    assert found == ListTransactionsRequest()


# --- what a version cannot say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "lowest"),
    [
        (ListTransactionsRequest(), 0),
        (ListTransactionsRequest(duration_filter=5), 1),
        (ListTransactionsRequest(transactional_id_pattern="a"), 2),
        (FetchRequest(max_bytes=5), 4),  # it is ignorable
        (FetchRequest(session_id=5), 4),
        (FetchRequest(forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="t")]), 7),
        (FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=2)), 15),
    ],
)
def test_a_version_says_all_of_a_message_or_refuses_it(request_: ApiRequest[Any], lowest: int) -> None:
    schema = message(type(request_).__name__)
    for version in range(schema.versions.low, lowest):
        with pytest.raises(UnsupportedFormat, match=f"version {version} cannot say"):
            schema.encode(version, request_)
    for version in range(lowest, schema.versions.high + 1):
        assert schema.encode(version, request_)


def test_none_is_refused_where_a_version_has_no_word_for_it() -> None:
    schema = message("FetchResponse")
    part = FetchResponse.FetchableTopicResponse.PartitionData(partition_index=0)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
    answer = FetchResponse(responses=[topic])
    topic.topic = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"responses\[0\].topic: .*must not be None"):
        schema.encode(12, answer)
    topic.topic, part.partition_index = "t", "x"  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"partitions\[0\].partitionIndex: "):
        schema.encode(12, answer)
    with pytest.raises(ValueError, match="as a whole"):
        schema.encode(12, FetchRequest())


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, NotLeaderOrFollower("elsewhere"), DiskFull("no room")])
def test_an_error_is_two_fields_on_the_wire(error: PylogError | None) -> None:
    schema = message("AlterUserScramCredentialsResponse")
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user="a", error=error)
    data = schema.encode(0, AlterUserScramCredentialsResponse(results=[result]))

    (found,) = schema.decode(0, data, into=AlterUserScramCredentialsResponse)[0].results
    assert (type(found.error), str(found.error)) == (type(error), str(error))


def test_a_code_without_a_text_is_an_error_too() -> None:
    answer, _ = message("FetchResponse").decode(
        12, message("FetchResponse").encode(12, {"errorCode": -1}), into=FetchResponse
    )
    assert isinstance(answer.error, UnknownServer)


def test_an_error_is_dropped_where_the_schema_says_that_it_may_be() -> None:
    data = message("FetchResponse").encode(6, FetchResponse(error=NotLeaderOrFollower("no")))
    assert data == message("FetchResponse").encode(6, {})


def test_a_request_refused_as_a_whole_says_so_in_its_response() -> None:
    error = NotLeaderOrFollower("elsewhere")
    assert FetchRequest().refused(error) == FetchResponse(error=error)
