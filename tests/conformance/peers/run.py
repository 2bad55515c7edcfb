"""The integration tests of other clients, run against pylog's server.

    python -m conformance.peers.run kafka-python FOLDER     a checkout of dpkp/kafka-python
    python -m conformance.peers.run aiokafka FOLDER         a checkout of aio-libs/aiokafka
    python -m conformance.peers.run franz-go FOLDER         a checkout of twmb/franz-go; needs Go
    python -m conformance.peers.run librdkafka FOLDER       a checkout of confluentinc/librdkafka, built before:
                                                            ./configure && make && make -C tests test-runner
    python -m conformance.peers.run kafkajs FOLDER          a checkout of tulios/kafkajs after `npm install`; needs Node
                                                            and the port 9092

More words go to the suite: to pytest, to `go test`, to jest, or numbers of librdkafka's tests. Tests that start brokers
of their own (TLS, SASL, Kerberos) are left out, and so are those in `EXPECTED` and in the lists of what is left
out, with the reason. Ends with 1 where another one fails.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from conformance.wire.servers import SETTINGS, PylogServer

TESTS = Path(__file__).parents[2]
JARS = TESTS.parent / "build" / "kafka"
SECURITY = "not sasl and not ssl and not kerberos and not oauth and not gssapi"
ACLS = {"super.users": "User:ANONYMOUS"}
"""A server with an authorizer, whose clients may do everything: suites make ACLs, and see no difference else."""
OPEN_ACLS = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
"""The same, but for what an ACL denies to everyone."""
EXPECTED = {
    "kafka-python": {
        "test_describe_configs_broker_resource": "the configs of a node do not name its listeners",
    },
    "aiokafka": {"acl": "the server in place of its container has no authorizer"},
}
"""Tests that fail, and why."""
LIBRDKAFKA_LEFT_OUT = {
    "0036": "it is switched off", "0038": "it measures", "0055": "it measures", "0066": "it wants a plugin",
    "0081": "a config of Kerberos; its parts of ACLs pass by SUBTESTS=Acls",
    "0097": "TLS", "0099": "a broker that fails", "0101": "a cluster of racks",
    "0103": "three replicas",
    "0126": "OAuth", "0128": "SASL", "0133": "TLS", "0134": "TLS", "0135": "SASL", "0142": "SASL",
}  # fmt: skip
KAFKAJS_LEFT_OUT = {
    "Acl": "an authorizer",
    "SSL|SASL|Sasl|PLAIN|mechanism|OAUTHBEARER": "TLS and SASL",
    "Reassignments|manual replica|deleteTopicRecords i|all brokers in": "three brokers",
    "not the partition leader|multiple partitions rejects": "three brokers",
    "broker configs|default replication factor|throws a retriable error": "brokers 0 and 2",
    "partitions change after metadata": "a script in a container",
    "ListOffsets v0|max timestamp difference|describeConfigs request|ignores invalid transaction": "Kafka before 4.0",
    "> OffsetCommit request|OffsetFetch request|Heartbeat request|recovers from offset out": "no rebalance timeout",
    "request timeout events": "a request that takes longer than 1 ms",
}  # fmt: skip
"""Parts of the names of tests, and what they want."""
KAFKA_COMMANDS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand", "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}  # fmt: skip
LIBRDKAFKA_LAST = 153
"""What comes after it is of share groups."""
LIBRDKAFKA_SECONDS = 300
VERSION = "4.3.0"


@contextmanager
def served(address: str | None = None, **configs: str) -> Iterator[str]:
    """The bootstrap servers of a server with these configs, at an address, or where a port is free."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "data").mkdir()
        server = PylogServer(work, {**SETTINGS, "num.partitions": "4", **configs}, address)
        server.start()
        try:
            yield server.bootstrap_servers
        finally:
            server.stop()


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float | None = None) -> int:
    """Run a command in a folder; gives how it ended, 1 where it takes too long."""
    try:
        return subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, check=False, timeout=seconds
        ).returncode
    except subprocess.TimeoutExpired:
        return 1


