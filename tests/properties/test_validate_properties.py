"""What holds for every batch that a leader lets in, whoever made its bytes and whatever the topic wants."""

import struct
from collections.abc import Callable
from dataclasses import replace

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.commitlog.plain_rules import plain_rules
from pylog.config import TopicConfig
from pylog.errors import PylogError
from pylog.kernel import NAME, prove_header
from pylog.protocol.batch import Batch, Origin, encode
from pylog.protocol.compression import Codec
from pylog.storage.validator import follower_spans, gives_append_time, leader_batch
from support.leader_appends import leader_batches

NOW = 1_700_000_000_000

Rows = list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]

blobs = st.none() | st.binary(max_size=40)
timestamps = st.just(-1) | st.integers(0, 2 * NOW) | st.integers(NOW - 10_000, NOW + 10_000)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3)
rows = st.lists(st.tuples(blobs, blobs, timestamps, headers), min_size=1, max_size=20)


@st.composite
def topics(draw: st.DrawFn) -> TopicConfig:
    """What a topic may want of its batches."""
    codecs = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
    wants = {
        "message.timestamp.type": draw(st.sampled_from(["CreateTime", "LogAppendTime"])),
        "compression.type": draw(st.sampled_from(codecs)),
        "cleanup.policy": draw(st.sampled_from(["delete", "delete", "compact"])),
        "message.timestamp.before.max.ms": str(draw(st.sampled_from([2**63 - 1, 5_000]))),
        "message.timestamp.after.max.ms": str(draw(st.sampled_from([2**63 - 1, 3_600_000, 5_000]))),
    }
    return TopicConfig.loaded(wants)


def led(batch: Batch, topic: TopicConfig) -> Batch:
    found = leader_batch(batch, topic, NOW)
    if gives_append_time(topic, Origin.CLIENT):
        found.stamp_append_time(NOW)
    return found


def result(call: Callable[[], Batch]) -> bytes | tuple[type, tuple[object, ...]]:
    """The bytes to append, or why there are none."""
    try:
        batch = call()
    except PylogError as error:
        return type(error), getattr(error, "record_errors", ())
    return bytes(batch.data)


@given(rows, st.sampled_from(Codec), topics())
def test_trusted_batches_give_the_result_of_checked_ones(
    records: Rows,
    codec: Codec,
    topic: TopicConfig,
) -> None:
    trusted = encode(records, now_ms=NOW, codec=codec)
    data = bytes(trusted.data)
    foreign = result(lambda: leader_batches(data, topic, NOW)[0])
    assert result(lambda: led(trusted, topic)) == foreign
    if isinstance(foreign, bytes):
        found = Batch.parse(foreign)
        found.check()
        read = found.records("", -1)
        assert [(r.value, r.key, [tuple(h) for h in r.headers]) for r in read] == [
            (value, key, named) for value, key, _, named in records
        ]
        assert found.max_timestamp == max(record.timestamp for record in read)
        if topic.message_timestamp_type == "LogAppendTime":
            assert found.append_timestamp == NOW
        else:
            assert [record.timestamp for record in read] == [timestamp for _, _, timestamp, _ in records]
        if topic.compression_type != "producer":
            assert found.codec.name.lower() == topic.compression_type.replace("uncompressed", "none")
        if topic.message_timestamp_type == "CreateTime":
            # What a leader has let in, it lets in again, and changes nothing.
            assert result(lambda: leader_batches(foreign, topic, NOW)[0]) == foreign


@given(rows, st.sampled_from(Codec), topics(), st.data())
def test_any_bytes_behind_a_right_crc_come_out_sound_or_not_at_all(
    records: Rows,
    codec: Codec,
    topic: TopicConfig,
    draw: st.DataObject,
) -> None:
    data = bytearray(encode(records, now_ms=NOW, codec=codec).data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(21, len(data) - 1) | st.integers(21, 60))
        data[at] = draw.draw(st.integers(0, 255))
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    found = result(lambda: leader_batches(bytes(data), topic, NOW)[0])
    if isinstance(found, bytes):
        batch = Batch.parse(found)
        batch.check()
        read = batch.records("", -1)
        assert [record.offset for record in read] == list(range(batch.count))
        # Kafka's LogValidator begins at NO_TIMESTAMP.
        assert batch.max_timestamp == max(-1, *(record.timestamp for record in read))
        assert [span.size for span in follower_spans(found)] == [batch.size]


changes = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 255)), max_size=3)


@settings(max_examples=3 * settings.default.max_examples)
@given(rows, st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]), topics(), changes, st.booleans(), st.integers(0, 60))
def test_what_one_step_proves_is_what_the_general_way_lets_in_as_it_is(
    records: Rows, codec: Codec, topic: TopicConfig, flips: list[tuple[int, int]], has_crc: bool, record_max: int
) -> None:
    data = bytearray(encode(records, now_ms=NOW, codec=codec).data)
    for at, bits in flips:
        if at < len(data) and at not in (8, 9, 10, 11, 16):  # what a batch needs to be one
            data[at] ^= bits
    if has_crc:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    topic = replace(topic, pylog_max_record_bytes=record_max)
    rules, batch = plain_rules(topic, None), Batch.framed(bytes(data))

    is_proven = prove_header(batch, rules, NOW, topic.record_bytes_max)

    general = result(lambda: led(Batch.framed(bytes(data)), topic))
    assert batch.trusted == is_proven
    if is_proven:
        assert rules.bytes_max >= len(data) and general == bytes(data) == bytes(batch.data)
    elif NAME == "compiled" and general == bytes(data) and rules.bytes_max >= len(data):
        assert batch.attributes != 0, "a plain batch is proven"
