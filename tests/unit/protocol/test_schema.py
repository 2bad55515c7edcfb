"""The schema codec by itself: known bytes, round trips of every message, and what hostile bytes and wrong values do."""

import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.schema import message, names, read_uvarint, uvarint
from pylog.protocol.schema.runtime import ELEMENTS_MAX
from pylog.protocol.schema.table import Field, load, smallest
from support.schema_values import message_values, same

EVERY = [(name, v) for name in names() for v in range(message(name).versions.low, message(name).versions.high + 1)]

TOPIC_ID = UUID("12345678-9abc-def0-1234-56789abcdef0")


def decoded(name: str, version: int, data: bytes) -> dict[str, Any]:
    value, end = message(name).decode(version, data)
    assert end == len(data)
    return value


# --- known bytes ------------------------------------------------------------------------------------------------------


def test_a_flexible_record_is_encoded_byte_for_byte() -> None:
    data = message("TopicRecord").encode(0, {"name": "clicks", "topicId": TOPIC_ID})
    assert data == b"\x07clicks" + TOPIC_ID.bytes + b"\x00"
    assert decoded("TopicRecord", 0, data) == {"name": "clicks", "topicId": TOPIC_ID}


def test_a_classic_body_is_encoded_byte_for_byte() -> None:
    value = {"group": "g", "topic": "t", "partition": 7}
    data = message("OffsetCommitKey").encode(0, value)
    assert data == b"\x00\x01g\x00\x01t\x00\x00\x00\x07"
    assert decoded("OffsetCommitKey", 0, data) == value


def test_missing_keys_take_the_default() -> None:
    value = decoded("PartitionRecord", 2, message("PartitionRecord").encode(2, {}))
    assert (value["leader"], value["leaderEpoch"], value["topicId"]) == (-1, -1, UUID(int=0))
    assert (value["replicas"], value["eligibleLeaderReplicas"], value["leaderRecoveryState"]) == ([], None, 0)
    assert message("PartitionChangeRecord").defaults["leader"] == -2


def test_tagged_fields_are_written_by_tag_and_only_off_their_default() -> None:
    schema = message("PartitionChangeRecord")
    start = bytes(4) + bytes(16)
    plain = schema.encode(2, {"partitionId": 0, "leader": -2})
    assert plain == start + b"\x00"
    data = schema.encode(2, {"partitionId": 0, "leader": 5, "isr": [], "lastKnownElr": [1]})
    assert data == start + b"\x03" + b"\x00\x01\x01" + b"\x01\x04\x00\x00\x00\x05" + b"\x07\x05\x02\x00\x00\x00\x01"


def test_unknown_tags_are_kept_in_order() -> None:
    schema = message("PartitionChangeRecord")
    data = schema.encode(0, {"leader": 5, "_tags": {0x80: b"new", 6: b""}})
    assert data.endswith(b"\x03" + b"\x01\x04\x00\x00\x00\x05" + b"\x06\x00" + b"\x80\x01\x03new")
    value = decoded("PartitionChangeRecord", 0, data)
    assert value["_tags"] == {6: b"", 0x80: b"new"}
    assert schema.encode(0, value) == data


def test_the_client_id_of_a_header_is_never_compact() -> None:
    data = message("RequestHeader").encode(2, {"clientId": "ab", "requestApiKey": 18})
    assert data == b"\x00\x12" + bytes(6) + b"\x00\x02ab" + b"\x00"


def test_decoded_bytes_are_views_into_the_input() -> None:
    data = bytearray(message("SaslAuthenticateRequest").encode(2, {"authBytes": b"secret"}))
    value, _ = message("SaslAuthenticateRequest").decode(2, data)
    assert isinstance(value["authBytes"], memoryview)
    data[1] = ord("S")
    assert bytes(value["authBytes"]) == b"Secret"


def test_a_nullable_struct_comes_back() -> None:
    schema = message("DescribeTopicPartitionsResponse")
    assert decoded("DescribeTopicPartitionsResponse", 0, schema.encode(0, {}))["nextCursor"] is None
    value = decoded("DescribeTopicPartitionsResponse", 0, schema.encode(0, {"nextCursor": {"topicName": "t"}}))
    assert value["nextCursor"] == {"topicName": "t", "partitionIndex": 0}


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_unsigned_varints_come_back(value: int, data: str) -> None:
    assert uvarint(value).hex() == data
    assert read_uvarint(b"xx" + bytes.fromhex(data), 2) == (value, 2 + len(data) // 2)


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "ffffffff10", "808080808001"])
def test_a_varint_that_never_ends_or_is_too_large_is_refused(data: str) -> None:
    with pytest.raises(CorruptBatch, match="position 0"):
        read_uvarint(bytes.fromhex(data), 0)


