"""The lag of share groups: the records between the start and the end that are not done."""

from collections.abc import Callable, Iterable

from pylog.errors import PylogError
from pylog.protocol.messages.share import DescribeShareGroupOffsetsResponse, ShareGroupOffsets


def with_lags(
    groups: Iterable[ShareGroupOffsets], end: Callable[[str, int], int]
) -> DescribeShareGroupOffsetsResponse:  # fmt: skip
    """The response about these groups, with the lag of each partition where it is known. `end` gives the high
    watermark of a partition, or raises PylogError.
    """
    found = list(groups)
    topics = [topic for group in found for topic in group.topics]
    for name, part in [(topic.topic_name, part) for topic in topics for part in topic.partitions]:
        if part.start_offset < 0 or part.delivery_complete_count < 0:
            continue
        try:
            part.lag = end(name, part.partition_index) - part.start_offset - part.delivery_complete_count
        except PylogError as error:
            part.error = error.with_traceback(None)
    return DescribeShareGroupOffsetsResponse(groups=found)
