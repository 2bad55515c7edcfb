"""A share consumer whose node refuses, loses its session, or answers about what is gone."""

from typing import Any

import pytest

import pylog
from pylog import Record, errors
from pylog.broker.share_lags import with_lags
from pylog.client.share_consumer.acquired import AcquiredBatches
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.config.share_consumer import ShareConsumerConfig
from pylog.protocol.messages.share import ShareGroupOffset, ShareGroupOffsets
from pylog.record import TopicPartition
from pylog.testing import StandIn

T0 = TopicPartition("t", 0)
WAIT_MS = 60_000


def fill(log: Any, count: int = 4) -> None:
    log.create_topic("t", exist_ok=True)
    log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
    with log.producer() as producer:
        for number in range(count):
            producer.send("t", b"%d" % number)


def member(log: Any, **config: Any) -> ShareConsumer:
    return log.share_consumer("t", group_id="g", retry_backoff_ms=1, **config)  # type: ignore[no-any-return]


def polled(consumer: ShareConsumer) -> list[Any]:
    while not (records := consumer.poll(WAIT_MS)):
        pass
    return records


@pytest.mark.parametrize("error", [errors.NotLeaderOrFollower, errors.InvalidShareSessionEpoch, errors.NetworkError])
def test_a_fetch_that_fails_for_a_while_is_asked_again(error: type[errors.PylogError]) -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        fill(log)
        kafka.fail("ShareFetch", error)
        with member(log) as consumer:
            assert [record.value for record in polled(consumer)] == [b"0", b"1", b"2", b"3"]


def test_a_fetch_that_is_refused_for_good_is_an_error_and_the_next_poll_goes_on() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        fill(log)
        kafka.fail("ShareFetch", errors.UnknownServer)
        with member(log) as consumer:
            with pytest.raises(errors.UnknownServer):
                polled(consumer)
            assert len(polled(consumer)) == 4


def test_what_a_lost_session_had_is_not_acknowledged() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        fill(log)
        with member(log, acknowledgement="explicit") as consumer:
            records = polled(consumer)
            consumer.acknowledge(records[0])
            kafka.fail("ShareAcknowledge", errors.ShareSessionNotFound)
            assert isinstance(consumer.commit_sync()[T0], errors.ShareSessionNotFound)
            for record in records[1:]:
                consumer.acknowledge(record)
            assert isinstance(consumer.commit_sync()[T0], errors.ShareSessionNotFound)


def test_topics_that_cannot_be_looked_up_are_looked_up_again() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        fill(log)
        with member(log) as consumer:
            kafka.fail("Metadata", errors.NetworkError)
            assert len(polled(consumer)) == 4


def test_heartbeats_that_fail_are_sent_again() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        fill(log)
        kafka.fail("ShareGroupHeartbeat", errors.CoordinatorLoadInProgress)
        with member(log) as consumer:
            assert len(polled(consumer)) == 4


def test_a_topic_that_is_deleted_is_read_no_more_and_one_of_its_name_is() -> None:
    with pylog.open(":memory:") as log:
        fill(log)
        with member(log) as consumer:
            assert len(polled(consumer)) == 4
            consumer.commit_sync()
            log.delete_topic("t")
            assert consumer.poll(50) == []
            log.create_topic("t")[0].append([Record(b"again")])
            assert [record.value for record in polled(consumer)] == [b"again"]


def test_one_without_topics_is_subscribed_later() -> None:
    with pylog.open(":memory:") as log:
        fill(log)
        with log.share_consumer(group_id="g") as consumer:
            consumer.subscribe(["t"])
            assert len(polled(consumer)) == 4


def test_one_of_a_log_that_is_closed_is_refused() -> None:
    log = pylog.open(":memory:")
    log.close()
    with pytest.raises(errors.Closed):
        log.share_consumer("t", group_id="g")


def test_a_poll_that_is_broken_off_gives_the_same_records_again() -> None:
    def broken(value: bytes) -> bytes:
        if value == b"2" and not was:
            was.append(True)
            raise SystemExit
        return value

    was: list[bool] = []
    with pylog.open(":memory:") as log:
        fill(log)
        with member(log, value_deserializer=broken) as consumer:
            with pytest.raises(SystemExit):
                polled(consumer)
            assert [(record.value, record.delivery_count) for record in polled(consumer)] == [
                (b"0", 1), (b"1", 1), (b"2", 1), (b"3", 1),
            ]  # fmt: skip


def test_one_that_no_log_holds_has_heartbeats_of_its_own() -> None:
    with pylog.open(":memory:") as log:
        fill(log)
        config = ShareConsumerConfig(group_id="g")
        with ShareConsumer(log._transport, log._node_id, config, log._clock) as consumer:
            consumer.subscribe(["t"])
            assert len(polled(consumer)) == 4


def test_an_answer_without_records_has_none() -> None:
    batches = AcquiredBatches(T0, ShareConsumerConfig(group_id="g"))
    assert batches.found(memoryview(b""), []) == ([], {}, None)


def test_a_lag_that_cannot_be_told_is_an_error_of_its_partition() -> None:
    def end(topic: str, partition: int) -> int:
        raise errors.PartitionFailed("it is latched")

    part = ShareGroupOffset(partition_index=0, start_offset=1, delivery_complete_count=0)
    topic = ShareGroupOffsets.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=[part])
    with_lags([ShareGroupOffsets(group_id="g", topics=[topic])], end)
    assert isinstance(part.error, errors.PartitionFailed)
