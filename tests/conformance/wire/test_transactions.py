"""Transactions: visibility before and after commit and abort, offsets in them, fencing and time-outs."""

import pytest

from conformance.wire.conftest import Opened, Topics
from support.clients.values import ClientError, Sent, read_all, until
from support.raw_client import WireClient
from support.wire_requests import LATEST, READ_COMMITTED, Requests, error_of, records

FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED", "ProducerFenced"}
"""The clients' names for the error of a producer whose transactional id has a new owner."""


def values(client: Opened, topic: str, isolation: str, count: int) -> list[bytes | None]:
    consumer = client.consumer(isolation_level=isolation)
    consumer.assign({(topic, 0): 0})
    return [record.value for record in read_all(consumer, count)]


def test_committed_records_are_read_and_aborted_ones_are_not(client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()

    for number, end in enumerate([producer.commit, producer.abort, producer.commit]):
        producer.begin()
        producer.send(topic, [Sent(b"%d" % number), Sent(b"%d again" % number)])
        end()

    assert values(client, topic, "read_committed", 4) == [b"0", b"0 again", b"2", b"2 again"]
    assert len(values(client, topic, "read_uncommitted", 6)) == 6


def test_open_transaction_holds_back_what_follows(client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Sent(b"open")])
    client.producer().send(topic, [Sent(b"plain")])

    assert values(client, topic, "read_committed", 0) == []
    assert values(client, topic, "read_uncommitted", 2) == [b"open", b"plain"]
    producer.commit()
    assert values(client, topic, "read_committed", 2) == [b"open", b"plain"]


def test_transaction_over_several_topics_is_committed_as_one(client: Opened, topics: Topics) -> None:
    first, second, name = topics.create(), topics.create(3), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin()
    producer.send(first, [Sent(b"1")])
    producer.send(second, [Sent(b"2", partition=number) for number in range(3)])
    producer.commit()

    consumer = client.consumer(isolation_level="read_committed")
    consumer.assign({(first, 0): 0, **{(second, number): 0 for number in range(3)}})
    assert len(read_all(consumer, 4)) == 4


def test_offsets_of_a_transaction_are_committed_or_dropped_with_it(client: Opened, topics: Topics) -> None:
    topic, group, name = topics.create(), topics.name(), topics.name()
    client.producer().send(topic, [Sent(b"%d" % number) for number in range(10)])
    consumer = client.consumer(group_id=group)
    consumer.subscribe(topic)
    until(lambda: consumer.poll() or consumer.assignment())
    producer = client.producer(transactional_id=name)
    producer.init_transactions()

    producer.begin()
    producer.send_offsets({(topic, 0): 4}, consumer)
    producer.commit()
    assert until(lambda: consumer.committed((topic, 0))) == 4

    producer.begin()
    producer.send_offsets({(topic, 0): 8}, consumer)
    producer.abort()
    assert consumer.committed((topic, 0)) == 4


def test_new_owner_of_a_transactional_id_fences_the_old_one(client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    old, new = client.producer(transactional_id=name), client.producer(transactional_id=name)
    old.init_transactions()
    old.begin()
    old.send(topic, [Sent(b"old")])

    new.init_transactions()
    with pytest.raises(ClientError) as raised:
        old.commit()
    new.begin()
    new.send(topic, [Sent(b"new")])
    new.commit()

    assert raised.value.name in FENCED
    assert values(client, topic, "read_committed", 1) == [b"new"]


def test_transaction_over_its_time_is_aborted(client: Opened, topics: Topics) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name, transaction_timeout_ms=1000)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Sent(b"late")])
    client.producer().send(topic, [Sent(b"plain")])

    assert values(client, topic, "read_committed", 1) == [b"plain"]


class Owner:
    """A transactional id over a raw connection."""

    def __init__(self, wire: WireClient, topics: Topics) -> None:
        self.requests, self.name, self.topic = Requests(wire), topics.name(), topics.create()
        self.producer = until(self.begin_anew)
        self.sequence = 0

    def begin_anew(self) -> dict[str, int] | None:
        """A new epoch; None as long as the transaction of the old one is being aborted."""
        found = self.requests.init_producer(self.name)
        assert error_of(found) in {"NONE", "CONCURRENT_TRANSACTIONS"}
        return None if found["errorCode"] else found

    def add(self) -> str:
        return until(self._added)

    def _added(self) -> str | None:
        error = self.requests.add_partitions(self.name, self.producer, self.topic)
        return None if error == "CONCURRENT_TRANSACTIONS" else error

    def send(self, *values: bytes, version: int = 11, **more: int) -> str:
        identity = {"producer_id": self.producer["producerId"], "producer_epoch": self.producer["producerEpoch"]}
        data = records(*values, base_sequence=self.sequence, transactional=True, **(identity | more))
        error = until(lambda: self._stored(data, version))
        self.sequence += len(values) if error == "NONE" else 0
        return error

    def _stored(self, data: bytes, version: int) -> str | None:
        """The outcome; None as long as the partition cannot ask the coordinator, which it tells in this way."""
        part = self.requests.produce(self.topic, data, transactional_id=self.name, version=version)
        return None if error_of(part) == "NOT_LEADER_OR_FOLLOWER" else error_of(part)

    def end(self, *, commit: bool, version: int = 4) -> dict[str, int]:
        return self.requests.end(self.name, self.producer, commit=commit, version=version)

    def stable(self) -> int:
        return self.requests.offset(self.topic, LATEST, isolation=READ_COMMITTED)


