"""Ours on the directories of a real Kafka: the records, watermarks and time look-ups that its clients saw.

Every partition that has a `.expected.jsonl.gz` is read three ways: as the owner of a copy, as a reader of a copy, and
as an owner that has to recover it first.
"""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition

pytestmark = pytest.mark.oracle

Expected = list[dict[str, Any]]


def expected_records(path: Path) -> Expected:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def stage_names(fixtures: Path, stage: str) -> list[str]:
    names = sorted(path.name.removesuffix(".meta.json") for path in (fixtures / stage / "expected").glob("*.meta.json"))
    return [name for name in names if (fixtures / stage / "logdir" / name).is_dir()]


def same(record: pylog.ConsumerRecord, wanted: dict[str, Any]) -> bool:
    headers = [[name, value.hex() if value is not None else None] for name, value in record.headers]
    key = record.key.hex() if record.key is not None else None
    kinds = {0: "CreateTime", 1: "LogAppendTime"}
    if (record.offset, record.timestamp, key, headers, record.leader_epoch) != (
        wanted["offset"], wanted["timestamp"], wanted["key_hex"], wanted["headers"], wanted["leader_epoch"],
    ):  # fmt: skip
        return False
    if wanted["timestamp_type"] not in (record.timestamp_type, kinds[record.timestamp_type]):
        return False
    if "value_sha256" in wanted:
        return record.value is not None and hashlib.sha256(record.value).hexdigest() == wanted["value_sha256"]
    return (record.value.hex() if record.value is not None else None) == wanted["value_hex"]


def opened_as_owner(path: Path) -> pylog.Log:
    return pylog.open(path)


def opened_after_a_kill(path: Path) -> pylog.Log:
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return pylog.open(path)


def opened_by_a_reader(path: Path) -> pylog.Log:
    return pylog.open(path, mode="read")


def copied(source: Path, target: Path) -> Path:
    """A copy that may be written to: the fixtures are read-only."""
    shutil.copytree(source, target)
    for inside in [target, *target.rglob("*")]:
        inside.chmod(0o755 if inside.is_dir() else 0o644)
    return target


@pytest.fixture(scope="module", params=[opened_as_owner, opened_after_a_kill, opened_by_a_reader])
def clean(
    request: pytest.FixtureRequest, fixtures: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pylog.Log]:
    way: Callable[[Path], pylog.Log] = request.param
    path = copied(fixtures / "clean" / "logdir", tmp_path_factory.mktemp("clean") / "logdir")
    with way(path) as log:
        yield log


def check_partition(log: pylog.Log, fixtures: Path, stage: str, name: str) -> None:
    topic, _, number = name.rpartition("-")
    folder = fixtures / stage / "expected"
    meta = json.loads((folder / f"{name}.meta.json").read_text())
    view = log.topic(topic)[int(number)]
    if log.mode == "own":
        assert (view.start_offset, view.high_watermark) == (meta["low"], meta["high"])
    wanted = expected_records(folder / f"{name}.expected.jsonl.gz")
    key = TopicPartition(topic, int(number))
    with log.consumer(auto_offset_reset="earliest", max_poll_records=1000) as consumer:
        consumer.assign([key])
        consumer.seek(key, meta["low"])
        found: list[pylog.ConsumerRecord] = []
        while len(found) < len(wanted):
            records = consumer.poll(0)
            assert records, f"{name}: nothing after {len(found)} of {len(wanted)} records"
            found += records
        while consumer.position(key) < meta["high"]:
            assert consumer.poll(0) == []
        for record, line in zip(found, wanted, strict=True):
            assert same(record, line), f"{name}: {record!r} is not {line!r}"
        assert consumer.end_offsets([key]) == {key: meta["high"]}
        if any(segment.size == 0 for segment in view.segments[:-1]):
            return  # Kafka takes the mtime of a file that compaction emptied for its time, and git keeps no mtimes
        for timestamp, offset in meta.get("offsets_for_times", []):
            answer = consumer.offsets_for_times({key: timestamp})[key]
            assert (answer.offset if answer is not None else -1) == offset, f"{name}: time {timestamp}"


def test_every_partition_reads_as_its_clients_saw_it(clean: pylog.Log, fixtures: Path) -> None:
    names = stage_names(fixtures, "clean")
    assert names, "the fixtures have no partition with expected records"
    failures = []
    for name in names:
        try:
            check_partition(clean, fixtures, "clean", name)
        except AssertionError as error:
            failures.append(str(error).splitlines()[0])
    assert failures == []


def test_recovery_keeps_what_kafkas_recovery_keeps(fixtures: Path, tmp_path: Path) -> None:
    recovered = sorted(path.name for path in fixtures.iterdir() if path.name.endswith("-recovered"))
    assert recovered, "the fixtures have no stage that Kafka recovered"
    for stage in recovered:
        damaged = stage.removesuffix("-recovered")
        with pylog.open(copied(fixtures / damaged / "logdir", tmp_path / damaged)) as log:
            names = stage_names(fixtures, stage)
            assert names
            for name in names:
                check_partition(log, fixtures, stage, name)
                topic, _, number = name.rpartition("-")
                log.topic(topic)[int(number)].check()
