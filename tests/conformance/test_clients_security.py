"""confluent-kafka and aiokafka against our server by TLS and SASL: records, groups, users, and what is refused."""

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

import pylog
from pylog.server.server import Server
from support.certificates import Authority, authority

__all__ = ["authority"]

SECONDS = 30
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VALUES = [b"%d" % number * 100 for number in range(1000)]
CONFIG = {"connections.max.reauth.ms": 2000, "connection.failed.authentication.delay.ms": 0}


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    """A server with a listener of each protocol that keeps clients apart."""
    listen = [f"{protocol}://127.0.0.1:0" for protocol in ("SASL_SSL", "SSL", "SASL_PLAINTEXT")]
    security: dict[str, Any] = {**authority.server, "ssl_ca_location": authority.cafile, "ssl_client_auth": "requested"}
    with pylog.serve(listen=listen, users={"alice": "secret"}, config=CONFIG, **security) as made:
        yield made


def place(server: Server, protocol: str) -> dict[str, str]:
    return {"bootstrap.servers": str(server.addresses[protocol]), "security.protocol": protocol}


def sasl(mechanism: str, user: str = "alice", password: str = "secret") -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}


def send_and_read(config: dict[str, Any]) -> None:
    """Send records by a client of librdkafka, and read them in a group."""
    errors: list[KafkaError] = []
    config = {**config, "error_cb": errors.append}
    producer = Producer({**config, "linger.ms": 5})
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(SECONDS) == 0, errors
    consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        found: list[bytes | None] = []
        while len(found) < len(VALUES):
            message = consumer.poll(SECONDS)
            assert message is not None, errors
            assert message.error() is None
            found.append(message.value())
        assert found == VALUES
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_sends_and_reads_by_sasl_over_tls(server: Server, authority: Authority, mechanism: str) -> None:
    send_and_read({**place(server, "SASL_SSL"), **sasl(mechanism), "ssl.ca.location": authority.cafile})


def test_librdkafka_sends_and_reads_by_a_certificate(server: Server, authority: Authority) -> None:
    certfile, keyfile = authority.signed("client", "/CN=client")
    send_and_read({
        **place(server, "SSL"), "ssl.ca.location": authority.cafile, "ssl.certificate.location": certfile,
        "ssl.key.location": keyfile,
    })  # fmt: skip


def test_librdkafka_renews_its_session(server: Server) -> None:
    producer = Producer({**place(server, "SASL_PLAINTEXT"), **sasl("SCRAM-SHA-512")})
    producer.produce("t", b"first")
    assert producer.flush(SECONDS) == 0
    before = server.counts.connections
    for _ in range(6):
        producer.poll(0.5)
        producer.produce("t", b"next")
        assert producer.flush(SECONDS) == 0

    assert server.counts.connections == before, "a session of two seconds that is renewed ends no connection"


def test_librdkafka_says_that_a_password_is_wrong(server: Server) -> None:
    errors: list[KafkaError] = []
    config = {**place(server, "SASL_PLAINTEXT"), **sasl("SCRAM-SHA-256", password="wrong")}
    producer = Producer({**config, "error_cb": errors.append})
    for _ in range(SECONDS * 10):
        producer.poll(0.1)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return
    pytest.fail(f"it heard of {errors}")


def test_librdkafka_sets_and_deletes_users(server: Server) -> None:
    admin = AdminClient({**place(server, "SASL_PLAINTEXT"), **sasl("PLAIN")})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = UserScramCredentialUpsertion("carol", info, b"quiet")
    admin.alter_user_scram_credentials([upsertion])["carol"].result(SECONDS)

    described = admin.describe_user_scram_credentials(["carol"])["carol"].result(SECONDS)
    assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    send_and_read({**place(server, "SASL_PLAINTEXT"), **sasl("SCRAM-SHA-256", "carol", "quiet")})
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["carol"].result(SECONDS)
    assert admin.describe_user_scram_credentials().result(SECONDS) == {}


# --- aiokafka ---------------------------------------------------------------------------------------------------------


def aio(server: Server, protocol: str, **security: Any) -> dict[str, Any]:
    return {"bootstrap_servers": str(server.addresses[protocol]), "security_protocol": protocol, **security}


def aio_sasl(mechanism: str, password: str = "secret") -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": password}


async def aio_send_and_read(config: dict[str, Any]) -> None:
    async with AIOKafkaProducer(**config) as producer:
        for value in VALUES:
            await producer.send("t", value)
    async with AIOKafkaConsumer("t", **config, group_id="g", auto_offset_reset="earliest") as consumer:
        found: list[bytes] = []
        while len(found) < len(VALUES):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [record.value for record in records]
        assert found == VALUES


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 2 * SECONDS))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_sends_and_reads_by_sasl(server: Server, mechanism: str) -> None:
    run(aio_send_and_read(aio(server, "SASL_PLAINTEXT", **aio_sasl(mechanism))))


def test_aiokafka_sends_and_reads_by_sasl_over_tls(server: Server, authority: Authority) -> None:
    tls = ssl.create_default_context(cafile=authority.cafile)
    run(aio_send_and_read(aio(server, "SASL_SSL", ssl_context=tls, **aio_sasl("SCRAM-SHA-512"))))


def test_aiokafka_says_that_a_password_is_wrong(server: Server) -> None:
    async def work() -> None:
        producer = AIOKafkaProducer(**aio(server, "SASL_PLAINTEXT", **aio_sasl("PLAIN", "wrong")))
        try:
            with pytest.raises(KafkaConnectionError):
                await producer.start()
        finally:
            await producer.stop()

    run(work())


def test_confluents_admin_changes_acls() -> None:
    with pylog.serve(config={"super.users": "User:ANONYMOUS"}, authorizer="standard") as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        binding = AclBinding(
            ResourceType.TOPIC, "t-", ResourcePatternType.PREFIXED, "User:alice", "*", AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for answer in admin.create_acls([binding]).values():
            answer.result(SECONDS)
        every = AclBindingFilter(
            ResourceType.TOPIC, "t-1", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        assert admin.describe_acls(every).result(SECONDS) == [binding]
        assert [answer.result(SECONDS) for answer in admin.delete_acls([every]).values()] == [[binding]]
        assert admin.describe_acls(every).result(SECONDS) == []
