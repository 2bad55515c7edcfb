"""The producers of a partition, brought up to an offset by what its batches say. (Kafka: ProducerStateManager.)"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pylog.errors import CorruptBatch
from pylog.kernel import BatchSpan
from pylog.protocol.batch import Marker, marker_at
from pylog.segment import Segment
from pylog.storage.file_ranges import Window
from pylog.storage.producer_state import Producers, Snapshots
from pylog.storage.transaction_index import AbortedTxn

logger = logging.getLogger("pylog")


def producers_at(snapshots: Snapshots, segments: Sequence[Segment], name: str, start: int, upto: int) -> Producers:
    """The producers of a log that begins at `start` as they were at `upto`: read, with nothing changed."""
    producers = Producers(name)
    snapshots.load(producers, start, upto, now_ms=0)
    bases = [segment.base_offset for segment in segments]
    for segment in segments[max(0, bisect_right(bases, producers.end_offset) - 1) : bisect_left(bases, upto)]:
        replay(producers, segment, upto)
    producers.reach(upto)
    return producers


def aborted_in(snapshots: Snapshots, segments: Sequence[Segment], segment: Segment, name: str) -> list[AbortedTxn]:
    """The transactions that end aborted in one of `segments`, as its batches say it, whatever its index says."""
    producers = producers_at(snapshots, segments, name, segments[0].base_offset, segment.base_offset)
    return [txn for window in segment.scan(check_crc=False) for txn in follow(producers, window)]


def replay(producers: Producers, segment: Segment, upto: int) -> None:
    """Bring the producers to the end of a segment, or to `upto`; what they know already is passed over."""
    start = max(segment.base_offset, producers.end_offset)
    position = segment.offsets.lookup(start, log_size=segment.size)[1]
    for window in segment.scan(position, check_crc=False):
        spans = [span for span in window.spans if start <= span.last_offset and span.base_offset < upto]
        if spans:
            written = [span for span in spans if span.producer_id >= 0]
            _replay(producers, window.data, written, spans[-1].last_offset + 1)


def follow(producers: Producers, window: Window) -> list[AbortedTxn]:
    """Note what the batches of a window say about their producers; gives the transactions that they abort."""
    spans = window.spans
    return _replay(producers, window.data, spans.of_producers(), spans[-1].last_offset + 1) if spans else []


def _replay(producers: Producers, data: bytes, spans: list[BatchSpan], end_offset: int) -> list[AbortedTxn]:
    return producers.replay([(span, _marker(data, span)) for span in spans], end_offset)


def _marker(data: bytes, span: BatchSpan) -> Marker | None:
    try:
        return marker_at(data, span)
    except CorruptBatch as error:
        # Its CRC is right: somebody wrote it so. It ends nothing, and keeps nobody from opening the log.
        logger.warning("a control record is passed over: %s", error)
        return None
