"""`Log.metrics`: the numbers say what was done."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import aio
from pylog.errors import Closed, InvalidRecordState, PylogError, UnknownTopicOrPartition
from pylog.metrics import Histogram, MetricName, Metrics
from pylog.record import Record, TopicPartition
from pylog.testing import StandIn
from support.clients.values import until
from support.copies import QUICK, caught_up
from support.other_process import other_process
from support.share_desk import ACCEPT, LOCK_MS, REJECT, RELEASE, RENEW, share_desk

T0 = TopicPartition("t", 0)
ACK_KINDS = "Accept", "Release", "Reject", "Renew"


def times(found: Metrics, name: str, **tags: object) -> Histogram:
    value = found.total(name, **tags)
    assert isinstance(value, Histogram)
    return value


def send(log: Any, count: int, **config: Any) -> None:
    with log.producer(**config) as producer:
        for _ in range(count):
            producer.send("t", b"value").result()


@pytest.mark.parametrize("flush", ["sync", "none"])
def test_a_node_counts_appends_their_records_and_their_bytes(flush: Any, tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", flush=flush) as log:
        topic = log.create_topic("t", config={"max.message.bytes": 1000})
        topic[0].append([Record(b"one"), Record(b"two")])
        send(log, 3)
        with log.producer(enable_idempotence=False) as producer:
            future = producer.send("t", b"x" * 2000)
            with pytest.raises(pylog.PylogError):
                future.result()
        found = log.metrics()

        assert found.total("MessagesInPerSec", topic="t") == 5
        assert found.total("BytesInPerSec", topic="t") == found.total("Size", topic="t") == topic[0].size
        assert found.total("TotalProduceRequestsPerSec", topic="t") == 5
        assert found.total("FailedProduceRequestsPerSec", topic="t") == 1
        assert (found.total("LogEndOffset", topic="t"), found.total("NumLogSegments", topic="t")) == (5, 1)
        assert (times(found, "LogFlushRateAndTimeMs").count > 0) is (flush == "sync")


def test_a_moved_partition_goes_on_counting_and_a_deleted_topic_ends(tmp_path: Path) -> None:
    with pylog.open([tmp_path / "a", tmp_path / "b"]) as log:
        log.create_topic("t")
        send(log, 3)
        found = log.topic("t")[0].path
        log.move_partition("t", 0, tmp_path / ("b" if "/a/" in found else "a"))
        send(log, 1)
        assert log.metrics().total("MessagesInPerSec", topic="t") == 4

        log.delete_topic("t")
        assert not [name for name in log.metrics() if ("topic", "t") in name.tags and name.group.startswith("kafka.s")]


def test_the_count_of_flushes_stays_when_a_partition_is_moved_or_deleted(tmp_path: Path) -> None:
    with pylog.open([tmp_path / "a", tmp_path / "b"], flush="sync") as log:
        log.create_topic("t")
        send(log, 5)
        counts = [times(log.metrics(), "LogFlushRateAndTimeMs").count]
        log.move_partition("t", 0, tmp_path / ("b" if "/a/" in log.topic("t")[0].path else "a"))
        counts.append(times(log.metrics(), "LogFlushRateAndTimeMs").count)
        log.delete_topic("t")
        counts.append(times(log.metrics(), "LogFlushRateAndTimeMs").count)
    assert 5 <= counts[0] <= counts[1] <= counts[2]


def test_flushes_are_counted_once_where_a_topic_is_deleted_while_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pylog.open([tmp_path / "a", tmp_path / "b"], flush="sync") as log:
        log.create_topic("t")
        send(log, 5)
        counts: list[int] = []

        def deleted(*_: object) -> None:
            log.delete_topic("t")
            counts.append(times(log.metrics(), "LogFlushRateAndTimeMs").count)

        monkeypatch.setattr("pylog.broker.replica_manager.topic_changes.copy_files", deleted)
        with pytest.raises(UnknownTopicOrPartition):
            log.move_partition("t", 0, tmp_path / ("b" if "/a/" in log.topic("t")[0].path else "a"))
        assert times(log.metrics(), "LogFlushRateAndTimeMs").count == counts[0] >= 5


def test_fetches_and_those_who_wait_are_counted() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        send(log, 2)
        with log.consumer("t", auto_offset_reset="earliest", client_id="c", fetch_max_wait_ms=60_000) as consumer:
            assert len(consumer.poll(60_000)) == 2
            consumer.poll(1)
            found = log.metrics()
            assert found.total("records-consumed-total", client_id="c") == 2
            assert found.total("bytes-consumed-total") == found.total("BytesOutPerSec", topic="t") > 0
            assert found.total("records-lag", client_id="c", topic="t", partition=0) == 0
            assert found.total("fetch-total") >= found.total("TotalFetchRequestsPerSec", topic="t") >= 1
            assert found.total("assigned-partitions", client_id="c") == 1
            consumer.assign([])
            assert log.metrics().total("records-consumed-total", client_id="c", topic="t") == 2
            assert log.metrics().total("assigned-partitions", client_id="c") == 0


def test_a_fetch_outside_of_the_log_has_failed_and_an_unknown_topic_is_not_kept() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        with log.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 99)
            with pytest.raises(pylog.errors.OffsetOutOfRange):
                consumer.poll(10_000)
            log.delete_topic("t")
            consumer.seek(T0, 0)
            with pytest.raises(UnknownTopicOrPartition):
                consumer.poll(10_000)
            log.create_topic("u")
        found = log.metrics()

        assert found.total("FailedFetchRequestsPerSec") == 0
        assert not [name for name in found if ("topic", "t") in name.tags and name.group.startswith("kafka.server")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_have_counts_offsets_and_a_lag(protocol: Any) -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        send(log, 5)
        with log.consumer("t", group_id="g", auto_offset_reset="earliest", group_protocol=protocol) as consumer:
            until(lambda: consumer.poll(100, max_records=2))
            consumer.commit()
            found = log.metrics()

            tags = {"consumergroup": "g", "topic": "t", "partition": 0}
            assert (found.total("current_offset", **tags), found.total("lag", **tags)) == (2, 3)
            assert found.total("group-count", protocol=protocol) == found.total("group-count") == 1
            assert found.total("offset-commit-count") >= 1 <= found.total("commit-total")
            assert found.total("rebalance-total") >= 1
            classic, consumed = (
                found.total("group-completed-rebalance-count"),
                found.total("consumer-group-rebalance-count"),
            )
            assert (classic, consumed) == ((1, 0) if protocol == "classic" else (0, 1))
            states = found.total("consumer-group-count", state="stable")
            assert states == (1 if protocol == "consumer" else 0)
            log.delete_topic("t")
            assert log.metrics().total("lag", **tags) == 0


def test_share_consumers_count_what_they_get_and_say() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        send(log, 5)
        log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        with log.share_consumer("t", group_id="g", client_id="me", acknowledgement="explicit") as consumer:
            records = consumer.poll(60_000)
            for record in records[1:]:
                consumer.acknowledge(record, "accept")
            consumer.commit_sync()
            found = log.metrics()
            assert found.total("records-consumed-total", client_id="me") == 5
            assert found.total("bytes-consumed-total", client_id="me") == found.total("BytesOutPerSec", topic="t")
            assert found.total("acknowledgements-send-total", client_id="me") == 4
            assert found.total("acknowledgements-error-total", client_id="me") == 0
            assert found.total("fetch-total", client_id="me") == times(found, "fetch-latency", client_id="me").count
            assert found.total("heartbeat-total", client_id="me") >= found.total("rebalance-total", client_id="me") >= 1
        assert not [name for name in log.metrics() if ("client-id", "me") in name.tags]


def test_a_refused_acknowledgement_is_an_error_of_the_consumer() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        log.create_topic("t")
        send(log, 2)
        log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        with log.share_consumer("t", group_id="g", client_id="me") as consumer:
            until(lambda: consumer.poll(100))
            kafka.fail("ShareAcknowledge", InvalidRecordState)
            consumer.commit_sync()
            assert log.metrics().total("acknowledgements-error-total", client_id="me") == 2


def test_a_node_counts_what_members_of_share_groups_ask_and_have() -> None:
    of_part = {"group": "g", "topic": "t", "partition": 0}
    with share_desk() as desk:
        desk.begin()
        desk.produce(4)
        desk.fetch(0)
        desk.acknowledge(1, {(0, 1): [*ACCEPT, *RELEASE], (2, 2): REJECT})
        desk.acknowledge(2, {(3, 3): RENEW}, is_renew=True)
        assert desk.acknowledge(3, {(0, 0): ACCEPT}) is None
        found = desk.log.metrics()
        kinds = {kind: found.total("RecordAcknowledgementsPerSec", ackType=kind) for kind in ACK_KINDS}
        assert kinds == {"Accept": 2, "Release": 1, "Reject": 1, "Renew": 1}
        assert found.total("TotalShareFetchRequestsPerSec", topic="t") == 1
        assert found.total("TotalShareAcknowledgementRequestsPerSec", topic="t") == 3
        assert (found.total("ShareSessionsCount"), found.total("SharePartitionsCount")) == (1, 1)
        assert (found.total("InFlightMessageCount", **of_part), found.total("InFlightBatchCount", **of_part)) == (3, 3)
        assert found.total("AcquiredMessageCount", **of_part) == 1
        assert found.total("DeliveredMessageCount", **of_part, deliveries=1) == 2
        assert found.total("group-count", protocol="share") == found.total("share-group-count") == 0
        desk.pass_time(LOCK_MS)
        found = desk.log.metrics()
        assert found.total("AcquisitionLockTimeoutPerSec", **of_part) == 1
        assert (found.total("AcquiredMessageCount", **of_part), found.total("OldestLockMs", **of_part)) == (0, 0)


def test_share_requests_that_fail_or_wait_are_counted() -> None:
    with share_desk() as desk:
        desk.begin()
        waiting = desk.fetching(0, max_wait_ms=500)
        assert desk.log.metrics().total("PurgatorySize", delayedOperation="ShareFetch") == 1
        desk.produce(1)
        assert waiting.done()
        assert desk.acknowledge(1, {(0, 0): ACCEPT}) is None
        assert isinstance(desk.acknowledge(2, {(7, 7): ACCEPT}), PylogError)
        found = desk.log.metrics()
        assert found.total("FailedShareAcknowledgementRequestsPerSec", topic="t") == 1
        assert found.total("FailedShareFetchRequestsPerSec", topic="t") == 0
        with suppress(PylogError):
            desk.fetch(0, member="ben", partitions=(7,))
        assert desk.log.metrics().total("FailedShareFetchRequestsPerSec", topic="t") == 1
        desk.log.delete_topic("t")
        assert desk.log.metrics().total("TotalShareFetchRequestsPerSec", topic="t") == 0


def test_a_coordinator_that_has_gone_counts_no_more() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {T0: 0})
        assert log.metrics().total("group-count") == 1
        key = next(iter(log.broker._coordinating._coordinators._hosts))
        log.broker._coordinating._coordinators._hosts[key].abandon(Closed("gone"))
        assert log.metrics().total("group-count") == 0


def test_a_compaction_leaves_its_time_and_what_it_has_kept() -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": 1 << 20}
    with pylog.open(":memory:") as log:
        topic = log.create_topic("t", config=config)
        for _ in range(50):
            topic[0].append([Record(b"x" * 50_000, key=b"key")])
        assert log.metrics().total("cleaner-recopy-percent") == 0
        log.clean()
        found = log.metrics()

        assert times(found, "CleanTimeMs").count == 1
        assert 0 < found.total("cleaner-recopy-percent") < 50 and found.total("max-clean-time-secs") > 0
        assert found.total("uncleanable-partitions-count") == 0


def test_replicas_and_the_lag_of_a_copy_are_told(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "a", node_id=1) as leader, pylog.open(tmp_path / "b", node_id=2, config=QUICK) as copy:
        leader.create_topic("t")
        send(leader, 1)
        leader.lead("t", followers={2})
        assert leader.metrics().total("UnderReplicatedPartitions") == 1
        with leader.serve() as server, copy.follow(server.bootstrap_servers):
            send(leader, 2)
            caught_up(leader, copy)
            # It joins by its next fetch.
            until(lambda: leader.metrics().total("InSyncReplicasCount", topic="t") == 2)
            mine, theirs = copy.metrics(), leader.metrics()

            assert theirs.total("ReplicasCount", topic="t") == 2
            assert theirs.total("UnderReplicatedPartitions") == 0
            assert theirs.total("ReplicationBytesOutPerSec", topic="t") >= theirs.total("Size", topic="t") > 0
            assert mine.total("ReplicationBytesInPerSec", topic="t") == theirs.total("Size", topic="t")
            assert (mine.total("ConsumerLag", topic="t"), mine.total("MessagesInPerSec", topic="t")) == (0, 0)
            assert mine.total("LeaderCount") < mine.total("PartitionCount")
        assert [name for name in copy.metrics() if name.name == "ConsumerLag"]
    with pylog.open(tmp_path / "b", node_id=2) as copy:
        # It has heard of no leader yet.
        assert copy.topic("t")[0].next_offset == 3
        assert not [name for name in copy.metrics() if name.name == "ConsumerLag"]


def test_a_server_and_the_connections_to_it_count_the_same_bytes() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        with log.serve() as server, pylog.connect(server.bootstrap_servers) as far:
            producer = far.producer(client_id="far")
            for _ in range(3):
                producer.send("t", b"value").result()
            until(lambda: log.metrics().total("outgoing-byte-total") == far.metrics().total("incoming-byte-total"))
            mine, theirs = far.metrics(), log.metrics()

            assert theirs.total("incoming-byte-total") == mine.total("outgoing-byte-total") > 0
            assert theirs.total("connection-creation-total") == mine.total("connection-creation-total") >= 1
            assert theirs.total("connection-count") == mine.total("connection-count") >= 1
            assert times(theirs, "TotalTimeMs", request="Produce").count == 3
            assert theirs.total("RequestsPerSec", request="Produce") == 3
            assert times(mine, "request-latency", request="Produce").count == 3
            assert mine.total("record-send-total", client_id="far", topic="t") == 3
            assert mine.total("MessagesInPerSec") == 0 and theirs.total("MessagesInPerSec", topic="t") == 3
            assert theirs.total("RequestQueueSize") == 0
            producer.close()
            assert far.metrics().total("record-send-total") == 0


def test_a_producer_counts_batches_and_records_that_fail() -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t", config={"max.message.bytes": 100})
        with log.producer(client_id="p", linger_ms=1000) as producer:
            kept = [producer.send("t", b"x") for _ in range(3)]
            bad = producer.send("t", b"x" * 200, partition=0)
            producer.flush()
            assert all(one.exception() is None for one in kept) and bad.exception() is not None
            found = log.metrics()

            assert found.total("record-error-total", client_id="p", topic="t") == 1
            assert found.total("batch-send-total") >= 2 and found.total("byte-total") > 0
            assert found.total("buffer-available-bytes") == found.total("buffer-total-bytes") == 32 << 20
            assert found.total("requests-in-flight") == found.total("record-retry-total") == 0


def test_an_attached_process_has_the_numbers_of_its_clients(tmp_path: Path) -> None:
    with other_process(tmp_path / "log"), pylog.open(tmp_path / "log", mode="attach") as log:
        log.create_topic("t")
        with log.producer(client_id="a") as producer:
            for _ in range(2):
                producer.send("t", b"value").result()
            found = log.metrics()

        assert found.total("record-send-total", client_id="a") == 2
        assert times(found, "request-latency", request="Produce").count >= 1
        assert found.total("MessagesInPerSec") == 0


def test_a_reader_has_its_consumers_and_an_event_loop_the_same_numbers(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        send(log, 2)
        with pylog.open(tmp_path / "log", mode="read") as reader:
            with reader.consumer("t", auto_offset_reset="earliest") as consumer:
                assert len(consumer.poll(60_000)) == 2
                assert reader.metrics().total("records-consumed-total") == 2
            assert reader.metrics().total("MessagesInPerSec") == 0

    async def run() -> Metrics:
        async with aio.open(":memory:") as log:
            await log.create_topic("t")
            async with log.producer() as producer:
                await producer.send_and_wait("t", b"value")
            return log.metrics()

    assert asyncio.run(run()).total("MessagesInPerSec") == 1


def test_a_closed_log_has_no_metrics() -> None:
    log = pylog.open(":memory:")
    assert MetricName("kafka.server:type=ReplicaManager", "PartitionCount") in log.metrics()
    log.close()
    with pytest.raises(Closed):
        log.metrics()
