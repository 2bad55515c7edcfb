"""A reader of a range of offsets: pieces, errors that pass and errors that stay."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

import pylog
from pylog import Record, TopicPartition
from pylog.client.cluster import Cluster
from pylog.client.partition_batches import PartitionBatches
from pylog.errors import (
    CorruptBatch,
    InvalidRequest,
    NetworkError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PylogError,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.protocol.isolation import Isolation
from pylog.protocol.messages import NO_ID, Fetch, Fetched, FetchedPart, Message, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from pylog.transport import MemoryTransport

T0 = TopicPartition("t", 0)
BIG = 3 << 20
"""Bytes of a value of which one piece holds one."""


class Meddling(MemoryTransport):
    """Answers the next messages of a kind itself; None: the node does."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[type[Message], list[Fetched | PylogError | Future[Fetched] | None]] = {}
        self.asked: list[int] = []

    def send(self, node: int, message: Message, session: Session) -> "Future[Fetched]":
        if isinstance(message, Fetch):
            self.asked.append(message.parts[0].offset)
        answers = self.answers.get(type(message))
        answer = answers.pop(0) if answers else None
        if answer is None:
            return super().send(node, message, session)
        if isinstance(answer, Future):
            return answer
        return failed(answer) if isinstance(answer, PylogError) else completed(answer)


@pytest.fixture
def transport() -> Meddling:
    return Meddling()


@pytest.fixture
def log(transport: Meddling) -> Iterator[pylog.Log]:
    with pylog.open(":memory:", transport=transport) as log:
        log.create_topic("t", config={"max.message.bytes": 2 * BIG})
        yield log


def reader(
    log: pylog.Log, transport: Meddling, *, timeout_ms: int = 60_000, topic_id: uuid.UUID | None = None,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> PartitionBatches:  # fmt: skip
    known = log.topic("t").id if topic_id is None else topic_id
    return PartitionBatches(Cluster(transport, log.node_id, "reader"), T0, known, isolation, SystemClock(), timeout_ms)


def append(log: pylog.Log, *values: bytes) -> None:
    log.topic("t")[0].append([Record(value) for value in values])


def offsets(batches: PartitionBatches, start: int, end: int) -> list[list[int]]:
    """The offsets of each piece, as far as they are wanted."""
    return [
        [record.offset for batch in chunk.batches for record in batch.records("t", 0) if start <= record.offset < end]
        for chunk in batches.chunks(start, end)
    ]


def test_pieces_are_fetched_one_ahead(log: pylog.Log, transport: Meddling) -> None:
    for _ in range(3):
        append(log, bytes(BIG))
    chunks = reader(log, transport).chunks(0, 3)
    assert next(chunks).start == 0
    assert transport.asked == [0, 1], "the second piece is on its way while the first is used"
    assert [chunk.start for chunk in chunks] == [1, 2]
    assert transport.asked == [0, 1, 2], "nothing is asked for behind the end"


def test_a_range_that_begins_and_ends_inside_of_batches(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a", b"b", b"c", b"d", b"e")
    assert offsets(reader(log, transport), 1, 4) == [[1, 2, 3]]
    assert offsets(reader(log, transport), 4, 4) == []


def test_aborted_transactions_are_left_out_of_what_is_committed(log: pylog.Log, transport: Meddling) -> None:
    with log.producer(transactional_id="x") as producer:
        for is_commit in (False, True):
            producer.begin()
            producer.send("t", b"v").result()
            (producer.commit if is_commit else producer.abort)()
    committed = reader(log, transport, isolation=Isolation.READ_COMMITTED)
    assert offsets(committed, 0, 4) == [[2]]
    assert offsets(reader(log, transport), 0, 4) == [[0, 2]]


@pytest.mark.parametrize("error", [NetworkError("cut"), Fetched([FetchedPart("t", 0, NotLeaderOrFollower("moved"))])])
def test_an_error_that_may_pass_is_asked_again_after_a_look_for_the_leader(
    log: pylog.Log, transport: Meddling, error: Fetched | PylogError
) -> None:
    append(log, b"a", b"b")
    batches = reader(log, transport)
    transport.answers = {Fetch: [error], MetadataRequest: [None, NetworkError("cut, too")]}
    assert offsets(batches, 0, 2) == [[0, 1]]
    assert transport.asked == [0, 0]


def test_an_error_that_stays_comes_out(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    with pytest.raises(OffsetOutOfRange):
        offsets(reader(log, transport), 5, 9)
    batches = reader(log, transport)
    transport.answers = {Fetch: [NetworkError("cut")], MetadataRequest: [None, InvalidRequest("no")]}
    with pytest.raises(InvalidRequest):
        offsets(batches, 0, 1)


def test_errors_that_do_not_pass_in_time_come_out(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    transport.answers = {Fetch: [NetworkError("cut")]}
    with pytest.raises(NetworkError):
        offsets(reader(log, transport, timeout_ms=0), 0, 1)


@pytest.mark.parametrize("answer", [Future[Fetched](), Fetched([FetchedPart("t", 0)])])
def test_records_that_do_not_come_in_time(
    log: pylog.Log, transport: Meddling, answer: "Future[Fetched] | Fetched"
) -> None:
    transport.answers = {Fetch: [answer]}
    with pytest.raises(RequestTimedOut, match="t-0 has given nothing from offset 0 on, on the way to 3, for 0 ms"):
        offsets(reader(log, transport, timeout_ms=0), 0, 3)


def test_records_that_come_late(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    transport.answers = {Fetch: [Fetched([FetchedPart("t", 0)])]}
    assert offsets(reader(log, transport), 0, 1) == [[0]]


def test_a_topic_that_was_made_again_is_another_one(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    batches = reader(log, transport)
    log.delete_topic("t")
    log.create_topic("t")
    append(log, b"b")
    with pytest.raises(UnknownTopicId):
        offsets(batches, 0, 1)


def test_a_topic_without_an_id_is_known_by_its_name(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    batches = reader(log, transport, topic_id=NO_ID)
    transport.answers = {Fetch: [NetworkError("cut")]}
    assert offsets(batches, 0, 1) == [[0]]


def test_a_topic_that_is_gone(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    batches = reader(log, transport)
    list(batches.chunks(0, 1))
    log.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        offsets(batches, 0, 1)


def fetched(log: pylog.Log) -> memoryview:
    return memoryview(bytearray(log.topic("t")[0].read(0)))


def test_good_batches_before_a_damaged_one_come_first(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    append(log, b"b")
    data = fetched(log)
    data[-1] ^= 1
    damaged = FetchedPart("t", 0, data=data, position=100)
    chunks = reader(log, transport).chunks(0, 2)
    transport.answers = {Fetch: [Fetched([damaged]), Fetched([replace(damaged, data=data[len(data) // 2 :])])]}
    assert len(next(chunks).batches) == 1
    with pytest.raises(CorruptBatch, match="t-0: the CRC"):
        next(chunks)


def test_an_answer_without_a_whole_batch(log: pylog.Log, transport: Meddling) -> None:
    append(log, b"a")
    transport.answers = {Fetch: [Fetched([FetchedPart("t", 0, data=fetched(log)[:20])])]}
    with pytest.raises(CorruptBatch, match="t-0: "):
        offsets(reader(log, transport), 0, 1)
