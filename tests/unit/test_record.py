"""The values a user holds: types are checked where a record is made, everything compares and pickles."""

import pickle

import pytest

from pylog.kernel import BatchScope, pure
from pylog.record import ConsumerRecord, Header, OffsetAndTimestamp, Record, RecordMetadata, TopicPartition


def test_defaults():
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
def test_where_a_record_landed(kind):
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
