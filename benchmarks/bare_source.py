"""The least that a Python data source for Spark can do: Arrow batches with the columns of pylog's source, from nothing,
as a batch or as a stream.

Nothing is read and nothing is decoded: the arrays are built anew for each batch out of memory, so what it takes is what
Spark, its Python workers and Arrow take. The bound that pylog's source is held against.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
ARROW = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
BATCH_ROWS = 10_000
START_US = 1_700_000_000_000_000


class Share(InputPartition):
    """The rows [start, end) of one partition."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        super().__init__(partition)
        self.partition, self.start, self.end = partition, start, end


class BareSource(DataSource):
    """`format("bare")` with options rows, partitions, valueBytes and, for a stream, rowsPerTrigger."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> DataSourceReader:
        return BareReader(self.options)

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return BareStreamReader(self.options)


class BareReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.rows = int(options["rows"])
        self.count = int(options["partitions"])
        self.value_bytes = int(options["valueBytes"])

    def partitions(self) -> list[InputPartition]:
        share = self.rows // self.count
        return [Share(index, 0, share) for index in range(self.count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return batches(partition, self.value_bytes)


class BareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        self.rows = int(options["rows"])
        self.count = int(options["partitions"])
        self.value_bytes = int(options["valueBytes"])
        self.most = int(options["rowsPerTrigger"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        most = self.rows if isinstance(limit, ReadAllAvailable) else self.most
        return {"row": min(self.rows, start["row"] + most)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["row"] // self.count, end["row"] // self.count
        return [Share(index, first, last) for index in range(self.count)]

    def commit(self, end: dict[str, int]) -> None:
        pass

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        return batches(partition, self.value_bytes)


def batches(partition: Share, value_bytes: int) -> Iterator[pa.RecordBatch]:
    keys = b"".join(b"%08d" % index for index in range(BATCH_ROWS))
    values = np.random.default_rng(2).bytes(BATCH_ROWS * value_bytes)
    for start in range(partition.start, partition.end, BATCH_ROWS):
        count = min(BATCH_ROWS, partition.end - start)
        offsets = np.arange(start, start + count, dtype=np.int64)
        columns = [
            fixed(keys, 8, count),
            fixed(values, value_bytes, count),
            pa.repeat(pa.scalar("bench"), count),
            pa.array(np.full(count, partition.partition, dtype=np.int32)),
            pa.array(offsets),
            pa.array(offsets + START_US).cast(pa.timestamp("us", tz="UTC")),
            pa.array(np.zeros(count, dtype=np.int32)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ARROW)


def fixed(data: bytes, size: int, count: int) -> pa.Array:
    """A binary array of `count` values of `size` bytes each, copied out of `data`."""
    ends = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    copy = np.frombuffer(data, dtype=np.uint8)[: count * size].copy()
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(copy)])
