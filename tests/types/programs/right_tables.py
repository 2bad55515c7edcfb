"""Tables into topics: what is a table, and what a column may be."""

from pathlib import Path
from typing import Any, assert_type

import polars
import pyarrow

import pylog
from pylog import serde


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


def values(topic: pylog.TopicView, table: pyarrow.RecordBatch, of: serde.Serde[Any]) -> pylog.AppendedTable:
    return topic.append_table(table, value=of)
