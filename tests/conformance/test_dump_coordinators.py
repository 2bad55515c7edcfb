"""Kafka's own dump tool decodes what our coordinators wrote to `__consumer_offsets` and `__transaction_state`."""

import json
from pathlib import Path
from typing import Any

import pytest

import pylog
from conformance import dump_log
from pylog import TopicPartition
from pylog.protocol.batch import encode
from pylog.protocol.messages import ProduceRequest, Session
from pylog.protocol.partitioner import partition_for
from support.messages import init_producer_id, join_group, member_heartbeat, sync_group

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]

SESSION = Session("dumped")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group with a member and offsets, one that committed in transactions, one of the consumer protocol; two
    transactional ids, one with an open transaction.
    """
    path = tmp_path_factory.mktemp("coordinators") / "data"
    with pylog.open(path, flush="none") as log:
        log.create_topic("t", partitions=2)
        log.admin.alter_offsets("classic", {TopicPartition("t", 0): pylog.OffsetAndMetadata(5, "five")})
        joined = ask(log, join_group("classic", protocols=[("range", b"\0\0\0\0\0\1\0\1t\0\0\0\0")]))
        assignment = [(joined.member_id, b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0")]
        assert ask(log, sync_group("classic", 1, joined.member_id, assignments=assignment)).error is None
        for member in ("one", "two"):
            answer = ask(
                log,
                member_heartbeat(
                    "modern", member, 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
                ),
            )
            assert answer.error is None
        with log.producer(transactional_id="done") as producer:
            for offset in (1, 2):
                with producer.transaction():
                    producer.send("t", b"x")
                    producer.send_offsets({TopicPartition("t", 1): offset}, "exact")
        given = ask(log, init_producer_id("open", 60_000))
        batch = encode(
            [pylog.Record(b"y")], now_ms=0, producer_id=given.producer_id, producer_epoch=given.producer_epoch,
            base_sequence=0, transactional=True,
        )  # fmt: skip
        (part,) = ask(log, ProduceRequest.of("t", 0, batch, transactional_id="open")).parts
        assert part.error is None
    return path


def ask(log: pylog.Log, message: Any) -> Any:
    return log.broker.handle(message, SESSION).result(10)


def dumped(directory: Path, topic: str, name: str, decoder: str) -> list[dict[str, Any]]:
    """The records of a coordinator's partition, as Kafka's tool decodes them."""
    folder = directory / f"{topic}-{partition_for(name, 50)}"
    logs, complaints = dump_log.dump(sorted(folder.glob("*.log")), decoder)
    assert complaints == []
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    _, complaints = dump_log.dump(indexes, "--index-sanity-check")
    assert complaints == []
    records = [record for one in logs for record in one.records if record.key and record.key.startswith(b"{")]
    return [
        {"key": json.loads(record.key or b"{}"), "value": json.loads(record.value) if record.value else None}
        for record in records
    ]


def test_kafkas_tool_reads_a_group_and_its_offsets(directory: Path) -> None:
    records = dumped(directory, "__consumer_offsets", "classic", "--offsets-decoder")
    offsets = [one for one in records if "topic" in one["key"]["data"] and one["key"]["data"]["group"] == "classic"]
    assert [one["value"]["data"]["offset"] for one in offsets] == [5]
    assert offsets[0]["value"]["data"]["metadata"] == "five"
    groups = [one["value"]["data"] for one in records if one["value"] and "protocolType" in one["value"]["data"]]
    assert {group["protocol"] for group in groups if group["members"]} == {"range"}


def test_kafkas_tool_reads_a_consumer_group(directory: Path) -> None:
    records = dumped(directory, "__consumer_offsets", "modern", "--offsets-decoder")
    members = {one["key"]["data"]["memberId"] for one in records if "memberId" in one["key"]["data"]}
    assert members == {"one", "two"}


def test_kafkas_tool_reads_offsets_of_transactions(directory: Path) -> None:
    records = dumped(directory, "__consumer_offsets", "exact", "--offsets-decoder")
    offsets = [one["value"]["data"]["offset"] for one in records if one["key"]["data"].get("group") == "exact"]
    assert [offset for offset in offsets if offset] == [1, 2]


@pytest.mark.parametrize(("name", "status"), [("done", 4), ("open", 1)])
def test_kafkas_tool_reads_transactions(directory: Path, name: str, status: int) -> None:
    records = dumped(directory, "__transaction_state", name, "--transaction-log-decoder")
    mine = [one["value"]["data"] for one in records if one["key"]["data"]["transactionalId"] == name]
    assert mine[-1]["transactionStatus"] == status