def tested(peer: str, folder: Path, words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run pytest in a checkout."""
    left_out = "".join(f" and not {name}" for name in EXPECTED[peer])
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=native", "-ra",
        "--timeout", "120", "-W", "ignore::pytest.PytestRemovedIn10Warning", "-k", SECURITY + left_out, *words,
    ]  # fmt: skip
    paths = [environment.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
    return run(command, folder, {**environment, "PYTHONPATH": ":".join(filter(None, paths))})


def kafka_python(folder: Path, more: Sequence[str]) -> int:
    """The broker that the tests use is one that is there."""
    (folder / "servers" / VERSION / "kafka-bin").mkdir(parents=True, exist_ok=True)
    with served(**ACLS, **{"node.id": "0"}) as servers:
        environment = {"KAFKA_URI": f"kafka://{servers}", "KAFKA_VERSION": VERSION}
        return tested("kafka-python", folder, ["test/integration", *more], environment)


def aiokafka(folder: Path, more: Sequence[str]) -> int:
    """The container that the tests start is a server (`stand_in/docker.py`)."""
    (folder / "tests" / "ssl_cert").mkdir(exist_ok=True)
    stand_in = str(Path(__file__).with_name("stand_in"))
    words = ["tests", "--docker-image", f"pylog/pylog:2.13_{VERSION}", "--no-pull", *more]
    path = f"{stand_in}:{os.environ['PATH']}"
    environment = {"PYTHONPATH": f"{stand_in}:{TESTS}", "PATH": path, "AIOKAFKA_NO_EXTENSIONS": "1"}
    return tested("aiokafka", folder, words, environment)


def franz_go(folder: Path, more: Sequence[str]) -> int:
    """Its client's own tests. Those of share groups and SASL leave themselves out."""
    with served() as servers:
        environment = {"KGO_SEEDS": servers, "KGO_TEST_RECORDS": "20000", "KGO_TEST_RF": "1"}
        return run(["go", "test", "-timeout", "20m", *more, "."], folder / "pkg" / "kgo", environment)


def librdkafka(folder: Path, more: Sequence[str]) -> int:
    """Each test that asks a broker by itself, so that one that hangs is one that failed. Some make topics and ACLs by
    Kafka's own commands, which are those of `make kafka`.
    """
    tests = folder / "tests"
    listed = re.findall(r"_TEST\(\s*(\d{4})_(\w+)\s*,\s*([^,)]*)", (tests / "test.c").read_text(encoding="utf-8"))
    wanted = [
        number
        for number, name, flags in listed
        if int(number) <= LIBRDKAFKA_LAST and "LOCAL" not in flags and "mock" not in name
    ]
    numbers = [one for one in dict.fromkeys(more or wanted) if one in more or one not in LIBRDKAFKA_LEFT_OUT]
    failed = []
    # Some count rebalances, and go by Kafka's default that a group waits for more members.
    with (
        served(**OPEN_ACLS, **{"group.initial.rebalance.delay.ms": "3000"}) as servers,
        tempfile.TemporaryDirectory() as kafka,
    ):
        commands = Path(kafka) / "bin"
        commands.mkdir()
        for name, tool in KAFKA_COMMANDS.items():
            (commands / name).write_text(f'#!/bin/sh\nexec java -cp "{JARS}/*" {tool} "$@"\n')
            (commands / name).chmod(0o755)
        (tests / "test.conf").write_text(
            # Java's command takes seconds of a test that has twenty.
            f"bootstrap.servers={servers}\nbroker.address.family=v4\ntest.timeout.multiplier=2\n",
            encoding="utf-8",
        )
        environment = {
            "LD_LIBRARY_PATH": "../src:../src-cpp", "TEST_KAFKA_VERSION": VERSION, "TEST_LEVEL": "0",
            "KAFKA_PATH": kafka, "BROKERS": servers,
        }  # fmt: skip
        for number in numbers:
            code = run(["./test-runner", "-p1"], tests, {**environment, "TESTS": number}, LIBRDKAFKA_SECONDS)
            failed += [number] if code else []
    print(f"{len(numbers) - len(failed)} passed, {len(failed)} failed: {' '.join(failed)}")
    return 1 if failed else 0


def kafkajs(folder: Path, more: Sequence[str]) -> int:
    """The tests that ask a broker at localhost:9092. They are for Kafka 2.4 and three brokers."""
    with served("localhost:9092", **{"num.partitions": "2"}):
        command = [
            "npx", "jest", "--forceExit", "--testPathPattern", "src/(admin|broker|consumer|producer)/",
            "--testNamePattern", f"^(?!.*({'|'.join(KAFKAJS_LEFT_OUT)}))", *more,
        ]  # fmt: skip
        return run(command, folder, {"KAFKA_VERSION": "2.4", "NODE_ENV": "test"})


PEERS: dict[str, Callable[[Path, Sequence[str]], int]] = {
    "kafka-python": kafka_python, "aiokafka": aiokafka, "franz-go": franz_go, "librdkafka": librdkafka,
    "kafkajs": kafkajs,
}  # fmt: skip


def main(peer: str, folder: str, *more: str) -> int:
    return PEERS[peer](Path(folder).resolve(), more)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
