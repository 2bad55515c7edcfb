"""Tables into topics: what is a table, and what a column may be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import polars
import pyarrow

import pylog
from pylog import serde


@dataclass
class Click:
    id: int


def append(log: pylog.Log, connected: pylog.ConnectedLog, table: pyarrow.Table) -> None:
    topic = log.topic("t")
    appended = topic.append_table(table, key="id", value=serde.json(), fields=["amount"], timestamp="at")
    assert_type(appended.records, int)
    assert_type(appended.offsets, dict[int, range])
    topic.append_table(polars.DataFrame({"value": ["x"]}), partition=0, compression_type="zstd")
    topic.append_table(log.topic("other").select(["key", "value"]), partition="to", headers="h")
    topic.append_table(Path("a.parquet"), key=("id", serde.long()), value=("text", serde.string()))
    connected.topic("t").append_table("a.csv", key="id")
    assert_type(connected.topic("t").select(["key"], on_damage="skip").to_arrow(), pyarrow.Table)
    assert_type(connected.topic("t")[0].select(offset=3), pylog.Selection)


def decode(topic: pylog.TopicView, connected: pylog.ConnectedTopic, registry: serde.SchemaRegistry) -> None:
    clicks = topic.select(["key", "value"], key=serde.string(), value=serde.json(Click), fields=["user.id"])
    assert_type(clicks.to_polars(), polars.DataFrame)
    types = {"user.id": pyarrow.int64()}
    topic[0].select(value=serde.avro(registry, "t-value"), fields=types, on_error="column", offset=3)
    connected.select(value=serde.long(), on_error="skip", on_damage="skip")


def values(topic: pylog.TopicView, table: pyarrow.RecordBatch, of: serde.Serde[Any]) -> pylog.AppendedTable:
    return topic.append_table(table, value=of)
