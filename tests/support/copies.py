"""A leader with a server, copies that follow it, and comparisons of their files."""

from pathlib import Path

import pylog
from support.clients.values import until

__all__ = ["QUICK", "caught_up", "lag", "log_files", "same", "values"]

QUICK = {"replica.fetch.backoff.ms": 10, "replica.fetch.wait.max.ms": 50}
"""The configs of a copy that a test waits for."""


def log_files(log: pylog.Log, topic: str, partition: int = 0) -> dict[str, bytes]:
    """The log and index files of a partition by their names, synced."""
    log.flush()
    folder = Path(log.topic(topic)[partition].path)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix == ".log"}


def lag(following: pylog.Following, topic: str = "t", partition: int = 0) -> pylog.ReplicaLag:
    return following.lag()[pylog.TopicPartition(topic, partition)]


def caught_up(leader: pylog.Log, log: pylog.Log, topic: str = "t") -> None:
    """Wait until a copy has all that the leader has, and knows that it may be read."""
    for one in leader.topic(topic):
        mine = log.topic(topic)[one.partition]
        until(lambda one=one, mine=mine: mine.next_offset == mine.high_watermark == one.next_offset)  # type: ignore[misc]


def same(leader: pylog.Log, log: pylog.Log, topic: str = "t") -> None:
    """Wait until a copy has caught up, and compare the files byte for byte."""
    caught_up(leader, log, topic)
    for one in leader.topic(topic):
        assert log_files(log, topic, one.partition) == log_files(leader, topic, one.partition)


def values(log: pylog.Log, topic: str = "t") -> list[bytes | None]:
    return [record.value for view in log.topic(topic) for record in view.records()]
