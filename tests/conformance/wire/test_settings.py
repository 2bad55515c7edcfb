"""What an administrator asks besides topics, groups and transactions, through Java's admin client."""

from typing import Any

import pytest

from conformance.wire.conftest import Opened, Topics
from support.clients.values import ClientError, Sent, until
from support.raw_client import WireClient
from support.wire_requests import Requests, records


def refused(java: Any, name: str, **words: Any) -> str:
    with pytest.raises(ClientError) as raised:
        java.call(name, **words)
    return str(raised.value.name)


def users(java: Any, name: str) -> list[list[Any]]:
    return [row for row in java.call("users") if row[0] == name]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_are_set_described_and_deleted(java: Any, topics: Topics, mechanism: str) -> None:
    user = topics.name()

    java.call("setUser", user=user, mechanism=mechanism, iterations=4096)
    until(lambda: users(java, user) == [[user, mechanism, 4096]])
    java.call("setUser", user=user, mechanism=mechanism, iterations=8192)
    until(lambda: users(java, user) == [[user, mechanism, 8192]])
    java.call("deleteUser", user=user, mechanism=mechanism)
    until(lambda: users(java, user) == [])

    assert refused(java, "deleteUser", user=user, mechanism=mechanism) == "RESOURCE_NOT_FOUND"
    assert refused(java, "setUser", user=user, mechanism=mechanism, iterations=4095) == "UNACCEPTABLE_CREDENTIAL"


def test_features_are_described_and_not_updated_to_what_there_is_not(java: Any) -> None:
    assert {"metadata.version", "transaction.version", "group.version"} <= set(java.call("features"))
    assert refused(java, "updateFeature", feature="no.such", level=1, validateOnly=True) == "INVALID_UPDATE_VERSION"
    wrong = refused(java, "updateFeature", feature="metadata.version", level=999, validateOnly=True)
    assert wrong == "INVALID_UPDATE_VERSION"


def test_replica_lies_in_a_directory_and_does_not_move_to_one_that_is_not_there(
    java: Any, topics: Topics, wire: WireClient
) -> None:
    topic = topics.create()
    Requests(wire).produce(topic, records(b"x"))
    (broker,) = wire.ask("DescribeCluster", {"endpointType": 1})["brokers"]
    where = {"partition": (topic, 0), "broker": broker["brokerId"]}

    until(lambda: java.call("replicaDirs", **where) == [True, False])
    assert refused(java, "moveReplica", **where, path="/no/such/directory") == "LOG_DIR_NOT_FOUND"
    assert java.call("replicaDirs", **where) == [True, False]


def test_partition_is_reassigned_to_the_only_node_alone(java: Any, topics: Topics) -> None:
    topic = topics.create()
    partition = (topic, 0)

    assert refused(java, "reassign", partition=partition, brokers=[77]) == "INVALID_REPLICA_ASSIGNMENT"
    assert refused(java, "reassign", partition=partition, brokers=None) == "NO_REASSIGNMENT_IN_PROGRESS"
    java.call("reassign", partition=partition, brokers=[1])
    absent = refused(java, "reassign", partition=(topics.name(), 0), brokers=[1])
    assert absent == "UNKNOWN_TOPIC_OR_PARTITION"


def test_classic_group_is_described(java: Any, client: Opened, topics: Topics) -> None:
    topic, group = topics.create(), topics.name()
    consumer = client.consumer(group_id=group)
    consumer.subscribe(topic)
    until(lambda: consumer.poll() or consumer.assignment())

    assert java.call("classicGroup", group=group) == {"state": "Stable", "members": 1}
    assert refused(java, "classicGroup", group=topics.name()) == "GROUP_ID_NOT_FOUND"


def test_transaction_is_terminated(java: Any, client: Opened, topics: Topics, wire: WireClient) -> None:
    topic, name = topics.create(), topics.name()
    producer = client.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Sent(b"open")])

    java.call("terminateTransaction", id=name)

    until(lambda: java.call("describeTransaction", transactionalId=name)["state"] == "Empty")
    with pytest.raises(ClientError):
        producer.commit()
    assert Requests(wire).read(topic, isolation=1) == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("acls", "SECURITY_DISABLED"),
        ("createAcl", "SECURITY_DISABLED"),
        ("deleteAcls", "SECURITY_DISABLED"),
        ("createToken", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        ("tokens", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        ("renewToken", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        ("expireToken", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
    ],
)
def test_what_needs_security_is_refused_without_it(java: Any, call: str, error: str) -> None:
    assert refused(java, call) == error
