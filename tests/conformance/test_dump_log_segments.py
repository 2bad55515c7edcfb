"""Kafka's own dump tool reads what pylog wrote: the same batches, records and index entries, and not one complaint."""

import json
import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import pylog
from conformance import dump_log

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]

# `make kafka` names the directory that `make demo` left behind.
DEMO = os.environ.get("PYLOG_DEMO_LOG")
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
START_MS = 1_700_000_000_000
# Small segments and a dense index, so that every file has something to say.
CONFIG = {"segment.bytes": 1 << 20, "index.interval.bytes": 512}


def rows(seed: str, count: int) -> Iterator[pylog.Record]:
    """Records with null and empty keys and values, headers, line ends, long values and times out of order."""
    draw = random.Random(seed)
    words = ["log", "größe", "語", "λ", "line\nend", "tab\tstop", "payload", "| offset", "x" * 200]
    for index in range(count):
        kind = index % 12
        text = " ".join(draw.choices(words, k=draw.randrange(1, 30)))
        value = None if kind == 3 else b"" if kind == 5 else (text * 40 if kind == 7 else text).encode()
        key = None if kind in {1, 4} else b"" if kind == 2 else f"key {draw.randrange(99)}".encode()
        headers = [("trace", str(index).encode()), ("trace", None), ("", b"")][: index % 4]
        yield pylog.Record(value, key, START_MS + index * 250 - draw.randrange(2000), headers)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log directory with one topic per codec, written by producers and by appends, with rolled segments."""
    path = tmp_path_factory.mktemp("conformance") / "data"
    with pylog.open(path, flush="none") as log:
        for codec in CODECS:
            log.create_topic(f"codec-{codec}", partitions=2, config=CONFIG)
            with log.producer(compression_type=codec, linger_ms=5, batch_size=16_384) as producer:
                for record in rows(codec, 2400):
                    producer.send(
                        f"codec-{codec}",
                        record.value,
                        record.key,
                        partition=0,
                        timestamp_ms=record.timestamp,
                        headers=record.headers,
                    )
            for start in range(0, 200, 20):
                log.topic(f"codec-{codec}")[1].append(list(rows(f"{codec}{start}", 20)))
        log.create_topic("short-lived")
        log.delete_topic("short-lived")
    return path


def plain(record: pylog.Record | pylog.ConsumerRecord) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, tuple(name for name, _ in record.headers)


def printed(record: dump_log.Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.header_keys


def check_partitions(expected: dict[Path, list[pylog.ConsumerRecord]]) -> dict[Path, list[dump_log.Dump]]:
    """Dump the segments and indexes of partitions; the records of each must be as expected, and the tool content.

    A run of the tool costs more than a file: three of them read all partitions.
    """
    segments = [path for folder in expected for path in sorted(folder.glob("*.log"))]
    indexes = [path for folder in expected for path in sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])]
    logs, complaints = dump_log.dump(segments, "--print-data-log")
    assert complaints == []
    entries, complaints = dump_log.dump(indexes)
    assert complaints == []
    _, complaints = dump_log.dump(indexes, "--index-sanity-check")
    assert complaints == []
    dumps = {folder: [one for one in logs + entries if Path(one.path).parent == folder] for folder in expected}
    for folder, wanted in expected.items():
        check_records(dumps[folder], wanted)
    return dumps


def check_records(dumps: list[dump_log.Dump], expected: list[pylog.ConsumerRecord]) -> None:
    """The batches of a partition follow each other and fill their files, and have these records."""
    logs = [one for one in dumps if one.path.endswith(".log")]
    records = [record for one in logs for record in one.records]
    assert [record.offset for record in records] == [record.offset for record in expected]
    for record, wanted in zip(records, expected, strict=True):
        if record.key_size == len(record.key or b"") and record.value_size == len(record.value or b""):
            assert printed(record) == plain(wanted)
        assert record.value_size == (-1 if wanted.value is None else len(wanted.value))
    batches = [batch for one in logs for batch in one.batches]
    assert all(batch.last_offset + 1 == after.base_offset for batch, after in pairwise(batches))
    for one in logs:
        assert sum(batch.size for batch in one.batches) == Path(one.path).stat().st_size


def test_a_topic_of_each_codec_has_the_same_records(directory: Path) -> None:
    places = [(directory / f"codec-{codec}-{number}", codec, number) for codec in CODECS for number in (0, 1)]
    with pylog.open(directory, mode="read") as log:
        stored = {folder: list(log.topic(f"codec-{codec}")[number].records()) for folder, codec, number in places}
    found = check_partitions(stored)
    for folder, codec, number in places:
        appended = [row for start in range(0, 200, 20) for row in rows(f"{codec}{start}", 20)]
        sent = appended if number else list(rows(codec, 2400))
        dumps = found[folder]
        assert [printed(record) for one in dumps for record in one.records] == [plain(record) for record in sent]
        if number == 0:
            assert {batch.codec for one in dumps for batch in one.batches} == {codec}
            assert len([one for one in dumps if one.path.endswith(".log")]) > 1 or codec != "none"
            assert any(one.offset_entries for one in dumps)
            assert any(one.time_entries for one in dumps)


def test_the_metadata_log_is_kafkas(directory: Path) -> None:
    logs, complaints = dump_log.dump(
        sorted((directory / "__cluster_metadata-0").glob("*.log")), "--cluster-metadata-decoder"
    )
    assert complaints == []
    values = [
        json.loads(record.value) for one in logs for record in one.records if record.value and record.key_size < 0
    ]
    kinds = [value["type"] for value in values]
    assert kinds.count("TOPIC_RECORD") == len(CODECS) + 1
    assert kinds.count("PARTITION_RECORD") == 2 * len(CODECS) + 1
    assert kinds.count("REMOVE_TOPIC_RECORD") == 1
    named = {value["data"]["name"] for value in values if value["type"] == "TOPIC_RECORD"}
    assert named == {"short-lived", *(f"codec-{codec}" for codec in CODECS)}
    configs = {
        (value["data"]["resourceName"], value["data"]["name"], value["data"]["value"])
        for value in values
        if value["type"] == "CONFIG_RECORD"
    }
    assert configs >= {(f"codec-{codec}", "segment.bytes", "1048576") for codec in CODECS}
    indexes = [path for path in (directory / "__cluster_metadata-0").iterdir() if path.name.endswith("index")]
    if indexes:
        _, complaints = dump_log.dump(sorted(indexes), "--index-sanity-check")
        assert complaints == []


def test_snapshots_of_the_metadata_log_are_kafkas(tmp_path: Path) -> None:
    ids = {}
    for name in "abc":
        with pylog.open(tmp_path, config={"metadata.log.max.record.bytes.between.snapshots": 1}) as log:
            ids[name] = log.create_topic(name, 2, {"retention.ms": 5}).id
            with log.producer() as producer:
                producer.send(name, b"value")
            if name == "b":
                log.delete_topic("a")
    metadata = tmp_path / "__cluster_metadata-0"
    found, complaints = dump_log.dump(sorted(metadata.glob("*.checkpoint")), "--cluster-metadata-decoder")
    assert complaints == []
    _, newest = found
    assert [batch.is_control for batch in newest.batches] == [True, False, True]
    values = [json.loads(record.value) for record in newest.records if record.value and record.key_size < 0]
    said = [(value["type"], value["data"].get("name")) for value in values if "PARTITION" not in value["type"]]
    assert ("TOPIC_RECORD", "a") not in said
    assert [pair for pair in said if pair[0] == "TOPIC_RECORD"] == [("TOPIC_RECORD", "b"), ("TOPIC_RECORD", "c")]
    assert said[0] == ("FEATURE_LEVEL_RECORD", "metadata.version")
    assert [value["type"] for value in values].count("PARTITION_RECORD") == 4
    assert [value["data"]["nextProducerId"] for value in values if value["type"] == "PRODUCER_IDS_RECORD"] == [3000]
    _, complaints = dump_log.dump(sorted(metadata.glob("*.log")), "--cluster-metadata-decoder")
    assert complaints == []


def test_kafkas_tool_reads_the_directory_of_the_demo() -> None:
    """Every segment, index and record that the demo has left behind, the metadata log included."""
    if not DEMO or not Path(DEMO, "meta.properties").is_file():
        pytest.skip("no directory of the demo: `make demo`, then `make kafka`")
    with pylog.open(DEMO, mode="read") as log:
        views = [(name, view) for name in log.topics() for view in log.topic(name)]
        check_partitions({Path(DEMO, f"{name}-{view.partition}"): list(view.records()) for name, view in views})
    segments = sorted(Path(DEMO, "__cluster_metadata-0").glob("*.log"))
    _, complaints = dump_log.dump(segments, "--cluster-metadata-decoder")
    assert complaints == []


def test_kafkas_tool_complains_of_damage(directory: Path, tmp_path: Path) -> None:
    """The other tests mean something: one flipped bit in a batch, or in an index, is not passed over in silence."""
    source = min((directory / "codec-none-0").glob("*.log"))
    data = bytearray(source.read_bytes())
    data[80] ^= 1
    (tmp_path / source.name).write_bytes(data)
    _, complaints = dump_log.dump([tmp_path / source.name])
    assert complaints != []
    (tmp_path / source.name).write_bytes(source.read_bytes())
    index = bytearray(source.with_suffix(".index").read_bytes())
    index[7] ^= 1
    (tmp_path / source.with_suffix(".index").name).write_bytes(index)
    _, complaints = dump_log.dump([tmp_path / source.with_suffix(".index").name])
    assert complaints != []
