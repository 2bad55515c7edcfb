"""Ours on the directories of a real Kafka: the records, watermarks and times that its clients saw, under both isolation
levels, and the files that a clean open and close leaves.

Every partition with a `.meta.json` is opened in a copy of its stage: as the owner, as an owner that has to recover it
first, and as a reader where nobody has published anything. Stages without a metadata log are adopted.
"""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import CorruptBatch
from pylog.protocol.messages import MAX_TIMESTAMP, Session
from pylog.protocol.messages.records import ListOffsetsRequest
from pylog.storage.producer_state.snapshot import decode_snapshot

pytestmark = pytest.mark.oracle

Expected = list[dict[str, Any]]
DATA = (".log", ".index", ".timeindex", ".txnindex")


def expected_records(path: Path) -> Expected:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def partitions_of(fixtures: Path, stage: str) -> list[str]:
    names = sorted(path.name.removesuffix(".meta.json") for path in (fixtures / stage / "expected").glob("*.meta.json"))
    return [name for name in names if (fixtures / stage / "logdir" / name).is_dir()]


def stages(fixtures: Path) -> list[str]:
    return sorted(path.parent.name for path in fixtures.glob("*/logdir"))


def copied(source: Path, target: Path) -> Path:
    """A copy that may be written to: the fixtures are read-only."""
    shutil.copytree(source, target)
    for inside in [target, *target.rglob("*")]:
        inside.chmod(0o755 if inside.is_dir() else 0o644)
    return target


def as_owner(path: Path) -> pylog.Log:
    """The owner as long as it only looks: after ten seconds it would end the transactions that have timed out since."""
    hour = 3_600_000
    rest = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": hour, "log.cleaner.enable": False}
    return pylog.open(path, config=rest)


def as_owner_after_a_kill(path: Path) -> pylog.Log:
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return as_owner(path)


def as_reader(path: Path) -> pylog.Log:
    return pylog.open(path, mode="read")


WAYS = (as_owner, as_owner_after_a_kill, as_reader)


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


class Seen:
    """One partition of an opened directory beside what Kafka's clients saw of it."""

    def __init__(self, log: pylog.Log, fixtures: Path, stage: str, name: str) -> None:
        topic, _, number = name.rpartition("-")
        self.log, self.name = log, name
        self.key = TopicPartition(topic, int(number))
        self.view = log.topic(topic)[int(number)]
        folder = fixtures / stage / "expected"
        self.meta = json.loads((folder / f"{name}.meta.json").read_text())
        self.all = expected_records(folder / f"{name}.expected.jsonl.gz")
        committed = folder / f"{name}.read_committed.expected.jsonl.gz"
        stable = self.meta.setdefault("last_stable_offset", None)
        below = [line for line in self.all if stable is None or line["offset"] < stable]
        self.committed = expected_records(committed) if committed.is_file() else below

    def consumed(self, isolation_level: str, end: int) -> list[pylog.ConsumerRecord]:
        config = {"auto_offset_reset": "none", "max_poll_records": 1000, "isolation_level": isolation_level}
        with self.log.consumer(**config) as consumer:
            consumer.assign([self.key])
            consumer.seek(self.key, self.meta["low"])
            found: list[pylog.ConsumerRecord] = []
            for _ in range(len(self.all) + 100):
                if consumer.position(self.key) >= end:
                    break
                found += consumer.poll(0)
            assert consumer.position(self.key) == end, f"{self.name}: stands still at {consumer.position(self.key)}"
            assert consumer.poll(0) == []
            return found

    def check_records(self) -> None:
        for level, end, wanted in (
            ("read_uncommitted", self.meta["high"], self.all),
            ("read_committed", self.meta["last_stable_offset"], self.committed),
        ):
            end = self.meta["high"] if end is None else end
            found = self.consumed(level, end)
            self.check_same(level, found, wanted)
            self.check_same(level, list(self.view.records(isolation_level=level)), wanted)

    def check_same(self, level: str, found: list[pylog.ConsumerRecord], wanted: Expected) -> None:
        for record, line in zip(found, wanted, strict=False):
            assert same(record, line), f"{self.name}, {level}: {record!r} is not {line!r}"
        assert len(found) == len(wanted), f"{self.name}, {level}: {len(found)} records, not {len(wanted)}"

    def check_offsets(self) -> None:
        stable = self.meta["last_stable_offset"]
        view = self.view
        assert (view.start_offset, view.high_watermark) == (self.meta["low"], self.meta["high"]), self.name
        if stable is not None:
            assert view.last_stable_offset == stable, f"{self.name}: the last stable offset"
        for level, end in (("read_uncommitted", self.meta["high"]), ("read_committed", stable)):
            with self.log.consumer(isolation_level=level) as consumer:
                assert consumer.beginning_offsets([self.key]) == {self.key: self.meta["low"]}
                assert end is None or consumer.end_offsets([self.key]) == {self.key: end}, f"{self.name}, {level}"

    def check_times(self) -> None:
        if any(segment.size == 0 for segment in self.view.segments[:-1]):
            return  # Kafka takes the mtime of a file that compaction emptied for its time, and git keeps no mtimes
        with self.log.consumer() as consumer:
            for timestamp, offset in self.meta.get("offsets_for_times") or []:
                answer = consumer.offsets_for_times({self.key: timestamp})[self.key]
                assert (answer.offset if answer is not None else -1) == offset, f"{self.name}: time {timestamp}"
        if self.meta.get("max_timestamp") is not None:
            message = ListOffsetsRequest.of({self.key: MAX_TIMESTAMP})
            (part,) = message.found(self.log._node.handle(message, Session()).result()).values()
            assert [part.timestamp, part.offset] == self.meta["max_timestamp"], f"{self.name}: max_timestamp"

    def check_kept(self) -> None:
        """An open after a kill ends transactions: it appends markers, and records of their coordinators."""
        found = list(self.view.records(isolation_level="read_uncommitted"))
        self.check_same("read_uncommitted", found[: len(self.all)], self.all)
        assert self.view.next_offset >= self.meta["high"], self.name

    @property
    def is_ended_after_a_kill(self) -> bool:
        stable = self.meta["last_stable_offset"]
        return self.key.topic == "__transaction_state" or (stable is not None and stable < self.meta["high"])


