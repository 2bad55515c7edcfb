"""The way back: a real Kafka broker serves what pylog wrote, and pylog goes on in what Kafka wrote after that.

Kafka makes the topics and stops; pylog opens the same directory, appends through its public face, closes or is killed;
Kafka starts again on it, its metadata log included, to which pylog has added its own epoch and topics.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from conformance import dump_log
from conformance.kafka_broker import Row, broker, consume, create_topics
from pylog.batch import Origin, encode
from pylog.schema import message

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.xdist_group("kafka"),
    # Sockets that confluent-kafka leaves to the collector are nobody's leak of ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

START_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SMALL = {"internal.segment.bytes": "8000", "index.interval.bytes": "512", "segment.ms": "3600000000"}
TOPICS = {
    **{f"codec-{codec}": SMALL for codec in CODECS},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "txn": SMALL,
    "compacted": {"cleanup.policy": "compact", **SMALL},
    "trimmed": SMALL,
}


def fill_codecs(log: pylog.Log) -> None:
    for codec in CODECS:
        with log.producer(compression_type=codec, batch_size=4000, linger_ms=1000) as producer:
            for i in range(600):
                value = None if i % 11 == 3 else b"value %d" % i * (i % 20)
                key = None if i % 7 == 2 else b"k%d" % i
                headers = [("h", b"x"), ("n", None)][: i % 3]
                producer.send(f"codec-{codec}", value, key, timestamp_ms=START_MS + i, headers=headers)
    log.topic("append-time")[0].append([pylog.Record(b"%d" % i) for i in range(10)])


def fill_transactions(log: pylog.Log) -> None:
    """Interleaved transactions of three producers: committed, aborted and, of the last one, open."""
    leader = log.broker.node.writer("txn", 0)
    assert leader.epoch is not None
    sequences = dict.fromkeys((1000, 1001, 1002), 0)

    def write(producer_id: int, count: int) -> None:
        records = [pylog.Record(b"%d of %d" % (i, producer_id), b"k", START_MS) for i in range(count)]
        batch = encode(
            records, now_ms=START_MS, producer_id=producer_id, producer_epoch=0, base_sequence=sequences[producer_id],
            transactional=True,
        )  # fmt: skip
        sequences[producer_id] += count
        leader.partition.append(batch, epoch=leader.epoch, now_ms=START_MS)

    def end(producer_id: int, kind: int) -> None:
        value = message("EndTxnMarker").encode(0, {"coordinatorEpoch": 0})
        record = pylog.Record(b"\0\0" + value, b"\0\0" + kind.to_bytes(2, "big"), START_MS)
        batch = encode(
            [record], now_ms=START_MS, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
        )
        leader.partition.append(batch, epoch=leader.epoch, now_ms=START_MS, origin=Origin.COORDINATOR)

    for turn in range(40):
        write(1000, 7)
        write(1001, 5)
        end(1000, 1)
        write(1001, 3)
        end(1001, turn % 2)
        log.topic("txn")[0].append([pylog.Record(b"plain", None, START_MS)])
    write(1002, 4)
    leader.partition.sync()
    leader.advance()


def fill_and_clean(log: pylog.Log) -> None:
    for i in range(1500):
        log.topic("compacted")[0].append(
            [pylog.Record(None if i % 50 == 7 else b"%d" % i * 5, b"k%d" % (i % 40), START_MS)]
        )
    assert log.clean("compacted")
    log.topic("compacted")[0].append([pylog.Record(b"after", b"k1", START_MS)])
    for i in range(200):
        log.topic("trimmed")[0].append([pylog.Record(b"%d" % j, None, START_MS + i) for j in range(10)])
    log.delete_records({pylog.TopicPartition("trimmed", 0): 1234})
    log.apply_retention()


def rows(log: pylog.Log, topic: str, wanted: Callable[[pylog.ConsumerRecord], bool] = lambda _: True) -> list[Row]:
    return [
        (r.offset, r.timestamp, r.key, r.value, tuple((h.key, h.value) for h in r.headers))
        for r in log.topic(topic)[0].records()
        if wanted(r)
    ]


def complaints(data: Path) -> list[str]:
    found: list[str] = []
    for folder in sorted(data.glob("*-0")):
        option = "--cluster-metadata-decoder" if folder.name.startswith("__cluster") else "--deep-iteration"
        files = sorted(path for kind in ("log", "index", "timeindex", "txnindex") for path in folder.glob(f"*.{kind}"))
        if files:
            found += dump_log.dump(files, option)[1]
    return found


def test_kafka_serves_what_pylog_wrote_and_pylog_what_kafka_wrote(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with broker(data, tmp_path) as servers:
        create_topics(servers, TOPICS)
    with pylog.open(data) as log:
        fill_codecs(log)
        fill_transactions(log)
        fill_and_clean(log)
        log.create_topic("mine")
        log.topic("mine")[0].append([pylog.Record(b"of a topic that pylog made")])
        names = [*TOPICS, "mine"]
        expected = {name: rows(log, name) for name in names}
        stable = log.topic("txn")[0].last_stable_offset
    segments = {name: len(list((data / f"{name}-0").glob("*.log"))) for name in names}
    assert all(segments[name] > 2 for name in ("codec-none", "txn")), segments
    assert complaints(data) == []
    with broker(data, tmp_path) as servers:
        for name in names:
            assert consume(servers, name, "read_uncommitted") == expected[name], name
        committed = consume(servers, "txn", "read_committed")
        assert committed and committed[-1][0] < stable
        assert {value for _, _, _, value, _ in committed} >= {b"0 of 1000", b"0 of 1001", b"plain"}
        aborted = [row for row in expected["txn"] if row[0] < stable and row not in committed]
        assert aborted and all(row[3].endswith(b" of 1001") for row in aborted if row[3])
        produce(servers, "mine", b"of Kafka")
        produce(servers, "codec-none", b"of Kafka")
    with pylog.open(data) as log:
        assert [row[3] for row in rows(log, "mine")] == [b"of a topic that pylog made", b"of Kafka"]
        assert rows(log, "codec-none")[:-1] == expected["codec-none"]
        for name in TOPICS:
            assert rows(log, name)[: len(expected[name])] == expected[name]
            log.topic(name)[0].check()


def produce(servers: str, topic: str, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


KILLED = """
import os, signal, sys, pylog
log = pylog.open(sys.argv[1], config={"log.flush.offset.checkpoint.interval.ms": 1})
view = log.topic("codec-none")[0]
for i in range(10_000):
    view.append([pylog.Record(b"%d:" % i + b"x" * (i % 700), b"k", 1_700_000_000_000)])
    print(i, flush=True)
    if i == 400:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kafka_recovers_what_a_killed_pylog_left_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with broker(data, tmp_path) as servers:
        create_topics(servers, {"codec-none": SMALL})
    killed = subprocess.run([sys.executable, "-c", KILLED, str(data)], capture_output=True, check=False)
    acknowledged = len(killed.stdout.split())
    assert acknowledged == 401 and not (data / ".kafka_cleanshutdown").exists()
    with (max((data / "codec-none-0").glob("*.log"))).open("ab") as torn:
        torn.write(b"\0" * 7 + b"torn in the middle")
    with broker(data, tmp_path) as servers:
        found = consume(servers, "codec-none", "read_uncommitted")
        assert [int((row[3] or b"").split(b":")[0]) for row in found] == list(range(401))
    with pylog.open(data) as log:
        assert rows(log, "codec-none") == found
