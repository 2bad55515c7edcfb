"""What a leader lets into its log and what it changes on the way, and what a follower takes from a leader."""

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    PylogError,
    RecordError,
    RecordTooLarge,
    UnsupportedCompressionType,
    UnsupportedFormat,
)
from pylog.kernel import OpenBatch, Record
from pylog.protocol.batch import Batch, Origin, encode
from pylog.protocol.compression import Codec, compress, packer
from pylog.storage.validator import follower_spans, gives_append_time, leader_batch
from support.leader_appends import leader_batches

NOW = 1_700_000_000_000
HOUR = 3_600_000
APPEND_TIME = "LogAppendTime"


def batch(*records: Record, codec: Codec = Codec.NONE, control: bool = False) -> Batch:
    return encode(records or [Record(b"v", b"k", NOW)], now_ms=NOW, codec=codec, control=control)


def config(**overrides: object) -> TopicConfig:
    return TopicConfig.loaded({name.replace("_", "."): str(value) for name, value in overrides.items()})


def contents(checked: Batch) -> list[tuple[object, ...]]:
    return [(r.value, r.key, r.timestamp, r.headers) for r in checked.records("", -1)]


FIELDS = {
    "base_offset": (">q", 0), "attributes": (">h", 21), "last_offset_delta": (">i", 23), "base_timestamp": (">q", 27),
    "max_timestamp": (">q", 35), "producer_id": (">q", 43), "producer_epoch": (">h", 51), "base_sequence": (">i", 53),
    "count": (">i", 57),
}  # fmt: skip


def sent(given: Batch, **fields: int) -> bytes:
    """The bytes of a batch whose header says something else, with a CRC that is right again."""
    data = bytearray(given.data)
    for name, value in fields.items():
        form, at = FIELDS[name]
        struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def stamped(given: Batch, topic: TopicConfig, now_ms: int) -> Batch:
    """A batch as an append has it, which gives LogAppendTime last."""
    found = leader_batch(given, topic, now_ms)
    assert gives_append_time(topic, Origin.CLIENT)
    found.stamp_append_time(now_ms)
    return found


def checked_by(given: Batch, topic: TopicConfig, **fields: int) -> Batch:
    (found,) = leader_batches(sent(given, **fields), topic, NOW)
    found.check()
    return found


# --- what is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_goes_through_untouched(codec: Codec) -> None:
    given = batch(codec=codec)
    before = bytes(given.data)
    assert leader_batch(given, config(), NOW) is given and bytes(given.data) == before
    (foreign,) = leader_batches(before, config(), NOW)
    assert bytes(foreign.data) == before and foreign.trusted
    (stamped_later,) = leader_batches(before, config(message_timestamp_type=APPEND_TIME), NOW)
    assert not stamped_later.trusted


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_codec_is_used_and_the_records_stay(codec: Codec, target: str) -> None:
    records = [Record(b"x" * 50, b"k", NOW - 5, [("h", None)]), Record(None, None, NOW, ()), Record(b"", b"", 3)]
    given = batch(*records, codec=codec)
    checked = leader_batch(given, config(compression_type=target), NOW)
    wanted = Codec.NONE if target == "uncompressed" else Codec.parse(target)
    assert checked.codec is wanted and (checked is given) == (codec is wanted)
    checked.check()
    assert contents(checked) == contents(batch(*records))


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -5, 19)])
def test_a_level_counts_where_a_batch_is_recompressed_and_never_makes_it_so(name: str, low: int, high: int) -> None:
    records = [Record(b"%d squared is %d; " % (i, i * i) * 9) for i in range(300)]
    topics = [config(**{"compression_type": name, f"compression_{name}_level": level}) for level in (low, high)]
    small, large = (leader_batch(batch(*records), topic, NOW) for topic in reversed(topics))
    assert small.size < large.size and contents(small) == contents(large)
    for topic in topics:
        assert leader_batch(small, topic, NOW) is small and leader_batch(large, topic, NOW) is large


