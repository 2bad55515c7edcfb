"""Produce: each partition's records are one batch, which is checked and appended as it came.

    3-8     rigid; from 5 on the log's start, from 8 on the errors of single records
    9-12    flexible; up to 11 a partition joins its transaction by AddPartitionsToTxn alone (KIP-890)
    13      topics are named by id (KIP-516)

A partition without a whole batch, or with several, is InvalidRecord. Bytes that are not a batch are CorruptRecord. A
partition that is not there is told before that, and records of a transaction without an id before everything. The other
partitions of the request are appended. zstd below version 7 is UnsupportedCompressionType. With acks=0 there is
no response; an error ends the connection, so that the client looks for the partition again.

Each partition goes to the node by itself, in the loop's thread where the append does not block there
(`PlainRules.may_block`). The others go to a pool, and so do batches of transactions, which may have to wait for their
coordinator.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace

from pylog.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTxnState,
    PylogError,
    TransactionAbortable,
    TransactionalIdAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.protocol.messages import (
    ACKS_ALL,
    NO_ID,
    Produce,
    Produced,
    ProducedPart,
    ProducePart,
)
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.protocol.wire import versions
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.records import produced
from pylog.runtime.future import Future, completed, gathered
from pylog.server.api.call import NO_RESPONSE, Later, NoResponse, Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode

ZSTD_FROM, ABORTABLE_FROM, JOINS_FROM = 7, 11, 12
BY_ID_FROM = versions.BY_ID_FROM["Produce"]
SIZE = struct.Struct(">8xi")
PACKED_AT_ONCE = 32 << 10
"""The largest compressed batch that is looked at in the loop's thread."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Append the batches, and answer with an offset or an error for each."""
    body = request.body
    if request.version >= BY_ID_FROM:
        node.known_names(body["topicData"], request.session)
    parts = [_part(topic, part, request.version) for topic in body["topicData"] for part in topic["partitionData"]]
    error = _refusal(body, parts)
    if isinstance(error, TransactionalIdAuthorization):
        parts = [ProducedPart(part.topic, part.partition, error) for part in parts]
    elif error is not None or any(isinstance(part, ProducedPart) for part in parts):
        # A topic may have many partitions.
        return Later(
            lambda: _append(request, node, _judged(parts, error, request, node), [None] * len(parts)), is_append=True
        )
    return outcome_of(parts, [sent(part, request, node) for part in parts], request, node)


def outcome_of(
    parts: Sequence[ProducePart | ProducedPart], begun: Sequence[Future[Produced] | None], request: Request,
    node: ServedNode,
) -> Outcome:  # fmt: skip
    """The outcome of a request, of whose parts these have been `sent`."""
    answers = [answer for answer in begun if answer is not None]
    if len(answers) < len(parts):
        return Later(lambda: _append(request, node, parts, begun), is_append=True)
    return _reply(request, node, parts, answers)


def _is_long(batch: Batch) -> bool:
    """True if a check of the records may take long: a payload may grow a thousand times, or be of many empty frames."""
    return batch.size > PACKED_AT_ONCE and batch.codec is not Codec.NONE


def _refusal(body: Body, parts: list[ProducePart | ProducedPart]) -> PylogError | None:
    """The error of a request as a whole, or None. It is the error of every partition that there is."""
    if body["transactionalId"] is None and any(
        isinstance(part, ProducePart) and part.batch.is_transactional for part in parts
    ):
        return TransactionalIdAuthorization("records of a transaction need a transactional id")
    if body["acks"] not in (ACKS_ALL, 0, 1):
        return InvalidRequiredAcks(f"acks={body['acks']}: it is -1, 0 or 1")
    return None


def _judged(
    parts: list[ProducePart | ProducedPart], error: PylogError | None, request: Request, node: ServedNode
) -> list[ProducePart | ProducedPart]:
    """The parts with this error; those of partitions that are not there say that."""
    asked = MetadataRequest.of(sorted({part.topic for part in parts}))
    found: MetadataResponse = node.ask(asked, request.session)
    there = {(topic.name, part.partition_index) for topic in found.topics for part in topic.partitions}
    missing = UnknownTopicOrPartition("there is no such partition")
    return [
        _refused(part, error) if (part.topic, part.partition) in there else _refused(part, missing) for part in parts
    ]


def _refused(part: ProducePart | ProducedPart, error: PylogError | None) -> ProducePart | ProducedPart:
    return part if error is None else ProducedPart(part.topic, part.partition, error)


