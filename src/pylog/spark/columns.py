"""The names of the columns of Spark's Kafka source, which are those of pylog's."""

from typing import Final

from pylog.spark.options.values import nearest

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""In its order."""


def column_name(name: str, source: str) -> str:
    """The column `name` means, in its canonical spelling; `source` says in an error where the name came from.

    Raises ValueError with the nearest names when there is no such column.
    """
    for column in COLUMNS:
        if column.lower() == name.lower():
            return column
    raise ValueError(
        f"{source} names an unknown column '{name}'{nearest(name, COLUMNS)}; the columns are {', '.join(COLUMNS)}"
    )
