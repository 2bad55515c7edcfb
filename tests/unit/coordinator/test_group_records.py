"""Records of groups read as they were written; what cannot be one is a typed error."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.records import (
    Committed,
    GroupChange,
    OffsetChange,
    StoredGroup,
    StoredMember,
    decode,
    group_record,
    offset_record,
    record_type,
    subscribed_topics,
)
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.schema import message
from pylog.record import TopicPartition

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, st.integers(0, 9), INT32, st.binary(), st.binary()
)
GROUPS = st.builds(StoredGroup, TEXT, INT32, st.none() | TEXT, st.none() | TEXT, INT64, st.lists(MEMBERS).map(tuple))
COMMITTED = st.builds(Committed, INT64, INT32, TEXT, INT64, st.just(-1), st.uuids())
AT = TopicPartition("t", 3)


@given(TEXT, TEXT, INT32, st.none() | COMMITTED)
def test_an_offset_reads_as_it_was_written(group: str, topic: str, partition: int, committed: Committed | None) -> None:
    at = TopicPartition(topic, partition)
    assert decode(offset_record(group, at, committed)) == OffsetChange(group, at, committed)


@given(TEXT, st.none() | GROUPS)
def test_a_group_reads_as_it_was_written(group: str, stored: StoredGroup | None) -> None:
    assert decode(group_record(group, stored)) == GroupChange(group, stored)


def test_an_offset_with_a_time_of_expiry_is_written_in_the_version_that_has_one() -> None:
    record = offset_record("g", AT, Committed(1, 2, "m", 3, expire_ms=4))
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert decode(record) == OffsetChange("g", AT, Committed(1, -1, "m", 3, expire_ms=4))


def test_an_offset_of_the_first_kind_reads_like_one_of_the_second() -> None:
    record = offset_record("g", AT, Committed(1, 2, "m", 3))
    assert decode(LogRecord(b"\0\0" + record.key[2:], record.value)) == decode(record)


def test_a_member_of_version_0_has_one_timeout_for_both() -> None:
    member = {"memberId": "m", "clientId": "c", "clientHost": "h", "sessionTimeout": 7}
    member |= {"subscription": b"", "assignment": b""}
    value = {"protocolType": "p", "generation": 1, "protocol": "q", "leader": "m", "members": [member]}
    data = bytes(2) + message("GroupMetadataValue").encode(0, value)
    change = decode(LogRecord(group_record("g", None).key, data))
    assert isinstance(change, GroupChange)
    assert change.stored is not None
    assert change.stored.state_ms == -1
    assert change.stored.members[0][4:6] == (7, 7)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"", None, CorruptBatch),
        (b"\0", None, CorruptBatch),
        (b"\0\1\0", None, CorruptBatch),
        (b"\0\2\0\5g", None, CorruptBatch),
        (b"\0\11\0\1g", None, UnsupportedFormat),
        (group_record("g", None).key, b"\0", CorruptBatch),
        (group_record("g", None).key, b"\0\3\0", CorruptBatch),
        (group_record("g", None).key, b"\0\77", UnsupportedFormat),
        (offset_record("g", AT, None).key, b"", CorruptBatch),
        (offset_record("g", AT, None).key, b"\0\4\0", CorruptBatch),
    ],
)
def test_bytes_that_are_no_record_are_a_typed_error(key: bytes, value: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode(LogRecord(key, value))


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60), st.sampled_from([0, 1, 2, 3]))
def test_any_bytes_are_a_record_or_a_typed_error(key: bytes, value: bytes | None, kind: int) -> None:
    for record in (LogRecord(key, value), LogRecord(kind.to_bytes(2, "big") + key, value)):
        with contextlib.suppress(CorruptBatch, UnsupportedFormat):
            decode(record)


def test_a_value_that_does_not_fit_is_refused_when_it_is_written() -> None:
    with pytest.raises(ValueError, match="partition"):
        offset_record("g", TopicPartition("t", 2**31), None)
    assert record_type(offset_record("g", AT, None)) == 1


def subscription(version: int, **fields: Any) -> bytes:
    return version.to_bytes(2, "big") + message("ConsumerProtocolSubscription").encode(version, fields)


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription(0, topics=["a", "b"], userData=None), {"a", "b"}),
        (subscription(3, topics=["a"], userData=b"x", ownedPartitions=[], generationId=1, rackId="r"), {"a"}),
        (subscription(0, topics=[], userData=None), set()),
        (b"", None),
        (b"\0", None),
        (b"\xff\xff\0\0\0\0", None),
        (b"\0\0\0\0\0\7a", None),
    ],
)
def test_a_subscription_names_its_topics_in_every_version(metadata: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(metadata) == topics
