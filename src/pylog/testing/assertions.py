"""Assertions on what a topic has."""

from collections.abc import Iterable
from difflib import ndiff
from typing import TypeAlias

from pylog.log import Log
from pylog.record import ConsumerRecord

Value: TypeAlias = bytes | str | None
Expected: TypeAlias = Value | tuple[Value, Value]
"""A value, or a key and a value; str stands for its UTF-8, None for a tombstone or no key."""


def assert_records(log: Log, topic: str, expected: Iterable[Expected], *, partition: int | None = None) -> None:
    """Compare the committed records of a topic, or of one of its partitions, with those that are expected.

    Records of one partition are compared in their order. Those of several stand one partition after the other, so for
    a topic of several partitions that order is ignored. Raises AssertionError with both lists, line by line;
    UnknownTopicOrPartition.

    >>> from pylog.testing import assert_records
    >>> assert_records(log, "orders", [("alice", "book"), ("bob", "pen"), ("alice", "ink")])
    """
    wanted = list(expected)
    has_keys = any(isinstance(one, tuple) for one in wanted)
    views = list(log.topic(topic)) if partition is None else [log.topic(topic)[partition]]
    found = [
        _line(record, has_keys=has_keys) for view in views for record in view.records(isolation_level="read_committed")
    ]
    lines = [_expected_line(one, has_keys=has_keys) for one in wanted]
    if len(views) > 1:
        found.sort()
        lines.sort()
    if found != lines:
        where = topic if partition is None else f"{topic}-{partition}"
        raise AssertionError(
            f"{where} has {len(found)} records, {len(lines)} are expected (- expected, + found):\n"
            + "\n".join(line for line in ndiff(lines, found) if not line.startswith("?"))
        )


def _line(record: ConsumerRecord, *, has_keys: bool) -> str:
    return f"{record.key!r}: {record.value!r}" if has_keys else repr(record.value)


def _expected_line(expected: Expected, *, has_keys: bool) -> str:
    if isinstance(expected, tuple):
        key, value = expected
        return f"{_bytes(key)!r}: {_bytes(value)!r}"
    return f"None: {_bytes(expected)!r}" if has_keys else repr(_bytes(expected))


def _bytes(value: Value) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