# --- every message ----------------------------------------------------------------------------------------------------


@given(st.data())
def test_every_message_comes_back_as_it_was(data: st.DataObject) -> None:
    name, version = data.draw(st.sampled_from(EVERY))
    value = data.draw(message_values(name, version))
    encoded = message(name).encode(version, value)
    back = decoded(name, version, encoded)
    assert same(back, value)
    assert message(name).encode(version, back) == encoded


@given(st.data())
def test_a_cut_or_changed_message_gives_one_kind_of_error(data: st.DataObject) -> None:
    name, version = data.draw(st.sampled_from(EVERY))
    encoded = bytearray(message(name).encode(version, data.draw(message_values(name, version))))
    if not encoded:
        return
    place = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptBatch):
        message(name).decode(version, encoded[:place])
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        _, end = message(name).decode(version, encoded)
    except CorruptBatch as error:
        assert name in str(error)
    else:
        assert end <= len(encoded)


@given(st.sampled_from(EVERY), st.binary(max_size=200))
def test_noise_never_does_more_than_raise(which: tuple[str, int], noise: bytes) -> None:
    try:
        message(which[0]).decode(which[1], noise)
    except CorruptBatch as error:
        assert which[0] in str(error)


def test_every_element_of_an_array_takes_bytes() -> None:
    """So that a count can be checked against the bytes that are left."""

    def check(fields: tuple[Field, ...], version: int, flexible: bool) -> None:
        for field in fields:
            if version in field.versions:
                assert not field.is_array or smallest(field.element, version, flexible) >= 1, field.name
                check(field.fields, version, flexible)

    for name, version in EVERY:
        check(load(name).fields, version, message(name).is_flexible(version))


# --- hostile bytes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        ("MetadataRequest", 0, struct.pack(">i", 2**31 - 1)),  # a count with nothing behind it
        ("MetadataRequest", 0, struct.pack(">i", -1)),  # None where a list must be
        ("MetadataRequest", 1, struct.pack(">i", -2)),
        ("MetadataRequest", 9, b"\xff\xff\xff\xff\x0f" + bytes(10)),
        ("OffsetCommitKey", 0, b"\x7f\xff" + b"x" * 10),  # a string longer than what is left
        ("OffsetCommitKey", 0, b"\xff\xff" + bytes(10)),
        ("OffsetCommitKey", 0, b"\x00\x02\xff\xff\x00\x00\x00\x00\x00\x00"),  # not utf-8
        ("TopicRecord", 0, uvarint(32_769) + bytes(32_768 + 17)),  # a string longer than one may be
        ("TopicRecord", 0, b"\x01" + bytes(16) + b"\xff\xff\xff\xff\x0f"),  # tags without end
        ("TopicRecord", 0, b"\x01" + bytes(16) + b"\x01\x05\x7f"),  # a tag longer than what is left
        ("PartitionChangeRecord", 0, bytes(20) + b"\x01\x01\x05\x00\x00\x00\x05\x00"),  # a known one of a wrong size
    ],
)
def test_hostile_bytes_are_refused(name: str, version: int, data: bytes) -> None:
    with pytest.raises(CorruptBatch, match=f"this is no {name} of version {version}"):
        message(name).decode(version, data)


def test_the_error_says_where() -> None:
    data = message("OffsetCommitKey").encode(0, {"group": "g", "topic": "t"})
    with pytest.raises(CorruptBatch) as caught:
        message("OffsetCommitKey").decode(0, b"....." + data[:2] + b"\xff" + data[3:], 5)
    assert caught.value.position is not None and 5 <= caught.value.position <= 5 + len(data)


