"""Transactions, where versions mean something else.

InitProducerId        below 4, the others below 2: ProducerFenced is not known, and is InvalidProducerEpoch
AddPartitionsToTxn    below 4 one transaction, of a client; then several, of another broker
EndTxn                below 5 the transaction is of version 0: the producer keeps its epoch (KIP-890)

What brokers ask each other, WriteTxnMarkers too, is for clients that may do ClusterAction.
"""

from dataclasses import replace
from functools import partial
from typing import TypeVar

from pylog.errors import InvalidProducerEpoch, ProducerFenced, PylogError
from pylog.protocol.acls import AclOperation
from pylog.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionsToAdd,
    WriteTxnMarkersRequest,
)
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import changed, handed_on, handed_on_as_node, of_nodes
from pylog.server.served_node import ServedNode

HIGHEST = 5
"""The schema of InitProducerId has a version that Kafka does not serve yet."""
ENDS_EPOCH_FROM = 5
FENCED_FROM, SEVERAL_FROM = 2, 4

A = TypeVar("A", InitProducerIdResponse, EndTxnResponse)


def _answer(fenced_from: int, request: Request, node: ServedNode) -> Outcome:
    outcome = handed_on(request, node)
    return changed(outcome, _without_fencing) if request.version < fenced_from else outcome


def _without_fencing(answer: A) -> A:
    return replace(answer, error=_not_fenced(answer.error))


def _not_fenced(error: PylogError | None) -> PylogError | None:
    """The error for a client that does not know ProducerFenced."""
    return InvalidProducerEpoch(str(error)) if isinstance(error, ProducerFenced) else error


def _end(request: Request, node: ServedNode) -> Outcome:
    if request.version < ENDS_EPOCH_FROM:
        request.body.transaction_version = 0
    return _answer(FENCED_FROM, request, node)


def _add_partitions(request: Request, node: ServedNode) -> Outcome:
    if request.version >= SEVERAL_FROM:
        return of_nodes(request, node)
    asked: AddPartitionsToTxnRequest = request.body
    one = PartitionsToAdd(
        transactional_id=asked.v3_and_below_transactional_id, producer_id=asked.v3_and_below_producer_id,
        producer_epoch=asked.v3_and_below_producer_epoch, topics=asked.v3_and_below_topics,
    )  # fmt: skip

    def told(answer: AddPartitionsToTxnResponse) -> AddPartitionsToTxnResponse:
        topics = answer.results_by_transaction[0].topic_results
        if request.version < FENCED_FROM:
            for topic in topics:
                for part in topic.results_by_partition:
                    part.error = _not_fenced(part.error)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    return changed(handed_on(request._replace(body=AddPartitionsToTxnRequest(transactions=[one])), node), told)


def _write_markers(request: Request, node: ServedNode) -> Outcome:
    # ALTER is for a person who ends what hangs (KIP-664).
    may_alter = node.allows(request.session, AclOperation.ALTER) and node.authorizer is not None
    return handed_on_as_node(request, node) if may_alter else of_nodes(request, node)


APIS = (
    api("InitProducerId", partial(_answer, 4), high=HIGHEST, may_wait=True, into=InitProducerIdRequest),
    api("AddOffsetsToTxn", partial(_answer, FENCED_FROM), may_wait=True, into=AddOffsetsToTxnRequest),
    api("EndTxn", _end, may_wait=True, into=EndTxnRequest),
    api("AddPartitionsToTxn", _add_partitions, may_wait=True, into=AddPartitionsToTxnRequest),
    api("WriteTxnMarkers", _write_markers, may_wait=True, into=WriteTxnMarkersRequest),
)
