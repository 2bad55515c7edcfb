"""The fields of a log record about a partition, for the places that know it by its name alone.

Where a key is at hand, `extra=key._asdict()` gives the same: `topic` and `partition`. docs/metrics.md lists all fields.
"""


def partition_fields(name: str, **more: object) -> dict[str, object]:
    """The fields of a partition by its name, "clicks-3", and `more`."""
    topic, _, number = name.rpartition("-")
    return {"topic": topic, "partition": int(number), **more}
