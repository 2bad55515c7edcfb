"""What Kafka's own performance tools reach with Kafka's own broker on this machine, against pylog in one process.

kafka-producer-perf-test sends values of 100 bytes without a key, acks=1, in its own process, over the loopback, to a
broker on the same processors; kafka-consumer-perf-test reads them again. pylog sends and reads the same in process, so
this is no race of equals: it says what an embedded log saves where no server is needed. The tools' own clocks count,
without the start of their JVMs; the broker is warm after the first round, the tools never are.
"""

import re
from contextlib import ExitStack
from pathlib import Path

import kafka_node
import pylog
from harness import (
    VALUE_BYTES,
    Skipped,
    Way,
    enough,
    fresh,
    keys_and_values,
    measure,
    report,
    scaled,
    scratch,
    skipping,
    stopwatch,
)

COUNT = scaled(usual=300_000, quick=5_000)
LEAST, MOST = scaled(usual=(100_000, 500_000), quick=(5_000, 5_000))
ROUNDS = scaled(usual=5, quick=2)
AT_ONCE = 10_000
NAMES = ("kafka-producer-perf-test", "kafka-consumer-perf-test")


def produce_kafka(servers: str, topic: str = "bench") -> float:
    said = kafka_node.tool(
        "ProducerPerformance", "--topic", topic, "--num-records", str(COUNT), "--record-size", str(VALUE_BYTES),
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={servers}", "acks=1",
    )  # fmt: skip
    found = re.findall(r"records sent, ([\d.]+) records/sec", said)
    assert found, said
    return 1 / float(found[-1])


def consume_kafka(servers: str, topic: str = "bench") -> float:
    said = kafka_node.tool(
        "ConsumerPerformance", "--bootstrap-server", servers, "--topic", topic, "--num-records", str(COUNT),
    )  # fmt: skip
    names, row = (line.split(", ") for line in said.strip().splitlines()[-2:])
    return 1 / float(row[names.index("fetch.nMsg.sec")])


def produce(folder: Path, values: list[bytes]) -> float:
    with pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        with log.producer() as producer:
            producer.send("bench", b"first").result()
            taken = stopwatch()
            for value in values:
                producer.send("bench", value)
            producer.flush()
            return taken() / len(values)


def consume(log: pylog.Log, count: int) -> float:
    with log.consumer("bench", auto_offset_reset="earliest", max_poll_records=AT_ONCE) as consumer:
        taken, left = stopwatch(), count
        while left:
            left -= len(consumer.poll(timeout_ms=10_000))
        return taken() / count


def kafka_ways(stack: ExitStack, folder: Path) -> dict[str, Way]:
    """The tools, and a broker that runs as long as `stack` lasts."""
    try:
        kafka_node.require()
    except Skipped as reason:
        return skipping(NAMES, reason)
    (folder / "kafka").mkdir()
    servers = stack.enter_context(kafka_node.broker(folder / "kafka", folder, {})).servers
    kafka_node.create_topic(servers, "bench")
    return dict(zip(NAMES, (lambda: produce_kafka(servers), lambda: consume_kafka(servers)), strict=True))


def main() -> None:
    values = [value for _, value in keys_and_values(MOST)]
    count = enough(lambda some: fresh(lambda folder: produce(folder, values[:some]))(), LEAST, MOST)
    values = values[:count]
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        log = stack.enter_context(pylog.open(folder / "log", flush="none"))
        log.create_topic("bench")
        with log.producer() as producer:
            for value in values:
                producer.send("bench", value)
        measured = measure(
            {
                "send": fresh(lambda place: produce(place, values)),
                "poll": lambda: consume(log, count),
                **kafka_ways(stack, folder),
            },
            ROUNDS,
        )
    report(
        "kafka_perf",
        [measured.speed("send, in process", "send", NAMES[0]), measured.speed("poll, in process", "poll", NAMES[1])],
        records=[count, COUNT],
    )


if __name__ == "__main__":
    main()
