"""Batches, damaged bytes and hashes against what Kafka's own classes made of them (facts/batches*, facts/murmur2).

The files say what was put in, which bytes came out, and what Kafka read back; nothing here knows their names or counts.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pylog.errors import PylogError
from pylog.kernel import ConsumerRecord, murmur2, walk
from pylog.protocol.batch import Batch, columns, encode, sources, split
from pylog.protocol.compression import Codec
from pylog.protocol.partitioner import partition_for_key

pytestmark = pytest.mark.oracle

Case = dict[str, Any]
ALL_COLUMNS = frozenset({"offset", "timestamp", "timestamp_type", "key", "value", "headers"})
ONE_COLUMN = frozenset({"offset"})
END = 2**63 - 1


def load(path: Path) -> Any:
    if not path.is_file():
        pytest.skip(f"{path} is absent: make the facts, or set PYLOG_FIXTURES to a folder that has them")
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="module")
def made(facts: Path) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = load(facts / "batches.json.gz")
    return found


@pytest.fixture(scope="module")
def invalid(facts: Path) -> list[Case]:
    cases: list[Case] = load(facts / "batches_invalid.json.gz")["cases"]
    return cases


def blob(value: Any) -> bytes | None:
    """Hex, null, or bytes by rule."""
    if value is None or isinstance(value, str):
        return None if value is None else bytes.fromhex(value)
    n, a, b, c = value["gen"]
    return bytes((a * i + b + (i >> 8) * c) % 256 for i in range(n))


def rows_of(case: Case) -> list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]]:
    return [
        (blob(r["value"]), blob(r["key"]), r["timestamp"], tuple((name, blob(value)) for name, value in r["headers"]))
        for r in case["records"]
    ]


def is_a_producers(case: Case) -> bool:
    """Whether a producer makes such a batch: offsets without gaps, no delete horizon. Compaction makes the others."""
    offsets = [r["offset"] for r in case["records"]]
    without_gaps = bool(offsets) and offsets == list(range(case["base_offset"], case["base_offset"] + len(offsets)))
    return without_gaps and case["delete_horizon_ms"] is None and case["last_offset"] is None


def encoded(case: Case) -> Batch:
    batch = encode(
        rows_of(case), now_ms=0, codec=Codec.parse(case["codec"]), producer_id=case["producer_id"],
        producer_epoch=case["producer_epoch"], base_sequence=case["base_sequence"], transactional=case["transactional"],
    )  # fmt: skip
    batch.stamp(case["base_offset"], case["partition_leader_epoch"])
    if case["timestamp_type"] == "LogAppendTime":
        batch.stamp_append_time(case["log_append_time"])
    return batch


def test_uncompressed_batches_are_kafkas_byte_for_byte(made: dict[str, list[Case]]) -> None:
    cases = [case for case in made["batches"] if case["codec"] == "none" and is_a_producers(case)]
    assert cases
    for case in cases:
        data = bytes(encoded(case).data)
        assert len(data) == case["size"], case["name"]
        if "hex" in case:
            assert data.hex() == case["hex"], case["name"]
        else:
            assert data[:80].hex() == case["head_hex"], case["name"]
            assert hashlib.sha256(data).hexdigest() == case["sha256"], case["name"]


def test_compressed_batches_have_kafkas_header_and_records(made: dict[str, list[Case]]) -> None:
    cases = [case for case in made["batches"] if case["codec"] != "none" and is_a_producers(case)]
    assert {case["codec"] for case in cases} == {codec.name.lower() for codec in Codec if codec}
    for case in cases:
        batch = Batch.parse(bytes(encoded(case).data))
        batch.check()
        read = case["read"][0]
        found = header(batch)
        assert {k: v for k, v in found.items() if k not in {"size", "crc"}} == {
            k: v for k, v in read.items() if k in found and k not in {"size", "crc"}
        }, case["name"]
        assert sketch(batch) == read["records"], case["name"]


def header(batch: Batch) -> Case:
    return {
        "base_offset": batch.base_offset, "last_offset": batch.last_offset, "next_offset": batch.next_offset,
        "size": batch.size, "leader_epoch": batch.leader_epoch, "crc": batch.crc, "codec": batch.codec.name.lower(),
        "timestamp_type": "LogAppendTime" if batch.timestamp_type else "CreateTime",
        "transactional": batch.is_transactional, "control": batch.is_control,
        "delete_horizon_ms": batch.base_timestamp if batch.has_delete_horizon else None,
        "max_timestamp": batch.max_timestamp, "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch, "base_sequence": batch.base_sequence, "count": batch.count,
    }  # fmt: skip


def sketch(batch: Batch) -> list[list[int]]:
    """Records as the facts tell them: offset, timestamp, sequence, key size, value size, number of headers."""
    found = []
    for record in batch.records("topic", 0):
        sequence = batch.base_sequence
        if sequence >= 0:
            sequence = (sequence + record.offset - batch.base_offset) % 2**31
        sizes = [-1 if data is None else len(data) for data in (record.key, record.value)]
        found.append([record.offset, record.timestamp, sequence, *sizes, len(record.headers)])
    return found


def every_batch(made: dict[str, list[Case]]) -> Iterator[tuple[Case, bytes]]:
    for kind in ("batches", "control", "emptied"):
        for case in made[kind]:
            if "hex" in case:
                yield case, bytes.fromhex(case["hex"])


def test_all_batches_decode_to_the_records_that_kafka_read(made: dict[str, list[Case]]) -> None:
    seen = 0
    for case, data in every_batch(made):
        batches = list(split(data, check_crc=True))
        spans, end, reason = walk(data)
        assert (len(spans), end, reason) == (len(batches), len(data), None), case["name"]
        assert len(batches) == len(case["read"]), case["name"]
        for batch, span, read in zip(batches, spans, case["read"], strict=True):
            found = header(batch)
            assert found == {name: read[name] for name in found}, case["name"]
            # A delete horizon takes the place of the base timestamp, of which Kafka then knows nothing.
            assert batch.has_delete_horizon or batch.base_timestamp == read["base_timestamp"], case["name"]
            assert sketch(batch) == read["records"], case["name"]
            assert (span.base_offset, span.last_offset, span.size, span.count, span.max_timestamp) == (
                batch.base_offset, batch.last_offset, batch.size, batch.count, batch.max_timestamp
            )  # fmt: skip
            seen += 1
    assert seen


def test_records_are_those_that_were_put_in(made: dict[str, list[Case]]) -> None:
    for case in made["batches"]:
        if "hex" not in case:
            continue
        records = Batch.parse(bytes.fromhex(case["hex"])).records("topic", 0)
        found = [(r.value, r.key, tuple(tuple(h) for h in r.headers), r.offset) for r in records]
        put = [(value, key, headers) for value, key, _, headers in rows_of(case)]
        assert found == [(*row, r["offset"]) for row, r in zip(put, case["records"], strict=True)], case["name"]


def test_columns_are_the_records(made: dict[str, list[Case]]) -> None:
    pytest.importorskip("pyarrow")
    batches = [batch for case, data in every_batch(made) for batch in split(data) if case in made["batches"]]
    found = columns([*sources(batches)], 0, END, ALL_COLUMNS)
    records = [record for batch in batches for record in batch.records("topic", 0)]
    assert rows_from(found) == [plain(record) for record in records]


def plain(record: ConsumerRecord) -> tuple[Any, ...]:
    headers = [{"key": name, "value": value} for name, value in record.headers] or None
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, headers


def rows_from(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


# --- damaged and unusual bytes ----------------------------------------------------------------------------------------


def verdict(read: Callable[[], object]) -> str | None:
    """None when the bytes are read, else the typed error; any other exception is a failure of the test."""
    try:
        read()
    except PylogError as error:
        return type(error).__name__
    return None


def deltas_are_misnumbered(data: bytes) -> bool:
    """Whether offset deltas do not rise from 0 up to the last the header says. Written here apart from the kernel."""
    for batch in split(data):
        stream = batch.payload()
        at, previous = 0, -1
        for _ in range(batch.count):
            length, at = varint(stream, at)
            end = at + length
            _, at = varint(stream, at + 1)
            delta, _ = varint(stream, at)
            if delta <= previous or delta > batch.last_offset_delta:
                return True
            previous, at = delta, end
    return False


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7


def numbers_cannot_be(data: bytes) -> bool:
    """Whether a header has a negative offset, delta or count, or more records than offsets."""
    base = int.from_bytes(data[:8], "big", signed=True)
    last_delta = int.from_bytes(data[23:27], "big", signed=True)
    count = int.from_bytes(data[57:61], "big", signed=True)
    return base < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1


def is_legacy(data: bytes) -> bool:
    return len(data) > 16 and data[16] < 2


def states_lz4_content_size(data: bytes) -> bool:
    return data[22] & 7 == Codec.LZ4 and bool(data[61 + 4] & 0x08)


REFUSED_BY_US_ALONE: dict[str, Callable[[bytes], bool]] = {
    "message formats v0 and v1 are not read: Kafka 4 writes none": is_legacy,
    "a header whose numbers cannot be is a damaged header: Kafka's readers do not look": numbers_cannot_be,
    "an lz4 frame that states a content size it does not have: Kafka skips the size": states_lz4_content_size,
    "misnumbered inner offsets: Kafka reads them uncompressed and fails oddly on the rest": deltas_are_misnumbered,
}
"""What Kafka reads and we refuse: why, and how to know such bytes."""


def read_all(data: bytes) -> list[list[int]]:
    return [row for batch in split(data, check_crc=True) for row in sketch(batch)]


def test_batches_are_read_or_refused_as_kafka_does(invalid: list[Case]) -> None:
    refused, read = 0, 0
    for case in invalid:
        data = bytes.fromhex(case["hex"])
        kafka = case["memory"]
        ours = verdict(lambda data=data: read_all(data))
        if kafka["error"] is not None:
            assert ours is not None, f"{case['name']}: Kafka says {kafka['error']}, we read {read_all(data)}"
            refused += 1
        elif ours is None:
            assert len(list(split(data))) == kafka["batches"], case["name"]
            assert len(read_all(data)) == kafka["records"], case["name"]
            read += 1
        else:
            ruled = any(rule(data) for rule in REFUSED_BY_US_ALONE.values())
            assert ruled, f"{case['name']}: we say {ours}, Kafka reads it"
    assert refused and read


def test_walk_finds_the_batches_that_kafka_finds_valid(invalid: list[Case]) -> None:
    for case in invalid:
        data = bytes.fromhex(case["hex"])
        spans, end, reason = walk(data)
        error = case["memory"]["error"]
        if error is not None and error["phase"] in {"batches", "ensure_valid"}:
            assert reason is not None, case["name"]
            good = case["memory"]["batches"] - (error["phase"] == "ensure_valid")
            assert len(spans) == good, case["name"]
        elif reason is not None:
            assert is_legacy(data) or numbers_cannot_be(data), f"{case['name']}: {reason}"
        assert end == sum(span.size for span in spans), case["name"]


def test_columns_refuse_the_batches_that_records_refuse(invalid: list[Case]) -> None:
    pytest.importorskip("pyarrow")
    for case in invalid:
        data = bytes.fromhex(case["hex"])
        batches = [Batch.parse(data, span.position) for span in walk(data)[0]]
        batches = [batch for batch in batches if not batch.is_control]
        records = verdict(lambda batches=batches: [batch.records("topic", 0) for batch in batches])
        assert verdict(lambda batches=batches: columns([*sources(batches)], 0, END, ONE_COLUMN)) == records, case[
            "name"
        ]
        if records is None:
            found = rows_from(columns([*sources(batches)], -END, END, ALL_COLUMNS))
            assert found == [plain(r) for batch in batches for r in batch.records("topic", 0)], case["name"]


# --- hashes -----------------------------------------------------------------------------------------------------------


def test_murmur2_and_partitions_are_kafkas(facts: Path) -> None:
    found = load(facts / "murmur2.json.gz")
    assert found["rows"]
    for row in found["rows"]:
        case = dict(zip(found["columns"], row, strict=True))
        key = bytes.fromhex(case["key"])
        assert murmur2(key) == case["murmur2"]
        assert murmur2(key) & 0x7FFFFFFF == case["to_positive"]
        assert [partition_for_key(key, n) for n in found["partition_counts"]] == case["partitions"]
