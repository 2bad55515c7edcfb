"""A metadata log that no pylog wrote: well-formed records with numbers at their ends, and transactions without one."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

import pylog
from crash.bits import open_in_memory
from pylog.errors import CorruptBatch, FencedLeaderEpoch, StorageError, UnknownTopicOrPartition, UnsupportedFormat
from pylog.files import MemoryFiles
from pylog.kernel import Record, walk
from pylog.protocol.batch import encode
from pylog.protocol.metadata_image import encode_record
from pylog.testing import SimClock
from tests.support.faults import FaultFiles

LOG = f"log/__cluster_metadata-0/{0:020d}.log"
TOPIC_ID = uuid.UUID(int=77)
NOW = 1_700_000_000_000
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
TOPIC = encode_record("TopicRecord", {"name": "evil", "topicId": TOPIC_ID})


def partition(**fields: Any) -> bytes:
    value = {
        "partitionId": 0, "topicId": TOPIC_ID, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 0,
        "partitionEpoch": 0, "directories": [uuid.UUID(int=0)], **fields,
    }  # fmt: skip
    return encode_record("PartitionRecord", value)


def producer_ids(number: int) -> bytes:
    return encode_record("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 0, "nextProducerId": number})


CHANGE = encode_record("PartitionChangeRecord", {"partitionId": 0, "topicId": TOPIC_ID, "leader": 1})
USER = {
    "name": "alice", "mechanism": 7, "salt": b"s", "storedKey": b"k", "serverKey": b"k", "iterations": 4096,
}  # fmt: skip


def forged(*records: bytes) -> tuple[MemoryFiles, int, int]:
    """A killed log with a topic `t`, and behind it these records; their position and offset, too."""
    files = MemoryFiles()
    with open_in_memory(files, SimClock(NOW)) as log:
        log.create_topic("t")
    data = files.read_file(LOG)
    *_, last = walk(data)[0]
    batch = encode(
        [Record(one) for one in records], now_ms=NOW, base_offset=last.last_offset + 1, leader_epoch=last.leader_epoch
    )
    files.replace_file(LOG, data + bytes(batch.data))
    files.remove("log/.kafka_cleanshutdown")
    return files, len(data), last.last_offset + 1


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([TOPIC, partition(partitionId=-1)], "makes partition -1"),
        ([TOPIC, partition(partitionId=100_000)], "makes partition 100000"),
        ([TOPIC, partition(leaderEpoch=INT_MAX), CHANGE], "evil-0, whose epochs are at their end"),
        ([TOPIC, partition(partitionEpoch=INT_MAX), CHANGE], "evil-0, whose epochs are at their end"),
        ([producer_ids(-1)], "gives the producer ids from -1 on"),
    ],
)
def test_a_number_that_cannot_be_is_told_with_its_place(records: list[bytes], words: str) -> None:
    files, position, offset = forged(*records)
    with pytest.raises(CorruptBatch, match=f"^{LOG}, position {position}, offset {offset}: .*{words}"):
        open_in_memory(files, SimClock(NOW))


def test_a_record_of_a_newer_version_is_told_with_its_place() -> None:
    files, position, offset = forged(encode_record("UserScramCredentialRecord", USER))
    with pytest.raises(UnsupportedFormat, match=f"^{LOG}, position {position}, offset {offset}: .*SCRAM mechanism 7"):
        open_in_memory(files, SimClock(NOW))


@pytest.mark.parametrize(
    ("records", "use", "error"),
    [
        (
            [TOPIC, partition(leaderEpoch=INT_MAX)],
            lambda log: log.topic("evil")[0].append([pylog.Record(b"v")]),
            FencedLeaderEpoch,
        ),
        ([TOPIC, partition(partitionEpoch=INT_MAX)], lambda log: log.lead("evil", followers={2}), StorageError),
        ([producer_ids(LONG_MAX)], lambda log: log.broker.node.cluster_changes.allocate_producer_ids(), StorageError),
    ],
)
def test_a_number_at_its_end_ends_what_needs_a_further_one(
    records: list[bytes], use: Callable[[pylog.Log], object], error: type[Exception]
) -> None:
    files, _, _ = forged(*records)
    with open_in_memory(files, SimClock(NOW)) as log:
        with pytest.raises(error):
            use(log)
        log.topic("t")[0].append([pylog.Record(b"v")])
        log.create_topic("more")
        assert "more" in log.topics()
    with open_in_memory(files, SimClock(NOW)) as log:
        assert "more" in log.topics()


def test_a_metadata_log_in_the_last_epoch_there_is_takes_no_more() -> None:
    files, _, offset = forged(TOPIC)
    batch = encode([Record(partition())], now_ms=NOW, base_offset=offset + 1, leader_epoch=INT_MAX)
    files.replace_file(LOG, files.read_file(LOG) + bytes(batch.data))
    with open_in_memory(files, SimClock(NOW)) as log:
        assert set(log.topics()) == {"t", "evil"}
        for _ in range(2):
            with pytest.raises(StorageError, match="none comes after that"):
                log.create_topic("more")
    with open_in_memory(files, SimClock(NOW)) as log:
        assert set(log.topics()) == {"t", "evil"}


@pytest.mark.parametrize("is_twice", [False, True])
def test_what_follows_a_transaction_without_an_end_counts(is_twice: bool) -> None:
    begin = encode_record("BeginTransactionRecord", {"name": "x"})
    files, _, _ = forged(*[begin] * (1 + is_twice), TOPIC, partition())
    for name in ("one", "two"):
        with open_in_memory(files, SimClock(NOW)) as log:
            log.create_topic(name)
            assert name in log.topics()
    with open_in_memory(files, SimClock(NOW)) as log:
        assert sorted(log.topics()) == ["one", "t", "two"]


def test_partitions_without_records_cost_an_open_no_calls_for_files() -> None:
    made = {}
    for count in (10, 1000):
        files, _, _ = forged(TOPIC, *[partition(partitionId=number) for number in range(count)])
        noted = FaultFiles(files)
        open_in_memory(noted, SimClock(NOW)).close()  # type: ignore[arg-type]
        made[count] = len(noted.sites)
    # The metadata log itself is longer.
    assert made[1000] <= made[10] + 5


def test_a_topic_without_partitions_takes_no_records_and_coordinates_no_group() -> None:
    records = [TOPIC, encode_record("TopicRecord", {"name": "__consumer_offsets", "topicId": uuid.UUID(int=78)})]
    files, _, _ = forged(*records)
    with open_in_memory(files, SimClock(NOW)) as log:
        with log.producer() as producer, pytest.raises(UnknownTopicOrPartition, match="'evil' has no partitions"):
            producer.send("evil", b"v")
        with pytest.raises(UnknownTopicOrPartition, match="'__consumer_offsets' has no partitions"):
            log.admin.describe_group("g")


@pytest.mark.parametrize("number", [-1, 1 << 31, 10**40])
def test_the_number_of_a_node_that_cannot_be_is_told(number: int) -> None:
    files, _, _ = forged(TOPIC, partition())
    text = files.read_file("log/meta.properties").decode()
    lines = [f"node.id={number}" if line.startswith("node.id") else line for line in text.splitlines()]
    files.replace_file("log/meta.properties", "\n".join([*lines, ""]).encode())
    with pytest.raises(StorageError, match=r"^log/meta.properties: node.id='.*' cannot be read .*from 0 to 2147483647"):
        open_in_memory(files, SimClock(NOW))


def test_where_folders_cannot_be_listed_every_partition_may_have_one() -> None:
    class Unlisted(MemoryFiles):
        is_listed = True

        def list_dir(self, path: str) -> list[str]:
            if path == "log" and not self.is_listed:
                raise StorageError("log cannot be listed")
            return super().list_dir(path)

    files = Unlisted()
    with open_in_memory(files, SimClock(NOW)) as log:
        log.create_topic("t", partitions=3)
        log.topic("t")[1].append([pylog.Record(b"v")])
        topics = log.broker.node.topics
        assert topics.present == [("t", 1)]
        files.is_listed = False
        assert topics.present == topics.kept == [("t", 0), ("t", 1), ("t", 2)]
        files.is_listed = True
