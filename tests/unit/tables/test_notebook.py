"""What a notebook shows: a log, a topic, a partition, a selection and records, all escaped."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

import pylog

NOON = 1_767_268_800_000


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("clicks", partitions=2, config={"retention.ms": 5})
        with log.producer() as producer:
            producer.send(
                "clicks", b"<script>", b"\xff\x00", partition=0, timestamp_ms=NOON, headers=[("a", b"1"), ("b", None)]
            )
            producer.send("clicks", None, "größe".encode(), partition=0, timestamp_ms=0)
        yield log


def cells(shown: Any) -> list[str]:
    html = shown._repr_html_()
    assert "<script>" not in html
    return re.findall(r"<td>(.*?)</td>", html)


def test_a_log_shows_its_topics(log: pylog.Log) -> None:
    assert cells(log)[:3] == ["clicks", "2", "2"]
    assert "&lt;Log :memory: node 1, own&gt;" in log._repr_html_()


def test_a_topic_shows_its_partitions_and_configs(log: pylog.Log) -> None:
    assert cells(log.topic("clicks"))[:4] == ["0", "0", "2", "2"]
    assert "retention.ms=5" in log.topic("clicks")._repr_html_()


def test_a_partition_shows_its_offsets(log: pylog.Log) -> None:
    assert cells(log.topic("clicks")[0])[:4] == ["offsets", "0 to 2", "high watermark", "2"]


def test_a_selection_shows_its_first_records_and_columns(log: pylog.Log) -> None:
    chosen = log.topic("clicks").select(["key", "value", "timestamp", "headers"])
    assert cells(chosen) == [
        "0xff00", "&lt;script&gt;", "2026-01-01 12:00:00.000+00:00", "a=1, b=",
        "größe", "<i>none</i>", "1970-01-01 00:00:00.000+00:00", "",
    ]  # fmt: skip
    with log.producer() as producer:
        producer.send_many("clicks", [b"x" * 1000] * 30)
    assert len(cells(chosen)) == 20 * 4 and f">{'x' * 99}…<" in chosen._repr_html_()
    assert "the first 20 of at most 32 records" in chosen._repr_html_()


def test_a_record_shows_its_fields(log: pylog.Log) -> None:
    record = next(log.topic("clicks").records())
    assert cells(record)[:6] == ["topic", "clicks", "partition", "0", "offset", "0"]
    assert cells(record)[-4:] == ["value", "&lt;script&gt;", "headers", "a=1, b="]
    made = pylog.DeserializedRecord("t", 0, 1, 1 << 62, 0, None, {"<": 1}, (), 0)
    assert cells(made)[7::2] == [str(1 << 62), "<i>none</i>", "{&#x27;&lt;&#x27;: 1}", ""]
    assert cells(made._replace(timestamp=-1))[7] == "<i>none</i>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(b"", ""), (b"\n", "0x0a"), ("é".encode() * 60, "é" * 60), ("é".encode() * 300, "é" * 99 + "…")],
)
def test_bytes_are_text_where_they_can_be(log: pylog.Log, value: bytes, shown: str) -> None:
    with log.producer() as producer:
        producer.send("clicks", value, partition=1)
    assert cells(log.topic("clicks")[1].select(["value"])) == [shown]
