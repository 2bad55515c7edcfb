"""A log that follows topics of a real Kafka broker: the same batches under the same offsets, as Kafka's tools see them.

    confluent-kafka -> Kafka -> pylog follow -> Kafka's dump tool, pylog's records

The broker is restarted on the way, which begins leader epochs, and its cleaner compacts one topic.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from conformance import dump_log
from conformance.kafka_broker import Node, consume, create_topics
from support.clients.values import until
from support.copies import QUICK

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    # Sockets that confluent-kafka leaves to the collector are nobody's leak of ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

T0_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COMPACTED = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100", "file.delete.delay.ms": "0",
    "max.compaction.lag.ms": "100",
}  # fmt: skip
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "txn": {"index.interval.bytes": "512"},
    "compacted": COMPACTED,
    "append-time": {"message.timestamp.type": "LogAppendTime"},
}
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "0"}


class Kafka:
    """A broker with all topics, and what was written into it."""

    def __init__(self, node: Node, data: Path) -> None:
        self.node = node
        self.data = data

    def producer(self, **config: Any) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.node.bootstrap_servers, "log_level": 0, "linger.ms": 5, **config})

    def fill(self, turn: int) -> None:
        for codec in CODECS:
            producer = self.producer(**{"compression.codec": codec, "enable.idempotence": codec != "gzip"})
            for i in range(300):
                headers = [("h", b"x"), ("n", None)][: i % 3]
                key, value = b"k%d" % (i % 7), None if i % 11 == 3 else b"%d of %d " % (i, turn) * 9
                producer.produce(f"codec-{codec}", value, key, timestamp=T0_MS + i, headers=headers)
            producer.flush()
        producer = self.producer()
        for i in range(200):
            producer.produce("compacted", b"%d of %d" % (i, turn), b"k%d" % (i % 10))
            producer.produce("append-time", b"%d" % i)
        producer.flush()
        self._transactions(turn)

    def is_compacted(self) -> bool:
        """Whether the cleaner has come by; each look rolls a segment, as the active one is not cleaned."""
        producer = self.producer()
        producer.produce("compacted", b"rolls", b"last")
        producer.flush()
        return len(consume(self.node.bootstrap_servers, "compacted", "read_uncommitted")) < 100

    def _transactions(self, turn: int) -> None:
        one, two = (self.producer(**{"transactional.id": f"{name} {turn}"}) for name in ("one", "two"))
        for producer in (one, two):
            producer.init_transactions()
        for number in range(4):
            for producer in (one, two):
                producer.begin_transaction()
            for i in range(20):
                one.produce("txn", b"one %d %d %d" % (turn, number, i))
                two.produce("txn", b"two %d %d %d" % (turn, number, i))
            for producer in (one, two):
                producer.flush()
            one.commit_transaction()
            (two.commit_transaction if number % 2 else two.abort_transaction)()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    work = tmp_path_factory.mktemp("kafka")
    node = Node(work / "data", work, SETTINGS)
    node.start()
    try:
        create_topics(node.bootstrap_servers, TOPICS)
        yield Kafka(node, work / "data")
    finally:
        node.kill()


@pytest.fixture(scope="module")
def copy(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a copy that has followed all of it, through a restart and a compaction."""
    path = tmp_path_factory.mktemp("copy") / "copy"
    kafka.fill(0)
    with pylog.open(path, node_id=7, config=QUICK) as log:
        log.follow(kafka.node.bootstrap_servers, list(TOPICS))
        until(lambda: log.topic("txn")[0].next_offset > 100)
        kafka.node.stop()
        kafka.node.start()
        kafka.fill(1)
        caught_up(kafka, log)
    until(kafka.is_compacted)
    # Begins where the cleaner has been: batches with fewer records, and offsets that are missing.
    with pylog.open(path, config=QUICK) as log, log.follow(kafka.node.bootstrap_servers, list(TOPICS)):
        caught_up(kafka, log)
    yield path


def caught_up(kafka: Kafka, log: pylog.Log) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.node.bootstrap_servers, "group.id": "judge", "log_level": 0})
    try:
        for name in TOPICS:
            end = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[1]
            view = log.topic(name)[0]
            until(lambda view=view, end=end: view.high_watermark == end)  # type: ignore[misc]
    finally:
        consumer.close()