def test_recompression_keeps_the_producers_numbers() -> None:
    given = encode(
        [Record(b"a"), Record(b"b")], now_ms=NOW, producer_id=7, producer_epoch=3, base_sequence=2**31 - 1,
        transactional=True,
    )  # fmt: skip
    found = leader_batch(given, config(compression_type="zstd"), NOW)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 3, 2**31 - 1)
    assert found.is_transactional and found is not given


@pytest.mark.parametrize("target", ["producer", "zstd"])
def test_log_append_time_replaces_the_time_of_every_record(target: str) -> None:
    given = batch(Record(b"a", timestamp=1), Record(b"b", timestamp=NOW + 100 * HOUR))
    topic = config(message_timestamp_type=APPEND_TIME, compression_type=target)
    for checked in (checked_by(given, topic), stamped(given, topic, NOW)):
        checked.check()
        assert (checked.append_timestamp, checked.max_timestamp) == (NOW, NOW)
        assert [record.timestamp for record in checked.records("", -1)] == [NOW, NOW]
        assert checked.base_timestamp == 1


def test_a_max_timestamp_that_lies_is_put_right() -> None:
    given = batch(Record(b"a", timestamp=NOW - 7), Record(b"b", timestamp=NOW - 9))
    for lie in (-1, 0, NOW, NOW + 100 * HOUR):
        found = checked_by(given, config(), max_timestamp=lie)
        assert bytes(found.data) == bytes(given.data)
    none = batch(Record(b"a", timestamp=-1))
    assert checked_by(none, config(), max_timestamp=NOW).max_timestamp == -1


def test_append_time_that_a_client_claims_is_reset_on_a_create_time_topic() -> None:
    given = batch(Record(b"a", timestamp=NOW - 7), Record(b"b", timestamp=NOW - 9))
    found = checked_by(given, config(), attributes=0x08)
    assert bytes(found.data) == bytes(given.data)


def test_unused_bits_of_the_attributes_and_a_delete_horizon_stay() -> None:
    given = batch()
    for attributes in (0x0100, 0x0080, 0x7F80, 0x0040):
        assert checked_by(given, config(), attributes=attributes).attributes == attributes


def test_a_producer_epoch_of_none_and_a_sequence_without_producer_are_let_in() -> None:
    given = batch()
    assert checked_by(given, config(), producer_id=7, base_sequence=0).producer_epoch == -1
    assert checked_by(given, config(), base_sequence=4).base_sequence == 4


