"""The columns of records, and their Arrow types."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers")


def checked_columns(names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a caller named; None: all. Raises ValueError for one that there is not, or that is named twice,
    TypeError for a text.
    """
    if isinstance(names, str):
        raise TypeError(f"columns is a list of names, [{names!r}], not one name")
    found = tuple(COLUMNS if names is None else names)
    for name in found:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(COLUMNS)}")
        if found.count(name) > 1:
            raise ValueError(f"the column {name!r} is named twice")
    return found


def schema_of(names: Sequence[str]) -> "pyarrow.Schema":
    """The Arrow schema of these columns. Raises ImportError, which says what to install."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError(f"columns need pyarrow and numpy: pip install pyarrow numpy ({error})") from error

    types = {
        "key": pyarrow.binary(),
        "value": pyarrow.binary(),
        "topic": pyarrow.string(),
        "partition": pyarrow.int32(),
        "offset": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("ms", tz="UTC"),
        "timestamp_type": pyarrow.int32(),
        "headers": pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
    }
    return pyarrow.schema([(name, types[name]) for name in names])


def no_rows(names: Sequence[str]) -> "pyarrow.RecordBatch":
    """A batch of these columns without a row."""
    schema = schema_of(names)
    import pyarrow

    return pyarrow.RecordBatch.from_pylist([], schema=schema)
