"""What a leader and a follower let in, against what Kafka's own log let in (facts/batches_invalid, facts/storage), and
what a leader makes of a batch, against what a broker made of its clients' batches (the topics recompressed-*,
append-time and codec-*).
"""

import gzip
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pylog.config import TopicConfig
from pylog.errors import (
    CorruptBatch,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    PylogError,
    RecordTooLarge,
    UnsupportedCompressionType,
    UnsupportedFormat,
)
from pylog.protocol.batch import Batch, Origin, encode, split
from pylog.protocol.compression import Codec
from pylog.storage.validator import follower_spans
from support.leader_appends import leader_batches

pytestmark = pytest.mark.oracle

Case = dict[str, Any]
COMPRESSION_TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


def load(path: Path) -> Any:
    if not path.is_file():
        pytest.skip(f"{path} is absent: make the facts, or set PYLOG_FIXTURES to a folder that has them")
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="module")
def invalid(facts: Path) -> Case:
    found: Case = load(facts / "batches_invalid.json.gz")
    return found


# --- deliberate differences (docs/format.md lists them) ---------------------------------------------------------------


def is_legacy(data: bytes) -> bool:
    return len(data) > 16 and data[16] < 2


def numbers_cannot_be(data: bytes) -> bool:
    """Whether a header has a negative offset, delta or count, or more records than offsets."""
    base, last_delta, count = (struct.unpack_from(f, data, at)[0] for f, at in ((">q", 0), (">i", 23), (">i", 57)))
    return base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1


def states_lz4_content_size(data: bytes) -> bool:
    return data[22] & 7 == Codec.LZ4 and bool(data[61 + 4] & 0x08)


def offsets_in(stream: bytes, count: int) -> list[int]:
    """The offset deltas of a record stream, read apart from the kernel."""
    deltas, at = [], 0
    for _ in range(count):
        length, at = varint(stream, at)
        _, timestamp_end = varint(stream, at + 1)
        deltas.append(varint(stream, timestamp_end)[0])
        at += length
    return deltas


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value >> 1 ^ -(value & 1), at


def is_misnumbered(data: bytes) -> bool:
    batch = next(split(data))
    return offsets_in(batch.payload(), batch.count) != list(range(batch.count))


def has_negative_timestamp(data: bytes) -> bool:
    return any(record.timestamp < -1 for batch in split(data) for record in batch.records("topic", 0))


LEADER_REFUSES: dict[str, Callable[[bytes], bool]] = {
    "message formats v0 and v1: Kafka up-converts them": is_legacy,
    "an lz4 frame that states a content size it does not have: Kafka skips the size": states_lz4_content_size,
    "misnumbered inner offsets, uncompressed: Kafka does not look": is_misnumbered,
    "a timestamp below -1: Kafka refuses it only where it recompresses": has_negative_timestamp,
}
FOLLOWER_REFUSES: dict[str, Callable[[bytes], bool]] = {
    "message formats v0 and v1: Kafka keeps them": is_legacy,
    "a header whose numbers cannot be: Kafka's followers do not look": numbers_cannot_be,
}
"""What Kafka lets in and we refuse: why, and how to know such bytes. There is one more for a leader: compressed records
whose lengths lie, which Kafka's leader skips over and none of its readers can read (the facts' `memory` has an error).
"""


# --- damaged and unusual bytes ----------------------------------------------------------------------------------------

OURS: dict[str, tuple[type[PylogError], ...]] = {
    "CorruptRecordException": (CorruptRecord, UnsupportedFormat),
    "InvalidRecordException": (InvalidRecord, CorruptRecord),
    "InvalidTimestampException": (InvalidTimestamp,),
    "RecordTooLargeException": (RecordTooLarge,),
}
ODD = (CorruptRecord, InvalidRecord, UnsupportedCompressionType)
"""For the exceptions that Kafka did not mean to throw."""


