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
from functools import partial

from pylog.errors import (
    BatchRefused,
    CorruptBatch,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTxnState,
    PylogError,
    TopicAuthorization,
    TransactionAbortable,
    TransactionalIdAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from pylog.protocol.acls import AclOperation, AclResourceType
from pylog.protocol.batch import Batch
from pylog.protocol.compression import Codec
from pylog.protocol.messages import ACKS_ALL, NO_ID, ProducedPart, ProducePart, ProduceRequest, ProduceResponse
from pylog.protocol.messages.records import JOINS_FROM, PRODUCE_BY_ID_FROM, ProducedTopic, ProduceTopic, produced_error
from pylog.protocol.messages.topics import MetadataRequest, MetadataResponse
from pylog.runtime.future import Future, completed, gathered
from pylog.server.api.call import NO_RESPONSE, Later, NoResponse, Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode

ZSTD_FROM, ABORTABLE_FROM = 7, 11
SIZE = struct.Struct(">8xi")
PACKED_AT_ONCE = 32 << 10
"""The largest compressed batch that is looked at in the loop's thread."""

Part = tuple[ProduceTopic, int, Batch | PylogError]
"""A partition: its topic, its number, and the batch for it, or what is wrong with that."""


def answer(request: Request, node: ServedNode) -> Outcome:
    """Append the batches, and answer with an offset or an error for each."""
    asked: ProduceRequest = request.body
    if request.version >= PRODUCE_BY_ID_FROM:
        for topic in asked.topic_data:
            topic.name = node.known_name(topic.topic_id, request.session)
    parts: list[Part] = [(topic, part.index, _taken(part, request.version)) for topic, part in asked.pairs]
    error = _refusal(asked, parts, request, node)
    if isinstance(error, TransactionalIdAuthorization):
        parts = [(topic, number, error) for topic, number, _ in parts]
    elif error is not None or any(isinstance(batch, PylogError) for _, _, batch in parts):
        # A topic may have many partitions.
        return Later(
            lambda: _append(request, node, _judged(parts, error, request, node), [None] * len(parts)), is_append=True
        )
    return outcome_of(parts, [sent(part, request, node) for part in parts], request, node)


def outcome_of(
    parts: Sequence[Part], begun: Sequence[Future[ProduceResponse] | None], request: Request, node: ServedNode
) -> Outcome:
    """The outcome of a request, of whose parts these have been `sent`."""
    answers = [answer for answer in begun if answer is not None]
    if len(answers) < len(parts):
        return Later(lambda: _append(request, node, parts, begun), is_append=True)
    return _reply(request, node, answers)


def _is_long(batch: Batch) -> bool:
    """True if a check of the records may take long: a payload may grow a thousand times, or be of many empty frames."""
    return batch.size > PACKED_AT_ONCE and batch.codec is not Codec.NONE


def _refusal(asked: ProduceRequest, parts: list[Part], request: Request, node: ServedNode) -> PylogError | None:
    """The error of a request as a whole, or None. It is the error of every partition that there is."""
    if any(isinstance(batch, Batch) and batch.is_transactional for _, _, batch in parts):
        known = asked.transactional_id
        if known is None:
            return TransactionalIdAuthorization("records of a transaction need a transactional id")
        if not node.allows(request.session, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, known):
            return TransactionalIdAuthorization("Transactional Id authorization failed.")
    if asked.acks not in (ACKS_ALL, 0, 1):
        return InvalidRequiredAcks(f"acks={asked.acks}: it is -1, 0 or 1")
    return None


def _judged(parts: list[Part], error: PylogError | None, request: Request, node: ServedNode) -> list[Part]:
    """The parts with this error; those of partitions that are not there say that, to clients that may write there."""
    may = {
        name: not name or node.allows(request.session, AclOperation.WRITE, AclResourceType.TOPIC, name)
        for name in {topic.name for topic, _, _ in parts}
    }
    asked = MetadataRequest.of(sorted({topic.name for topic, _, _ in parts}))
    found: MetadataResponse = node.ask(asked, request.session)
    there = {(topic.name, part.partition_index) for topic in found.topics for part in topic.partitions}
    missing = UnknownTopicOrPartition("there is no such partition")
    refused = TopicAuthorization("Topic authorization failed.")
    return [
        (topic, number, (error or batch if (topic.name, number) in there else missing) if may[topic.name] else refused)
        for topic, number, batch in parts
    ]


def _append(
    request: Request, node: ServedNode, parts: Sequence[Part], begun: Sequence[Future[ProduceResponse] | None]
) -> Reply:
    """Append what has not `begun`, in a thread that may block, and answer all of it."""
    answers = [
        sent(part, request, node, may_block=True) if answer is None else answer
        for part, answer in zip(parts, begun, strict=True)
    ]
    return _reply(request, node, [answer for answer in answers if answer is not None])


def sent(part: Part, request: Request, node: ServedNode, *, may_block: bool = False) -> Future[ProduceResponse] | None:
    """The answer of the node to a part; None where it takes a thread that may block."""
    topic, number, batch = part
    if isinstance(batch, PylogError):
        refused = [produced_error(number, batch)]
        told = ProducedTopic(name=topic.name, topic_id=topic.topic_id, partition_responses=refused)
        return completed(ProduceResponse(responses=[told]))
    asked: ProduceRequest = request.body
    if not may_block and (asked.transactional_id is not None or _is_long(batch)):
        return None
    message = ProduceRequest.of(
        topic.name, number, batch, topic.topic_id, asked.transactional_id, acks=asked.acks, timeout_ms=asked.timeout_ms,
        joins=request.version >= JOINS_FROM, may_block=may_block,
    )  # fmt: skip
    try:
        answer: Future[ProduceResponse] = node.admit(message, request.session)
        return None if answer.done() and not answer.result().responses else answer
    except PylogError as error:
        return completed(message.refused(error.with_traceback(None)))


def _reply(request: Request, node: ServedNode, answers: list[Future[ProduceResponse]]) -> Reply:
    asked: ProduceRequest = request.body
    is_whole = len(answers) == len(asked.topic_data) == 1
    answer = answers[0] if is_whole else gathered(answers, partial(_joined, asked))
    if asked.acks == 0:
        return Reply(answer, _unanswered, NoResponse)
    return Reply(answer, partial(_told, request, node), asked.refused)


def _unanswered(given: ProduceResponse) -> NoResponse:
    return next((NoResponse(part.error) for part in given.parts if part.error is not None), NO_RESPONSE)


def _joined(asked: ProduceRequest, answers: list[ProduceResponse]) -> ProduceResponse:
    return asked.with_parts([part for one in answers for part in one.parts])


def _told(request: Request, node: ServedNode, given: ProduceResponse) -> ProduceResponse:
    """An answer of the node as this version has it: with the errors of records, and with errors of that version."""
    for topic in given.responses:
        for part in topic.partition_responses:
            if part.error is not None:
                part.error = _known(topic, part.error, request, node)
                part.record_errors = _record_errors(part.error)
    return given


def _known(topic: ProducedTopic, error: PylogError, request: Request, node: ServedNode) -> PylogError:
    """The error of this version for a partition that is in no transaction, and for a topic that was named by an
    id and is gone.
    """
    unknown = UnknownTopicId(f"there is no topic with id {topic.topic_id}")
    if request.version >= PRODUCE_BY_ID_FROM and not topic.name:
        return unknown
    if isinstance(error, TransactionAbortable) and request.version < ABORTABLE_FROM:
        return InvalidTxnState(str(error))
    if isinstance(error, UnknownTopicOrPartition) and topic.topic_id != NO_ID:
        return error if node.id_of(topic.name, request.session) == topic.topic_id else unknown
    return error


def _record_errors(error: PylogError) -> list[ProducedPart.BatchIndexAndErrorMessage]:
    one = ProducedPart.BatchIndexAndErrorMessage
    told = error.record_errors if isinstance(error, BatchRefused) else ()
    return [one(batch_index=record.index, batch_index_error_message=record.message) for record in told]


def _taken(part: ProducePart, version: int) -> Batch | PylogError:
    """The batch of a partition, or what is wrong with it."""
    # The request is held until the answer: it does not hold the records, too.
    records, part.records = part.records, None
    try:
        return batch_of(records, version)
    except CorruptBatch as error:
        return error.with_traceback(None)
    except PylogError as error:
        return error.with_traceback(None) if isinstance(error, _OWN) else InvalidRecord(str(error))


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


API = api("Produce", answer, is_pipelined=True, into=ProduceRequest)