def test_old_records_are_welcome_unless_the_topic_says_otherwise() -> None:
    given = batch(Record(b"1970", timestamp=0))
    assert leader_batch(given, config(), NOW) is given
    limited = config(message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        leader_batch(given, limited, NOW)


@pytest.mark.parametrize("kind", ["CreateTime", APPEND_TIME])
def test_records_from_before_1970_are_stored_as_they_are(kind: str) -> None:
    given = sent(batch(Record(b"a", timestamp=9), Record(b"b", timestamp=10)), base_timestamp=-20, max_timestamp=-19)
    (found,) = leader_batches(given, config(message_timestamp_type=kind), NOW)
    assert (found.base_timestamp, bytes(found.data[61:])) == (-20, given[61:])
    assert found.max_timestamp == (-1 if kind == "CreateTime" else NOW), "Kafka's largest time is not below -1"


def test_the_bounds_of_a_timestamp_are_in_and_no_timestamp_is_in() -> None:
    topic = config(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    good = batch(*(Record(b"v", timestamp=t) for t in (NOW - 1000, NOW + 500, -1)))
    assert leader_batch(good, topic, NOW) is good
    assert checked_by(good, topic).count == 3
    for bad in (NOW - 1001, NOW + 501):
        with pytest.raises(InvalidTimestamp):
            leader_batch(batch(Record(b"v", timestamp=bad)), topic, NOW)


@pytest.mark.parametrize("size", [0, 1, 11, 12, 17, 60, 68])
def test_bytes_without_a_whole_batch_are_no_batch(size: int) -> None:
    data = bytes(batch().data)
    assert len(data) > size
    assert leader_batches(data[:size], config(), NOW) == [] == follower_spans(data[:size])
    assert len(leader_batches(data + data[:size], config(), NOW)) == len(follower_spans(data + data[:size])) == 1


def test_an_append_that_failed_can_be_tried_again_with_the_same_batch() -> None:
    given = batch(Record(b"a", timestamp=NOW - 7), Record(b"b", timestamp=NOW - 9))
    untouched = bytes(given.data)
    topic = config(message_timestamp_type=APPEND_TIME)
    stamped(given, topic, NOW).stamp(50, 3)
    assert stamped(given, topic, NOW + 1).append_timestamp == NOW + 1
    again = leader_batch(given, config(), NOW)
    again.stamp(0, -1)
    assert bytes(again.data) == untouched


# --- what is refused --------------------------------------------------------------------------------------------------

TWO = batch(Record(b"a", b"k", NOW), Record(b"b", b"k", NOW))


@pytest.mark.parametrize(
    ("data", "topic", "error", "words"),
    [
        (sent(batch(Record(b"x" * 500))), config(max_message_bytes=300), RecordTooLarge, r"max\.message\.bytes=300"),
        (sent(batch(control=True)), config(), InvalidRecord, "control"),
        (sent(TWO, count=0), config(), InvalidRecord, "0 records"),
        (sent(TWO, last_offset_delta=7), config(), InvalidRecord, "delta 7"),
        (sent(TWO, count=3, last_offset_delta=2), config(), InvalidRecord, "cannot be read"),
        (sent(TWO, base_offset=5), config(), InvalidRecord, "base offset 5"),
        (sent(TWO, producer_id=9, producer_epoch=0), config(), InvalidRecord, "producer 9 .* sequence -1"),
        (sent(TWO, attributes=6), config(), UnsupportedCompressionType, "codec 6"),
        (sent(TWO, attributes=3), config(), InvalidRecord, "lz4 payload"),
        (sent(TWO, attributes=8), config(message_timestamp_type=APPEND_TIME), InvalidTimestamp, "record 1: .* claims"),
        (sent(TWO, attributes=8, max_timestamp=-1), config(), InvalidTimestamp, "2 of 2 .* claims"),
        (
            sent(TWO, base_timestamp=-2), config(compression_type="gzip"), InvalidTimestamp,
            r"record 0: its timestamp -2 is not in \[0, ",
        ),
        (sent(TWO) + sent(TWO), config(), InvalidRecord, "2 batches"),
        (sent(TWO)[:-1] + b"\xff", config(), CorruptRecord, "CRC"),
        (sent(TWO) + bytes(20), config(), CorruptRecord, "position 79"),
        (sent(TWO, last_offset_delta=-1), config(), InvalidRecord, "offset delta -1"),
        (sent(TWO)[:16] + b"\x01" + sent(TWO)[17:], config(), UnsupportedFormat, "magic 1"),
    ],
)  # fmt: skip
def test_foreign_bytes_that_are_refused(data: bytes, topic: TopicConfig, error: type[PylogError], words: str) -> None:
    with pytest.raises(error, match=words):
        leader_batches(data, topic, NOW)


@pytest.mark.parametrize(
    ("given", "topic", "error", "words"),
    [
        (batch(Record(b"x" * 500)), config(max_message_bytes=300), RecordTooLarge, r"max\.message\.bytes=300"),
        (batch(control=True), config(), InvalidRecord, "control"),
        (batch(Record(b"v", None)), config(cleanup_policy="compact"), InvalidRecord, "record 0: .* no key"),
        (batch(Record(b"v", timestamp=NOW + 2 * HOUR)), config(), InvalidTimestamp, r"message\.timestamp\.after"),
        (
            batch(Record(b"new", timestamp=NOW), Record(b"old", timestamp=NOW - 1001)),
            config(message_timestamp_before_max_ms=1000), InvalidTimestamp, "1 of 2 .* record 1",
        ),
    ],
)  # fmt: skip
def test_batches_of_our_own_that_are_refused(
    given: Batch, topic: TopicConfig, error: type[PylogError], words: str
) -> None:
    before = bytes(given.data)
    with pytest.raises(error, match=words):
        leader_batch(given, topic, NOW)
    assert bytes(given.data) == before


def test_the_size_is_looked_at_again_after_recompression() -> None:
    given = batch(Record(b"x" * 5000), codec=Codec.ZSTD)
    assert given.size < 1000
    with pytest.raises(RecordTooLarge, match=r"a batch of 50\d\d bytes"):
        leader_batch(given, config(max_message_bytes=1000, compression_type="uncompressed"), NOW)


def in_tiny_blocks(given: Batch) -> bytes:
    """The batch as snappy whose blocks have a byte each."""
    blocks = b"".join(b"\0\0\0\3\1\0" + bytes([byte]) for byte in given.payload())
    data = given.data[:61] + compress(Codec.SNAPPY, b"")[:16] + blocks
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    return sent(Batch(data), attributes=Codec.SNAPPY)


def test_a_record_in_many_blocks_is_recompressed() -> None:
    given = batch(Record(b"first"), Record(bytes(1000)), Record(b"last"))
    (checked,) = leader_batches(in_tiny_blocks(given), config(compression_type="lz4"), NOW)
    assert checked.codec is Codec.LZ4 and contents(checked) == contents(given)


@pytest.mark.parametrize("of_our_own", [True, False])
def test_the_error_lists_every_bad_record(of_our_own: bool) -> None:
    given = batch(
        Record(b"good", b"k"), Record(b"no key"), Record(b"late", b"k", NOW + 2 * HOUR), Record(b"no key", None, 3),
        Record(b"good", b"k", -1), Record(b"late", b"k", NOW + 3 * HOUR),
    )  # fmt: skip
    topic = config(cleanup_policy="compact")
    with pytest.raises(InvalidTimestamp) as caught:
        leader_batch(given if of_our_own else Batch(sent(given)), topic, NOW)
    assert [error.index for error in caught.value.record_errors] == [1, 2, 3, 5]
    assert all(isinstance(error, RecordError) and error.message for error in caught.value.record_errors)
    assert "4 of 6" in str(caught.value) and "record 5" not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.record_errors == caught.value.record_errors


def test_keys_are_asked_for_alone_where_timestamps_are_good() -> None:
    given = batch(Record(b"good", b"k"), Record(b"no key"))
    with pytest.raises(InvalidRecord) as caught:
        leader_batch(given, config(cleanup_policy="compact,delete"), NOW)
    assert [error.index for error in caught.value.record_errors] == [1]


def deltas(*numbers: int) -> bytes:
    """A batch of records with these offset deltas."""
    given = batch(*(Record(b"v") for _ in numbers))
    data = bytearray(given.data)
    for index, number in enumerate(numbers):
        data[61 + 8 * index + 3] = number << 1
    return sent(Batch(data))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("numbers", [(0, 0), (1, 0), (0, 2), (1, 2)])
def test_misnumbered_records_are_refused_in_every_codec(codec: Codec, numbers: tuple[int, ...]) -> None:
    data = bytearray(deltas(*numbers))
    if codec is not Codec.NONE:
        packed = compress(codec, data[61:])
        data[61:] = packed
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidRecord, match="offset"):
        leader_batches(sent(Batch(data), attributes=codec), config(), NOW)


# --- other origins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["producer", "zstd"])
def test_a_coordinators_control_batch_is_let_in_and_never_compressed(codec: str) -> None:
    topic = config(compression_type=codec, cleanup_policy="compact")
    marker = batch(Record(b"\0\0\0\0\0\1", b"\0\0\0\1"), control=True)
    before = bytes(marker.data)
    assert leader_batch(marker, topic, NOW, origin=Origin.COORDINATOR) is marker and bytes(marker.data) == before
    (found,) = leader_batches(before, topic, NOW, origin=Origin.COORDINATOR)
    assert bytes(found.data) == before


def test_records_of_a_coordinator_are_checked_without_a_sequence() -> None:
    data = sent(TWO, producer_id=9, producer_epoch=0)
    assert len(leader_batches(data, config(), NOW, origin=Origin.COORDINATOR)) == 1
    with pytest.raises(InvalidRecord, match="no key"):
        leader_batch(batch(Record(b"v")), config(cleanup_policy="compact"), NOW, origin=Origin.COORDINATOR)
    with pytest.raises(InvalidRecord, match="2 batches"):
        leader_batches(data + data, config(), NOW, origin=Origin.COORDINATOR)


@pytest.mark.parametrize("origin", [Origin.RAFT_LEADER, Origin.REPLICATION])
def test_batches_of_a_raft_leader_or_a_replica_are_taken_as_they_are(origin: Origin) -> None:
    topic = config(max_message_bytes=1, compression_type="zstd", cleanup_policy="compact")
    data = sent(batch(control=True), base_offset=3) + sent(batch(Record(b"v", timestamp=NOW + 9 * HOUR)), base_offset=9)
    found = leader_batches(data, topic, NOW, origin=origin)
    assert b"".join(bytes(each.data) for each in found) == data
    with pytest.raises(CorruptRecord, match="CRC"):
        leader_batches(data[:-1] + b"\xff", topic, NOW, origin=origin)


# --- follower ---------------------------------------------------------------------------------------------------------


def test_a_follower_takes_batches_with_gaps_and_drops_a_partial_one() -> None:
    data = sent(TWO, base_offset=3) + sent(TWO, base_offset=9, last_offset_delta=40) + sent(TWO, base_offset=50)
    spans = follower_spans(data + data[:70])
    assert [(span.base_offset, span.last_offset) for span in spans] == [(3, 4), (9, 49), (50, 51)]
    assert [span.position for span in spans] == [0, 79, 158]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (sent(TWO) + sent(TWO, base_offset=2)[:-1] + b"\xff", CorruptBatch, "position 79: the CRC"),
        (sent(TWO, base_offset=5) + sent(TWO, base_offset=6), CorruptBatch, "position 79, offset 6: .* follows 6"),
        (sent(TWO, base_offset=5) + sent(TWO, base_offset=3), CorruptBatch, "do not rise"),
        (sent(TWO, attributes=5), CorruptBatch, "codec 5"),
        (sent(TWO, base_offset=-1), CorruptBatch, "base offset -1"),
        (sent(TWO) + bytes(100), CorruptBatch, "position 79: a batch length of 0"),
        (sent(TWO)[:16] + b"\x00" + sent(TWO)[17:], UnsupportedFormat, "magic 0"),
    ],
)
def test_a_follower_refuses_bad_batches(data: bytes, error: type[PylogError], words: str) -> None:
    with pytest.raises(error, match=words):
        follower_spans(data)


