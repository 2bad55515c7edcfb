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

logger = logging.getLogger("pylog.commitlog")


class ProducerReplay:
    """Producers that are brought along a log, which is not open meanwhile. (ProducerStateManager)

    `end_offset` is up to where they know the log; -1: that is not known before they are restored.
    """

    def __init__(self, producers: Producers, end_offset: int = -1) -> None:
        self.producers = producers
        self.end_offset = end_offset

    def restore(self, snapshots: Snapshots, start: int, end: int, now_ms: int) -> None:
        """See `Snapshots.restore`."""
        self.end_offset = snapshots.restore(self.producers, start, end, now_ms, reached=self.end_offset)

    def reach(self, offset: int) -> None:
        """Go on to `offset`, unless they are beyond: nothing in between speaks of a producer."""
        self.end_offset = max(self.end_offset, offset)

    def go_through(self, segment: Segment, upto: int) -> None:
        """Take over the batches of a segment below `upto`; what they know already is passed over."""
        start = max(segment.base_offset, self.end_offset)
        position = segment.offsets.lookup(start, log_size=segment.size)[1]
        for window in segment.scan(position, check_crc=False):
            spans = [span for span in window.spans if start <= span.last_offset and span.base_offset < upto]
            if spans:
                self._take(window.data, [span for span in spans if span.producer_id >= 0], spans[-1].last_offset + 1)

    def follow(self, window: Window) -> list[AbortedTxn]:
        """Take over the batches of a window; gives the transactions that they abort."""
        spans = window.spans
        return self._take(window.data, spans.of_producers(), spans[-1].last_offset + 1) if spans else []

    def _take(self, data: bytes, spans: list[BatchSpan], end_offset: int) -> list[AbortedTxn]:
        self.end_offset = end_offset
        return self.producers.replay([(span, _marker(data, span)) for span in spans])


def producers_at(snapshots: Snapshots, segments: Sequence[Segment], name: str, start: int, upto: int) -> Producers:
    """The producers of a log that begins at `start` as they were at `upto`: read, with nothing changed."""
    replay = ProducerReplay(Producers(name))
    replay.end_offset, _ = snapshots.load(replay.producers, start, upto, now_ms=0)
    bases = [segment.base_offset for segment in segments]
    for segment in segments[max(0, bisect_right(bases, replay.end_offset) - 1) : bisect_left(bases, upto)]:
        replay.go_through(segment, upto)
    return replay.producers


def aborted_in(snapshots: Snapshots, segments: Sequence[Segment], segment: Segment, name: str) -> list[AbortedTxn]:
    """The transactions that end aborted in one of `segments`, as its batches say it, whatever its index says."""
    replay = ProducerReplay(producers_at(snapshots, segments, name, segments[0].base_offset, segment.base_offset))
    return [txn for window in segment.scan(check_crc=False) for txn in replay.follow(window)]


def _marker(data: bytes, span: BatchSpan) -> Marker | None:
    try:
        return marker_at(data, span)
    except CorruptBatch as error:
        # Its CRC is right, so it was written like that. It ends nothing, and the log opens all the same.
        logger.warning("a control record is passed over: %s", error)
        return None
