"""The transaction log's records as Kafka writes them, and what its own partitions say when they are replayed."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.effects import LogRecord
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.coordinator.transaction.records import read, record_of
from pylog.coordinator.transaction.state import Transaction, TransactionState
from pylog.errors import UnsupportedFormat
from pylog.protocol.schema import message
from pylog.record import TopicPartition


def load(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def transaction_of(case: dict[str, Any]) -> Transaction:
    return Transaction(
        producer_id=case["producer_id"],
        producer_epoch=case["producer_epoch"],
        timeout_ms=case["timeout_ms"],
        state=TransactionState[case["state"]],
        partitions=tuple(TopicPartition(topic, partition) for topic, partition in case["partitions"]),
        last_update_ms=case["last_update_timestamp"],
        start_ms=case["start_timestamp"],
        previous_producer_id=case["prev_producer_id"],
        next_producer_id=case["next_producer_id"],
        client_version=case["client_transaction_version"],
    )


def test_records_are_kafkas_byte_for_byte(facts: Path) -> None:
    written = load(facts / "coordinator_records.json.gz")["records"]["written_transaction_log"]
    modern = [case for case in written if case["transaction_version"] > 0 and "error" not in case]
    assert modern
    for case in modern:
        value, _ = message("TransactionLogValue").decode(1, bytes.fromhex(case["value_hex"]), 2)
        order = [part["topic"] for part in value["transactionPartitions"] or ()]  # Kafka's: that of a hash map
        case["partitions"].sort(key=lambda given: order.index(given[0]) if order else 0)
        record = record_of(case["transactional_id"], transaction_of(case))
        assert record.key.hex() == case["key_hex"]
        assert record.value is not None and record.value.hex() == case["value_hex"]


def test_records_are_read_as_kafka_wrote_them(facts: Path) -> None:
    written = load(facts / "coordinator_records.json.gz")["records"]["written_transaction_log"]
    states = set()
    for case in (case for case in written if "error" not in case):
        given = transaction_of(case)
        if given.state > TransactionState.COMPLETE_ABORT:
            continue  # never in a log: see test_transaction_records.py
        name, got = read(LogRecord(bytes.fromhex(case["key_hex"]), bytes.fromhex(case["value_hex"])))
        assert name == case["transactional_id"] and got is not None
        assert set(got.partitions) == set(given.partitions)
        partless: dict[str, Any] = {"partitions": got.partitions}
        if case["transaction_version"] == 0:
            partless |= {"previous_producer_id": -1, "next_producer_id": -1, "client_version": 0}
        for field, value in {**{name: getattr(given, name) for name in Transaction.__slots__}, **partless}.items():
            assert getattr(got, field) == value, (field, case)
        states.add(given.state)
    assert len(states) == 6


def test_keys_and_values_of_random_contents_are_read_or_refused(facts: Path) -> None:
    records = load(facts / "coordinator_records.json.gz")["records"]
    value = next(case["hex"] for case in records["TransactionLogValue"]["cases"] if case["version"] == 0)
    for case in records["TransactionLogKey"]["cases"]:
        name, _ = read(LogRecord(bytes.fromhex(case["hex"]), bytes.fromhex(value)))
        assert name == case["json"]["transactionalId"]
    with pytest.raises(UnsupportedFormat):
        read(LogRecord(bytes.fromhex("000100027476"), None))


def test_replaying_kafkas_partitions_gives_its_last_states(fixtures: Path) -> None:
    """Each record decodes, is written back as the same bytes, and the last one of a key is what is known of it."""
    lists = sorted((fixtures / "clean" / "expected").glob("__transaction_state-?.expected.jsonl.gz"))
    if not lists:
        pytest.skip("this set has no __transaction_state")
    seen = set()
    for path in lists:
        machine = TransactionCoordinator(0, NodeConfig(), new_producer_id=lambda: 1)
        last: dict[str, bytes | None] = {}
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                key, value = (bytes.fromhex(row[name]) if row[name] else None for name in ("key_hex", "value_hex"))
                assert key is not None
                record = LogRecord(key, value)
                machine.replay(record)
                name, transaction = read(record)
                assert record_of(name, transaction) == record
                last[name] = value
                seen.add(transaction.state if transaction else None)
        kept = {name: record_of(name, transaction).value for name, transaction in machine.transactions.items()}
        assert kept == {name: value for name, value in last.items() if value is not None}
    assert seen >= {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_COMMIT,
    }
