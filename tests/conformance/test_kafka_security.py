"""A real Kafka judges users and listeners: it lets in the users that pylog has kept, and the other way round.

Its own tools reach a pylog server by TLS and SASL.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

import pylog
from conformance import dump_log
from conformance.dump_log import JAVA, QUIET
from conformance.kafka_broker import Node, free_port
from pylog.server.server import Server
from support.certificates import Authority, authority
from support.sasl_client import authenticate
from support.wire_client import WireClient

__all__ = ["authority"]

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SECONDS = 30
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOOLS = "org.apache.kafka.tools."


def guarded(data: Path, work: Path) -> tuple[Node, str]:
    """A broker on a directory, and the address of a listener of it with SCRAM."""
    node = Node(data, work)
    text = node._properties.read_text()
    controller = re.search(r"CONTROLLER://(\S+)", text)
    assert controller is not None
    secured = f"127.0.0.1:{free_port()}"
    node._properties.write_text(
        text + f"listeners=PLAINTEXT://{node.bootstrap_servers},CONTROLLER://{controller[1]},"
        f"SASL_PLAINTEXT://{secured}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}\n"
        + "".join(
            f"listener.name.sasl_plaintext.{one.lower()}.sasl.jaas.config={JAAS};\n" for one in MECHANISMS
        )
    )  # fmt: skip
    return node, secured


def client(servers: str, mechanism: str, user: str, password: str) -> AdminClient:
    return AdminClient({
        "bootstrap.servers": servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.username": user, "sasl.password": password,
    })  # fmt: skip


def test_users_are_let_in_by_both_whoever_has_made_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pylog.open(data) as log:
        log.create_topic("t")
        log.admin.set_password("alice", "secret")
        log.admin.set_password("gone", "secret")
        log.admin.delete_user("gone")
    node, secured = guarded(data, tmp_path)
    node.start()
    try:
        for mechanism in MECHANISMS:
            admin = client(secured, mechanism, "alice", "secret")
            assert "t" in admin.list_topics(timeout=SECONDS).topics
        assert sorted(admin.describe_user_scram_credentials().result(SECONDS)) == ["alice"]
        with pytest.raises(KafkaException):
            client(secured, "SCRAM-SHA-256", "alice", "wrong").list_topics(timeout=3)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        upsertion = UserScramCredentialUpsertion("bob", info, b"hidden", b"a salt of its own")
        admin.alter_user_scram_credentials([upsertion])["bob"].result(SECONDS)
    finally:
        node.stop()

    with pylog.open(data) as log:
        assert log.admin.users() == {
            "alice": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}, "bob": {"SCRAM-SHA-512": 8192},
        }  # fmt: skip
        with log.serve("SASL_PLAINTEXT://127.0.0.1:0") as server:
            for mechanism, user, password in (("SCRAM-SHA-512", "bob", "hidden"), ("SCRAM-SHA-256", "alice", "secret")):
                with WireClient(server.bootstrap_servers) as wire:
                    assert authenticate(wire, mechanism, user, password)["errorCode"] == 0


# --- Java's clients ---------------------------------------------------------------------------------------------------


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    options: dict[str, Any] = {**authority.server, "users": {"alice": "secret"}}
    with pylog.serve(listen="SASL_SSL://127.0.0.1:0", config={"connections.max.reauth.ms": 60_000}, **options) as made:
        yield made


def java(server: Server, authority: Authority, work: Path, mechanism: str, *words: str) -> str:
    """What a tool of Kafka prints."""
    module = JAAS if mechanism.startswith("SCRAM") else JAAS.replace("scram.Scram", "plain.Plain")
    properties = work / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} username="alice" password="secret";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.cafile}\n"
    )  # fmt: skip
    tool, *rest = words
    command = [*JAVA, QUIET, tool, "--bootstrap-server", server.bootstrap_servers, "--command-config", str(properties)]
    done = subprocess.run([*command, *rest], capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafkas_tools_come_by_tls_and_sasl(server: Server, authority: Authority, tmp_path: Path) -> None:
    tool = f"{TOOLS}TopicCommand"
    java(server, authority, tmp_path, "PLAIN", tool, "--create", "--topic", "t", "--partitions", "2")

    assert "t" in java(server, authority, tmp_path, "SCRAM-SHA-512", tool, "--list").split()


def test_kafkas_tools_change_users(server: Server, authority: Authority, tmp_path: Path) -> None:
    who = ("kafka.admin.ConfigCommand", "--entity-type", "users", "--entity-name", "carol")
    change = "SCRAM-SHA-256=[iterations=8192,password=quiet]"
    java(server, authority, tmp_path, "PLAIN", *who, "--alter", "--add-config", change)

    assert "SCRAM-SHA-256=iterations=8192" in java(server, authority, tmp_path, "PLAIN", *who, "--describe")