# --- which fault is told ----------------------------------------------------------------------------------------------

SMALL = {"max.message.bytes": "300", "cleanup.policy": "compact", "compression.type": "gzip"}
LATE = NOW + 2 * HOUR
FAULTS: dict[str, tuple[type[PylogError], dict[str, Any]]] = {
    "a base offset": (InvalidRecord, {"base_offset": 7}),
    "too large": (RecordTooLarge, {"rows": [Record(os.urandom(400), b"k", NOW)]}),
    "the CRC": (CorruptRecord, {"crc": True}),
    "a codec there is not": (UnsupportedCompressionType, {"attributes": 7}),
    "offsets that end early": (InvalidRecord, {"last_offset_delta": 7}),
    "a control batch": (InvalidRecord, {"attributes": 32}),
    "no sequence": (InvalidRecord, {"producer_id": 9}),
    "several batches": (InvalidRecord, {"copies": 2}),
    "a record that cannot be read": (InvalidRecord, {"cut": True}),
    "a time that is late": (InvalidTimestamp, {"rows": [Record(b"v", b"k", LATE)]}),
    "no key": (InvalidRecord, {"rows": [Record(b"v", None, NOW)]}),
}
"""In the order in which Kafka's leader looks, of two batches first at the bytes of each. (UnifiedLog.append,
analyzeAndValidateRecords, LogValidator.)
"""
ORDER = [
    "a base offset", "too large", "the CRC", "a codec there is not", "several batches", "offsets that end early",
    "a control batch", "no sequence", "a record that cannot be read", "a time that is late", "no key",
]  # fmt: skip


