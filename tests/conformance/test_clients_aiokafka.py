"""aiokafka against our server, in this process: records, groups, transactions, admin, by old versions of the keys."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

import pylog
from pylog.server.server import Server

SECONDS = 60
KEY = TopicPartition("t", 0)


@pytest.fixture
def server() -> Iterator[Server]:
    with pylog.serve() as made:
        yield made


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), SECONDS))


async def read(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            values += [record.value for record in records]
    return values


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_a_group_reads_records_of_every_codec(server: Server, codec: str | None) -> None:
    values = [b"%d" % number * 10 for number in range(100)]

    async def work() -> None:
        where = {"bootstrap_servers": server.bootstrap_servers}
        async with AIOKafkaProducer(**where, compression_type=codec, enable_idempotence=True) as producer:
            for value in values:
                await producer.send("t", value)
        async with AIOKafkaConsumer("t", **where, group_id="g", auto_offset_reset="earliest") as consumer:
            assert await read(consumer, len(values)) == values
            await consumer.commit()
            assert await consumer.committed(KEY) == len(values)

    run(work)


def test_only_committed_transactions_are_read(server: Server) -> None:
    async def work() -> None:
        where = {"bootstrap_servers": server.bootstrap_servers}
        async with AIOKafkaProducer(**where, transactional_id="tx") as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait("t", b"%d" % number)
                if number == 0:
                    await producer.send_offsets_to_transaction({KEY: 3}, "g")
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        async with AIOKafkaConsumer(**where, group_id="g", isolation_level="read_committed") as consumer:
            consumer.assign([KEY])
            assert await consumer.committed(KEY) == 3
            await consumer.seek_to_beginning()
            assert await read(consumer, 2) == [b"0", b"2"]

    run(work)


def test_offsets_are_found_by_time_and_at_the_ends(server: Server) -> None:
    async def work() -> None:
        where = {"bootstrap_servers": server.bootstrap_servers}
        async with AIOKafkaProducer(**where) as producer:
            for number in range(4):
                await producer.send_and_wait("t", b"v", timestamp_ms=1000 + number)
        async with AIOKafkaConsumer(**where) as consumer:
            consumer.assign([KEY])
            assert (await consumer.offsets_for_times({KEY: 1002}))[KEY].offset == 2
            assert await consumer.beginning_offsets([KEY]) == {KEY: 0}
            assert await consumer.end_offsets([KEY]) == {KEY: 4}

    run(work)


def test_topics_and_groups_are_administered(server: Server) -> None:
    async def work() -> None:
        where = {"bootstrap_servers": server.bootstrap_servers}
        async with AIOKafkaConsumer("t", **where, group_id="g") as consumer:
            await consumer.getmany(timeout_ms=100)
        client = AIOKafkaAdminClient(**where)
        await client.start()
        try:
            await client.create_topics([NewTopic("u", 2, 1)])
            assert {"t", "u"} <= set(await client.list_topics())
            assert [one[0] for one in await client.list_consumer_groups()] == ["g"]
            await client.delete_topics(["u"])
            assert "u" not in await client.list_topics()
        finally:
            await client.close()

    run(work)
