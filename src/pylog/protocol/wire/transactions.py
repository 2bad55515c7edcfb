"""Producer ids and transactions, as bodies and as messages.

TxnOffsetCommit     the member from 3 on (KIP-447); up to 4 the group joins by AddOffsetsToTxn alone (KIP-890)
"""

from pylog.errors import InvalidTxnState, PylogError, TransactionAbortable
from pylog.protocol.messages import (
    OffsetsCommitted,
    TxnOffsetCommit,
)
from pylog.protocol.wire.groups import commit_parts, committed
from pylog.protocol.wire.mapping import Body, Mapping

__all__ = ["MAPPINGS"]

ABORTABLE_FROM, JOINS_FROM = 4, 5
"""From which versions of TxnOffsetCommit on a client understands TransactionAbortable, and need not send
AddOffsetsToTxn.
"""


def _commit_offsets(body: Body, version: int) -> TxnOffsetCommit:
    return TxnOffsetCommit(
        body["transactionalId"], body["groupId"], body["producerId"], body["producerEpoch"], commit_parts(body),
        body.get("generationId", -1), body.get("memberId", ""), body.get("groupInstanceId"),
        joins=version >= JOINS_FROM,
    )  # fmt: skip


def _offsets_committed(body: Body, answer: OffsetsCommitted, version: int) -> Body:
    def told(error: PylogError | None) -> PylogError | None:
        is_unknown = isinstance(error, TransactionAbortable) and version < ABORTABLE_FROM
        return InvalidTxnState(str(error)) if is_unknown else error

    errors = {key: told(error) for key, error in answer.errors.items()}
    return committed(body, OffsetsCommitted(errors, told(answer.error)), version)


MAPPINGS = (
    Mapping(
        name="TxnOffsetCommit", message=_commit_offsets, response=_offsets_committed,
        refusal=lambda message, error: OffsetsCommitted(error=error),
    ),
)  # fmt: skip
