"""The way back: a real Kafka broker serves what pylog wrote, and pylog goes on in what Kafka wrote after that.

    Kafka or pylog makes the topics -> pylog appends, compacts, closes or is killed -> Kafka starts -> pylog goes on

It replays the metadata log, the one that pylog began or its own, to which pylog has added epochs and topics, and
believes what a clean close says: files, indexes, producers and epochs are used by Kafka as they are. After a kill it
recovers, and keeps what pylog's own recovery keeps. Its dump tool judges each file for itself.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import pylog
from conformance import dump_log
from conformance.kafka_broker import Row, broker, consume, create_topics, said, transactions
from pylog.kernel import walk
from pylog.partition import Appended
from pylog.protocol import metadata_changes
from pylog.protocol.batch import Origin, encode
from pylog.protocol.compression import Codec
from pylog.protocol.messages import ConfigResource, ResourceType
from pylog.protocol.schema import message
from support.log_copies import copy_log

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    # Sockets that confluent-kafka leaves to the collector are nobody's leak of ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

START_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SEGMENT_BYTES = "internal.segment.bytes"
SMALL = {SEGMENT_BYTES: "8000", "index.interval.bytes": "512", "segment.ms": "3600000000"}
TOPICS = {
    **{f"codec-{codec}": SMALL for codec in CODECS},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "txn": SMALL,
    "compacted": {"cleanup.policy": "compact", **SMALL},
    "trimmed": SMALL,
}


# --- who makes the directory ----------------------------------------------------------------------------------------


def make_by_kafka(data: Path) -> None:
    data.mkdir()
    with broker(data, data.parent) as servers:
        create_topics(servers, TOPICS)


def make_by_pylog(data: Path) -> None:
    with pylog.open(data) as log:
        for name, config in TOPICS.items():
            log.create_topic(name, 1, {key: value for key, value in config.items() if key != SEGMENT_BYTES})
            if SEGMENT_BYTES in config:
                # The API takes none so small: as Kafka has it written by its own API.
                small = metadata_changes.change_config(
                    ConfigResource(ResourceType.TOPIC, name), {SEGMENT_BYTES: config[SEGMENT_BYTES]}
                )
                log.broker.node.topics.metadata_log.commit(small)


each_maker = pytest.mark.parametrize("make", [make_by_kafka, make_by_pylog], ids=["Kafka's", "pylog's"])


# --- what pylog writes ----------------------------------------------------------------------------------------------


def fill_codecs(log: pylog.Log) -> None:
    for codec in CODECS:
        with log.producer(compression_type=codec, batch_size=2000, linger_ms=1000) as producer:
            for i in range(600):
                value = None if i % 11 == 3 else b"value %d" % i * (i % 20)
                key = None if i % 7 == 2 else b"k%d" % i
                headers = [("h", b"x"), ("n", None)][: i % 3]
                producer.send(f"codec-{codec}", value, key, timestamp_ms=START_MS + i, headers=headers)
    log.topic("append-time")[0].append([pylog.Record(b"%d" % i) for i in range(10)])


UNVERIFIED = {
    "transaction.partition.verification.enable": False, "metadata.log.max.record.bytes.between.snapshots": 1,
}  # fmt: skip
"""And with a snapshot of the metadata log whenever it is closed after a change: Kafka begins with one, too."""


class Sender:
    """A producer whose id, epoch and moments are chosen here, without a coordinator."""

    def __init__(self, log: pylog.Log, topic: str, producer_id: int, now_ms: int, epoch: int = 0) -> None:
        self.leader = log.broker.node.roles.writer(topic, 0)
        self.producer_id, self.epoch, self.now_ms = producer_id, epoch, now_ms
        self.sequence = 0

    def write(self, count: int, *, transactional: bool = True, codec: str = "none") -> Appended:
        records = [pylog.Record(b"%d of %d" % (i, self.producer_id), b"k", self.now_ms) for i in range(count)]
        batch = encode(
            records, now_ms=self.now_ms, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=self.sequence, transactional=transactional, codec=Codec.parse(codec),
        )  # fmt: skip
        self.sequence += count
        return self._append(batch, Origin.CLIENT)

    def end(self, *, commit: bool) -> None:
        value = message("EndTxnMarker").encode(0, {"coordinatorEpoch": 0})
        record = pylog.Record(b"\0\0" + value, b"\0\0" + int(commit).to_bytes(2, "big"), self.now_ms)
        batch = encode(
            [record], now_ms=self.now_ms, producer_id=self.producer_id, producer_epoch=self.epoch, transactional=True,
            control=True,
        )  # fmt: skip
        self._append(batch, Origin.COORDINATOR)

    def _append(self, batch: object, origin: Origin) -> Appended:
        assert self.leader.epoch is not None
        partition = self.leader.partition
        appended = partition.append(batch, epoch=self.leader.epoch, now_ms=self.now_ms, origin=origin)
        partition.sync()
        self.leader.advance()
        return appended


def fill_transactions(log: pylog.Log, now_ms: int) -> None:
    """Interleaved transactions of three producers: committed, aborted and, of the last one, open; an idempotent one."""
    one, two, three = (Sender(log, "txn", producer_id, now_ms) for producer_id in (1000, 1001, 1002))
    idempotent = Sender(log, "txn", 2000, now_ms, epoch=3)
    for turn in range(40):
        one.write(7)
        two.write(5, codec=CODECS[turn % 5])
        one.end(commit=True)
        two.write(3)
        two.end(commit=turn % 2 == 1)
        idempotent.write(2, transactional=False)
        log.topic("txn")[0].append([pylog.Record(b"plain", None, now_ms)])
    three.write(4)


def fill_and_clean(log: pylog.Log) -> None:
    for i in range(0, 1500, 10):
        values = [(j, None if j % 50 == 7 else b"%d" % j * 5) for j in range(i, i + 10)]
        log.topic("compacted")[0].append([pylog.Record(value, b"k%d" % (j % 40), START_MS) for j, value in values])
    assert log.clean("compacted")
    log.topic("compacted")[0].append([pylog.Record(b"after", b"k1", START_MS)])
    for i in range(50):
        log.topic("trimmed")[0].append([pylog.Record(b"%d" % j, None, START_MS + i) for j in range(40)])
    log.delete_records({pylog.TopicPartition("trimmed", 0): 1234})
    log.apply_retention()


def rows(log: pylog.Log, topic: str, isolation: str = "read_uncommitted") -> list[Row]:
    return [
        (r.offset, r.timestamp, r.key, r.value, tuple((h.key, h.value) for h in r.headers))
        for r in log.topic(topic)[0].records(isolation_level=isolation)
    ]


# --- what judges it -------------------------------------------------------------------------------------------------


def complaints(data: Path) -> list[str]:
    """What Kafka's dump tool has against any file of any partition."""
    metadata = sorted(data.glob("__cluster_metadata-0/*.log"))
    logs = sorted({*data.glob("*-0/*.log")} - {*metadata})
    indexes = sorted(path for kind in ("index", "timeindex") for path in data.glob(f"*-0/*.{kind}"))
    others = sorted(path for kind in ("txnindex", "snapshot") for path in data.glob(f"*-0/*.{kind}"))
    found = dump_log.dump([*logs, *indexes, *others], "--print-data-log")[1]
    found += dump_log.dump(metadata, "--cluster-metadata-decoder")[1]
    return found + dump_log.dump(indexes, "--index-sanity-check")[1]