HALF = ELEMENTS_MAX // 2 + 1


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        # MetadataRequest 1: the count, then empty names.
        ("MetadataRequest", 1, struct.pack(">i", ELEMENTS_MAX + 1) + b"\0\0" * (ELEMENTS_MAX + 1)),
        # Numbers: a topic without a name, and its partitions.
        ("DescribeProducersRequest", 0, b"\2\1" + uvarint(ELEMENTS_MAX + 1) + bytes(4 * ELEMENTS_MAX + 4) + b"\0\0"),
        # MetadataRequest 12: no topics, two flags, then unknown tags without data.
        ("MetadataRequest", 12, b"\0\0\0" + uvarint(ELEMENTS_MAX + 1) + b"\x05\0" * (ELEMENTS_MAX + 1)),
        # Two lists that are too many elements together.
        ("OffsetFetchRequest", 8, b"\3" + (b"\1\2\1" + uvarint(HALF + 1) + bytes(4 * HALF) + b"\0\0") * 2 + b"\0\0"),
    ],
)  # fmt: skip
def test_a_message_of_too_many_elements_is_refused(name: str, version: int, data: bytes) -> None:
    with pytest.raises(CorruptBatch, match=f"more than {ELEMENTS_MAX} elements"):
        message(name).decode(version, data)


def test_a_message_of_as_many_elements_as_there_may_be_is_decoded() -> None:
    data = struct.pack(">i", ELEMENTS_MAX) + b"\0\0" * ELEMENTS_MAX

    assert len(decoded("MetadataRequest", 1, data)["topics"]) == ELEMENTS_MAX


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [-1, 3, 99])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedFormat, match="PartitionRecord has the versions 0 to 2"):
        message("PartitionRecord").encode(version, {})
    with pytest.raises(UnsupportedFormat, match="PartitionRecord has the versions 0 to 2"):
        message("PartitionRecord").decode(version, b"")


def test_an_unknown_message_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="Nonsense"):
        message("Nonsense")


def test_a_negative_position_is_refused() -> None:
    with pytest.raises(ValueError, match="position"):
        message("TopicRecord").decode(0, bytes(40), -1)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"name": None}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x" * 32768}, "name"),
        ({"topicId": b"short"}, "topicId"),
        ({"topicID": TOPIC_ID}, "topicID"),
        ([], "as a whole"),
    ],
)
def test_a_value_that_does_not_fit_is_named(value: Any, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        message("TopicRecord").encode(0, value)


def test_a_large_message_has_the_same_pieces() -> None:
    parts = [{"partitionIndex": number, "records": b"r" * number} for number in range(3)]
    schema, value = message("FetchResponse"), {"responses": [{"topic": "t", "partitions": parts}]}
    assert schema.encode_pieces(12, value, is_large=True) == schema.encode_pieces(12, value)


def test_a_large_message_takes_no_object_for_each_field() -> None:
    groups = [{"groupId": f"g{number}", "errorCode": 69} for number in range(2000)]
    schema = message("DescribeGroupsResponse")
    schema.encode(6, {})
    tracemalloc.start()
    try:
        (data,) = schema.encode_pieces(6, {"groups": groups}, is_large=True)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data)
    finally:
        tracemalloc.stop()
    assert data == schema.encode(6, {"groups": groups})


def test_a_misfit_deep_inside_is_named() -> None:
    topics = [{"name": "a"}, {"name": "b", "partitions": [{"partitionIndex": 2**31}]}]
    with pytest.raises(ValueError, match=r"topics\[1\].partitions\[0\].partitionIndex"):
        message("ListOffsetsRequest").encode(1, {"topics": topics})


def test_a_field_that_a_version_lacks_is_refused() -> None:
    """Harmless where it is at its default or Kafka calls it ignorable; an error where something would be lost."""
    schema = message("PartitionRecord")
    plain = schema.encode(0, {})
    assert schema.encode(0, {"directories": [], "eligibleLeaderReplicas": None}) == plain
    with pytest.raises(UnsupportedFormat, match="directories"):
        schema.encode(0, {"directories": [TOPIC_ID]})
    # Kafka: ThrottleTimeMs of ListOffsetsResponse is ignorable.
    schema = message("ListOffsetsResponse")
    assert schema.encode(1, {"throttleTimeMs": 5}) == schema.encode(1, {})
    with pytest.raises(UnsupportedFormat, match="tagged"):
        schema.encode(1, {"_tags": {1: b"x"}})


def test_a_missing_struct_that_is_not_nullable_is_refused() -> None:
    with pytest.raises(ValueError, match="clusterId"):
        message("QuorumStateData").encode(0, {"clusterId": None})
