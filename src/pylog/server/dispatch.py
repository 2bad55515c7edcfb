"""From a frame to a call of an API key, and from its answer to the bytes of a response.

request     [ header ][ body ]                          a frame, without its length
response    [ i32 size ][ header ][ body in pieces ]    regions of files among them
"""

from functools import partial
from typing import NamedTuple

from pylog.errors import ProtocolError, UnsupportedVersion
from pylog.protocol.error_codes import error_message
from pylog.protocol.messages import ANONYMOUS, Session
from pylog.protocol.schema import ELEMENTS_MAX, Piece, message
from pylog.protocol.wire.framing import SIZE_BYTES
from pylog.protocol.wire.headers import API_VERSIONS, read_call, read_header, response_header
from pylog.protocol.wire.mapping import Body
from pylog.server.api.api_versions import unsupported
from pylog.server.api.call import Api, Framed, Made, NoResponse, Outcome, Request
from pylog.server.api.table import APIS, served_keys
from pylog.server.served_node import ServedNode

SHARE_ACKNOWLEDGE = message("ShareAcknowledgeRequest").api_key.to_bytes(2)


class ServedCall(NamedTuple):
    """A request that was read, and how its response is written."""

    api: Api
    version: int
    correlation_id: int
    request: Request | None
    """None: the version is one from the future, and the response says which there are."""

    @property
    def session(self) -> Session | None:
        """The client."""
        return None if self.request is None else self.request.session

    def answer(self, node: ServedNode) -> Outcome:
        """Answer the request, and wait if that is needed."""
        return unsupported(served_keys()) if self.request is None else self.api.answer(self.request, node)


def may_overlap(frame: bytearray) -> bool:
    """Whether a request may begin while those before it wait for their answers: a Produce behind others."""
    return frame[:2] == b"\0\0"


def may_end_poll(frame: bytearray) -> bool:
    """Whether a request may begin behind a ShareFetch that waits: a ShareAcknowledge, which may end its session."""
    return frame[:2] == SHARE_ACKNOWLEDGE


def read_head(frame: bytearray) -> ServedCall:
    """A request that is decoded later, as far as its header says. Raises CorruptBatch, KeyError."""
    key, version, correlation_id = read_call(frame)
    return ServedCall(APIS[key], version, correlation_id, None)


def read_request(
    frame: bytearray, host: str, principal: str | None = None, elements_max: int = ELEMENTS_MAX
) -> ServedCall:
    """Decode one request frame of a client that has proved to be `principal`; None: it has proved no name.

    Raises UnsupportedVersion (a key or a version that is not served) and CorruptBatch: the connection cannot go on;
    TooManyElements.
    """
    key, version, correlation_id = read_call(frame)
    api = APIS.get(key)
    if api is None:
        raise UnsupportedVersion(f"API key {key} is not served")
    if not api.low <= version <= api.high:
        if key != API_VERSIONS:
            raise UnsupportedVersion(f"{api.name} is served from version {api.low} to {api.high}, not {version}")
        return ServedCall(api, 0, correlation_id, None)
    header = read_header(frame, flexible=api.request.is_flexible(version))
    body, _ = api.request.decode(version, frame, header.body_at, elements_max, into=api.into)
    session = Session(header.client_id, host, principal or ANONYMOUS, is_proved=principal is not None)
    return ServedCall(api, version, correlation_id, Request(version, body, session))


def refusal(call: ServedCall, error: ProtocolError) -> Body | None:
    """The answer that says an error for all of a request; None where its responses have no place for that."""
    has = partial(call.api.response.has_field, version=call.version)
    texts = {"errorMessage": error_message(error)} if has("errorMessage") else {}
    return {"errorCode": error.code, **texts} if has("errorCode") else None


def response(
    call: ServedCall, body: Made, *, is_large: bool = False
) -> tuple[list[Piece], int]:  # fmt: skip
    """The pieces of a response and their size; no pieces without a response. Raises ValueError: a body that is wrong.

    `is_large`: it may have many fields.
    """
    if isinstance(body, NoResponse):
        return [], 0
    if isinstance(body, Framed):
        return [body.data], len(body.data)
    schema = call.api.response
    header = response_header(call.api.key, call.correlation_id, flexible=schema.is_flexible(call.version))
    pieces = schema.encode_pieces(call.version, body, is_large=is_large)
    size = len(header) + sum(map(len, pieces))
    head = size.to_bytes(SIZE_BYTES, "big") + header
    if is_large:
        return [head, *pieces], SIZE_BYTES + size
    first = pieces[0]
    assert isinstance(first, bytes), "fields stand before a region"
    pieces[0] = head + first
    return pieces, SIZE_BYTES + size
