"""The values a user holds: types are checked where a record is made, everything compares and pickles."""

import pickle

import pytest

from pylog.kernel import BatchScope, pure
from pylog.record import ConsumerRecord, Header, OffsetAndTimestamp, Record, RecordMetadata, TopicPartition


def test_records_have_the_documented_defaults():
    record = Record(b"value")
    assert (record.value, record.key, record.timestamp, record.headers) == (b"value", None, None, ())


def test_headers_become_a_tuple_of_headers():
    record = Record(None, b"", 5, [("a", b"1"), ("a", None)])
    assert record.headers == (Header("a", b"1"), Header("a", None))
    assert record.headers[0].key == "a"
    assert isinstance(record.headers[1], Header)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("text",), "value"),
        ((b"v", 5), "key"),
        ((b"v", None, "now"), "timestamp"),
        ((b"v", None, None, [("a", "text")]), "header"),
        ((b"v", None, None, [(b"a", b"1")]), "header"),
        ((b"v", None, None, ["a"]), "header"),
    ],
)
def test_wrong_types_name_the_field(arguments, field):
    with pytest.raises(TypeError, match=field):
        Record(*arguments)


def test_negative_timestamps_are_refused():
    assert Record(b"v", timestamp=-1).timestamp == -1
    with pytest.raises(ValueError, match="-2"):
        Record(b"v", timestamp=-2)


def test_everything_pickles_and_compares():
    scope = BatchScope("topic", 3, 7, 1)
    values = [
        Record(b"v", b"k", 5, [("a", None)]),
        ConsumerRecord(9, 5, None, b"v", (Header("a", b"1"),), scope),
        TopicPartition("topic", 3),
        RecordMetadata("topic", 3, 9, 5),
        OffsetAndTimestamp(9, 5, 7),
    ]
    for value in values:
        again = pickle.loads(pickle.dumps(value))
        assert again == value
        assert hash(again) == hash(value)
        assert repr(again) == repr(value)
    assert Record(b"v") != Record(b"w")
    assert Record(b"v") != ConsumerRecord(0, 0, None, b"v", (), scope)


def test_a_consumer_record_knows_its_partition():
    record = ConsumerRecord(9, 5, None, b"v", (), BatchScope("topic", 3, 7, 1))
    assert (record.topic, record.partition, record.leader_epoch, record.timestamp_type) == ("topic", 3, 7, 1)


@pytest.mark.parametrize("kind", [RecordMetadata, pure.RecordMetadata])
def test_record_metadata_names_the_place_of_a_record(kind):
    landed = kind("topic", 3, -1, 5)
    assert (landed.topic, landed.partition, landed.offset, landed.timestamp) == ("topic", 3, -1, 5)
    assert repr(landed) == "RecordMetadata(topic='topic', partition=3, offset=-1, timestamp=5)"
    assert landed == kind(topic="topic", partition=3, offset=-1, timestamp=5)
    assert landed != kind("topic", 3, 0, 5)
    assert landed != ("topic", 3, -1, 5)
    assert len({landed, kind("topic", 3, -1, 5)}) == 1
    for fields, name in (
        ((b"topic", 3, 0, 5), "topic"), (("topic", None, 0, 5), "partition"), (("topic", 3, 0.5, 5), "offset"),
        (("topic", 3, 0, "now"), "timestamp"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"^{name} is"):
            kind(*fields)


@pytest.mark.parametrize("kind", [RecordMetadata, pure.RecordMetadata])
def test_record_metadata_of_an_impossible_place_is_refused(kind):
    edges = kind("topic", 2**31 - 1, 2**63 - 1, -(2**63))
    assert (edges.partition, edges.offset, edges.timestamp) == (2**31 - 1, 2**63 - 1, -(2**63))
    for fields, said in (
        (("topic", 2**31, 0, 5), "partition 2147483648 does not fit into 32 bits"),
        (("topic", 3, 2**63, 5), "offset 9223372036854775808 does not fit into 64 bits"),
        (("topic", 3, 0, -(2**63) - 1), "timestamp -9223372036854775809 does not fit into 64 bits"),
    ):
        with pytest.raises(ValueError, match=f"^{said}$"):
            kind(*fields)


@pytest.mark.parametrize("kind", [ConsumerRecord, pure.ConsumerRecord])
def test_consumer_records_of_impossible_fields_are_refused(kind):
    scope = BatchScope("topic", 3, 7, 1)
    for offset, timestamp, name in ((2**63, 0, "offset"), (0, 2**63, "timestamp")):
        with pytest.raises(ValueError, match=f"^{name} 9223372036854775808 does not fit into 64 bits$"):
            kind(offset, timestamp, None, b"v", (), scope)
