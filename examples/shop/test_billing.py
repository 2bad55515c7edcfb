"""The tests of `billing`, as its authors would write them: each has a Kafka of its own for some milliseconds.

python -m pytest examples/shop
"""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from examples.shop.billing import Billing
from pylog import errors
from pylog.testing import StandIn

BILLS = [json.dumps({"order": number, "total": 10 * number}) for number in range(3)]


@pytest.fixture
def kafka(pylog_server: StandIn) -> StandIn:
    """A Kafka that has three orders."""
    producer = Producer({"bootstrap.servers": pylog_server.bootstrap_servers})
    for number in range(3):
        producer.produce("orders", json.dumps({"id": number, "price": 5 * number, "count": 2}))
    producer.flush()
    pylog_server.log.create_topic("bills")
    return pylog_server


@pytest.fixture
def billing(kafka: StandIn) -> Iterator[Billing]:
    made = Billing(kafka.bootstrap_servers, settings={"retry.backoff.ms": 10})
    yield made
    made.close()


def test_every_order_is_billed(kafka: StandIn, billing: Billing) -> None:
    billing.work(3)

    kafka.assert_records("bills", BILLS)


def test_a_commit_that_is_answered_by_an_error_is_tried_again(kafka: StandIn, billing: Billing) -> None:
    kafka.fail("EndTxn", errors.CoordinatorNotAvailable, times=2)

    billing.work(3)

    kafka.assert_records("bills", BILLS)


def test_a_connection_that_ends_behind_a_commit_bills_nothing_twice(kafka: StandIn, billing: Billing) -> None:
    kafka.disconnect("EndTxn")

    billing.work(3)

    kafka.assert_records("bills", BILLS)