def faulty(*names: str) -> bytes:
    """What a client sends that has all these faults."""
    wants: dict[str, Any] = {"attributes": 0, "rows": []}
    for name in names:
        for field, value in FAULTS[name][1].items():
            wants[field] = wants[field] + value if field in ("attributes", "rows") else value
    rows = wants.pop("rows") or [Record(b"v", b"k", NOW)]
    copies, is_cut, is_damaged = wants.pop("copies", 1), wants.pop("cut", False), wants.pop("crc", False)
    wants.setdefault("last_offset_delta", len(rows) - 1)
    data = bytearray(sent(batch(*rows), **wants))
    if is_cut:
        data[-1] ^= 0x40  # how many headers the last record has
        data = bytearray(sent(Batch(bytes(data))))
    if is_damaged:
        data[17] ^= 1
    return bytes(data) * copies


def told(data: bytes, topic: TopicConfig) -> type[PylogError] | None:
    try:
        leader_batches(data, topic, NOW)
    except PylogError as error:
        return type(error)
    return None


@pytest.mark.parametrize("first", ORDER)
def test_of_two_faults_the_one_is_told_that_kafka_tells(first: str) -> None:
    topic = TopicConfig.loaded(SMALL)
    assert told(faulty(), topic) is None
    assert told(faulty(first), topic) is FAULTS[first][0]
    for second in ORDER[ORDER.index(first) + 1 :]:
        wanted = FAULTS[first][0]
        if {first, second} == {"a time that is late", "no key"}:
            wanted = InvalidTimestamp  # one record of each: a time that is wrong names the batch
        assert told(faulty(first, second), topic) is wanted, (first, second)


