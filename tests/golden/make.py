"""Makes the golden set anew (`make golden`): directories that a real Kafka wrote, and what its clients saw in them.

    STAGE/logdir/                                       a broker's log directory after it stopped
    STAGE/expected/NAME.expected.jsonl.gz               a line a record, read_uncommitted
    STAGE/expected/NAME.read_committed.expected.jsonl.gz
    STAGE/expected/NAME.meta.json                       configs, watermarks, last stable offset, look-ups by time

    clean      a clean stop: all codecs, transactions committed, aborted and open, trimmed, rolled, LogAppendTime
    unclean    after SIGKILL: transactions and plain records behind the recovery point

Small, so that every clone has it. Records and timestamps are the same each time; ids, epochs' times and markers' clocks
are not.
"""

import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.kafka_broker import UP_SECONDS, admin, broker, create_topics

HERE = Path(__file__).parent
START_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"internal.segment.bytes": "3000", "index.interval.bytes": "200", "segment.index.bytes": "4096"}
INDEX = {"segment.index.bytes": "4096"}
TOPICS = {
    **{f"codec-{codec}": {"compression.type": "producer", **INDEX} for codec in CODECS},
    "append-time": {"message.timestamp.type": "LogAppendTime", **INDEX},
    "recompressed": {"compression.type": "lz4", **INDEX},
    "rolled": SMALL,
    "trimmed": SMALL,
    "txn": SMALL,
}


def send(servers: str, topic: str, count: int, **settings: Any) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "batch.num.messages": 7, **settings})
    for i in range(count):
        value = None if i % 11 == 3 else b"" if i % 11 == 5 else b"value %d " % i * (i % 9)
        key = None if i % 7 == 2 else b"" if i % 7 == 4 else b"key %d" % (i % 5)
        headers = [("h", b"%d" % i), ("h", None), ("e", b"")][: i % 4]
        timestamp = START_MS + 1000 * i - 2500 * (i % 3)
        producer.produce(topic, value, key, partition=0, timestamp=timestamp, headers=headers)
        if i % 7 == 6:
            producer.flush()
    assert producer.flush(UP_SECONDS) == 0


@contextmanager
def transactional(servers: str, name: str) -> Iterator[Any]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(UP_SECONDS)
    yield producer


def transactions(servers: str, topic: str, stay: list[Any]) -> None:
    """Interleaved: committed, aborted, and at the end one that stays open."""
    with transactional(servers, f"{topic}-a") as one, transactional(servers, f"{topic}-b") as two:
        for turn in range(6):
            one.begin_transaction()
            two.begin_transaction()
            for i in range(4):
                one.produce(topic, b"one %d %d" % (turn, i), b"k", 0, timestamp=START_MS + turn)
                two.produce(topic, b"two %d %d" % (turn, i), b"k", 0, timestamp=START_MS + turn)
                one.flush()
                two.flush()
            one.commit_transaction()
            (two.abort_transaction if turn % 2 else two.commit_transaction)()
            send(servers, topic, 2)
        one.begin_transaction()
        one.produce(topic, b"open", b"k", 0, timestamp=START_MS)
        one.flush()
        stay += [one, two]


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
    low, high = listed(OffsetSpec.earliest()).offset, listed(OffsetSpec.latest()).offset
    newest = listed(OffsetSpec.max_timestamp())
    times = sorted({row["timestamp"] + step for row in rows for step in (-1, 0, 1)} | {0})
    meta = {
        "topic": topic, "partition": 0, "configs": config, "low": low, "high": high, "records": len(rows),
        "last_stable_offset": listed(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).offset,
        "records_committed": len(committed), "max_timestamp": [newest.timestamp, newest.offset],
        "offsets_for_times": [[time, at] for time, at in zip(times, for_times(servers, topic, times), strict=True)],
    }  # fmt: skip
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{topic}-0.meta.json").write_text(json.dumps(meta) + "\n")
    for name, found in (("expected", rows), ("read_committed.expected", committed)):
        text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in found)
        (into / f"{topic}-0.{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def for_times(servers: str, topic: str, times: list[int]) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "look"})
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, time)], UP_SECONDS)[0].offset for time in times]
    consumer.close()
    return found


def records(servers: str, topic: str, isolation: str) -> list[dict[str, Any]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "look", "enable.auto.commit": False, "isolation.level": isolation,
        "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows = []
    while True:
        message = consumer.poll(UP_SECONDS)
        assert message is not None
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            consumer.close()
            return rows
        kind, timestamp = message.timestamp()
        value, key = message.value(), message.key()
        rows.append({
            "offset": message.offset(), "timestamp": timestamp,
            "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}[kind],
            "key_hex": None if key is None else key.hex(), "value_hex": None if value is None else value.hex(),
            "headers": [[name, None if data is None else data.hex()] for name, data in message.headers() or ()],
            "leader_epoch": message.leader_epoch(),
        })  # fmt: skip


def keep(data: Path, stage: str, topics: list[str]) -> None:
    target = HERE / stage / "logdir"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in data.iterdir():
        if path.is_file() and path.name not in (".lock", "bootstrap.checkpoint"):
            shutil.copy2(path, target)
    for topic in topics:
        shutil.copytree(data / f"{topic}-0", target / f"{topic}-0")


def make_clean(work: Path) -> None:
    data = work / "data"
    data.mkdir(parents=True)
    stay: list[Any] = []
    with broker(data, work) as servers:
        create_topics(servers, TOPICS)
        for codec in CODECS:
            send(servers, f"codec-{codec}", 40, **{"compression.type": codec})
        send(servers, "append-time", 15, **{"compression.type": "lz4"})
        send(servers, "recompressed", 30, **{"compression.type": "zstd"})
        send(servers, "rolled", 150)
        send(servers, "trimmed", 120)
        trim(servers, "trimmed", 61)
    with broker(data, work) as servers:
        # A second leader epoch.
        send(servers, "rolled", 20, **{"enable.idempotence": True})
        transactions(servers, "txn", stay)
        for topic, config in TOPICS.items():
            look(servers, topic, HERE / "clean" / "expected", config)
    keep(data, "clean", list(TOPICS))


def trim(servers: str, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    client = admin(servers)
    for answer in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        answer.result(UP_SECONDS)


def make_unclean(work: Path) -> None:
    data = work / "data"
    data.mkdir(parents=True)
    stay: list[Any] = []
    topics = {"unclean": SMALL, "unclean-txn": SMALL}
    with broker(data, work, kill=True) as servers:
        create_topics(servers, topics)
        send(servers, "unclean", 100)
        transactions(servers, "unclean-txn", stay)
        for topic, config in topics.items():
            look(servers, topic, HERE / "unclean" / "expected", config)
    keep(data, "unclean", list(topics))


if __name__ == "__main__":
    for stage in ("clean", "unclean"):
        shutil.rmtree(HERE / stage, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        make_clean(Path(folder) / "clean")
        make_unclean(Path(folder) / "unclean")
    manifest = {"made_by": "Apache Kafka 4.3.1", "stages": ["clean", "unclean"]}
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    size = sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file())
    print(f"{size} bytes in {HERE}", file=sys.stderr)
