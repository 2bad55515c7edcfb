"""Assignments step by step, offsets that the program stores, and other calls of other clients' consumers."""

import asyncio
import logging
from typing import Any

import pytest

import pylog
from pylog import aio
from pylog.errors import Closed, InvalidConfig, InvalidGroupId, UnknownTopicOrPartition
from pylog.record import OffsetAndMetadata, TopicPartition
from support.clients.values import until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def log() -> Any:
    with pylog.open(":memory:") as log:
        topic = log.create_topic("t", partitions=2)
        for view in topic:
            view.append([pylog.Record(b"%d" % number) for number in range(5)])
        yield log


def test_partitions_are_assigned_and_unassigned_one_by_one(log: pylog.Log) -> None:
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.incremental_assign([T0])
        consumer.seek(T0, 3)
        consumer.incremental_assign([T1])
        assert (consumer.assignment(), consumer.position(T0)) == ({T0, T1}, 3)
        consumer.incremental_unassign([T0])
        assert consumer.assignment() == {T1}
        with pytest.raises(ValueError, match="t-0 is not assigned"):
            consumer.incremental_unassign([T0])
        with pytest.raises(UnknownTopicOrPartition):
            consumer.incremental_assign([TopicPartition("t", 9)])
        consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="has subscribed"):
            consumer.incremental_assign([T0])


def test_watermarks_are_the_first_offset_and_the_end(log: pylog.Log) -> None:
    log.delete_records({T0: 2})
    with log.consumer() as consumer:
        assert (consumer.get_watermark_offsets(T0), consumer.get_watermark_offsets(T1)) == ((2, 5), (0, 5))


def test_stored_offsets_alone_are_committed(log: pylog.Log) -> None:
    config: Any = {"group_id": "g", "enable_auto_offset_store": False, "auto_offset_reset": "earliest"}
    with log.consumer(**config) as consumer:
        consumer.assign([T0, T1])
        until(lambda: consumer.poll(1000))
        consumer.commit()
        assert consumer.committed([T0, T1]) == {T0: None, T1: None}
        consumer.store_offsets({T0: 2})
        consumer.commit()
        assert consumer.committed([T0, T1])[T0] == OffsetAndMetadata(2, "")
        consumer.store_offsets({T1: OffsetAndMetadata(3, "note")})
        with pytest.raises(ValueError, match="not assigned"):
            consumer.store_offsets({TopicPartition("u", 0): 1})
    with log.consumer(group_id="g") as consumer:
        assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(2, ""), T1: OffsetAndMetadata(3, "note")}
        with pytest.raises(ValueError, match="enable_auto_offset_store=False"):
            consumer.store_offsets({T0: 1})
    with pytest.raises(Closed):
        consumer.store_offsets({T0: 1})
    with pytest.raises(InvalidConfig, match=r"needs a group\.id"):
        log.consumer(enable_auto_offset_store=False)


def test_the_callback_of_the_config_hears_of_commits_without_one(
    log: pylog.Log, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    heard: list[Any] = []
    config: Any = {"default_offset_commit_callback": lambda *outcome: heard.append(outcome), "group_id": "g"}
    own: list[Any] = []
    with log.consumer(auto_commit_interval_ms=0, auto_offset_reset="earliest", **config) as consumer:
        consumer.assign([T0])
        consumer.commit_async({T0: 1}, lambda *outcome: own.append(outcome))
        consumer.commit_async({T0: 2})
        until(lambda: consumer.poll(10) is None or len(heard) >= 2)
    assert own == [({T0: OffsetAndMetadata(1, "")}, None)]
    assert heard[0] == ({T0: OffsetAndMetadata(2, "")}, None)
    assert heard[1][0][T0].offset == 5 and heard[1][1] is None

    heard.clear()
    with caplog.at_level(logging.WARNING), log.consumer("t", **{**config, "group_id": "h"}) as consumer:
        consumer.poll(1000)
        consumer.commit_async({TopicPartition("nowhere", 0): 1})
        until(lambda: consumer.poll(10) is None or heard)
    assert isinstance(heard[0][1], UnknownTopicOrPartition)
    assert not [one for one in caplog.records if "commit" in one.getMessage()]


def test_a_rebalance_is_enforced_where_members_assign(log: pylog.Log) -> None:
    with log.consumer("t", group_id="g") as consumer:
        until(lambda: consumer.poll(10) is None or consumer.assignment())
        before = consumer.group_metadata().generation_id
        consumer.enforce_rebalance()
        until(lambda: consumer.poll(10) is None or consumer.group_metadata().generation_id > before)
    with log.consumer() as consumer, pytest.raises(InvalidGroupId):
        consumer.enforce_rebalance()
    consumer = log.consumer("t", group_id="k", group_protocol="consumer")
    with consumer, pytest.raises(ValueError, match="coordinator assigns"):
        consumer.enforce_rebalance()


def test_a_consumer_of_an_event_loop_has_these_calls() -> None:
    async def run() -> None:
        async with aio.open(":memory:") as log:
            await log.create_topic("t", partitions=2)
            async with log.producer() as producer:
                await producer.send_and_wait("t", b"value", partition=0)
            config: Any = {"group_id": "g", "enable_auto_offset_store": False}
            async with log.consumer(**config) as consumer:
                await consumer.incremental_assign([T0, T1])
                await consumer.incremental_unassign([T1])
                assert consumer.assignment() == {T0}
                assert await consumer.get_watermark_offsets(T0) == (0, 1)
                consumer.store_offsets({T0: 1})
                await consumer.commit()
                assert await consumer.committed(T0) == 1
                consumer.enforce_rebalance()

    asyncio.run(run())
