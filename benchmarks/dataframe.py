"""A pandas DataFrame into a topic and back, against pyarrow's Parquet and the loops of a client.

The rows have a key and a value of text. Nothing is synced, as Parquet's writer does not sync. The loops are those of
confluent-kafka, a record at a time, against pylog's server in a process of its own, as another broker is not there
everywhere. The JSON has three fields. The command reads a file of the same rows: Parquet goes in column by column, CSV
row by row; the start of its process counts.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pylog
from harness import at_least, figure, fresh, keys_and_values, measure, report, scaled, stopwatch
from nodes import served
from pylog import serde

COUNT = scaled(usual=1_000_000, quick=2_000)
ROUNDS = scaled(usual=5, quick=1)


def frame() -> Any:
    import pandas

    rows = keys_and_values(min(COUNT, 100_000))
    keys, values = [key.decode() for key, _ in rows], [value.hex()[:100] for _, value in rows]
    times = COUNT // len(rows)
    return pandas.DataFrame({"key": keys * times, "value": values * times})


def by_table(table: Any, folder: Path) -> float:
    with pylog.open(folder / "log", flush="none") as log:
        topic = log.create_topic("bench")
        taken = stopwatch()
        topic.append_table(table)
        back = topic.select(["key", "value"]).to_pandas()
        seconds = taken()
    assert len(back) == COUNT
    return seconds / COUNT


def by_parquet(table: Any, folder: Path) -> float:
    import pandas

    taken = stopwatch()
    table.to_parquet(folder / "table.parquet", compression="none")
    back = pandas.read_parquet(folder / "table.parquet")
    seconds = taken()
    assert len(back) == COUNT
    return seconds / COUNT


def by_loops(table: Any, folder: Path) -> float:
    import pandas
    from confluent_kafka import Consumer, Producer, TopicPartition

    with served(folder / "log", "--flush", "none") as node:
        where = {"bootstrap.servers": node.servers, "log_level": 0}
        with pylog.connect(node.servers) as log:
            log.create_topic("bench")
        taken = stopwatch()
        producer = Producer({**where, "queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 1 << 20})
        for key, value in zip(table["key"], table["value"], strict=True):
            producer.produce("bench", value, key)
        producer.flush()
        consumer = Consumer({**where, "group.id": "bench"})
        consumer.assign([TopicPartition("bench", 0, 0)])
        keys, values = [], []
        while len(keys) < COUNT:
            for message in consumer.consume(10_000, 1.0):
                keys.append(message.key())
                values.append(message.value())
        back = pandas.DataFrame({"key": keys, "value": values})
        seconds = taken()
        consumer.close()
    assert len(back) == COUNT
    return seconds / COUNT


def json_rows() -> Any:
    import pyarrow

    numbers = pyarrow.array(range(COUNT))
    return pyarrow.table({"id": numbers, "amount": numbers.cast(pyarrow.float64()), "name": numbers.cast("string")})


def json_by_table(table: Any, folder: Path) -> float:
    with pylog.open(folder / "log", flush="none") as log:
        topic = log.create_topic("bench")
        taken = stopwatch()
        topic.append_table(table, key="id", value=serde.json())
        return taken() / COUNT


def json_by_loop(table: Any, folder: Path) -> float:
    values = serde.json()
    with pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
        taken = stopwatch()
        with log.producer() as producer:
            for row in table.to_pylist():
                producer.send("bench", values.serialize(row), b"%d" % row["id"])
        return taken() / COUNT


def by_command(path: Path, folder: Path) -> float:
    with pylog.open(folder / "log", flush="none") as log:
        log.create_topic("bench")
    words = ("produce", "bench", "-q", "--input", path, "--flush", "none", "--log", folder / "log")
    taken = stopwatch()
    subprocess.run([sys.executable, "-m", "pylog", *words], check=True)
    return taken() / COUNT


def main() -> None:
    with TemporaryDirectory() as folder:
        compare(frame(), json_rows(), Path(folder))


def compare(table: Any, rows: Any, files: Path) -> None:
    table.to_parquet(files / "table.parquet")
    table.to_csv(files / "table.csv", index=False)
    measured = measure(
        {
            "append_table, to_pandas": fresh(lambda folder: by_table(table, folder)),
            "pandas, Parquet": fresh(lambda folder: by_parquet(table, folder)),
            "confluent-kafka, loops": fresh(lambda folder: by_loops(table, folder)),
            "append_table, JSON": fresh(lambda folder: json_by_table(rows, folder)),
            "send, a loop, JSON": fresh(lambda folder: json_by_loop(rows, folder)),
            "pylog produce, Parquet": fresh(lambda folder: by_command(files / "table.parquet", folder)),
            "pylog produce, CSV": fresh(lambda folder: by_command(files / "table.csv", folder)),
        },
        ROUNDS,
    )
    report(
        "dataframe",
        [
            measured.speed("a DataFrame there and back", "append_table, to_pandas", "pandas, Parquet"),
            measured.speed(
                "a DataFrame there and back", "append_table, to_pandas", "confluent-kafka, loops", at_least(5)
            ),
            measured.speed("rows as JSON", "append_table, JSON", "send, a loop, JSON", at_least(2)),
            figure("rows as JSON", 1e-6 / measured.median("append_table, JSON"), "M records/s"),
            measured.speed("a file by the command", "pylog produce, Parquet", "pylog produce, CSV", at_least(2)),
        ],
        records=COUNT,
    )


if __name__ == "__main__":
    main()
