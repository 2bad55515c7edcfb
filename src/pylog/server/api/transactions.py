"""InitProducerId, AddOffsetsToTxn and EndTxn, where versions mean something else.

InitProducerId     below 4, the others below 2: ProducerFenced is not known, and is InvalidProducerEpoch
EndTxn             below 5 the transaction is of version 0: the producer keeps its epoch (KIP-890)
"""

from dataclasses import replace
from functools import partial
from typing import Any

from pylog.protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from pylog.protocol.wire.transactions import without_fencing
from pylog.server.api.call import Outcome, Request, api
from pylog.server.api.plain import changed, handed_on
from pylog.server.served_node import ServedNode

HIGHEST = 5
"""The schema of InitProducerId has a version that Kafka does not serve yet."""
ENDS_EPOCH_FROM = 5


def _answer(fenced_from: int, request: Request, node: ServedNode) -> Outcome:
    outcome = handed_on(request, node)
    return changed(outcome, _without_fencing) if request.version < fenced_from else outcome


def _without_fencing(answer: Any) -> Any:
    return replace(answer, error=without_fencing(answer.error))


def _end(request: Request, node: ServedNode) -> Outcome:
    if request.version < ENDS_EPOCH_FROM:
        request.body.transaction_version = 0
    return _answer(2, request, node)


APIS = (
    api("InitProducerId", partial(_answer, 4), high=HIGHEST, may_wait=True, into=InitProducerIdRequest),
    api("AddOffsetsToTxn", partial(_answer, 2), may_wait=True, into=AddOffsetsToTxnRequest),
    api("EndTxn", _end, may_wait=True, into=EndTxnRequest),
)
