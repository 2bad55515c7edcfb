"""Produces of several partitions, and the parts of their answers."""

from dataclasses import replace

from pylog.errors import PylogError
from pylog.protocol.batch import Batch
from pylog.protocol.messages import ProducedPart, ProduceRequest

__all__ = ["batch_in", "produced", "together"]


def together(*requests: ProduceRequest) -> ProduceRequest:
    """The request that appends all that these append."""
    return replace(requests[0], topic_data=[topic for one in requests for topic in one.topic_data])


def produced(partition: int, base_offset: int = -1, error: PylogError | None = None) -> ProducedPart:
    """The answer to a batch, or its error."""
    return ProducedPart(index=partition, base_offset=base_offset, error=error)


def batch_in(request: ProduceRequest) -> Batch:
    """The batch of a Produce of one."""
    ((_, part),) = request.pairs
    assert part.batch is not None, "it comes from within the process"
    return part.batch
