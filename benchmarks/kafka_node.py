"""A Kafka broker to measure: one node, KRaft, on a folder of ours, with the jars that `make kafka` fetches.

Unlike the one that the tests start it compiles what it runs often (both compilers, G1, 1 GB), as a broker in use does.
It is up in about five seconds. Where Java or the jars are absent, `require` raises Skipped.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import Skipped, scaled
from nodes import Node
from results import KAFKA_JARS

UP_SECONDS = 60.0
CLUSTER_ID = "ESIzRFVmd4iZqrvM3e7_AQ"
JAVA = ["java", "-Xms1g", "-Xmx1g", "-Dfile.encoding=UTF-8", "-cp", f"{KAFKA_JARS}/*"]
LOGGING = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
]
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""


def require() -> None:
    """Raise Skipped unless a broker can be started here, and is wanted."""
    if scaled(usual=False, quick=True):
        raise Skipped("a quick run starts no broker of Kafka's")
    if shutil.which("java") is None:
        raise Skipped("Kafka's own broker needs Java 17 on the PATH")
    if not any(KAFKA_JARS.glob("kafka_*.jar")):
        raise Skipped("Kafka's own broker needs its jars: make kafka")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def broker(data: Path, work: Path, settings: Mapping[str, str]) -> Iterator[Node]:
    """Run Kafka on the log directory `data`, formatted first where it is new.

    What it logs is in `broker.log` of `work`, with milliseconds.
    """
    port, controller = free_port(), free_port()
    properties, log = work / "server.properties", work / "broker.log"
    more = "".join(f"{name}={value}\n" for name, value in settings.items())
    properties.write_text(SETTINGS.format(port=port, controller=controller, data=data) + more)
    with log.open("ab") as out:
        if not (data / "meta.properties").exists():
            words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
            subprocess.run([*JAVA, *words], stdout=out, stderr=out, check=True)
        process = subprocess.Popen(
            [*JAVA[:1], *LOGGING, *JAVA[1:], "kafka.Kafka", str(properties)], stdout=out, stderr=out
        )
    try:
        wait_until_up(f"127.0.0.1:{port}", process, log)
        yield Node("Kafka", f"127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()


def wait_until_up(servers: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    from confluent_kafka import KafkaException

    until = time.monotonic() + UP_SECONDS
    client = admin(servers)
    while True:
        assert process.poll() is None and time.monotonic() < until, f"Kafka did not start: {log.read_text()[-3000:]}"
        try:
            client.list_topics(timeout=2)
            return
        except KafkaException:
            time.sleep(0.2)


def admin(servers: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create_topic(servers: str, name: str) -> None:
    from confluent_kafka.admin import NewTopic

    client = admin(servers)  # kept: its answers end with it
    for made in client.create_topics([NewTopic(name, 1, 1)]).values():
        made.result(UP_SECONDS)


def set_config(servers: str, topic: str, name: str, value: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(servers)
    for done in client.incremental_alter_configs([resource]).values():
        done.result(UP_SECONDS)


def tool(name: str, *words: str) -> str:
    """What one of Kafka's tools prints."""
    command = [*JAVA[:1], QUIET, *JAVA[1:], f"org.apache.kafka.tools.{name}", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr or ran.stdout
    return ran.stdout
