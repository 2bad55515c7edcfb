"""A Produce that is like one before it on its connection: it is not decoded, and its response is not encoded.

A client that sends one batch after the other to a partition sends the same bytes around each of them:

    request     [ key, version ][ correlation id ][ client id ... partition ][ length ][ batch ][ tags ]
                same            differs           same                       differs   differs  same
    response    [ correlation id ][ ... ][ base offset ][ append time ][ start offset ][ ... ]
                differs            same   differs        differs        differs         same

So these bytes tell what is asked for. The general way answers the first request, and is the only one that knows the
fields of a version. Of a request like it the same message goes to the node. Where that appends the batch, the numbers
are written into a response that the general way has encoded. A response that tells an error is encoded each time.

(A prepared statement of a database.)
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

from pylog.errors import PylogError
from pylog.protocol.batch import Batch
from pylog.protocol.messages import ACKS_ALL, ProducedPart, ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.records import PRODUCE_BY_ID_FROM
from pylog.protocol.schema import read_uvarint
from pylog.protocol.wire.framing import SIZE_BYTES
from pylog.server.api import produce
from pylog.server.api.call import Framed, Outcome, Reply, Request
from pylog.server.dispatch import ServedCall, response
from pylog.server.served_node import ServedNode

PREPARED_MAX = 16
"""How many requests a connection has prepared at once."""
PREPARED_BYTES_MAX = 1 << 10
"""The most bytes that a request may have besides its batch."""
CORRELATION, BEHIND_IT = slice(4, 8), 8
"""Where the correlation id of a request lies, and what follows it."""
_NUMBERS = 0x7A5EED01_00C0FFEE, 0x7A5EED02_00C0FFEE, 0x7A5EED03_00C0FFEE
"""A base offset, an append time and a start offset that are found again in an encoded response."""
_LENGTH, _NUMBER = struct.Struct(">i"), struct.Struct(">q")


class _Given(NamedTuple):
    """The new bytes of a request, in the place of a decoded body."""

    prepared: "PreparedProduce"
    batch: Batch
    correlation: bytes


class PreparedProduce:
    """A Produce of one batch to one partition, outside of transactions, as a connection has sent it before."""

    __slots__ = ("_call", "_head", "_is_flexible", "_places", "_prefix", "_request", "_response", "_tail")

    def __init__(self, call: ServedCall, request: Request, frame: bytearray, length_at: int, end: int) -> None:
        self._call, self._request = call, request
        self._head, self._prefix = bytes(frame[: CORRELATION.start]), bytes(frame[BEHIND_IT:length_at])
        self._tail = bytes(frame[end:])
        self._is_flexible = call.api.request.is_flexible(call.version)
        self._response = b""
        """A response that tells no error, with its size; empty before it is needed."""
        self._places: Sequence[int] = ()
        """Where its numbers lie, in the order of `_NUMBERS`; the last is not in each version."""

    @property
    def session(self) -> Session:
        """The client that has sent it."""
        return self._request.session

    @classmethod
    def of(cls, frame: bytearray, call: ServedCall, request: Request) -> Self | None:
        """Prepare what a request asks for; None where it is not plain."""
        if not isinstance(asked := request.body, ProduceRequest):
            return None
        pairs = asked.pairs
        if (
            not len(pairs) == len(asked.topic_data) == 1
            or asked.transactional_id is not None
            or asked.acks not in (1, ACKS_ALL)
        ):
            return None
        records = pairs[0][1].records
        if not records or len(frame) - len(records) > PREPARED_BYTES_MAX:
            return None
        begin, size = frame.find(records), len(records)
        is_flexible = call.api.request.is_flexible(call.version)
        length_bytes = ((size + 1).bit_length() + 6) // 7 if is_flexible else _LENGTH.size
        made = cls(call, request, frame, begin - length_bytes, begin + size)
        # A client may have written a length in more bytes than it takes.
        return made if made._batch_in(frame) == slice(begin, begin + size) else None

    def read(self, frame: bytearray) -> ServedCall | None:
        """The call of a request like this one; None: it is not like this one, or has to be refused."""
        if not (frame.startswith(self._prefix, BEHIND_IT) and frame.startswith(self._head)):
            return None
        version = self._call.version
        try:
            place = self._batch_in(frame)
            if place is None:
                return None
            batch = produce.batch_of(memoryview(frame)[place], version)
        except PylogError:
            return None
        if batch.is_transactional:
            # Without a transactional id the whole request is refused.
            return None
        correlation = bytes(frame[CORRELATION])
        request = Request(version, _Given(self, batch, correlation), self._request.session)
        return ServedCall(API, version, int.from_bytes(correlation, "big", signed=True), request)

    def _batch_in(self, frame: bytearray) -> slice | None:
        """Where the batch lies in a request that begins like this one; None: it ends otherwise. Raises CorruptBatch."""
        at, end = BEHIND_IT + len(self._prefix), len(frame) - len(self._tail)
        if at + _LENGTH.size > end or not frame.endswith(self._tail):
            return None
        if self._is_flexible:
            size, at = read_uvarint(frame, at)
            size -= 1
        else:
            (size,) = _LENGTH.unpack_from(frame, at)
            at += _LENGTH.size
        return slice(at, end) if at + size == end else None

    def begin(self, given: _Given, node: ServedNode) -> Outcome:
        """Append the batch of a request like this one."""
        request = self._request
        (topic,) = request.body.topic_data
        if not topic.name and request.version >= PRODUCE_BY_ID_FROM:
            # The node did not know the topic yet.
            topic.name = node.known_name(topic.topic_id, request.session)
        part = topic, topic.partition_data[0].index, given.batch
        answer = produce.sent(part, request, node)
        if answer is not None and answer.done():
            framed = self._framed(given.correlation, answer.result())
            if framed is not None:
                return framed
        outcome = produce.outcome_of([part], [answer], request, node)
        if not isinstance(outcome, Reply):
            return outcome
        general = outcome.body
        return outcome._replace(body=lambda late: self._framed(given.correlation, late) or general(late))

    def _framed(self, correlation: bytes, answer: ProduceResponse) -> Framed | None:
        """The response to the request with this correlation id; None where it tells an error."""
        part = answer.responses[0].partition_responses[0]
        if part.error is not None:
            return None
        if not self._response:
            self._prepare_response(part)
        made = bytearray(self._response)
        made[SIZE_BYTES : SIZE_BYTES + len(correlation)] = correlation
        numbers = part.base_offset, part.log_append_time_ms, part.log_start_offset
        for place, number in zip(self._places, numbers, strict=False):
            _NUMBER.pack_into(made, place, number)
        return Framed(made)

    def _prepare_response(self, part: ProducedPart) -> None:
        base, time, start = _NUMBERS
        marked = replace(part, base_offset=base, log_append_time_ms=time, log_start_offset=start)
        (encoded,), _ = response(self._call, self._request.body.with_parts([marked]))
        assert isinstance(encoded, bytes), "no field of it is a piece by itself"
        self._response = encoded
        places = [self._response.find(_NUMBER.pack(number)) for number in _NUMBERS]
        self._places = [place for place in places if place >= 0]


def _answer(request: Request, node: ServedNode) -> Outcome:
    given: _Given = request.body
    return given.prepared.begin(given, node)


API = replace(produce.API, answer=_answer)
"""Produce, as requests that are like others are answered."""
