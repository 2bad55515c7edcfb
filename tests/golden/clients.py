"""What the clients of the golden set send, and what they see: each record, timestamp and key the same every time."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.kafka_broker import UP_SECONDS, admin, messages

START_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
QUIET = {"log_level": 0}
WITH_TRANSACTIONS = ("txn", "unclean-txn", "compacted")
TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}


# --- sending --------------------------------------------------------------------------------------------------------


def send(servers: str, topic: str, count: int, **settings: Any) -> None:
    """Batches of seven: nulls, empty ones, headers, timestamps that go back."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "batch.num.messages": 7, **QUIET, **settings}
    )  # fmt: skip
    for i in range(count):
        value = None if i % 11 == 3 else b"" if i % 11 == 5 else b"value %d " % i * (i % 9)
        key = None if i % 7 == 2 else b"" if i % 7 == 4 else b"key %d" % (i % 5)
        headers = [("h", b"%d" % i), ("h", None), ("e", b""), ("ü", bytes(range(256)))][: i % 5]
        timestamp = START_MS + 1000 * i - 2500 * (i % 3)
        producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=headers)
        if i % 7 == 6:
            producer.flush()
    assert producer.flush(UP_SECONDS) == 0


@contextmanager
def transactional(servers: str, name: str) -> Iterator[Any]:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 600_000, **QUIET}
    )  # fmt: skip
    producer.init_transactions(UP_SECONDS)
    yield producer


def transactions(servers: str, topic: str, stay: list[Any]) -> None:
    """Interleaved: committed, aborted; at the end one that stays open, with an aborted and a committed one above it.

    Producers that are let go abort what is open: `stay` keeps them.
    """
    with transactional(servers, f"{topic}-a") as one, transactional(servers, f"{topic}-b") as two:
        for turn in range(6):
            one.begin_transaction()
            two.begin_transaction()
            for i in range(4):
                write(one, topic, b"one %d %d" % (turn, i), turn)
                write(two, topic, b"two %d %d" % (turn, i), turn)
            one.commit_transaction()
            (two.abort_transaction if turn % 2 else two.commit_transaction)()
            send(servers, topic, 2)
        one.begin_transaction()
        write(one, topic, b"open", 6)
        for end in (two.abort_transaction, two.commit_transaction):
            two.begin_transaction()
            write(two, topic, b"above it", 7)
            end()
        stay += [one, two]


def write(producer: Any, topic: str, value: bytes, turn: int) -> None:
    """A batch of one record."""
    producer.produce(topic, value, b"k", 0, timestamp=START_MS + turn)
    producer.flush()


def fill_keys(servers: str, topic: str, first: int, rounds: int) -> None:
    """For compacted topics: twenty keys again and again, tombstones, all codecs, transactions of which some abort.

    Of the first producer nothing is left but an emptied batch.
    """
    from confluent_kafka import Producer

    with transactional(servers, f"{topic}-once") as once, transactional(servers, f"{topic}-t") as tx:
        once.begin_transaction()
        once.produce(topic, b"soon overwritten", b"key 0", 0, timestamp=START_MS)
        once.commit_transaction()
        for turn in range(first, first + rounds):
            codec = CODECS[turn % 5]
            producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": codec, **QUIET})
            timestamp = START_MS + 1000 * turn
            for i in range(12):
                value = None if (turn + i) % 13 == 0 else b"%d of round %d " % (i, turn) * 3
                producer.produce(topic, value, b"key %d" % ((turn * 5 + i) % 20), 0, timestamp=timestamp + i)
            assert producer.flush(UP_SECONDS) == 0
            tx.begin_transaction()
            for i in range(4):
                key = b"once %d" % turn if i == 0 else b"key %d" % ((turn * 3 + i) % 20)
                value = None if i == 3 and turn % 4 == 1 else b"tx %d of round %d" % (i, turn)
                tx.produce(topic, value, key, 0, timestamp=timestamp + i)
            tx.flush()
            (tx.abort_transaction if turn % 3 == 1 else tx.commit_transaction)()


# --- seeing ---------------------------------------------------------------------------------------------------------


def look(servers: str, topic: str, into: Path, config: dict[str, str]) -> None:
    """Write down what clients see of a partition."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    key = TopicPartition(topic, 0)
    client = admin(servers)

    def listed(spec: Any, isolation: Any = None) -> Any:
        more = {} if isolation is None else {"isolation_level": isolation}
        return next(iter(client.list_offsets({key: spec}, **more).values())).result(UP_SECONDS)

    rows = records(servers, topic, "read_uncommitted")
    committed = records(servers, topic, "read_committed")
    newest = listed(OffsetSpec.max_timestamp())
    meta = {
        "topic": topic, "partition": 0, "configs": config,
        "low": listed(OffsetSpec.earliest()).offset, "high": listed(OffsetSpec.latest()).offset,
        "last_stable_offset": listed(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).offset,
        "records": len(rows), "records_committed": len(committed), "max_timestamp": [newest.timestamp, newest.offset],
        "offsets_for_times": for_times(servers, topic, sorted({row["timestamp"] for row in rows})),
    }  # fmt: skip
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{topic}-0.meta.json").write_text(json.dumps(meta) + "\n")
    lists = {"expected": rows}
    if topic.startswith(WITH_TRANSACTIONS):
        lists["read_committed.expected"] = committed
    for name, found in lists.items():
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in found)
        (into / f"{topic}-0.{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def for_times(servers: str, topic: str, seen: list[int]) -> list[list[int]]:
    """The offset found for each timestamp and its neighbours, -1 where there is none."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "look", **QUIET})
    times = sorted({time + step for time in seen for step in (-1, 0, 1)} | {0})
    found = [
        [time, consumer.offsets_for_times([TopicPartition(topic, 0, time)], UP_SECONDS)[0].offset] for time in times
    ]
    consumer.close()
    return found


def records(servers: str, topic: str, isolation: str) -> list[dict[str, Any]]:
    def line(message: Any) -> dict[str, Any]:
        kind, timestamp = message.timestamp()
        value, key = message.value(), message.key()
        return {
            "offset": message.offset(), "timestamp": timestamp, "timestamp_type": TIMESTAMP_TYPES[kind],
            "key_hex": None if key is None else key.hex(), "value_hex": None if value is None else value.hex(),
            "headers": [[name, None if data is None else data.hex()] for name, data in message.headers() or ()],
            "leader_epoch": message.leader_epoch(),
        }  # fmt: skip

    return [line(message) for message in messages(servers, topic, isolation)]
