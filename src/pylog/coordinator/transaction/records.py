"""The records of `__transaction_state`: a key and a value for each transactional id; a key alone says it is forgotten.

    key     i16 0, string transactional id
    value   i16 version, i64 producer id, i16 epoch, i32 timeout, i8 state, partitions by topic, i64 update, i64 start
            of version 1, which is flexible, with tags: 0 previous and 1 next producer id, 2 client's version (KIP-890)

Versions 0 and 1 are read, 1 is written: what Kafka writes since transaction.version 1. An Empty transaction has None
for its partitions, all others a list.

Source: Kafka's TransactionLog.
"""

from functools import lru_cache

from pylog.coordinator.effects import LogRecord
from pylog.coordinator.transaction.state import EPOCH_MAX, Transaction, TransactionState
from pylog.errors import CorruptBatch, UnsupportedFormat
from pylog.protocol.schema import Struct, message
from pylog.record import TopicPartition

KEY_VERSION = 0
VALUE_VERSION = 1
VERSION_BYTES = 2

KEY = message("TransactionLogKey")
VALUE = message("TransactionLogValue")


@lru_cache(1024)
def key_of(transactional_id: str) -> bytes:
    """The key of a transactional id. Raises ValueError: too long, or no text that utf-8 can say."""
    return KEY_VERSION.to_bytes(VERSION_BYTES, "big") + KEY.encode(KEY_VERSION, {"transactionalId": transactional_id})


def record_of(transactional_id: str, transaction: Transaction | None) -> LogRecord:
    """The record that says so; None: that the transactional id is forgotten."""
    if transaction is None:
        return LogRecord(key_of(transactional_id), None)
    topics: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        topics.setdefault(topic, []).append(partition)
    listed = [{"topic": topic, "partitionIds": numbers} for topic, numbers in topics.items()]
    value = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionTimeoutMs": transaction.timeout_ms,
        "transactionStatus": transaction.state,
        "transactionPartitions": None if transaction.state is TransactionState.EMPTY else listed,
        "transactionLastUpdateTimestampMs": transaction.last_update_ms,
        "transactionStartTimestampMs": transaction.start_ms,
        "previousProducerId": transaction.previous_producer_id,
        "nextProducerId": transaction.next_producer_id,
        "clientTransactionVersion": transaction.client_version,
    }
    data = VALUE_VERSION.to_bytes(VERSION_BYTES, "big") + VALUE.encode(VALUE_VERSION, value)
    return LogRecord(key_of(transactional_id), data)


def read(record: LogRecord) -> tuple[str, Transaction | None]:
    """The transactional id that a record is about, and its state. Raises: UnsupportedFormat, CorruptBatch."""
    version, body = _versioned(record.key, "key")
    if version != KEY_VERSION:
        raise UnsupportedFormat(f"a key of a transaction has version {version}, known is {KEY_VERSION}")
    key = _whole(KEY.decode(version, body), body, "key")
    transactional_id: str = key["transactionalId"]
    if record.value is None:
        return transactional_id, None
    version, body = _versioned(record.value, "value")
    return transactional_id, _transaction(transactional_id, _whole(VALUE.decode(version, body), body, "value"))


def _versioned(data: bytes, what: str) -> tuple[int, bytes]:
    if len(data) < VERSION_BYTES:
        raise CorruptBatch(f"a {what} of a transaction has {len(data)} bytes: too few for its version")
    return int.from_bytes(data[:VERSION_BYTES], "big"), data[VERSION_BYTES:]


def _whole(decoded: tuple[Struct, int], data: bytes, what: str) -> Struct:
    fields, end = decoded
    if end != len(data):
        raise CorruptBatch(f"a {what} of a transaction has {len(data) - end} bytes behind its end")
    return fields


def _transaction(transactional_id: str, value: Struct) -> Transaction:
    status, producer_id, epoch = value["transactionStatus"], value["producerId"], value["producerEpoch"]
    if (
        not TransactionState.EMPTY <= status <= TransactionState.COMPLETE_ABORT
        or producer_id < 0
        or not 0 <= epoch <= EPOCH_MAX
    ):
        raise CorruptBatch(
            f"the transaction {transactional_id!r} cannot have state {status}, producer id {producer_id}, epoch {epoch}"
        )
    topics = value["transactionPartitions"] or ()
    return Transaction(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=value["transactionTimeoutMs"],
        state=TransactionState(status),
        partitions=tuple(TopicPartition(part["topic"], number) for part in topics for number in part["partitionIds"]),
        last_update_ms=value["transactionLastUpdateTimestampMs"],
        start_ms=value["transactionStartTimestampMs"],
        previous_producer_id=value.get("previousProducerId", -1),
        next_producer_id=value.get("nextProducerId", -1),
        client_version=value.get("clientTransactionVersion", 0),
    )
