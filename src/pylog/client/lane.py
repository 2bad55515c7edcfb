"""A lane: the batches of one partition that are under way. `in_flight` says what happens in it."""

from pylog.client.in_flight_batch import NO_PRODUCER, InFlightBatch, ProducerEpoch, SendCounts

__all__ = ["Lane"]


class Lane:
    """The batches of one partition that are under way, in order, and the numbers that they have."""

    __slots__ = ("acked", "counts", "gap", "in_flight", "next", "producer", "unanswered")

    def __init__(self, counts: SendCounts) -> None:
        self.counts = counts
        self.unanswered: list[InFlightBatch] = []
        self.in_flight = 0
        """Also those that failed before their answer came."""
        self.begin(NO_PRODUCER)

    def begin(self, producer: ProducerEpoch) -> None:
        self.producer = producer
        self.next = 0
        self.acked = 0
        self.gap: int | None = None
        """The end of the newest batch that was given up; the numbers below it may have a gap. None: no batch was given
        up.
        """

    def number(self, batch: InFlightBatch) -> None:
        batch.producer, batch.position = self.producer, self.next
        self.next += batch.count

    def leave_gap(self, batch: InFlightBatch) -> None:
        self.gap = max(self.gap or 0, batch.position + batch.count)

    @property
    def to_send_again(self) -> InFlightBatch:
        """The batch that is sent again next: the oldest; while there is a gap, the oldest of those that the node
        may have. A node's answer about one behind a gap tells what lies before that.
        """
        if self.gap is not None:
            return next((batch for batch in self.unanswered if batch.untold), self.unanswered[0])
        return self.unanswered[0]
