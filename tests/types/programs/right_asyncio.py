"""A program in an event loop."""

import asyncio
import json
from typing import assert_type

import pylog
from pylog import ConsumerRecord, RecordMetadata, TopicPartition, TopicView


class Listener:
    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print(partitions)


async def main() -> None:
    async with pylog.aio.open("data", flush="sync") as log:
        assert_type(await log.create_topic("t", config={"retention.ms": 1}, exist_ok=True), TopicView)
        async with log.producer(linger_ms=5, acks="all") as plain:
            future = await plain.send("t", b"value", key=b"key", headers=[("h", b"v")])
            assert_type(await future, RecordMetadata)
            assert_type(await plain.send_and_wait("t", b"value"), RecordMetadata)
        async with log.producer(value_serializer=str.encode, transactional_id="x") as producer, producer.transaction():
            await producer.send("t", "text", b"key")
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        async with log.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                assert_type(record.value, bytes | None)
                await consumer.commit()
            found = await consumer.getmany(timeout_ms=1000, max_records=500)
            assert_type(found, dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]])
            await consumer.subscribe(["t"], listener=Listener())
        async with log.consumer("t", value_deserializer=bytes.decode) as decoding:
            assert_type((await decoding.getone()).value, str | None)
        async with log.consumer("t", value_deserializer=json.loads) as loading:
            print((await loading.getone()).value)
        print(await log.admin.list_groups())
    other = await pylog.aio.connect("localhost:9092", security_protocol="PLAINTEXT")
    await other.close()


asyncio.run(main())
