"""Sending in Cython: the twin of `pylog.client.record_append.pure`. Importing it fails where it was not built.

sender      from `send` to the future of a record in an open batch
delivery    from the answer of a batch to its futures and callbacks
"""

from pylog.client.record_append.compiled.delivery import Delivery, RecordFuture
from pylog.client.record_append.compiled.sender import (
    OpenBatches,
    ProducerBatch,
    RecordAppender,
    Route,
    StickyPartitioner,
)

__all__ = ["Delivery", "OpenBatches", "ProducerBatch", "RecordAppender", "RecordFuture", "Route", "StickyPartitioner"]
