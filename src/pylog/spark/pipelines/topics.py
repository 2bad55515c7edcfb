"""The topics that a job reads and writes."""

from collections.abc import Iterable, Mapping

from pylog.handles.any_log import AnyLog
from pylog.spark.pipelines.where import LogPlace, where_of


def make_topics(log: "AnyLog", topics: Mapping[str, int]) -> None:
    """Make the topics that are missing, of so many partitions. Raises ValueError where one has fewer."""
    for name, count in topics.items():
        log.create_topic(name, count, exist_ok=True)
        there = len(log.admin.topic(name).partitions)
        if there < count:
            raise ValueError(f"topic '{name}' has {there} partitions, and {count} are needed: add partitions")


def check_apart(log: LogPlace, read: str, to_log: LogPlace | None, written: Iterable[str]) -> None:
    """Raise ValueError where a job would write what it reads: it would go on for ever, or delete what others append.

    `read` are topics with commas.
    """
    if to_log is not None and not where_of(to_log).is_log_of(where_of(log)):
        return
    both = {name.strip() for name in read.split(",")} & set(written)
    if both:
        raise ValueError(f"topic '{min(both)}' is read and written: write to another topic")
