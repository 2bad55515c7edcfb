"""Kafka's cleanings replayed: the same range, counters, bytes and files; and logs that Kafka has cleaned itself."""

import base64
import gzip
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from pylog.broker.log_cleaner import Cleaned, Cleaner, clean
from pylog.commitlog.compaction.offset_map import SLOT_BYTES
from pylog.config import TopicConfig
from pylog.files import MemoryFiles
from pylog.kernel import ConsumerRecord
from pylog.partition import Checkpoint, Partition
from pylog.protocol.batch import Batch, split

from .scripts import Replay, digest

pytestmark = pytest.mark.oracle

MAP_SLOTS = 10_000
"""Where nothing was cleaned Kafka does not say how many slots there would have been."""


class KafkaError(Exception):
    """Kafka gives up half-way: it gives a group one index entry more than fits, since only the sums are checked
    beforehand. pylog leaves the entry out.
    """


class CleanerReplay(Replay):
    cleanings = 0

    def clean(self, op: dict[str, Any]) -> Any:
        if "error" in op:
            raise KafkaError
        result = op["result"]
        slots = result.get("map_slots", MAP_SLOTS)
        cleaning = Cleaner(
            self.partition, checkpoint=op["last_clean_offset"], now_ms=self.now_ms, buffer_bytes=slots * SLOT_BYTES
        )
        for _ in cleaning.steps():
            pass
        plan, cleaned = cleaning.plan, cleaning.cleaned
        # Whether Kafka writes where it begins into its checkpoint. pylog finds that anew each time.
        resets = result["cleanable"][2]
        found = {
            "cleanable": [
                plan.first_dirty, plan.first_uncleanable, resets, plan.clean_bytes, plan.cleanable_bytes,
            ]
        }  # fmt: skip
        if cleaned is None:
            # Where an open transaction leaves nothing to clean, Kafka's cleaner goes through the motions.
            assert not any(result.get(name) for name in ("messages_read", "bytes_read", "messages_written"))
            return {**result, **found}
        CleanerReplay.cleanings += 1
        return {
            **found,
            "map_slots": slots,
            "end_offset": cleaned.end_offset,
            "messages_read": cleaned.records_read,
            "messages_written": cleaned.records_kept,
            "bytes_read": cleaned.bytes_read,
            "bytes_written": cleaned.bytes_kept,
            "invalid": cleaned.without_key,
            "segments": [self._log(*expected) for expected in result["segments"]],
        }

    def _log(self, base_offset: int, _: int, content: str) -> list[Any]:
        segments = {segment.base_offset: segment for segment, _ in self.partition.segments}
        data = segments[base_offset].log.file.read(0, segments[base_offset].size)
        return [base_offset, len(data), digest(data)[:16] if len(content) == 16 else data.hex()]


@pytest.mark.parametrize("name", ["cleaner.json.gz", "storage.json.gz"])
def test_kafkas_cleanings_replayed_give_the_same_logs(facts: Path, name: str) -> None:
    data = json.loads(gzip.decompress((facts / name).read_bytes()))
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(data["topic_id"] + "=="))
    before = CleanerReplay.cleanings
    for script in data["scripts"]:
        if any(op["op"] == "clean" for op in script["ops"]):
            try:
                assert CleanerReplay(script, topic_id).run() == []
            except KafkaError:
                continue
    assert CleanerReplay.cleanings > before


# --- what a broker has cleaned ------------------------------------------------------------------------------------

Line = tuple[int, int, str | None, str]


def copied(source: Path, config: dict[str, str]) -> Partition:
    """A partition over a copy, in memory, of a folder that a broker has written."""
    files = MemoryFiles()
    files.make_dir(source.name)
    for path in source.iterdir():
        files.replace_file(f"{source.name}/{path.name}", path.read_bytes())
    topic, _, number = source.name.rpartition("-")
    partition = Partition(files, source.name, topic, int(number), TopicConfig.loaded(config))
    partition.open(Checkpoint(), 0)
    partition.advance_high_watermark(partition.next_offset)
    return partition


def batches_of(partition: Partition) -> list[Batch]:
    found, offset = [], partition.start_offset
    while (part := partition.read(offset, 1 << 20, upto=partition.next_offset)) is not None:
        found += list(split(part.data, check_crc=True))
        offset = found[-1].next_offset
    return found


