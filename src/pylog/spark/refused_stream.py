"""A stream whose options are refused: says why at the first call.

Where making a reader fails, Spark's runner of streams ends in an UnboundLocalError of its own, which hides the reason.
"""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition


class RefusedStream(DataSourceStreamReader):
    """Raises the same error from whatever Spark asks."""

    def __init__(self, error: ValueError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802 (Spark's name)
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802 (Spark's name)
        self._refuse()

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 (Spark's name)
        self._refuse()

    def latestOffset(self, *_: object) -> dict[str, object]:  # noqa: N802 (Spark's name)
        self._refuse()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._refuse()

    def commit(self, end: dict[str, object]) -> None:
        self._refuse()
