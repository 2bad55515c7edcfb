"""Kafka's protocol: `pylog serve` against a warm Kafka broker, each a process of its own, the clients a third one.

Most clients take longer than either server, so their speed says little about it; the server's processor time a record,
measured in the same runs, tells the two apart. Values have 100 bytes, topics one partition; nothing is synced but where
it is said. Bare sockets send one small request each and wait for its answer.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen

import kafka_node
import kafka_perf
import pylog
import wire_clients as clients
from harness import (
    Measured,
    Skipped,
    Way,
    at_least,
    at_most,
    figure,
    measure,
    report,
    scaled,
    scratch,
    stopwatch,
)
from nodes import Node, served
from results import Figure

COUNT = scaled(usual=200_000, quick=1_000)
SLOW = scaled(usual=60_000, quick=500)
SINGLE, SYNCED = scaled(usual=2_000, quick=20), scaled(usual=400, quick=20)
SILENT, MANY = scaled(usual=1_000, quick=10), scaled(usual=10_000, quick=50)
IDLE_SECONDS = scaled(usual=5.0, quick=0.2)
PRODUCERS = scaled(usual=100, quick=4)
ROUNDS = scaled(usual=5, quick=1)
PYLOG, KAFKA = "pylog", "Kafka"
CODECS = ("none", "lz4", "zstd")
_topics = (f"bench-{number}" for number in count())


class Comparison:
    """Works that are done against both servers in turn, and the processor time of the servers."""

    def __init__(self) -> None:
        self.ways: dict[str, Way] = {}
        self._units: dict[str, int] = {}
        self._processor: dict[str, list[float]] = {}
        self._missing: dict[str, str] = {}

    def add(self, work: str, node: Node, way: Way, units: int) -> None:
        """`way` does `units` of the work against a server."""
        name = f"{work}, {node.name}"
        self._units[name] = units
        spent = self._processor.setdefault(name, [])

        def counted() -> float:
            before = node.processor_seconds()
            seconds = way()
            # The clock of the system ticks a hundred times a second.
            spent.append(max(node.processor_seconds() - before, 0.01) / units)
            return seconds

        self.ways[name] = counted

    def skip(self, work: str, reason: Skipped) -> None:
        """The work is not done by Kafka, for a reason."""

        def way() -> float:
            raise reason

        self.ways[f"{work}, {KAFKA}"] = way

    def measure(self, rounds: int, unit: str) -> "Compared":
        seconds = measure(self.ways, rounds, unit)
        spent = {name: self._processor[name][1:] for name in seconds.seconds}
        return Compared(seconds, Measured(spent, seconds.missing, unit))


class Compared:
    """What was measured."""

    def __init__(self, seconds: Measured, processor: Measured) -> None:
        self._seconds, self._processor = seconds, processor

    def speed(self, work: str, bound: float) -> Figure:
        return self._seconds.speed(work, f"{work}, {PYLOG}", f"{work}, {KAFKA}", at_least(bound))

    def time(self, work: str, bound: float) -> Figure:
        return self._seconds.time(work, f"{work}, {PYLOG}", f"{work}, {KAFKA}", at_most(bound))

    def processor(self, work: str, bound: float) -> Figure:
        name = f"{work}: the server's processor"
        return self._processor.time(name, f"{work}, {PYLOG}", f"{work}, {KAFKA}", at_most(bound))


def new_topic(node: Node, **configs: str) -> str:
    name = next(_topics)
    kafka_node.create_topic(node.servers, name)
    for key, value in configs.items():
        kafka_node.set_config(node.servers, name, key.replace("_", "."), value)
    return name


@contextmanager
def both(folder: Path, flush: str, reasons: list[Skipped]) -> Iterator[list[Node]]:
    """The servers, as far as they can run here."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(served(folder / f"pylog-{flush}", "--flush", flush))]
        try:
            kafka_node.require()
            place = folder / f"kafka-{flush}"
            place.mkdir()
            nodes.append(stack.enter_context(kafka_node.broker(place, folder, {})))
        except Skipped as reason:
            reasons.append(reason)
        yield nodes


