"""A node in memory that members of share groups ask, request by request, on a clock that a test moves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pylog
from pylog.errors import PylogError
from pylog.protocol.batch import split
from pylog.protocol.messages import ClientGone, Session
from pylog.protocol.messages.share import (
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)
from pylog.runtime.future import Future
from pylog.testing import SimClock

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
LOCK_MS = 30_000
Acquired = list[tuple[int, int, int]]


class ShareDesk:
    """The requests of share groups to a node, about the topic "t"."""

    def __init__(self, log: pylog.Log, clock: SimClock) -> None:
        self.log, self.clock, self.broker = log, clock, log.broker
        self.topic_id = self.broker.image.topics["t"].id

    def ask(self, message: Any, connection: int = 0) -> Future[Any]:
        return self.broker.handle(message, Session("tester", connection=connection))

    def produce(self, count: int, partition: int = 0) -> None:
        self.log.topic("t")[partition].append([pylog.Record(b"x") for _ in range(count)])

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.broker.work()

    # --- states ------------------------------------------------------------------------------------------------------

    def begin(self, start: int = 0, state_epoch: int = 1, partitions: Sequence[int] = (0,), group: str = "g") -> None:
        data = InitializeShareGroupStateRequest.InitializeStateData
        parts = [data.PartitionData(partition=one, state_epoch=state_epoch, start_offset=start) for one in partitions]
        topics = [data(topic_id=self.topic_id, partitions=parts)]
        message = InitializeShareGroupStateRequest(group_id=group, topics=topics)
        assert message.first_error(self.ask(message).result()) is None

    def delete(self, group: str = "g") -> None:
        data = DeleteShareGroupStateRequest.DeleteStateData
        topics = [data(topic_id=self.topic_id, partitions=[data.PartitionData(partition=0)])]
        self.ask(DeleteShareGroupStateRequest(group_id=group, topics=topics)).result()

    def stored(self, group: str = "g") -> tuple[int, int]:
        """The start and the number of records that are done behind it, as the group's coordinator hears them."""
        data = ReadShareGroupStateSummaryRequest.ReadStateSummaryData
        topics = [data(topic_id=self.topic_id, partitions=[data.PartitionData(partition=0, leader_epoch=0)])]
        answer = self.ask(ReadShareGroupStateSummaryRequest(group_id=group, topics=topics)).result()
        part = answer.results[0].partitions[0]
        return part.start_offset, part.delivery_complete_count

    # --- members -----------------------------------------------------------------------------------------------------

    def fetching(
        self, epoch: int, said: Mapping[tuple[int, int], list[int]] | None = None, *, member: str = "ann",
        group: str | None = "g", partitions: Sequence[int] = (0,), connection: int = 0, **fields: Any,
    ) -> Future[ShareFetchResponse]:  # fmt: skip
        """A ShareFetch, which may wait."""
        topic = ShareFetchRequest.FetchTopic
        parts = [
            topic.FetchPartition(partition_index=one, acknowledgement_batches=batches(said) if one == 0 else [])
            for one in partitions
        ]
        topics = [topic(topic_id=self.topic_id, partitions=parts)] if parts else []
        wanted: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields}
        wanted.setdefault("topics", topics)
        message = ShareFetchRequest(group_id=group, member_id=member, share_session_epoch=epoch, **wanted)
        return self.ask(message, connection)

    def fetch(self, epoch: int, said: Mapping[tuple[int, int], list[int]] | None = None, **how: Any) -> Acquired:
        """What a ShareFetch acquires of partition 0 at once. Raises the errors in its answer."""
        return acquired(self.fetching(epoch, said, **how).result())

    def acknowledging(
        self,
        epoch: int,
        said: Mapping[tuple[int, int], list[int]],
        *,
        member: str = "ann",
        is_renew: bool = False,
        may_block: bool = True,
    ) -> Future[ShareAcknowledgeResponse]:
        topic = ShareAcknowledgeRequest.AcknowledgeTopic
        parts = [topic.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches(said))]
        message = ShareAcknowledgeRequest(
            group_id="g", member_id=member, share_session_epoch=epoch, is_renew_ack=is_renew,
            topics=[topic(topic_id=self.topic_id, partitions=parts)], may_block=may_block,
        )  # fmt: skip
        return self.ask(message)

    def acknowledge(self, epoch: int, said: Mapping[tuple[int, int], list[int]], **how: Any) -> PylogError | None:
        """The error of an acknowledgement of records of partition 0."""
        answer = self.acknowledging(epoch, said, **how).result()
        return answer.error or answer.responses[0].partitions[0].error

    def lose(self, connection: int) -> None:
        """The connection of a member ends."""
        self.ask(ClientGone(connection))
        self.broker.work()


def batches(said: Mapping[tuple[int, int], list[int]] | None) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for (first, last), types in (said or {}).items()
    ]


def acquired(answer: ShareFetchResponse, partition: int = 0) -> Acquired:
    """The acquired ranges of a partition: first and last offset, and deliveries. Raises the errors in the answer."""
    if answer.error is not None:
        raise answer.error
    for part in (part for topic in answer.responses for part in topic.partitions):
        if part.partition_index == partition:
            error = part.error or part.acknowledge_error
            if error is not None:
                raise error
            ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records]
            spans = [(batch.base_offset, batch.last_offset) for batch in split(part.records or b"")]
            assert all(any(low <= end and first <= high for low, high in spans) for first, end, _ in ranges)
            return ranges
    return []


@contextmanager
def share_desk(partitions: int = 1, flush: Literal["none", "sync"] = "none", **config: Any) -> Iterator[ShareDesk]:
    """A desk over a log in memory. Its share group is "g", of which nothing is written down."""
    clock = SimClock(1_700_000_000_000)
    states = {"share_coordinator_state_topic_num_partitions": 1}
    with pylog.open(":memory:", clock=clock, flush=flush, config={**states, **config}) as log:
        log.create_topic("t", partitions=partitions)
        yield ShareDesk(log, clock)