def test_a_batch_that_is_too_large_is_told_whatever_else_lies_behind_it() -> None:
    topic, good, large = TopicConfig.loaded(SMALL), faulty(), faulty("too large")
    for others in ([good, large], [large, good], [good, large, faulty("the CRC")], [large, good[:30] + bytes(40)]):
        assert told(b"".join(others), topic) is RecordTooLarge
    assert told(faulty("the CRC") + large, topic) is CorruptRecord
    assert told(faulty("a base offset") + large, topic) is InvalidRecord
    assert told(good + good[:16] + b"\x07" + good[17:], topic) is CorruptRecord


# --- memory -----------------------------------------------------------------------------------------------------------

MIB = 1 << 20
BOMB = """
import resource, sys
from pylog.protocol.batch import Batch
from pylog.config import TopicConfig
from pylog.errors import InvalidRecord
from pylog.storage.validator import leader_batch

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10

before = peak()
for path, target in zip(sys.argv[1::2], sys.argv[2::2]):
    data = open(path, "rb").read()
    topic = TopicConfig.loaded({"compression.type": target, "max.message.bytes": str(1 << 21)})
    try:
        leader_batch(Batch(data), topic, 5)
        print("taken")
    except InvalidRecord as error:
        print("refused" if "is not in [0, " in str(error) else error)
print(peak() - before)
"""
BOMBS = [
    (Codec.GZIP, "producer", 100_000, 300, "taken"),
    (Codec.SNAPPY, "producer", 30_000, 1000, "taken"),
    (Codec.LZ4, "producer", 100_000, 300, "taken"),
    (Codec.ZSTD, "producer", 1000, 30_000, "taken"),
    (Codec.ZSTD, "gzip", 20_000, 1500, "taken"),
    (Codec.ZSTD, "producer", 40 * MIB, 1, "refused"),
    (Codec.GZIP, "producer", 40 * MIB, 1, "refused"),
]
"""The codec, the topic's, the size and the number of the records, all zeros, and what becomes of them."""


