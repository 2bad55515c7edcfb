"""Bills orders: reads `orders`, writes `bills`, each order once. It knows confluent-kafka and nothing of pylog."""

import json
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


class Billing:
    """One worker of the group `billing`."""

    def __init__(self, bootstrap_servers: str, *, settings: dict[str, Any] | None = None) -> None:
        shared = {"bootstrap.servers": bootstrap_servers, **(settings or {})}
        self.producer = Producer({**shared, "transactional.id": "billing-1"})
        self.producer.init_transactions(30)
        self.consumer = Consumer({
            **shared, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False,
            "isolation.level": "read_committed",
        })  # fmt: skip
        self.consumer.subscribe(["orders"])

    def work(self, orders: int, *, timeout: float = 30) -> None:
        """Bill so many orders, each in a transaction with the offset of its order."""
        while orders:
            message = self.consumer.poll(timeout)
            if message is None:
                raise TimeoutError(f"{orders} orders did not come")
            if message.error() is not None:
                raise KafkaException(message.error())
            self.producer.begin_transaction()
            self.producer.produce("bills", bill(message.value() or b"{}"), key=message.key())
            done = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
            self.producer.send_offsets_to_transaction([done], self.consumer.consumer_group_metadata())
            self.producer.commit_transaction(timeout)
            orders -= 1

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()


def bill(order: bytes) -> bytes:
    """The bill of an order."""
    read = json.loads(order)
    return json.dumps({"order": read["id"], "total": read["price"] * read["count"]}).encode()
