"""The batches of one partition in a range of offsets, fetched from its leader a piece at a time.

While a piece is worked on, the next one is on its way: one request is ahead, so that a link with a long way to go is
used. A position is all there is to know, so an error that may pass is met by looking for the leader again, and asking
again from there. That is for readers that know where to begin and end; `Consumer` is for all others.
"""

from collections.abc import Iterator
from threading import Event
from typing import NamedTuple
from uuid import UUID

from pylog.client.cluster import Cluster
from pylog.errors import CorruptBatch, CorruptRecord, PylogError, RequestTimedOut, UnknownTopicId
from pylog.protocol.batch import Batch, split
from pylog.protocol.isolation import Isolation, VisibleBatches
from pylog.protocol.messages import NO_ID, Fetch, Fetched, FetchedPart, FetchPart
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.future import Future
from pylog.runtime.signals import pause

FETCH_BYTES = 4 << 20
"""What one request asks for. Two are held at a time."""
WAIT_MS = 500
"""How long a node may keep a request that it has nothing for."""
REST_MS = 100
"""How long to wait after an error that may pass."""


class Chunk(NamedTuple):
    """Batches that hold records of [start, end)."""

    start: int
    end: int
    batches: list[Batch]


class PartitionBatches:
    """The fetches of a partition."""

    def __init__(
        self, cluster: Cluster, key: TopicPartition, topic_id: UUID, isolation: Isolation, clock: Clock, timeout_ms: int
    ) -> None:
        """`topic_id`: another topic of that name is UnknownTopicId. `timeout_ms`: how long to wait for more records."""
        self._cluster = cluster
        self._key = key
        self._topic_id = topic_id
        self._isolation = isolation
        self._clock = clock
        self._timeout_ms = timeout_ms
        self.position = 0
        """The first offset that `chunks` has not given."""

    def chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """The data batches with offsets in [start, end), whose CRCs are checked.

        With read_committed without those of aborted transactions. Raises OffsetOutOfRange, CorruptBatch, CorruptRecord
        (the node cannot read them), UnknownTopicOrPartition, UnknownTopicId, RequestTimedOut (there was nothing more
        for `timeout_ms`), and other errors of nodes that do not pass.
        """
        self.position, asked = start, None
        until_ms = self._clock.tick_ms() + self._timeout_ms
        while self.position < end:
            part = self._answer(asked, self.position, until_ms)
            asked = None
            if part is None:
                self._check_time(until_ms, self.position, end)
                continue
            batches = self._split(part, self.position)
            following = batches[-1].next_offset
            if following < end:
                asked = self._ask(following)
            visible = VisibleBatches(part.aborted)
            yield Chunk(self.position, end, [batch for batch in batches if visible.gives(batch)])
            self.position = following
            until_ms = self._clock.tick_ms() + self._timeout_ms

    def _answer(self, asked: "Future[Fetched] | None", position: int, until_ms: int) -> FetchedPart | None:
        """The records of a leader from `position` on; None where there is nothing yet, or an error has to pass
        first.
        """
        try:
            future = asked or self._ask(position)
            (part,) = future.result(max(0, until_ms - self._clock.tick_ms()) / 1000).parts
            if part.error is None:
                return part if len(part.data) else None
            error = part.error
        except TimeoutError:
            return None
        except PylogError as failed:
            error = failed
        # Damage stays, as it does for a consumer, although Kafka lets a client ask again.
        if isinstance(error, CorruptRecord) or not getattr(error, "retriable", False):
            raise error
        self._look_again(error, until_ms)
        return None

    def _look_again(self, error: PylogError, until_ms: int) -> None:
        """Find the leader again. Raises what was wrong where the time is up, or the topic is gone."""
        if self._clock.tick_ms() >= until_ms:
            raise error
        pause(Event(), REST_MS / 1000)
        try:
            self._cluster.refresh([self._key.topic])
        except PylogError as failed:
            if not getattr(failed, "retriable", False):
                raise
            return
        found = self._cluster.topic(self._key.topic)
        if NO_ID not in (found.topic_id, self._topic_id) and found.topic_id != self._topic_id:
            raise UnknownTopicId(f"topic {self._key.topic!r} was deleted, and made again since")

    def _ask(self, position: int) -> "Future[Fetched]":
        part = FetchPart(*self._key, position, FETCH_BYTES, topic_id=self._topic_id)
        message = Fetch([part], max_wait_ms=WAIT_MS, max_bytes=FETCH_BYTES, isolation=self._isolation)
        return self._cluster.send(self._cluster.leader(self._key), message)

    def _check_time(self, until_ms: int, position: int, end: int) -> None:
        if self._clock.tick_ms() >= until_ms:
            raise RequestTimedOut(
                f"{self._key.topic}-{self._key.partition} has given nothing from offset {position} on, on the way to "
                f"{end}, for {self._timeout_ms} ms"
            )

    def _split(self, part: FetchedPart, position: int) -> list[Batch]:
        """The batches of an answer, up to one that is damaged: the next request begins with that."""
        batches: list[Batch] = []
        try:
            batches.extend(split(part.data, check_crc=True))
        except CorruptBatch as error:
            if not batches:
                raise CorruptBatch(
                    f"{part.topic}-{part.partition}: {error.reason}", path=part.path,
                    position=part.position + (error.position or 0), offset=position,
                ) from None  # fmt: skip
        if not batches:
            raise CorruptBatch(f"{part.topic}-{part.partition}: a node has answered no whole batch", offset=position)
        return batches