def _append(
    request: Request, node: ServedNode, parts: Sequence[ProducePart | ProducedPart],
    begun: Sequence[Future[Produced] | None],
) -> Reply:  # fmt: skip
    """Append what has not `begun`, in a thread that may block, and answer all of it."""
    answers = [
        sent(part, request, node, may_block=True) if answer is None else answer
        for part, answer in zip(parts, begun, strict=True)
    ]
    return _reply(request, node, parts, [answer for answer in answers if answer is not None])


def sent(
    part: ProducePart | ProducedPart, request: Request, node: ServedNode, *, may_block: bool = False
) -> Future[Produced] | None:  # fmt: skip
    """The answer of the node to a part; None where it takes a thread that may block."""
    if isinstance(part, ProducedPart):
        return completed(Produced([part]))
    body = request.body
    if not may_block and (body["transactionalId"] is not None or _is_long(part.batch)):
        return None
    message = Produce(
        [part], body["acks"], body["timeoutMs"], body["transactionalId"], request.version >= JOINS_FROM, may_block
    )
    try:
        answer: Future[Produced] = node.handle(message, request.session)
        return None if answer.done() and not answer.result().parts else answer
    except PylogError as error:
        return completed(Produced([ProducedPart(part.topic, part.partition, error.with_traceback(None))]))


def _reply(
    request: Request, node: ServedNode, parts: Sequence[ProducePart | ProducedPart], answers: list[Future[Produced]]
) -> Reply:  # fmt: skip
    body = request.body
    answer = answers[0] if len(answers) == 1 else gathered(answers, _joined)
    if body["acks"] == 0:
        return Reply(answer, _unanswered, NoResponse)
    return Reply(
        answer,
        lambda given: produced(body, _as_known(parts, given.parts, request, node), request.version),
        lambda error: produced(body, [ProducedPart(one.topic, one.partition, error) for one in parts], request.version),
    )


def _unanswered(given: Produced) -> NoResponse:
    return next((NoResponse(part.error) for part in given.parts if part.error is not None), NO_RESPONSE)


def _as_known(
    asked: Sequence[ProducePart | ProducedPart], parts: list[ProducedPart], request: Request, node: ServedNode
) -> list[ProducedPart]:
    """These answers, with the errors that a client of this version knows: for a partition that is in no transaction,
    and for a topic that was named by an id and is gone.
    """
    for part in parts:
        if part.error is not None:
            break
    else:
        return parts
    return [replace(part, error=_known(one, part.error, request, node)) for one, part in zip(asked, parts, strict=True)]


def _known(
    asked: ProducePart | ProducedPart, error: PylogError | None, request: Request, node: ServedNode
) -> PylogError | None:
    if isinstance(error, TransactionAbortable) and request.version < ABORTABLE_FROM:
        return InvalidTxnState(str(error))
    if isinstance(error, UnknownTopicOrPartition) and isinstance(asked, ProducePart) and asked.topic_id != NO_ID:
        present = node.id_of(asked.topic, request.session) if asked.topic else NO_ID
        return error if present == asked.topic_id else UnknownTopicId(f"there is no topic with id {asked.topic_id}")
    return error


def _joined(answers: list[Produced]) -> Produced:
    return Produced([part for one in answers for part in one.parts])


def _part(topic: Body, part: Body, version: int) -> ProducePart | ProducedPart:
    """The part of a partition for the node, or its error."""
    name, number = topic["name"], part["index"]
    try:
        # The body is held until the answer: it does not hold the records, too.
        batch = batch_of(part.pop("records"), version)
    except CorruptBatch as error:
        return ProducedPart(name, number, error.with_traceback(None))
    except PylogError as error:
        told = error.with_traceback(None) if isinstance(error, _OWN) else InvalidRecord(str(error))
        return ProducedPart(name, number, told)
    return ProducePart(name, number, batch, topic.get("topicId", NO_ID))


_OWN = (InvalidRecord, UnsupportedCompressionType)


def batch_of(records: memoryview | None, version: int) -> Batch:
    """The one batch in the records of a partition, in memory of its own. Raises PylogError."""
    if not records:
        raise InvalidRecord("a partition of the request has no records")
    if len(records) >= SIZE.size and SIZE.size + SIZE.unpack_from(records)[0] > len(records):
        raise InvalidRecord("a partition of the request has a batch that is cut off")
    # A leader stamps offsets into the batch in place, where it lies in a bytearray alone.
    batch = Batch.framed(bytearray(records))
    if batch.size != len(records):
        raise InvalidRecord("a partition of the request has more than one batch")
    if version < ZSTD_FROM and batch.codec is Codec.ZSTD:
        raise UnsupportedCompressionType("zstd takes version 7 of Produce, or a later one (KIP-110)")
    return batch


API = api("Produce", answer, is_pipelined=True)
