"""What the clients of wire.py do: real ones as an application uses them, and bare sockets, which cost a client least.

Each function gives the seconds that a unit of its work took. Bare sockets send requests that were made before, and look
at the size of an answer and at nothing else, so what is measured is the server, and the loopback.
"""

import asyncio
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from harness import stopwatch
from nodes import Node
from pylog import Record
from pylog.protocol.batch import encode
from pylog.protocol.schema import message

PATIENCE = 120
PRODUCE, FETCH, API_VERSIONS = 0, 1, 18
PRODUCE_VERSION, FETCH_VERSION = 9, 11


@cache
def rows(count: int) -> list[bytes]:
    """Values of 100 bytes, about, that a codec makes a third of."""
    return [
        b'{"user": %d, "page": "/articles/%d", "referrer": "/search", "ms": %d, "country": "NZ", "agent": "m"}'
        % (index * 7919 % 100_003, index % 1_999, index * 31 % 60_013)
        for index in range(count)
    ]


# --- real clients -----------------------------------------------------------------------------------------------------


def confluent_produce(node: Node, topic: str, count: int, codec: str) -> float:
    from confluent_kafka import Producer

    config = {"compression.type": codec, "queue.buffering.max.messages": 10_000_000, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": node.servers, "log_level": 0, **config})
    values = rows(count)
    producer.produce(topic, b"first")
    producer.flush(PATIENCE)
    taken = stopwatch()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0, f"{node.name} did not answer"
    return taken() / count


def confluent_consume(node: Node, topic: str, count: int, _: str) -> float:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    # Its default of 1,000 ms between fetches is what would be measured.
    config = {"fetch.queue.backoff.ms": 1, "queued.min.messages": 1_000_000, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": node.servers, "group.id": "bench", "log_level": 0, **config})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left = count - len(consumer.consume(1, PATIENCE))
    taken = stopwatch()
    while left > 0:
        found = consumer.consume(min(10_000, left), PATIENCE)
        assert found, f"{node.name} gives no more"
        left -= len(found)
    seconds = taken() / count
    consumer.close()
    return seconds


def aiokafka_produce(node: Node, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaProducer

    async def run() -> float:
        async with AIOKafkaProducer(bootstrap_servers=node.servers, linger_ms=5) as producer:
            await producer.send_and_wait(topic, b"first")
            taken = stopwatch()
            for value in rows(count):
                last = await producer.send(topic, value)
            await last
            return taken() / count

    return asyncio.run(run())


def aiokafka_consume(node: Node, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> float:
        async with AIOKafkaConsumer(bootstrap_servers=node.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.getone()
            taken, left = stopwatch(), count - 1
            while left > 0:
                found = await consumer.getmany(timeout_ms=1000 * PATIENCE, max_records=left)
                left -= sum(map(len, found.values()))
            return taken() / count

    return asyncio.run(run())


def kafka_python_produce(node: Node, topic: str, count: int) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=node.servers, linger_ms=5)
    producer.send(topic, b"first").get(PATIENCE)
    taken = stopwatch()
    for value in rows(count):
        producer.send(topic, value)
    producer.flush(PATIENCE)
    seconds = taken() / count
    producer.close()
    return seconds


def kafka_python_consume(node: Node, topic: str, count: int) -> float:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=node.servers, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(topic, 0)])
    next(consumer)
    taken, left = stopwatch(), count - 1
    while left > 0:
        left -= sum(map(len, consumer.poll(1000 * PATIENCE, max_records=left).values()))
    seconds = taken() / count
    consumer.close()
    return seconds


def one_at_a_time(node: Node, topic: str, count: int) -> list[float]:
    """The seconds of each record that confluent-kafka sends with acks=1 and waits for, in order."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": node.servers, "acks": 1, "linger.ms": 0, "log_level": 0})
    seconds = []
    for value in rows(count):
        taken = stopwatch()
        producer.produce(topic, value)
        assert producer.flush(PATIENCE) == 0, f"{node.name} did not answer"
        seconds.append(taken())
    return sorted(seconds)


# --- bare sockets -----------------------------------------------------------------------------------------------------


def request(key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    """A frame whose client id is "b"."""
    data = struct.pack(">hhih", key, version, 1, 1) + b"b" + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(data)) + data


def produce_request(topic: str) -> bytes:
    """A Produce of one record with acks=1."""
    part = {"index": 0, "records": bytes(encode([Record(rows(1)[0])], now_ms=int(time.time() * 1000)).data)}
    body = {"acks": 1, "timeoutMs": 30_000, "topicData": [{"name": topic, "partitionData": [part]}]}
    encoded = message("ProduceRequest").encode(PRODUCE_VERSION, {"transactionalId": None, **body})
    return request(PRODUCE, PRODUCE_VERSION, encoded, flexible=True)


def fetch_request(topic: str, max_wait_ms: int) -> bytes:
    """A Fetch at the end of an empty topic."""
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body = {"replicaId": -1, "maxWaitMs": max_wait_ms, "minBytes": 1, "sessionEpoch": -1}
    encoded = message("FetchRequest").encode(
        FETCH_VERSION, {**body, "topics": [{"topic": topic, "partitions": [part]}]}
    )
    return request(FETCH, FETCH_VERSION, encoded, flexible=False)


def api_versions_request() -> bytes:
    return request(API_VERSIONS, 0, b"", flexible=False)


def answer_of(client: socket.socket) -> bytes:
    """The next answer, whole."""
    found = b""
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
        more = client.recv(65_536)
        assert more, "the server has closed the connection"
        found += more
    return found


def connections(node: Node, count: int) -> list[socket.socket]:
    return [socket.create_connection(node.address, PATIENCE) for _ in range(count)]


def close_all(clients: Sequence[socket.socket]) -> None:
    for client in clients:
        client.close()


def in_turn(node: Node, topic: str, count: int) -> float:
    """One socket, a small Produce at a time."""
    (client,) = clients = connections(node, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = produce_request(topic)
    client.sendall(data)
    answer_of(client)
    taken = stopwatch()
    for _ in range(count):
        client.sendall(data)
        answer_of(client)
    seconds = taken() / count
    close_all(clients)
    return seconds


def at_once(node: Node, topic: str, count: int, producers: int) -> float:
    """Sockets with one small Produce each in flight, `count` in all."""
    clients, data = connections(node, producers), produce_request(topic)
    taken = stopwatch()
    _each_in_flight(clients, data, lambda answered: answered < count)
    seconds = taken() / count
    close_all(clients)
    return seconds


def polling(node: Node, topic: str, clients: Sequence[socket.socket], seconds: float) -> None:
    """Let sockets poll an empty topic every 500 ms; no sockets: wait."""
    if not clients:
        time.sleep(seconds)
        return
    taken = stopwatch()
    _each_in_flight(clients, fetch_request(topic, 500), lambda _: taken() < seconds)


def _each_in_flight(clients: Sequence[socket.socket], data: bytes, goes_on: Any) -> None:
    """Send a request by each socket, and the next one at its answer, while `goes_on(number of answers)`."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
            client.sendall(data)
        waiting, answered = len(clients), 0
        while waiting:
            for key, _ in selector.select():
                client = key.fileobj
                assert isinstance(client, socket.socket)
                answer_of(client)
                answered += 1
                if goes_on(answered + waiting - 1):
                    client.sendall(data)
                else:
                    waiting -= 1