def failures_of(
    log: pylog.Log, fixtures: Path, stage: str, *, of: str | None = None, killed: bool = False
) -> list[str]:  # fmt: skip
    """What is not as expected of the partitions of a stage, in a line each."""
    failures = []
    names = partitions_of(fixtures, of or stage)
    assert names, f"{stage}: there is no partition with expected records"
    for name in names:
        try:
            seen = Seen(log, fixtures, of or stage, name)
            whole = (seen.check_offsets, seen.check_records, seen.check_times)
            for check in (seen.check_kept,) if killed and seen.is_ended_after_a_kill else whole:
                check()
        except (AssertionError, pylog.errors.PylogError) as error:
            failures.append(f"{type(error).__name__} {str(error).splitlines()[0]}")
    return failures


def is_clean(fixtures: Path, stage: str) -> bool:
    return (fixtures / stage / "logdir" / ".kafka_cleanshutdown").is_file()


@pytest.mark.parametrize("way", WAYS)
def test_a_directory_that_was_closed_reads_as_its_clients_saw_it(
    way: Callable[[Path], pylog.Log], fixtures: Path, tmp_path: Path
) -> None:
    found = [stage for stage in stages(fixtures) if is_clean(fixtures, stage)]
    assert found
    for stage in found:
        with way(copied(fixtures / stage / "logdir", tmp_path / stage)) as log:
            assert failures_of(log, fixtures, stage, killed=way is as_owner_after_a_kill) == []
            assert log.recovered == () and log.quarantined == ()


@pytest.mark.parametrize("way", [as_owner, as_owner_after_a_kill])
def test_recovery_keeps_the_records_that_kafkas_recovery_keeps(
    way: Callable[[Path], pylog.Log], fixtures: Path, tmp_path: Path
) -> None:
    recovered = [stage for stage in stages(fixtures) if stage.endswith("-recovered")]
    assert recovered, "the fixtures have no stage that Kafka recovered"
    for stage in recovered:
        damaged = stage.removesuffix("-recovered")
        path = copied(fixtures / damaged / "logdir", tmp_path / damaged)
        with way(path) as log:
            assert failures_of(log, fixtures, damaged, of=stage) == []
            for view in (view for name in log.topics() for view in log.topic(name)):
                view.check()
        # What recovery has left is read the same by those who come later.
        for later in (as_owner, as_reader):
            with later(path) as log:
                assert failures_of(log, fixtures, damaged, of=stage) == []


def test_a_reader_of_an_unclean_directory_gives_whole_batches(fixtures: Path, tmp_path: Path) -> None:
    """No owner, no recovery: up to the torn tail or the damage, and never anything else."""
    found = [stage for stage in stages(fixtures) if not is_clean(fixtures, stage)]
    assert found, "the fixtures have no unclean stage"
    for stage in found:
        kept = f"{stage}-recovered"
        with as_reader(copied(fixtures / stage / "logdir", tmp_path / stage)) as log:
            for name in partitions_of(fixtures, kept):
                seen = Seen(log, fixtures, kept, name)
                for level, wanted in (("read_uncommitted", seen.all), ("read_committed", seen.committed)):
                    given: list[pylog.ConsumerRecord] = []
                    try:
                        given.extend(seen.view.records(isolation_level=level))
                    except CorruptBatch as error:
                        assert error.offset == seen.meta["high"], f"{stage}, {name}: {error}"
                        # What lies behind the damage tells of more transactions that have ended.
                        del given[len(wanted) :]
                    seen.check_same(level, given, wanted)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in DATA}


def newest_snapshot(folder: Path) -> tuple[str, list[Any]] | None:
    path = max(folder.glob("*.snapshot"), default=None)
    return (path.name, sorted(decode_snapshot(path.read_bytes()))) if path is not None else None


def test_a_clean_open_and_close_leaves_the_files_as_kafkas_restart_does(fixtures: Path, tmp_path: Path) -> None:
    """Not a byte of logs and indexes is touched, and producers are known as before."""
    for stage in (stage for stage in stages(fixtures) if is_clean(fixtures, stage)):
        source = fixtures / stage / "logdir"
        path = copied(source, tmp_path / stage)
        with as_owner(path) as log:
            for name in log.topics(internal=True):
                for view in log.topic(name):
                    assert view.next_offset >= view.high_watermark
        for name in partitions_of(fixtures, stage):
            before, after = files_of(source / name), files_of(path / name)
            assert after.keys() == before.keys(), f"{stage}, {name}"
            for file, data in after.items():
                assert data == before[file], f"{stage}, {name}/{file}"
            assert newest_snapshot(source / name) == newest_snapshot(path / name), f"{stage}, {name}"


def test_a_new_directory_has_the_features_that_kafka_gives_to_a_new_cluster(fixtures: Path, tmp_path: Path) -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        ours = log.broker.node.image.features
    for stage in stages(fixtures):
        if (fixtures / stage / "logdir" / "__cluster_metadata-0").is_dir():
            with pylog.open(copied(fixtures / stage / "logdir", tmp_path / stage)) as log:
                assert log.broker.node.image.features == ours
