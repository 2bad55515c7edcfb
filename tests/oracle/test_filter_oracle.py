"""Batches are filtered as Kafka's MemoryRecords.filterTo filters them: byte for byte where nothing is compressed."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pylog.commitlog.compaction.filter import BatchRetention, filter_batch
from pylog.protocol.batch import Batch, split

pytestmark = pytest.mark.oracle

RETENTIONS = {
    "DELETE": BatchRetention.DROP,
    "RETAIN_EMPTY": BatchRetention.KEEP_EMPTY,
    "DELETE_EMPTY": BatchRetention.DROP_EMPTY,
}


def filtered(case: dict[str, Any]) -> tuple[list[Batch], dict[str, int]]:
    """The batches that come out, and the figures of Kafka's FilterResult."""
    wanted = set(case["retain_offsets"])
    out, result = [], {"messages_read": 0, "bytes_read": 0, "messages_retained": 0, "bytes_retained": 0}
    for batch, rule in zip(split(bytes.fromhex(case["input_hex"]), check_crc=True), case["batches"], strict=True):
        assert batch.base_offset == rule["base_offset"]
        found = filter_batch(
            batch,
            RETENTIONS[rule["batch_retention"]],
            lambda spans: spans.select(bytes(span[0] in wanted for span in spans)),
            now_ms=case["now"],
            delete_retention_ms=case["delete_retention_ms"],
            is_spent_marker=rule["contains_marker_for_empty_txn"],
        )
        result["messages_read"] += found.records_read
        result["bytes_read"] += batch.size
        result["messages_retained"] += found.records_kept
        if found.batch is not None:
            out.append(found.batch)
            result["bytes_retained"] += found.batch.size
    return out, result


def decoded(data: bytes) -> list[Any]:
    batches = list(split(data, check_crc=True))
    fields = "base_offset last_offset leader_epoch attributes base_timestamp max_timestamp producer_id producer_epoch"
    return [
        [getattr(batch, name) for name in [*fields.split(), "base_sequence", "count"]]
        + [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records("t", 0)]
        for batch in batches
    ]


def test_batches_come_out_as_kafka_writes_them(facts: Path) -> None:
    cases = json.loads(gzip.decompress((facts / "filter.json.gz").read_bytes()))["cases"]
    assert cases
    exact = 0
    for case in cases:
        batches, result = filtered(case)
        data, expected = b"".join(bytes(batch.data) for batch in batches), bytes.fromhex(case["output_hex"])
        if case["byte_exact"]:
            exact += 1
            assert data.hex() == expected.hex()
        else:
            assert decoded(data) == decoded(expected)
            del result["bytes_retained"]  # how far a payload shrinks is the codec library's
        assert result == {name: case["result"][name] for name in result}
    assert exact
