"""Kafka's own command line programs, which know nothing of the server but its address."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance import dump_log
from conformance.dump_log import JAVA, QUIET
from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from support.clients.values import until
from support.raw_client import WireClient
from support.wire_requests import Requests, records

REASON = dump_log.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
SECONDS = 60
TOOLS = "org.apache.kafka.tools."
SHELL = {
    "topics": TOOLS + "TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "console-producer": TOOLS + "ConsoleProducer",
    "console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "producer-perf": TOOLS + "ProducerPerformance",
    "consumer-perf": TOOLS + "ConsumerPerformance",
    "offsets": TOOLS + "GetOffsetShell",
    "transactions": TOOLS + "TransactionsCommand",
    "log-dirs": TOOLS + "LogDirsCommand",
    "delete-records": TOOLS + "DeleteRecordsCommand",
    "broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "leader-election": TOOLS + "LeaderElectionCommand",
    "features": TOOLS + "FeatureCommand",
    "metadata-quorum": TOOLS + "MetadataQuorumCommand",
}
Run = Callable[..., str]


@pytest.fixture
def run(server: Server) -> Run:
    """Runs a program with the address of the server; gives what it printed."""

    def run(name: str, *words: object, typed: str = "", fails: bool = False) -> str:
        address = ("--bootstrap-server", server.bootstrap_servers)
        command = [JAVA[0], QUIET, *JAVA[1:], SHELL[name], *address, *map(str, words)]
        ran = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=SECONDS)
        assert (ran.returncode != 0) == fails, f"{name} {words}: {ran.stdout}{ran.stderr}"
        return ran.stdout + (ran.stderr if fails else "")

    return run


def test_topic_command_makes_describes_alters_and_deletes(run: Run, topics: Topics) -> None:
    topic = topics.name()

    run("topics", "--create", "--topic", topic, "--partitions", 3, "--config", "retention.ms=5000")
    until(lambda: topics.is_led(topic, 3))
    told = run("topics", "--describe", "--topic", topic)
    run("topics", "--alter", "--topic", topic, "--partitions", 4)
    until(lambda: topics.is_led(topic, 4))
    listed = run("topics", "--list")
    run("topics", "--delete", "--topic", topic)

    assert "PartitionCount: 3" in told and "retention.ms=5000" in told and "Leader: 1" in told
    assert topic in listed.split()
    assert "does not exist" in run("topics", "--describe", "--topic", topic, fails=True)


def test_config_command_sets_describes_and_deletes(run: Run, topics: Topics) -> None:
    topic = topics.create()
    entity = ("--entity-type", "topics", "--entity-name", topic)

    run("configs", *entity, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    told = run("configs", *entity, "--describe")
    run("configs", *entity, "--alter", "--delete-config", "retention.ms")
    after = run("configs", *entity, "--describe")

    assert "retention.ms=5000" in told and "cleanup.policy=compact,delete" in told
    assert "retention.ms" not in after
    assert "log.cleaner.backoff.ms=200" in run("configs", "--entity-type", "brokers", "--entity-name", 1, "--describe",
                                               "--all")  # fmt: skip


def test_console_programs_pass_lines_through(run: Run, topics: Topics) -> None:
    topic = topics.create()

    run("console-producer", "--topic", topic, "--reader-property", "parse.key=true", typed="a\tfirst\nb\tsecond\n")
    read = run("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", 2,
               "--formatter-property", "print.key=true")  # fmt: skip

    assert read.splitlines()[:2] == ["a\tfirst", "b\tsecond"]


def test_performance_programs_count_what_they_moved(run: Run, topics: Topics) -> None:
    topic = topics.create()

    sent = run("producer-perf", "--topic", topic, "--num-records", 20_000, "--record-size", 100, "--throughput", -1)
    read = run("consumer-perf", "--topic", topic, "--num-records", 20_000)

    assert sent.splitlines()[-1].startswith("20000 records sent")
    assert int(read.splitlines()[-1].split(",")[4]) == 20_000


def test_get_offset_shell_tells_both_ends(run: Run, topics: Topics, wire: WireClient) -> None:
    topic = topics.create(2)
    Requests(wire).produce(topic, records(*[b"x"] * 7))

    latest = run("offsets", "--topic", topic)
    earliest = run("offsets", "--topic", topic, "--time", "earliest")

    assert sorted(latest.split()) == [f"{topic}:0:7", f"{topic}:1:0"]
    assert sorted(earliest.split()) == [f"{topic}:0:0", f"{topic}:1:0"]


def test_consumer_group_command_describes_resets_and_deletes(run: Run, topics: Topics, wire: WireClient) -> None:
    topic, group = topics.create(), topics.name()
    requests = Requests(wire)
    requests.produce(topic, records(*[b"x"] * 10))
    run("console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", 4)

    assert group in run("groups", "--list").split()
    told = run("groups", "--describe", "--group", group)
    reset = run("groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 2, "--execute")
    assert "Empty" in run("groups", "--describe", "--group", group, "--state")
    committed = requests.fetch_offset(group, topic)["committedOffset"]
    run("groups", "--delete-offsets", "--group", group, "--topic", topic)
    run("groups", "--delete", "--group", group)

    assert re.search(rf"{group}\s+{topic}\s+0\s+(4|10)\s+10\s+(6|0)\b", told)
    assert re.search(rf"{topic}\s+0\s+2", reset) and committed == 2
    assert group not in run("groups", "--list").split()


def test_transactions_command_lists_describes_and_aborts(run: Run, topics: Topics, wire: WireClient) -> None:
    topic, name = topics.create(), topics.name()
    requests = Requests(wire)
    owner = until(lambda: (answer := requests.init_producer(name))["errorCode"] == 0 and answer)
    until(lambda: requests.add_partitions(name, owner, topic) == "NONE")
    identity = {"producer_id": owner["producerId"], "producer_epoch": owner["producerEpoch"]}
    data = records(b"open", base_sequence=0, transactional=True, **identity)
    until(lambda: requests.produce(topic, data, transactional_id=name, version=11)["errorCode"] == 0)

    assert re.search(rf"{name}\s+\d+\s+{owner['producerId']}\s+Ongoing", run("transactions", "list"))
    told = run("transactions", "describe", "--transactional-id", name)
    assert "Ongoing" in told and f"{topic}-0" in told
    where = ("--topic", topic, "--partition", 0)
    assert str(owner["producerId"]) in run("transactions", "describe-producers", *where)
    run("transactions", "abort", *where, "--start-offset", 0)
    assert requests.read(topic, isolation=1) == []


def test_log_dirs_command_tells_sizes(run: Run, topics: Topics, wire: WireClient) -> None:
    topic = topics.create()
    data = records(b"x" * 500)
    Requests(wire).produce(topic, data)

    told = run("log-dirs", "--describe", "--topic-list", topic)

    assert f'"partition":"{topic}-0","size":{len(data)}' in told


def test_delete_records_command_moves_the_start(run: Run, topics: Topics, wire: WireClient, tmp_path: Path) -> None:
    topic = topics.create()
    requests = Requests(wire)
    requests.produce(topic, records(*[b"x"] * 10))
    plan = tmp_path / "plan.json"
    part = {"topic": topic, "partition": 0, "offset": 6}
    plan.write_text(json.dumps({"version": 1, "partitions": [part]}))

    assert "low_watermark: 6" in run("delete-records", "--offset-json-file", plan)
    assert requests.offset(topic, -2) == 6


def test_programs_that_only_ask_are_answered(run: Run) -> None:
    assert "Produce(0): 0 to 13" in run("broker-api-versions")
    assert "Feature: metadata.version" in run("features", "describe")
    assert re.search(r"LeaderId:\s+1", run("metadata-quorum", "describe", "--status"))


def test_leader_election_command_finds_nothing_to_do(run: Run, topics: Topics) -> None:
    topic = topics.create()
    told = run("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    assert "Valid replica already elected" in told
