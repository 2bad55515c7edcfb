"""`producer.send`, one record at a time with a future each, in process, until all are flushed, against other queues.

What counts is the time from the first `send` until everything is where it belongs: pylog's records in the log's files
(page cache), confluent-kafka's with the broker that librdkafka mocks in threads of this process, `SimpleQueue`'s in a
list in memory. Futures are not kept but for the last one. The queues on disk get one value at a time, as they can do
no other; they do not flush.
"""

from pathlib import Path

import peers
import pylog
from harness import at_least, enough, fresh, keys_and_values, measure, report, scaled, stopwatch

LEAST, MOST = scaled(usual=(200_000, 1_000_000), quick=(5_000, 5_000))
ROUNDS = scaled(usual=9, quick=2)


def send(folder: Path, rows: peers.Rows, *, callback: bool = False) -> float:
    answered = 0

    def note(metadata: object, error: object) -> None:
        nonlocal answered
        answered += error is None

    with pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        with log.producer() as producer:
            producer.send("bench", b"first").result()
            taken = stopwatch()
            if callback:
                for key, value in rows:
                    future = producer.send("bench", value, key, on_delivery=note)
            else:
                for key, value in rows:
                    future = producer.send("bench", value, key)
            producer.flush()
            seconds = taken()
            assert future.result().offset == len(rows)
            assert answered == (len(rows) if callback else 0)
    return seconds / len(rows)


def confluent(rows: peers.Rows, *, callback: bool) -> float:
    from confluent_kafka import Producer

    delivered = 0

    def note(error: object, message: object) -> None:
        nonlocal delivered
        delivered += error is None

    producer = Producer({
        "bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0,
        # Nothing may be refused: it would have to be sent again.
        "queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 1 << 20,
    })  # fmt: skip
    producer.produce("bench", b"first")
    producer.flush()
    produce, poll = producer.produce, producer.poll
    taken = stopwatch()
    if callback:
        for index, (key, value) in enumerate(rows):
            produce("bench", value, key, on_delivery=note)
            if not index & 1023:
                poll(0)
    else:
        for key, value in rows:
            produce("bench", value, key)
    assert producer.flush() == 0
    seconds = taken()
    assert delivered == (len(rows) if callback else 0)
    return seconds / len(rows)


def main() -> None:
    rows = keys_and_values(MOST)
    count = enough(lambda some: fresh(lambda folder: send(folder, rows[:some]))(), LEAST, MOST)
    rows = rows[:count]
    measured = measure(
        {
            "send": fresh(lambda folder: send(folder, rows)),
            "send, with callbacks": fresh(lambda folder: send(folder, rows, callback=True)),
            "confluent-kafka, mock broker": lambda: confluent(rows, callback=False),
            "confluent-kafka, mock broker, on_delivery": lambda: confluent(rows, callback=True),
            "SimpleQueue.put": lambda: peers.simple_queue(rows),
            **peers.queue_ways(reading=False),
        },
        ROUNDS,
    )
    report(
        "send",
        [
            measured.speed("a future each", "send", "confluent-kafka, mock broker", at_least(3.5)),
            measured.speed(
                "a future and a callback each", "send, with callbacks", "confluent-kafka, mock broker, on_delivery",
                at_least(5),
            ),
            measured.speed("a future each", "send", "SimpleQueue.put", at_least(0.4)),
            *(measured.speed("a future each", "send", name) for name in peers.QUEUES),
        ],
        records=count,
        records_of_queues=peers.FEW,
    )  # fmt: skip


if __name__ == "__main__":
    main()
