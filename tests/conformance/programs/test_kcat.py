"""kcat, Debian's `kcat`: librdkafka as a program."""

import json
import shutil
import subprocess
from typing import Any, Protocol

import pytest

from conformance.wire.conftest import Topics
from conformance.wire.servers import Server
from support.clients.values import until
from support.wire_requests import T0

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is absent: apt-get install kcat")
SECONDS = 60


class Run(Protocol):
    def __call__(self, *words: str, typed: str = "") -> str: ...


@pytest.fixture
def kcat(server: Server) -> Run:
    """Runs kcat on the server; gives what it printed."""

    def kcat(*words: str, typed: str = "") -> str:
        command = ["kcat", "-b", server.bootstrap_servers, *words]
        ran = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=SECONDS)
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    return kcat


def read(kcat: Run, topic: str, *more: str) -> list[dict[str, Any]]:
    """All records of a topic."""
    return [json.loads(line) for line in kcat("-C", "-t", topic, "-e", "-q", "-J", *more).splitlines()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_kcat_wrote(kcat: Run, topics: Topics, codec: str) -> None:
    topic = topics.create()

    kcat("-P", "-t", topic, "-K:", "-z", codec, "-H", "trace=7", typed="a:first\nb:second\n")

    found = read(kcat, topic)
    assert [(one["offset"], one["key"], one["payload"]) for one in found] == [(0, "a", "first"), (1, "b", "second")]
    assert [one["headers"] for one in found] == [["trace", "7"]] * 2


def test_kcat_writes_once_with_idempotence(kcat: Run, topics: Topics) -> None:
    topic = topics.create()
    lines = [f"line {number}" for number in range(2000)]

    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", typed="\n".join(lines))

    assert [one["payload"] for one in read(kcat, topic)] == lines


def test_kcat_lists_the_node_and_its_topics(kcat: Run, topics: Topics, server: Server) -> None:
    topic = topics.create(3)

    told = json.loads(kcat("-L", "-J", "-t", topic))

    (node,) = told["brokers"]
    assert node["name"] == server.bootstrap_servers
    (found,) = told["topics"]
    assert [part["leader"] for part in found["partitions"]] == [node["id"]] * 3


def test_kcat_asks_for_an_offset_by_time(kcat: Run, topics: Topics) -> None:
    topic = topics.create()
    kcat("-P", "-t", topic, typed="one\ntwo\n")
    latest = read(kcat, topic)[-1]["ts"]

    assert f"{topic} [0] offset 0" in kcat("-Q", "-t", f"{topic}:0:{T0}")
    assert f"{topic} [0] offset -1" in kcat("-Q", "-t", f"{topic}:0:{latest + 1}")


def test_kcat_reads_the_end_and_a_range(kcat: Run, topics: Topics) -> None:
    topic = topics.create()
    kcat("-P", "-t", topic, typed="a\nb\nc\nd\n")

    assert [one["payload"] for one in read(kcat, topic, "-o", "-2")] == ["c", "d"]
    assert [one["payload"] for one in read(kcat, topic, "-o", "1", "-c", "2")] == ["b", "c"]


def test_kcat_goes_on_in_its_group(kcat: Run, topics: Topics) -> None:
    topic, group = topics.create(2), topics.name()
    kcat("-P", "-t", topic, "-p", "1", typed="a\nb\n")
    more = ("-X", "auto.offset.reset=earliest", "-q", "-f", "%s\n", topic)

    assert kcat("-G", group, "-c", "2", *more).split() == ["a", "b"]
    kcat("-P", "-t", topic, "-p", "1", typed="c\n")
    until(lambda: kcat("-G", group, "-c", "1", *more).split() == ["c"])
