"""A real Kafka and pylog's server have the same ACLs, users and requests: each cell of the table has the same answer.

Kafka's `kafka-acls.sh` makes, lists and removes ACLs of a pylog server.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import pylog
from conformance import dump_log
from conformance.dump_log import JAVA, QUIET
from conformance.kafka_broker import Node, free_port
from pylog import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AclResourceType, PatternType
from support.acl_cells import PASSWORD, USERS, authenticate, cells, prepare
from support.raw_client import WireClient

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SECONDS = 60
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SUPER = "User:ANONYMOUS"
KNOWN = {("AlterReplicaLogDirs", "absent"): "pylog looks for the partition first, Kafka for the directory"}
"""Where the two differ, and why, by case and topic. It has nothing to do with ACLs."""


def kafka_with_acls(data: Path, work: Path) -> tuple[Node, str]:
    """A broker with Kafka's authorizer, and the address of its listener with SASL."""
    node = Node(data, work)
    text = node._properties.read_text()
    controller = re.search(r"CONTROLLER://(\S+)", text)
    assert controller is not None
    secured = f"127.0.0.1:{free_port()}"
    users = " ".join(f'user_{user.name}="{PASSWORD}"' for user in USERS)
    node._properties.write_text(
        text + f"listeners=PLAINTEXT://{node.bootstrap_servers},CONTROLLER://{controller[1]},"
        f"SASL_PLAINTEXT://{secured}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} {users};\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        f"super.users={SUPER}\n"
    )  # fmt: skip
    return node, secured


def of_kafka(tmp_path: Path) -> dict[tuple[str, str, str], str]:
    node, secured = kafka_with_acls(tmp_path / "kafka", tmp_path)
    node.start()
    try:
        with WireClient(node.bootstrap_servers) as root:
            prepare(root)
            return cells(root, secured)
    finally:
        node.kill()


def of_pylog() -> dict[tuple[str, str, str], str]:
    config = {"super.users": SUPER, "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    listen = ["PLAINTEXT://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"]
    users = {user.name: PASSWORD for user in USERS}
    with (
        pylog.serve(":memory:", listen, config=config, users=users, authorizer="standard") as server,
        WireClient(str(server.addresses["PLAINTEXT"])) as root,
    ):
        prepare(root)
        return cells(root, str(server.addresses["SASL_PLAINTEXT"]))


def test_each_cell_has_the_same_answer(tmp_path: Path) -> None:
    ours, theirs = of_pylog(), of_kafka(tmp_path)
    assert ours.keys() == theirs.keys()
    differing = {cell: (ours[cell], theirs[cell]) for cell in ours if ours[cell] != theirs[cell]}
    lines = [f"{cell}: pylog {mine!r}, Kafka {kafkas!r}" for cell, (mine, kafkas) in sorted(differing.items())]
    unknown = [line for cell, line in zip(sorted(differing), lines, strict=True) if (cell[2], cell[1]) not in KNOWN]
    assert not unknown, "\n".join([f"{len(ours)} cells", *unknown])
    assert len(ours) > 5000
    refused = Counter("AUTHORIZATION_FAILED" in text for text in ours.values())
    assert min(refused.values()) > 500


def test_acls_are_kept_for_both_whichever_has_made_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ours = AclBinding(AclResourceType.TOPIC, "t", "User:consumer", AclOperation.READ)
    gone = AclBinding(AclResourceType.GROUP, "g", "User:*", AclOperation.ALL)
    with pylog.open(data) as log:
        log.create_topic("t")
        log.admin.create_acls([ours, gone])
        log.admin.delete_acls([AclBindingFilter(AclResourceType.GROUP)])
    node, secured = kafka_with_acls(data, tmp_path)
    node.start()
    try:
        with WireClient(node.bootstrap_servers) as root, WireClient(secured) as consumer:
            authenticate(consumer, "consumer")
            asked = {"topics": [{"name": "t"}, {"name": "u"}], "allowAutoTopicCreation": False}
            codes = {one["name"]: one["errorCode"] for one in consumer.ask("Metadata", asked, version=12)["topics"]}
            assert codes == {"t": 0, "u": 29}
            theirs = {"resourceType": 2, "resourceName": "u", "resourcePatternType": 4, "principal": "User:*",
                "host": "10.0.0.1", "operation": 4, "permissionType": 2}  # fmt: skip
            assert root.ask("CreateAcls", {"creations": [theirs]}, version=3)["results"][0]["errorCode"] == 0
    finally:
        node.stop()
    with pylog.open(data) as log:
        write, prefixed, deny = AclOperation.WRITE, PatternType.PREFIXED, AclPermissionType.DENY
        kafkas = AclBinding(AclResourceType.TOPIC, "u", "User:*", write, prefixed, "10.0.0.1", deny)
        assert set(log.admin.describe_acls()) == {ours, kafkas}


def test_kafkas_tool_changes_the_acls_of_pylog() -> None:
    tool = "org.apache.kafka.tools.AclCommand"
    with pylog.serve(":memory:", config={"super.users": SUPER}, authorizer="standard") as server:

        def run(*words: str) -> str:
            command = [*JAVA[:1], QUIET, *JAVA[1:], tool, "--bootstrap-server", server.bootstrap_servers, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        run("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "t", "--group", "g")
        run("--add", "--deny-principal", "User:bob", "--operation", "Write", "--topic", "pre-",
            "--resource-pattern-type", "prefixed", "--deny-host", "10.0.0.1")  # fmt: skip
        with pylog.connect(server.bootstrap_servers) as log:
            read, described = AclOperation.READ, AclOperation.DESCRIBE
            topic, group = AclResourceType.TOPIC, AclResourceType.GROUP
            assert set(log.admin.describe_acls()) == {
                AclBinding(topic, "t", "User:alice", read), AclBinding(topic, "t", "User:alice", described),
                AclBinding(group, "g", "User:alice", read),
                AclBinding(
                    topic, "pre-", "User:bob", AclOperation.WRITE, PatternType.PREFIXED, "10.0.0.1",
                    AclPermissionType.DENY,
                ),
            }  # fmt: skip
            listed = run("--list", "--topic", "pre-x", "--resource-pattern-type", "match")
            assert "User:bob" in listed
            assert "User:alice" not in listed
            run("--remove", "--force", "--topic", "t")
            assert {acl.name for acl in log.admin.describe_acls()} == {"g", "pre-"}