@pytest.fixture
def owner(wire: WireClient, topics: Topics) -> Owner:
    return Owner(wire, topics)


def test_records_of_a_transaction_that_was_not_announced_are_refused(owner: Owner) -> None:
    assert owner.send(b"x", version=10) == "INVALID_TXN_STATE"
    assert owner.send(b"x", version=11) == "TRANSACTION_ABORTABLE"
    assert owner.stable() == 0


def test_first_record_of_the_second_protocol_announces_its_partition(owner: Owner) -> None:
    assert owner.send(b"x", version=12) == "NONE"
    ended = owner.end(commit=True, version=5)

    assert error_of(ended) == "NONE"
    assert (ended["producerId"], ended["producerEpoch"]) == (
        owner.producer["producerId"], owner.producer["producerEpoch"] + 1)  # fmt: skip
    until(lambda: owner.stable() == 2)


def test_old_epoch_of_a_transaction_is_refused_by_each_request(owner: Owner) -> None:
    old, before = owner.producer, owner.producer["producerEpoch"]
    assert owner.add() == "NONE"
    owner.producer = until(owner.begin_anew)
    assert owner.producer["producerEpoch"] > before
    assert owner.add() == "NONE"

    requests = owner.requests
    assert requests.add_partitions(owner.name, old, owner.topic) == "PRODUCER_FENCED"
    assert error_of(requests.end(owner.name, old, commit=True)) == "PRODUCER_FENCED"
    assert requests.add_offsets(owner.name, old, "group") == "PRODUCER_FENCED"
    assert owner.send(b"x", producer_epoch=before) == "INVALID_PRODUCER_EPOCH"


def test_end_without_a_transaction_is_an_invalid_state(owner: Owner) -> None:
    assert error_of(owner.end(commit=True)) == "INVALID_TXN_STATE"


def test_end_that_is_repeated_has_the_same_answer(owner: Owner) -> None:
    owner.add()
    owner.send(b"x")
    assert error_of(owner.end(commit=True)) == "NONE"

    until(lambda: error_of(owner.end(commit=True)) == "NONE")
    until(lambda: owner.stable() == 2)
    assert error_of(owner.end(commit=False)) == "INVALID_TXN_STATE"


def test_unknown_transactional_id_has_no_producer(owner: Owner) -> None:
    requests = owner.requests
    assert requests.add_partitions("unknown", owner.producer, owner.topic) == "INVALID_PRODUCER_ID_MAPPING"
    assert error_of(requests.end("unknown", owner.producer, commit=True)) == "INVALID_PRODUCER_ID_MAPPING"


def test_timeout_over_the_limit_is_refused(owner: Owner) -> None:
    found = owner.requests.init_producer(owner.name, timeout_ms=10**9)
    assert error_of(found) == "INVALID_TRANSACTION_TIMEOUT"


def test_empty_transactional_id_is_refused(owner: Owner) -> None:
    assert error_of(owner.requests.init_producer("")) == "INVALID_REQUEST"


def test_partition_that_does_not_exist_is_refused(owner: Owner) -> None:
    assert owner.requests.add_partitions(owner.name, owner.producer, "absent") == "UNKNOWN_TOPIC_OR_PARTITION"


def test_aborted_transactions_come_with_a_fetch(owner: Owner) -> None:
    owner.add()
    owner.send(b"gone")
    owner.end(commit=False)
    until(lambda: owner.stable() == 2)

    part = owner.requests.fetch(owner.topic, 0, isolation=READ_COMMITTED)

    aborted = [(found["producerId"], found["firstOffset"]) for found in part["abortedTransactions"]]
    assert aborted == [(owner.producer["producerId"], 0)]
    assert owner.requests.read(owner.topic, isolation=READ_COMMITTED) == []


def test_open_transaction_is_described_and_listed(owner: Owner) -> None:
    owner.add()
    owner.send(b"x")
    wire = owner.requests.wire

    (found,) = wire.ask("DescribeTransactions", {"transactionalIds": [owner.name]})["transactionStates"]
    assert (found["transactionState"], found["topics"]) == ("Ongoing", [{"topic": owner.topic, "partitions": [0]}])
    listed = wire.ask("ListTransactions", {"stateFilters": ["Ongoing"]})["transactionStates"]
    assert owner.name in [each["transactionalId"] for each in listed]
    asked = {"topics": [{"name": owner.topic, "partitionIndexes": [0]}]}
    (active,) = wire.ask("DescribeProducers", asked)["topics"][0]["partitions"][0]["activeProducers"]
    assert (active["lastSequence"], active["currentTxnStartOffset"]) == (0, 0)


def test_offset_of_an_open_transaction_is_unstable(owner: Owner, topics: Topics) -> None:
    group = topics.name()
    requests = owner.requests
    assert until(lambda: requests.commit_offset(group, owner.topic, 1) == "NONE")
    until(lambda: requests.add_offsets(owner.name, owner.producer, group) == "NONE")
    requests.commit_offsets_in_transaction(owner.name, owner.producer, group, owner.topic, 5)

    assert requests.fetch_offset(group, owner.topic)["committedOffset"] == 1
    assert error_of(requests.fetch_offset(group, owner.topic, stable=True)) == "UNSTABLE_OFFSET_COMMIT"
    owner.end(commit=True)
    until(lambda: requests.fetch_offset(group, owner.topic, stable=True)["committedOffset"] == 5)
