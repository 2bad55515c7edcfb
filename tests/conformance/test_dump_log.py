"""The wrapper of Kafka's dump tool against the files of a real Kafka: it makes of the printed words what is there."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from conformance import dump_log

pytestmark = pytest.mark.oracle


def text_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def expected_rows(stage: Path, name: str) -> list[dict[str, Any]] | None:
    path = stage / "expected" / f"{name}.expected.jsonl.gz"
    return [json.loads(line) for line in gzip.open(path)] if path.is_file() else None


def test_reads_every_word_that_the_tool_printed(fixtures: Path) -> None:
    """Every dump of the fixtures parses without a line left over, and counts what the manifest counts."""
    stages = [stage for stage in fixtures.iterdir() if (stage / "dump").is_dir()]
    assert stages
    counted = 0
    for stage in stages:
        for path in sorted((stage / "dump").glob("*/*.txt*")):
            for dump in dump_log.parse(text_of(path)):
                assert dump.complaints == [], path
                counted += len(dump.batches)
                for batch in dump.batches:
                    assert batch.magic == 2, path
    assert counted > 0


def test_gives_the_records_that_clients_saw(fixtures: Path) -> None:
    """Offsets, times, sizes, header names, and keys and values where they are UTF-8, as the clients read them."""
    stage, compared = fixtures / "clean", 0
    for folder in sorted((stage / "dump").iterdir()):
        rows = expected_rows(stage, folder.name)
        if rows is None or folder.name.startswith("__"):
            continue
        printed = {
            record.offset: record
            for path in sorted(folder.glob("*.log.txt*"))
            for dump in dump_log.parse(text_of(path))
            for record in dump.records
        }
        for row in rows:
            record = printed[row["offset"]]
            assert (record.timestamp, record.timestamp_type) == (row["timestamp"], row["timestamp_type"])
            assert ",".join(record.header_keys) == ",".join(name for name, _ in row["headers"])
            compared += same(row, "key", record.key, record.key_size)
            compared += same(row, "value", record.value, record.value_size)
    assert compared > 0


def same(row: dict[str, Any], field: str, printed: bytes | None, size: int) -> bool:
    """Check a printed key or value against the expected one; whether there was something to compare."""
    if f"{field}_hex" not in row:
        return False
    data = None if row[f"{field}_hex"] is None else bytes.fromhex(row[f"{field}_hex"])
    assert size == (-1 if data is None else len(data))
    if printed is None or data is None or not is_utf8(data):
        return False
    assert printed == data
    return True


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