def ask(call: Callable[[], list[Any]]) -> tuple[list[Any], PylogError | None]:
    try:
        return call(), None
    except PylogError as error:
        return [], error


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_leader_admits_the_batches_that_kafkas_leader_admits(invalid: Case, policy: str) -> None:
    config = TopicConfig.loaded({"cleanup.policy": policy})
    accepted = refused = ruled = 0
    for case in invalid["cases"]:
        data = bytes.fromhex(case["hex"])
        kafka = case["append_as_leader" if policy == "delete" else "append_as_leader_compacted"]
        batches, error = ask(lambda data=data: leader_batches(data, config, invalid["clock_ms"]))
        if "error" in kafka:
            assert error is not None, f"{case['name']}: Kafka says {kafka['error']}, we take it"
            assert isinstance(error, OURS.get(kafka.get("invalid", kafka["error"]), ODD)), f"{case['name']}: {error!r}"
            if "record_indexes" in kafka:
                assert [e.index for e in error.record_errors] == kafka["record_indexes"], case["name"]
            refused += 1
        elif error is None:
            count = sum(batch.count for batch in batches)
            assert (count - 1, count) == (kafka["last"], kafka["leo"]), case["name"]
            assert kafka["first"] == (0 if batches else -1), case["name"]
            check_sound(batches)
            accepted += 1
        else:
            unreadable = case["memory"]["error"] is not None
            assert unreadable or any(rule(data) for rule in LEADER_REFUSES.values()), f"{case['name']}: {error!r}"
            ruled += 1
    assert accepted and refused and ruled


def check_sound(batches: list[Batch]) -> None:
    """What comes out of a leader is right in itself."""
    for batch in batches:
        batch = Batch.parse(bytes(batch.data))
        batch.check()
        records = batch.records("topic", 0)
        assert [record.offset - batch.base_offset for record in records] == list(range(batch.count))
        assert batch.max_timestamp == max(record.timestamp for record in records)


def test_a_follower_takes_the_batches_that_kafkas_follower_takes(invalid: Case) -> None:
    accepted = refused = ruled = 0
    for case in invalid["cases"]:
        data = bytes.fromhex(case["hex"])
        kafka = case["append_as_follower"]
        spans, error = ask(lambda data=data: follower_spans(data))
        if "error" in kafka:
            assert isinstance(error, CorruptBatch | UnsupportedFormat), f"{case['name']}: Kafka says {kafka['error']}"
            refused += 1
        elif error is None:
            first, last = (spans[0].base_offset, spans[-1].last_offset) if spans else (-1, -1)
            assert (first, last, last + 1) == (kafka["first"], kafka["last"], kafka["leo"]), case["name"]
            accepted += 1
        else:
            assert any(rule(data) for rule in FOLLOWER_REFUSES.values()), f"{case['name']}: {error!r}"
            ruled += 1
    assert accepted and refused and ruled


# --- Kafka's scripts --------------------------------------------------------------------------------------------------


def leader_appends(facts: Path) -> Iterator[tuple[Case, Case, int, int]]:
    """Every append as leader in the scripts: script, append, what the clock said, how many bytes the log grew."""
    found = load(facts / "storage.json.gz")
    for script in found["scripts"]:
        now, size = 1_700_000_000_000, 0  # clock zero of the facts
        for op in script["ops"]:
            before, size = size, op["state"][4] if "state" in op else size
            if op["op"] == "advance_clock":
                now = op["result"]
            elif op["op"] == "append_as_leader":
                yield script, op, now, size - before


def test_appends_of_kafkas_scripts_are_let_in_or_refused_alike(facts: Path) -> None:
    configs: dict[int, TopicConfig] = {}
    accepted = refused = 0
    for script, op, now, growth in leader_appends(facts):
        config = configs.setdefault(id(script), TopicConfig.loaded({k: text(v) for k, v in script["config"].items()}))
        data, origin = bytes.fromhex(op["records"]), Origin[op["origin"]]
        batches, error = ask(lambda: leader_batches(data, config, now, origin=origin))  # noqa: B023 - called at once
        where = f"seed {script['seed']}: {op['records'][:160]}: {error!r}"
        expected = OURS.get(op.get("invalid", op.get("error", "")))
        if expected is not None:
            assert isinstance(error, expected), where
            if "record_indexes" in op:
                assert [e.index for e in error.record_errors] == op["record_indexes"], where
            refused += 1
            continue
        # What else refuses an append lies behind: sequences, transactions, the size of a segment.
        assert error is None, where
        check_sound(batches)
        if "result" in op and growth:  # else a duplicate, answered with what the first one got
            result = op["result"]
            assert sum(batch.size for batch in batches) == growth, where
            assert sum(batch.count for batch in batches) == result["num_messages"], where
            assert max((batch.max_timestamp for batch in batches), default=-1) == result["max_timestamp"], where
            stamped = {batch.append_timestamp for batch in batches} - {None}
            assert stamped == {result["log_append_time"]} - {-1}, where
            accepted += 1
    assert accepted and refused