def compare(
    nodes: list[Node], works: dict[str, tuple[int, Callable[[Node], Way]]], reasons: list[Skipped], unit: str
) -> Compared:  # fmt: skip
    found = Comparison()
    for work, (units, of_node) in works.items():
        for node in nodes:
            found.add(work, node, of_node(node), units)
        for reason in reasons:
            found.skip(work, reason)
    return found.measure(ROUNDS, unit)


# --- the works --------------------------------------------------------------------------------------------------------


def producing(run: Callable[..., float], units: int, *words: str) -> tuple[int, Callable[[Node], Way]]:
    """Into a new topic each time."""
    return units, lambda node: lambda: run(node, new_topic(node), units, *words)


def consuming(
    run: Callable[..., float], units: int, codec: str = "none", *words: str
) -> tuple[int, Callable[[Node], Way]]:
    """Out of a topic that is filled before."""

    def of_node(node: Node) -> Way:
        topic = new_topic(node)
        clients.confluent_produce(node, topic, units, codec)
        return lambda: run(node, topic, units, *words)

    return units, of_node


def java_produce(node: Node, topic: str, _: int) -> float:
    return kafka_perf.produce_kafka(node.servers, topic)


def java_consume(node: Node, topic: str, _: int) -> float:
    return kafka_perf.consume_kafka(node.servers, topic)


def throughput(nodes: list[Node], reasons: list[Skipped]) -> list[Figure]:
    works = {
        **{
            f"confluent-kafka produces, {codec}": producing(clients.confluent_produce, COUNT, codec) for codec in CODECS
        },
        **{
            f"confluent-kafka consumes, {codec}": consuming(clients.confluent_consume, COUNT, codec, codec)
            for codec in CODECS
        },
        "aiokafka produces": producing(clients.aiokafka_produce, SLOW),
        "aiokafka consumes": consuming(clients.aiokafka_consume, SLOW),
        "kafka-python produces": producing(clients.kafka_python_produce, SLOW),
        "kafka-python consumes": consuming(clients.kafka_python_consume, SLOW),
    }
    if not reasons:
        works["Java produces"] = producing(java_produce, kafka_perf.COUNT)
        works["Java consumes"] = consuming(java_consume, kafka_perf.COUNT)
    compared = compare(nodes, works, reasons, "record")
    figures = [compared.speed(work, 1.0 if "confluent" in work else 0.9) for work in works]
    bounds = {work: 0.6 if "produces" in work else 0.8 for work in works if "confluent" in work}
    return figures + [compared.processor(work, bound) for work, bound in bounds.items()]


