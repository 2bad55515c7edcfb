"""Keys whose request goes to the node as it is, and whose response is its answer.

OffsetForLeaderEpoch    in the loop: nothing of it waits
DescribeProducers       in the thread of large requests: there may be many producers, and nothing of it waits
the others              in the pool: a heartbeat, too, may write and sync, or load a coordinator
"""

from collections.abc import Callable
from typing import Any, cast

from pylog.errors import ClusterAuthorization, PylogError
from pylog.protocol.messages import ApiResponse
from pylog.protocol.messages.requests import REQUESTS
from pylog.server.api.call import Api, Outcome, Reply, Request, api
from pylog.server.served_node import ServedNode

LONG = frozenset({"DescribeProducers"})
AT_ONCE = frozenset({"OffsetForLeaderEpoch"})
OF_CONNECTION = frozenset({"ShareFetch"})


def handed_on(request: Request, node: ServedNode) -> Outcome:
    """Hand a request to the node. Its answer is the response."""
    try:
        answer = node.handle(request.body, request.session)
    except PylogError as error:
        return cast(ApiResponse, request.body.refused(error))
    return Reply(answer, _as_it_is, request.body.refused)


def of_nodes(request: Request, node: ServedNode) -> Outcome:
    """Hand on a request that brokers make: it is for clients of `super.users` (ClusterAction)."""
    if node.trusts(request.session):
        return handed_on(request, node)
    error = ClusterAuthorization(f"{request.session.principal} is none of super.users")
    return cast(ApiResponse, request.body.refused(error))


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
        is_of_connection=name in OF_CONNECTION,
        into=kind,
    )
    for name, kind in REQUESTS.items()
)
"""All keys that have a class. `table` puts those that have a file of their own in their places."""