def text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- a broker's files -------------------------------------------------------------------------------------------------


def client_batches(fixtures: Path) -> Iterator[tuple[TopicConfig, Batch]]:
    """The batches of the broker's files that are what a leader made of a client's batch, and their topic's config."""
    for meta in sorted((fixtures / "clean" / "expected").glob("*.meta.json")):
        name = meta.name.removesuffix(".meta.json")
        config = TopicConfig.loaded(json.loads(meta.read_text()).get("configs", {}))
        if name.startswith("__") or "compact" in config.cleanup_policy:
            continue
        for path in sorted((fixtures / "clean" / "logdir" / name).glob("*.log")):
            for batch in split(path.read_bytes()):
                if not batch.is_control:
                    yield config, batch


def as_sent(batch: Batch, *, append_time: bool) -> bytes:
    """What the client may have sent: no offset, no epoch, no append time, and a max timestamp that lies."""
    sent = Batch(bytearray(batch.data))
    sent.stamp(0, -1)
    if append_time:
        sent.stamp_create_time(0)
    else:
        sent.stamp_create_time(batch.max_timestamp + 86_400_000)
    return bytes(sent.data)


def test_a_clients_batch_is_stored_as_the_broker_stored_it(fixtures: Path) -> None:
    seen = set()
    for config, stored in client_batches(fixtures):
        append_time = stored.append_timestamp is not None
        (ours,) = leader_batches(as_sent(stored, append_time=append_time), config, max(stored.max_timestamp, 0))
        ours.stamp(stored.base_offset, stored.leader_epoch)
        assert bytes(ours.data) == bytes(stored.data)
        seen.add((stored.codec, append_time))
    assert {codec for codec, _ in seen} == set(Codec) and {stamped for _, stamped in seen} == {False, True}


def test_a_batch_that_the_broker_stored_uncompressed_is_rebuilt_to_its_bytes(fixtures: Path) -> None:
    seen = 0
    for config, stored in client_batches(fixtures):
        if config.compression_type != "uncompressed":
            continue
        sent = encode(
            ((r.value, r.key, r.timestamp, r.headers) for r in stored.records("topic", 0)), now_ms=0, codec=Codec.ZSTD,
            producer_id=stored.producer_id, producer_epoch=stored.producer_epoch, base_sequence=stored.base_sequence,
            transactional=stored.is_transactional,
        )  # fmt: skip
        (ours,) = leader_batches(bytes(sent.data), config, max(stored.max_timestamp, 0))
        ours.stamp(stored.base_offset, stored.leader_epoch)
        assert bytes(ours.data) == bytes(stored.data)
        seen += 1
    assert seen


@pytest.mark.parametrize("compression_type", COMPRESSION_TYPES)
def test_recompressed_batches_have_the_records_that_their_clients_sent(fixtures: Path, compression_type: str) -> None:
    config = TopicConfig.loaded({"compression.type": compression_type, "max.message.bytes": str(2**31 - 1)})
    wanted = Codec.NONE if compression_type == "uncompressed" else Codec.parse(compression_type)
    seen = set()
    for _, stored in client_batches(fixtures):
        if stored.append_timestamp is not None:
            continue
        (ours,) = leader_batches(as_sent(stored, append_time=False), config, max(stored.max_timestamp, 0))
        ours.stamp(stored.base_offset, stored.leader_epoch)
        read = Batch.parse(bytes(ours.data))
        read.check()
        assert read.codec is wanted
        assert read.records("topic", 0) == stored.records("topic", 0)
        assert lasting(read) == lasting(stored)
        seen.add(stored.codec)
    assert seen == set(Codec)


def lasting(batch: Batch) -> tuple[int, ...]:
    """What a new codec does not change in a header."""
    return (
        batch.base_offset, batch.last_offset, batch.leader_epoch, batch.max_timestamp, batch.producer_id,
        batch.producer_epoch, batch.base_sequence, batch.count, batch.is_transactional,
    )  # fmt: skip
