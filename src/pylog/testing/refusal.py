"""The answer to a request that is refused with an error of the test's choice, and does nothing."""

from dataclasses import replace
from typing import cast

from pylog.errors import ProtocolError, PylogError
from pylog.protocol.messages import ApiRequest, ApiResponse, Message, Session
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.wire.mapping import Body
from pylog.runtime.future import failed
from pylog.server.api.call import Framed, Later, NoResponse, Outcome, Reply
from pylog.server.dispatch import ServedCall
from pylog.server.served_node import ServedNode
from pylog.transport import PendingAnswer

HARMLESS = {"validateOnly": True}
"""Fields of requests that keep them from changing anything."""
CODES = frozenset({"errorCode", "partitionErrorCode"})
"""The fields of answers that have an error code."""


def refusal(call: ServedCall, error: type[ProtocolError], node: ServedNode) -> Outcome | None:
    """The answer to a call that is refused with `error`; None where the answer has no place for one.

    A key says itself where an error of the node stands in its answer. Where it does not (Metadata), the request is
    answered without being carried out, and every code in the answer is replaced.
    """
    refused = _refused(call, node, error("refused by the test"))
    return _replaced(call, node, error) if refused is None else refused


def _refused(call: ServedCall, node: ServedNode, error: ProtocolError) -> Outcome | None:
    """The key's own answer to an error of the node; None where it has none."""
    asked: list[Message] = []

    def handle(message: Message, session: Session) -> PendingAnswer:
        # The name of a topic that a request has by its id is looked up before the request begins.
        is_looked_up = isinstance(message, MetadataRequest) and call.api.name != "Metadata"
        asked.append(message)
        return node.handle(message, session) if is_looked_up else failed(error)

    refusing = node.but(handle=handle)
    request = call.request
    if request is not None:
        # A Produce takes the records out of its request, which is answered once more where this says nothing.
        call = call._replace(request=request._replace(body=_copied(call, request.body)))
    try:
        made = _made(call, call.answer(refusing))
    except PylogError:
        return None
    if isinstance(made, NoResponse):
        return made
    if not asked and request is not None and isinstance(request.body, ApiRequest):
        # The server answers it, as it does for ACLs without an authorizer.
        return cast(ApiResponse, request.body.refused(error))
    codes = _codes(made)
    # An older version of Produce has another code for some errors.
    is_told = any(codes) if call.api.name == "Produce" else error.code in codes
    return made if is_told else None


def _replaced(call: ServedCall, node: ServedNode, error: type[ProtocolError]) -> Outcome | None:
    request = call.request
    assert request is not None, "it was read"
    if isinstance(request.body, MetadataRequest):
        body: object = replace(request.body, allow_auto_topic_creation=False)
    elif isinstance(request.body, ApiRequest):
        # Its class has said all that there is to say.
        return None
    else:
        body = {name: HARMLESS.get(name, value) for name, value in request.body.items()}
    made = _made(call, call._replace(request=request._replace(body=body)).answer(node))
    assert isinstance(made, dict), "only a Produce wants no answer, and it refuses itself"
    schema = call.api.response
    # What a body leaves out has its default; behind the wire every field is there.
    whole, _ = schema.decode(call.version, schema.encode(call.version, made))
    bodies = [one for one in _bodies(whole) if CODES & one.keys()]
    for one in bodies:
        one.update(dict.fromkeys(CODES & one.keys(), error.code))
    return whole if bodies else None


def _made(call: ServedCall, outcome: Outcome) -> Body | NoResponse | Framed:
    """The body of an outcome, or what stands for one. Raises PylogError."""
    while isinstance(outcome, Later):
        outcome = outcome.call()
    made: Body | ApiResponse | NoResponse | Framed
    if isinstance(outcome, Reply):
        try:
            made = outcome.body(outcome.answer.result())
        except PylogError as error:
            made = outcome.refused(error)
    else:
        made = outcome
    if not isinstance(made, ApiResponse):
        return made
    schema = call.api.response
    body: Body = schema.decode(call.version, schema.encode(call.version, made))[0]
    return body


def _copied(call: ServedCall, request: ApiRequest[object] | Body) -> object:
    """The same request once more."""
    schema = call.api.request
    return schema.decode(call.version, schema.encode(call.version, request), into=call.api.into)[0]


def _bodies(value: object) -> list[Body]:
    """All structures of a body."""
    if isinstance(value, dict):
        return [value, *(found for one in value.values() for found in _bodies(one))]
    return [found for one in value for found in _bodies(one)] if isinstance(value, list) else []


def _codes(made: object) -> list[int]:
    return [one[name] for one in _bodies(made) for name in one if name in CODES]
