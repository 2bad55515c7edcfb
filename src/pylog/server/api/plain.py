"""Keys whose request goes to the node as it is, and whose response is its answer.

OffsetForLeaderEpoch    in the loop: nothing of it waits
DescribeProducers       in the thread of large requests: there may be many producers, and nothing of it waits
the others              in the pool: a heartbeat, too, may write and sync, or load a coordinator
"""

from collections.abc import Callable
from typing import Any, cast

from pylog.errors import ClusterAuthorization, PylogError
from pylog.protocol.acls import AclOperation
from pylog.protocol.messages import ApiResponse
from pylog.protocol.messages.requests import REQUESTS
from pylog.protocol.wire.mapping import Body
from pylog.server.api.call import Answer, Api, Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode
from pylog.transport import Handle

LONG = frozenset({"DescribeProducers"})
AT_ONCE = frozenset({"OffsetForLeaderEpoch"})


def handed_on(request: Request, node: ServedNode) -> Outcome:
    """Hand a client's request to the node. Its answer is the response."""
    return _handed(node.admit, request)


def handed_on_as_node(request: Request, node: ServedNode) -> Outcome:
    """The same without the rule of the message: what it needs was looked at."""
    return _handed(node.handle, request)


def _handed(handle: Handle, request: Request) -> Outcome:
    try:
        answer = handle(request.body, request.session)
    except PylogError as error:
        return cast(ApiResponse, request.body.refused(error))
    return Reply(answer, _as_it_is, request.body.refused)


def of_nodes(request: Request, node: ServedNode) -> Outcome:
    """Hand on a request that brokers make: it is for those who may do ClusterAction."""
    if node.trusts(request.session):
        return handed_on_as_node(request, node)
    return cast(ApiResponse, request.body.refused(not_trusted(request)))


def not_trusted(request: Request) -> ClusterAuthorization:
    """The error of a client that does what is between nodes."""
    return ClusterAuthorization(f"{request.session.principal} may not do what is between nodes: see super.users")


def needing(operation: AclOperation, answer: Answer, refused: Callable[[Request, int, str], Body]) -> Answer:
    """An answer of the server itself that needs an operation with the cluster. `refused` makes the response of the
    request, a code and a text.
    """

    def judged(request: Request, node: ServedNode) -> Outcome:
        if node.allows(request.session, operation):
            return answer(request, node)
        return refused(request, ClusterAuthorization.code, "Cluster authorization failed.")

    return judged


def whole_error(request: Request, code: int, text: str) -> Body:
    """The response with an error for all of a request."""
    return {"errorCode": code, "errorMessage": text}


def changed(outcome: Outcome, change: Callable[[Any], ApiResponse]) -> Outcome:
    """An outcome with another response, as an older version has it."""
    if isinstance(outcome, Reply):
        body, refused = outcome.body, outcome.refused
        return Reply(outcome.answer, lambda given: change(body(given)), lambda error: change(refused(error)))
    return change(outcome)


def _as_it_is(answer: ApiResponse) -> ApiResponse:
    return answer


APIS: tuple[Api, ...] = tuple(
    api(
        name,
        handed_on,
        may_wait=name not in AT_ONCE,
        is_long=name in LONG,
        into=kind,
    )
    for name, kind in REQUESTS.items()
)
"""All keys that have a class. `table` puts those that have a file of their own in their places."""