def visible(partition: Partition, *, committed: bool) -> dict[int, Line]:
    """What a consumer sees, by offset."""
    lines = {}
    aborted = {(txn.producer_id, txn.first_offset): txn for txn in partition.aborted(0, partition.next_offset)}
    for batch in batches_of(partition):
        hidden = committed and batch.is_transactional and any(
            producer_id == batch.producer_id and first <= batch.base_offset <= txn.last_offset
            for (producer_id, first), txn in aborted.items()
        )  # fmt: skip
        if not batch.is_control and not hidden:
            lines |= {record.offset: line(record) for record in batch.records("t", 0)}
    return lines


def line(record: ConsumerRecord) -> Line:
    value = "null" if record.value is None else digest(record.value)
    return record.offset, record.timestamp, None if record.key is None else record.key.hex(), value


def expected(path: Path) -> dict[int, Line]:
    found = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for text in lines:
            wanted = json.loads(text)
            value = wanted.get("value_sha256")
            if value is None:
                value = "null" if wanted["value_hex"] is None else digest(bytes.fromhex(wanted["value_hex"]))
            found[wanted["offset"]] = (wanted["offset"], wanted["timestamp"], wanted["key_hex"], value)
    return found


def config_of(fixtures: Path, name: str) -> dict[str, str]:
    meta = json.loads((fixtures / "clean" / "expected" / f"{name}.meta.json").read_text(encoding="utf-8"))
    return {**meta["configs"], "min.compaction.lag.ms": "0"}


def cleaned_at(fixtures: Path, name: str) -> int:
    """The clock of Kafka's pass over a log that it has cleaned once: the horizons it gave tell it."""
    config = TopicConfig.loaded(config_of(fixtures, name))
    after = copied(fixtures / "clean" / "logdir" / name, {})
    horizons = {batch.base_timestamp for batch in batches_of(after) if batch.has_delete_horizon}
    assert len(horizons) == 1, f"{name} was cleaned more than once"
    return horizons.pop() - config.delete_retention_ms


def cleaned_by_us(fixtures: Path, name: str, now_ms: int) -> tuple[Partition, Cleaned]:
    partition = copied(fixtures / "compact-before" / "logdir" / name, config_of(fixtures, name))
    cleaned = clean(partition, checkpoint=None, now_ms=now_ms, buffer_bytes=1 << 20)
    assert cleaned is not None
    partition.check()
    return partition, cleaned


def test_a_log_cleaned_once_equals_kafkas(fixtures: Path) -> None:
    name = "compacted-keep-0"
    partition, _ = cleaned_by_us(fixtures, name, cleaned_at(fixtures, name))
    kafkas = copied(fixtures / "clean" / "logdir" / name, {})
    ours, theirs = batches_of(partition), batches_of(kafkas)
    header = "base_offset last_offset leader_epoch attributes base_timestamp max_timestamp producer_id producer_epoch"
    for batch, wanted in zip(ours, theirs, strict=True):
        for field in [*header.split(), "base_sequence", "count"]:
            assert getattr(batch, field) == getattr(wanted, field), field
        assert batch.records("t", 0) == wanted.records("t", 0)
        if not wanted.codec:
            assert bytes(batch.data) == bytes(wanted.data)
    assert [segment.base_offset for segment, _ in partition.segments] == [
        segment.base_offset for segment, _ in kafkas.segments
    ]
    assert partition.aborted(0, partition.next_offset) == kafkas.aborted(0, kafkas.next_offset)


@pytest.mark.parametrize("committed", [False, True])
def test_a_log_cleaned_once_shows_the_records_of_kafkas_consumers(fixtures: Path, committed: bool) -> None:
    name = "compacted-keep-0"
    partition, _ = cleaned_by_us(fixtures, name, cleaned_at(fixtures, name))
    isolation = "read_committed." if committed else ""
    assert visible(partition, committed=committed) == expected(
        fixtures / "clean" / "expected" / f"{name}.{isolation}expected.jsonl.gz"
    )


def test_a_log_cleaned_and_written_again_keeps_kafkas_records(fixtures: Path) -> None:
    """Kafka has cleaned it three times: it has dropped more than one pass does, and nothing that it drops not."""
    name = "compacted-drop-0"
    partition, cleaned = cleaned_by_us(fixtures, name, now_ms=1 << 41)
    ours = visible(partition, committed=True)
    theirs = expected(fixtures / "clean" / "expected" / f"{name}.read_committed.expected.jsonl.gz")
    old = {offset: wanted for offset, wanted in theirs.items() if offset < partition.next_offset}
    assert old.items() <= ours.items()
    newest = {wanted[2]: offset for offset, wanted in sorted(theirs.items())}
    for offset, (_, _, key, _) in ours.items():
        if offset < cleaned.end_offset and offset not in theirs:
            # Superseded later, perhaps by a tombstone that is gone, too: of its key nothing older is left.
            assert newest.get(key, offset + 1) > offset