def assert_believed(work: Path, data: Path) -> None:
    """The last broker found nothing wrong, and nothing that it had to recover."""
    log = (work / "broker.log").read_text()
    assert said(work) == []
    assert f"logs from {data} since clean shutdown file was found" in log
    folders = [path.name for path in data.glob("*-0") if not path.name.startswith("__cluster")]
    assert not [name for name in folders if f"[LogLoader partition={name}, dir={data}] Recovering" in log]
    assert not list(data.glob("*-stray"))


def producers_of(log: pylog.Log, topic: str) -> dict[int, tuple[int, int, int, str]]:
    """Epoch, last sequence, timestamp and the begin of the open transaction, as Kafka's tool prints them."""
    entries = log.broker.node.roles.writer(topic, 0).partition.producers.entries()
    return {
        producer_id: (
            one.epoch, one.last_sequence, one.last_timestamp,
            "None" if one.current_txn_first_offset is None else str(one.current_txn_first_offset),
        )
        for producer_id, one in entries.items()
    }  # fmt: skip


def producers_seen(servers: str, topic: str) -> dict[int, tuple[int, int, int, str]]:
    found = transactions(servers, "describe-producers", "--topic", topic, "--partition", "0")
    return {
        int(row["ProducerId"]): (
            int(row["ProducerEpoch"]), int(row["LastSequence"]), int(row["LastTimestamp"]),
            row["CurrentTransactionStartOffset"],
        )
        for row in found
    }  # fmt: skip