def small_requests(nodes: list[Node], reasons: list[Skipped]) -> list[Figure]:
    topics = {node: new_topic(node) for node in nodes}
    late: dict[Node, list[float]] = {node: [] for node in nodes}

    def single(node: Node) -> float:
        seconds = clients.one_at_a_time(node, topics[node], SINGLE)
        late[node].append(seconds[len(seconds) * 99 // 100])
        return seconds[len(seconds) // 2]

    works: dict[str, tuple[int, Callable[[Node], Way]]] = {
        "one at a time, acks=1, p50": (SINGLE, lambda node: lambda: single(node)),
        "a socket, one at a time": (SINGLE, lambda node: lambda: clients.in_turn(node, topics[node], SINGLE)),
        f"{PRODUCERS} sockets, one each": (
            COUNT // 10, lambda node: lambda: clients.at_once(node, topics[node], COUNT // 10, PRODUCERS)
        ),
    }  # fmt: skip
    compared = compare(nodes, works, reasons, "request")
    first, second, third = works
    p99 = Measured({node.name: found[1:] for node, found in late.items()}, _missing(reasons), "request")
    return [
        compared.time(first, 1.0), p99.time("one at a time, acks=1, p99", PYLOG, KAFKA, at_most(1.0)),
        compared.time(second, 1.0), compared.speed(third, 0.5),
    ]  # fmt: skip


def synced(nodes: list[Node], reasons: list[Skipped]) -> list[Figure]:
    topics = {node: new_topic(node, **({"flush_messages": "1"} if node.name == KAFKA else {})) for node in nodes}
    works: dict[str, tuple[int, Callable[[Node], Way]]] = {
        "synced, one at a time": (SYNCED, lambda node: lambda: clients.in_turn(node, topics[node], SYNCED)),
        f"synced, {PRODUCERS} sockets": (
            SYNCED * 10, lambda node: lambda: clients.at_once(node, topics[node], SYNCED * 10, PRODUCERS)
        ),
    }  # fmt: skip
    compared = compare(nodes, works, reasons, "request")
    first, second = works
    return [compared.time(first, 0.85), compared.speed(second, 4.0)]


def idle(nodes: list[Node], reasons: list[Skipped]) -> list[Figure]:
    """The processor time of connections that do next to nothing."""
    figures, spent = [], {}
    for node in nodes:
        topic, sockets = new_topic(node), clients.connections(node, SILENT)
        for polls in (False, True):
            before = node.processor_seconds()
            clients.polling(node, topic, sockets if polls else [], IDLE_SECONDS)
            spent[node.name, polls] = (node.processor_seconds() - before) / IDLE_SECONDS
        clients.close_all(sockets)
    name, unit = f"{SILENT} connections", "% of a processor"
    figures.append(figure(f"{name}, silent", 100 * spent[PYLOG, False], unit, at_most(1.0)))
    polled = Measured(
        {who: [spent[who, True]] for who in (PYLOG, KAFKA) if (who, True) in spent}, _missing(reasons), "s"
    )
    figures.append(polled.time(f"{name} that poll every 500 ms", PYLOG, KAFKA, at_most(0.75)))
    return figures


def _missing(reasons: list[Skipped]) -> dict[str, str]:
    return {KAFKA: str(reasons[0])} if reasons else {}


# --- the server alone -------------------------------------------------------------------------------------------------


def first_answer() -> float:
    """From `open` to the answer of a first request, in memory."""
    taken = stopwatch()
    with pylog.open(":memory:") as log, log.serve("127.0.0.1:0") as server:
        (client,) = clients.connections(Node(PYLOG, server.bootstrap_servers, os.getpid()), 1)
        client.sendall(clients.api_versions_request())
        clients.answer_of(client)
        seconds = taken()
        client.close()
    return seconds


def started() -> float:
    """From the start of the process to the line that says that it serves."""
    command = [sys.executable, "-m", "pylog", "serve", "--log", ":memory:", "--listen", "127.0.0.1:0"]
    taken = stopwatch()
    with Popen(command, stderr=PIPE) as process:
        assert process.stderr is not None and b"serving" in process.stderr.readline()
        seconds = taken()
        process.terminate()
    return seconds


def alone() -> list[Figure]:
    measured = measure({"first answer": first_answer, "process": started}, ROUNDS, "start")
    figures = [
        figure("open to the first answer", 1000 * measured.median("first answer"), "ms", at_most(10)),
        figure("process start to ready", 1000 * measured.median("process"), "ms", at_most(150)),
    ]
    with served(":memory:") as node:
        few = clients.connections(node, 10)
        figures.append(figure("memory with 10 connections", node.resident_mib(), "MiB", at_most(60)))
        many = clients.connections(node, MANY - len(few))
        figures.append(figure(f"memory with {MANY} connections", node.resident_mib(), "MiB", at_most(100)))
        clients.close_all([*few, *many])
    return figures


def main() -> None:
    figures, reasons = alone(), list[Skipped]()
    with scratch() as folder:
        with both(folder, "none", reasons) as nodes:
            figures += throughput(nodes, reasons) + small_requests(nodes, reasons) + idle(nodes, reasons)
        with both(folder, "sync", []) as nodes:
            figures += synced(nodes, reasons)
    report(
        "wire",
        figures,
        records=[COUNT, SLOW, SINGLE, SYNCED],
    )


if __name__ == "__main__":
    main()