def batches(folder: Path) -> dict[int, dump_log.Batch]:
    dumps, complaints = dump_log.dump(sorted(folder.glob("*.log")))
    assert complaints == []
    return {batch.base_offset: batch for one in dumps for batch in one.batches}


def test_the_dump_tool_reads_all_of_the_copy(copy: Path) -> None:
    files = [path for name in TOPICS for path in sorted((copy / f"{name}-0").iterdir())]
    logs = [path for path in files if path.suffix == ".log"]
    indexes = [path for path in files if path.suffix in (".index", ".timeindex", ".txnindex")]
    others = [path for path in files if path.suffix == ".snapshot"]
    assert dump_log.dump(logs, "--print-data-log")[1] == []
    assert dump_log.dump([*indexes, *others])[1] == []
    assert dump_log.dump(sorted((copy / "__cluster_metadata-0").glob("*.log")), "--cluster-metadata-decoder")[1] == []


@pytest.mark.parametrize("topic", [name for name in TOPICS if name != "compacted"])
def test_the_batches_are_the_brokers(kafka: Kafka, copy: Path, topic: str) -> None:
    """Offsets, leader epochs, producers, sequences, CRCs: all that the dump tool tells but the position in the file."""
    mine, theirs = batches(copy / f"{topic}-0"), batches(kafka.data / f"{topic}-0")
    assert len(theirs) > 1
    assert len({batch.leader_epoch for batch in theirs.values()}) == 2
    assert [_anywhere(one) for one in mine.values()] == [_anywhere(one) for one in theirs.values()]


def _anywhere(batch: dump_log.Batch) -> tuple[object, ...]:
    return batch.base_offset, batch.last_offset, batch.count, batch.producer_id, batch.leader_epoch, batch.crc


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("topic", [name for name in TOPICS if name != "compacted"])
def test_the_records_are_the_brokers(kafka: Kafka, copy: Path, topic: str, isolation: str) -> None:
    with pylog.open(copy, mode="read") as log:
        view = log.topic(topic)[0]
        mine = [
            (one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
            for one in view.records(isolation_level=isolation)
        ]
        assert mine == consume(kafka.node.bootstrap_servers, topic, isolation)
        view.check()


def test_a_compacted_topic_has_the_last_value_of_each_key(kafka: Kafka, copy: Path) -> None:
    def last(rows: list[tuple[bytes | None, bytes | None]]) -> dict[bytes | None, bytes | None]:
        return dict(rows)

    with pylog.open(copy, mode="read") as log:
        mine = last([(one.key, one.value) for one in log.topic("compacted")[0].records()])
    rows = consume(kafka.node.bootstrap_servers, "compacted", "read_uncommitted")
    assert mine == last([(key, value) for _, _, key, value, _ in rows])


def test_ids_and_configs_are_the_clusters(kafka: Kafka, copy: Path) -> None:
    with pylog.open(copy, mode="read") as log, pylog.connect(kafka.node.bootstrap_servers) as theirs:
        assert {name: log.topic(name).id for name in TOPICS} == {name: theirs.topic(name).id for name in TOPICS}
        assert {name: log.topic(name).overrides for name in TOPICS} == TOPICS
    clusters = {(path / "meta.properties").read_text().split("cluster.id=")[1][:22] for path in (copy, kafka.data)}
    assert len(clusters) == 1


def test_the_id_of_a_broker_is_no_id_of_a_copy(kafka: Kafka, tmp_path: Path) -> None:
    with pylog.open(tmp_path, node_id=1) as log, pytest.raises(pylog.errors.DuplicateBrokerRegistration):
        log.follow(kafka.node.bootstrap_servers, ["txn"])


def test_a_copy_of_kafka_is_promoted(kafka: Kafka, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "copy", node_id=7, config=QUICK) as log:
        log.follow(kafka.node.bootstrap_servers, ["txn"])
        until(lambda: log.topic("txn")[0].high_watermark > 100)
        end = log.topic("txn")[0].next_offset
        assert log.lead("txn")[0] == 1_007_000
        assert log.topic("txn")[0].append([pylog.Record(b"on its own")]).base_offset == end
        assert not log.find_damage("txn").damages