def produce(servers: str, topic: str, value: bytes, **settings: object) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "log_level": 0, **settings})
    producer.produce(topic, value, b"k", partition=0)
    assert producer.flush(30) == 0


# --- the ways -------------------------------------------------------------------------------------------------------


@each_maker
def test_kafka_serves_what_pylog_wrote_and_pylog_what_kafka_wrote(tmp_path: Path, make: Callable[[Path], None]) -> None:
    data, names = tmp_path / "data", [*TOPICS, "mine"]
    make(data)
    with pylog.open(data, config=UNVERIFIED) as log:
        fill_codecs(log)
        fill_transactions(log, now_ms=time.time_ns() // 1_000_000)
        fill_and_clean(log)
    with pylog.open(data, config=UNVERIFIED) as log:
        log.create_topic("mine", 2)
        log.topic("mine")[0].append([pylog.Record(b"of a topic that pylog made")])
        expected = {name: rows(log, name) for name in names}
        committed, stable = rows(log, "txn", "read_committed"), log.topic("txn")[0].last_stable_offset
        producers = producers_of(log, "txn")
    segments = {name: len(list((data / f"{name}-0").glob("*.log"))) for name in TOPICS if SEGMENT_BYTES in TOPICS[name]}
    assert all(count > 1 for count in segments.values()), segments
    assert {name: len(expected[name]) for name in names if "codec" in name} == {f"codec-{one}": 600 for one in CODECS}
    assert any(row[3] and row[3].endswith(b" of 1001") for row in expected["txn"] if row not in committed)
    assert complaints(data) == []
    metadata = data / "__cluster_metadata-0"
    assert [path.name[:20] for path in sorted(metadata.glob("*.log"))] == [
        path.name[:20] for path in sorted(metadata.glob("*.checkpoint"))
    ], "the log goes on from the older of two snapshots"

    settings = {"metadata.log.max.record.bytes.between.snapshots": "1", "metadata.max.retention.bytes": "1"}
    before = set(metadata.glob("*.checkpoint"))
    with broker(data, tmp_path, settings=settings) as servers:
        for name in names:
            assert consume(servers, name, "read_uncommitted") == expected[name], name
        assert consume(servers, "txn", "read_committed") == committed
        assert producers_seen(servers, "txn") == producers
        assert producers.keys() == {1000, 1001, 1002, 2000}
        transactions(servers, "abort", "--topic", "txn", "--partition", "0", "--start-offset", str(stable))
        assert consume(servers, "txn", "read_committed") == committed
        for name in names:
            produce(servers, name, b"of Kafka", **{"enable.idempotence": name == "mine"})
        expected = {name: consume(servers, name, "read_uncommitted") for name in names}
        committed = consume(servers, "txn", "read_committed")
    assert_believed(tmp_path, data)
    assert {path for path in metadata.glob("*.checkpoint") if path not in before}, "Kafka has made some, too"

    with pylog.open(data, config=UNVERIFIED) as log:
        assert (log.recovered, log.quarantined) == ((), ())
        for name in names:
            view = log.topic(name)[0]
            view.check()
            assert rows(log, name) == expected[name], name
            assert view.last_stable_offset == view.next_offset
        assert rows(log, "txn", "read_committed") == committed
        assert committed[-1][3] == b"of Kafka"


KILLED = """
import sys, threading, pylog
from conformance.test_way_back import CODECS, UNVERIFIED, Sender

log = pylog.open(sys.argv[1], config={"log.flush.offset.checkpoint.interval.ms": 1, **UNVERIFIED})
say = threading.Lock()

def acknowledged(topic, offset):
    with say:
        print(topic, offset, flush=True)

def send(codec):
    with log.producer(compression_type=codec, batch_size=2000) as producer:
        for i in range(10**9):
            answers = [producer.send(f"codec-{codec}", b"%d:%d:" % (i, j) + b"x" * (i % 300), b"k") for j in range(5)]
            producer.flush()
            acknowledged(f"codec-{codec}", answers[-1].result().offset)

def transact():
    one, two = (Sender(log, "txn", producer_id, 1_700_000_000_000) for producer_id in (1000, 1001))
    for i in range(10**9):
        one.write(3)
        two.write(2)
        one.end(commit=i % 3 > 0)
        acknowledged("txn", two.write(1).base_offset)
        two.end(commit=i % 2 > 0)

def compact():
    for i in range(10**9):
        appended = log.topic("compacted")[0].append([pylog.Record(b"%099d" % (i + j), b"k%d" % j) for j in range(9)])
        acknowledged("compacted", appended.next_offset - 1)
        if i % 20 == 19:
            log.clean("compacted")

for target, *arguments in (*((send, codec) for codec in CODECS), (compact,)):
    threading.Thread(target=target, args=arguments, daemon=True).start()
transact()
"""


def killed_writer(data: Path, acknowledgements: int) -> dict[str, int]:
    """Let a process write until it has acknowledged so much, and kill it in the midst of it; gives, by topic, the
    newest offset that was acknowledged.
    """
    root = Path(__file__).parents[2]
    found: dict[str, int] = {}
    command = [sys.executable, "-c", KILLED, str(data)]
    environment = {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "PATH": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            if count == acknowledgements:
                process.kill()
            if line.endswith("\n") and len(words := line.split()) == 2:
                found[words[0]] = int(words[1])
    return found


def tear(folder: Path) -> None:
    """Write the first half of one more batch: the last one again, at the next offset."""
    paths = sorted(folder.glob("*.log"))
    data = max(path for path in paths if path.stat().st_size).read_bytes()
    last = walk(data)[0][-1]
    with paths[-1].open("ab") as file:
        file.write((last.last_offset + 1).to_bytes(8, "big") + data[last.position + 8 : last.position + last.size // 2])


@each_maker
def test_kafka_recovers_the_directory_of_a_killed_pylog(tmp_path: Path, make: Callable[[Path], None]) -> None:
    data, names, torn = tmp_path / "data", [*(f"codec-{codec}" for codec in CODECS), "txn", "compacted"], "codec-zstd"
    make(data)
    acknowledged = killed_writer(data, 800)
    assert acknowledged.keys() == set(names)
    assert not (data / ".kafka_cleanshutdown").exists()
    # Snapshots are written in their places, by Kafka as well: the kill may have come in the midst of one.
    assert [words for words in complaints(data) if not words.startswith("Snapshot failed schema validation")] == []
    for name in (torn, "txn"):
        tear(data / f"{name}-0")
    copy = copy_log(data, tmp_path / "copy")

    with broker(data, tmp_path) as servers:
        found = {name: consume(servers, name, "read_uncommitted") for name in names}
        committed = consume(servers, "txn", "read_committed")
    assert [line for line in said(tmp_path) if not re.search(f"partition={torn}-0|partition=txn-0", line)] == []
    for name in names:
        assert found[name][-1][0] >= acknowledged[name], name
        if name.startswith("codec"):
            sent = [(row[3] or b"").split(b":")[:2] for row in found[name]]
            assert sent == [[b"%d" % (i // 5), b"%d" % (i % 5)] for i in range(len(sent))], name
    assert len(found["compacted"]) <= found["compacted"][-1][0], "it was cleaned before the kill"
    newest = {row[2]: int(row[3] or b"") for row in found["compacted"]}
    assert newest == {b"k%d" % j: newest[b"k0"] + j for j in range(9)}

    for recovered in (data, copy):  # after Kafka's recovery, and after ours
        assert recovered is copy or complaints(data) == []
        with pylog.open(recovered) as log:
            assert log.quarantined == ()
            assert {name: rows(log, name) for name in names} == found
            assert rows(log, "txn", "read_committed") == committed
    assert complaints(copy) == []