def zeros(codec: Codec, size: int, count: int) -> Batch:
    """A batch of so many records of zeros, the bytes of which are made as they are packed."""
    pack = packer(codec)
    stream, packed = OpenBatch(2**31 - 1, 0), bytearray(61)
    for _ in range(count):
        stream.add(bytes(size), b"k", 5)
        if stream.size > MIB:
            packed += pack.compress(stream.drain())
    packed += bytes(pack.compress(stream.drain())) + bytes(pack.flush())
    return Batch.begun(packed, count, 5, 5, codec)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc to say how much memory is used")
def test_a_batch_that_grows_far_is_never_held_whole(tmp_path: Path) -> None:
    arguments: list[str] = []
    for number, (codec, target, size, count, _) in enumerate(BOMBS):
        file = tmp_path / str(number)
        file.write_bytes(zeros(codec, size, count).data)
        assert file.stat().st_size < 2 * MIB
        arguments += str(file), target
    ran = subprocess.run([sys.executable, "-c", BOMB, *arguments], capture_output=True, text=True, check=True)
    *outcomes, grown = ran.stdout.splitlines()
    assert outcomes == [said for *_, said in BOMBS]
    assert int(grown) < 16, "MiB: a piece, the batch, the codec's window and its tables"


def test_no_more_than_a_thousand_bad_records_are_told_one_by_one() -> None:
    rows = [Record(b"v", None, NOW)] * 1200
    with pytest.raises(InvalidRecord, match="1200 of 1200") as caught:
        leader_batches(sent(batch(*rows)), config(cleanup_policy="compact"), NOW)
    assert [error.index for error in caught.value.record_errors] == list(range(1000))


def test_a_record_is_as_large_as_the_topic_lets_it_be() -> None:
    data = sent(batch(Record(bytes(5000), b"k", NOW), codec=Codec.ZSTD))
    for limits in ({"max_message_bytes": 300}, {"pylog_max_record_bytes": 5016}):
        assert leader_batches(data, config(**limits), NOW)
    for limits in ({"pylog_max_record_bytes": 5000}, {"pylog_max_record_bytes": 0}):
        with pytest.raises(InvalidRecord, match=r"a record of 50\d\d bytes is not in"):
            leader_batches(data, config(**limits), NOW)


def test_a_small_batch_is_told_by_what_is_stored_of_it() -> None:
    data, small = sent(batch(Record(bytes(20_000), b"k", NOW), codec=Codec.LZ4)), {"max_message_bytes": 1000}

    (stored,) = leader_batches(data, config(compression_type="gzip", **small), NOW)

    assert stored.codec is Codec.GZIP and stored.size < 1000
    with pytest.raises(RecordTooLarge, match=r"over the topic's max\.message\.bytes=1000"):
        leader_batches(data, config(compression_type="uncompressed", **small), NOW)


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_batch_of_many_pieces_is_recompressed_record_for_record(target: str) -> None:
    rows = [Record(bytes([i % 7]) * (i * 9), b"k" if i % 3 else None, NOW + i % 5, [("h", b"x")]) for i in range(600)]
    given = batch(*rows, codec=Codec.SNAPPY if target == "zstd" else Codec.ZSTD)
    (made,) = leader_batches(sent(given), config(compression_type=target, max_message_bytes=2 * MIB), NOW)
    made.check()
    assert contents(made) == contents(given) and [r.offset for r in made.records("", -1)] == list(range(600))
    assert made.codec is (Codec.NONE if target == "uncompressed" else Codec.parse(target))
    assert (made.base_timestamp, made.max_timestamp) == (NOW, NOW + 4)
    limited = config(compression_type=target, max_message_bytes=max(given.size, made.size - 1))
    if made.size > given.size:
        with pytest.raises(RecordTooLarge, match=f"a batch of {made.size} bytes|over the topic's"):
            leader_batches(sent(given), limited, NOW)


def test_a_header_that_cannot_be_is_refused_from_a_replica_too() -> None:
    with pytest.raises(CorruptRecord, match="3 records are impossible"):
        leader_batches(sent(TWO, count=3), config(), NOW, origin=Origin.REPLICATION)
