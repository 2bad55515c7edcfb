"""Programs behind a SASL listener with an authorizer: what they may not do is an error of its class, at once."""

from collections.abc import Iterator
from typing import Any

import pytest

import pylog
from pylog import AclBinding, AclBindingFilter, AclOperation, AclResourceType
from pylog.errors import (
    ClusterAuthorization,
    GroupAuthorization,
    SecurityDisabled,
    TopicAuthorization,
    TransactionalIdAuthorization,
)
from pylog.server.server import Server

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
O = AclOperation  # noqa: E741
USERS = {"alice": "secret", "root": "hidden"}
CONFIG = {"super.users": "User:root", "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:", config=CONFIG) as made:
        made.create_topic("t")
        yield made


@pytest.fixture
def server(log: pylog.Log) -> Iterator[Server]:
    with log.serve("SASL_PLAINTEXT://127.0.0.1:0", users=USERS, authorizer="standard") as made:
        yield made


def connected(server: Server, user: str) -> pylog.ConnectedLog:
    given: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": user,
        "sasl_password": USERS[user],
    }  # fmt: skip
    return pylog.connect(server.bootstrap_servers, **given)


def allow(log: pylog.Log, operation: AclOperation, kind: AclResourceType, name: str) -> None:
    log.admin.create_acls([AclBinding(kind, name, "User:alice", operation)])


def test_a_producer_sends_to_topics_that_it_may_write(log: pylog.Log, server: Server) -> None:
    with connected(server, "alice") as alice, alice.producer() as producer, pytest.raises(TopicAuthorization):
        producer.send("t", b"x").result()
    allow(log, O.WRITE, TOPIC, "t")
    with connected(server, "alice") as alice, alice.producer() as producer:
        for _ in range(3):
            producer.send("t", b"x").result()
        # What was prepared is judged, too.
        log.admin.delete_acls([AclBindingFilter()])
        allow(log, O.DESCRIBE, TOPIC, "t")
        with pytest.raises(TopicAuthorization):
            producer.send("t", b"x").result()
    assert log.topic("t")[0].high_watermark == 3


def test_a_consumer_reads_topics_that_it_may_read(log: pylog.Log, server: Server) -> None:
    log.topic("t")[0].append([pylog.Record(b"x")])
    allow(log, O.DESCRIBE, TOPIC, "t")
    with connected(server, "alice") as alice:
        with alice.consumer("t", auto_offset_reset="earliest") as consumer, pytest.raises(TopicAuthorization):
            consumer.poll(timeout_ms=10_000)
        with alice.consumer("t", group_id="g") as consumer, pytest.raises(GroupAuthorization):
            consumer.poll(timeout_ms=10_000)
        allow(log, O.READ, TOPIC, "t")
        allow(log, O.READ, GROUP, "g")
        with alice.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
            assert [one.value for one in consumer.poll(timeout_ms=10_000)] == [b"x"]
            consumer.commit()


def test_a_transaction_needs_its_id(log: pylog.Log, server: Server) -> None:
    allow(log, O.WRITE, TOPIC, "t")
    with connected(server, "alice") as alice:
        with pytest.raises(TransactionalIdAuthorization):
            alice.producer(transactional_id="etl")
        allow(log, O.WRITE, AclResourceType.TRANSACTIONAL_ID, "etl")
        with alice.producer(transactional_id="etl") as producer, producer.transaction():
            producer.send("t", b"x")
    assert len(list(log.topic("t")[0].records(0))) == 1


def test_acls_are_changed_by_those_who_may_alter_the_cluster(log: pylog.Log, server: Server) -> None:
    one = AclBinding(TOPIC, "t", "User:alice", O.READ)
    with connected(server, "alice") as alice, connected(server, "root") as root:
        for change in (
            lambda: alice.admin.create_acls([one]), alice.admin.describe_acls,
            lambda: alice.admin.delete_acls([AclBindingFilter()]),
        ):  # fmt: skip
            with pytest.raises(ClusterAuthorization):
                change()
        root.admin.create_acls([one])
        assert root.admin.describe_acls() == [one]
        assert root.admin.delete_acls([AclBindingFilter(TOPIC)]) == [one]
        assert log.admin.describe_acls() == []


def test_a_server_without_an_authorizer_has_no_acls(log: pylog.Log) -> None:
    with log.serve() as server, pylog.connect(server.bootstrap_servers) as anyone:
        with pytest.raises(SecurityDisabled):
            anyone.admin.describe_acls()
        anyone.create_topic("u")


def test_without_a_name_a_client_is_anonymous(log: pylog.Log) -> None:
    log.admin.create_acls([AclBinding(TOPIC, "t", "User:ANONYMOUS", O.WRITE)])
    with log.serve(authorizer=True) as server, pylog.connect(server.bootstrap_servers) as anyone:
        with anyone.producer() as producer:
            producer.send("t", b"x").result()
        with pytest.raises(TopicAuthorization):
            anyone.create_topic("u")
