"""A Produce that is like one before it on its connection: it is not encoded, and its usual answer is not decoded.

A client that sends one batch after the other to a partition sends the same bytes around each of them, and the answers
differ in their numbers alone:

    request     [ size ][ key, version ][ correlation id ][ client id ... partition ][ length ][ batch ][ tags ]
                         same            differs           same                       differs   differs  same
    response    [ correlation id ][ ... ][ base offset ][ append time ][ start offset ][ ... ]
                                   same   differs        differs        differs         same

The general way encodes the first request, and the response that a node gives where all is well, with known numbers: it
is the only one that knows the fields of a version. A response that is like that one has its numbers where those are.
Any other response is decoded: one that tells an error, a time to wait, or a field that is not known.

(The server has the same of its side: `server/prepared`.)
"""

import struct

from pylog.kernel import Appended
from pylog.protocol.messages import ProduceRequest, ProduceResponse
from pylog.protocol.messages.records import produced_part
from pylog.protocol.schema import Piece, message, uvarint
from pylog.protocol.wire.framing import SIZE_BYTES
from pylog.protocol.wire.headers import response_header

__all__ = ["PREPARED_MAX", "PreparedQuestion"]

PREPARED_MAX = 256
"""How many partitions a connection has prepared a request for at once."""
HEAD = slice(SIZE_BYTES, SIZE_BYTES + 4)
CORRELATION_BYTES = 4
_NUMBERS = 0x7A5EED01_00C0FFEE, 0x7A5EED02_00C0FFEE, 0x7A5EED03_00C0FFEE
"""A base offset, an append time and a start offset that are found again in an encoded response."""
_LENGTH = struct.Struct(">i")


class PreparedQuestion:
    """The bytes around one batch for one partition, and those of the answer that says where it is."""

    __slots__ = (
        "_answer_size", "_batch_size", "_before", "_begin", "_behind", "_end", "_head", "_is_flexible", "_middle",
        "_numbers", "_said", "_tail", "_topic_id", "version",
    )  # fmt: skip

    def __init__(self, said: ProduceRequest, version: int, pieces: list[Piece]) -> None:
        """`said` is about one batch, and these are its bytes."""
        ((topic, part),) = said.pairs
        first, batch, tail = pieces
        assert isinstance(first, bytes) and isinstance(tail, bytes), "the batch is the one piece that is given"
        response = message("ProduceResponse")
        self.version = version
        self._said = said.acks, said.timeout_ms, said.transactional_id
        self._topic_id = topic.topic_id
        self._is_flexible = response.is_flexible(version)
        self._head = first[HEAD]
        self._middle = first[HEAD.stop + CORRELATION_BYTES : len(first) - len(self._length(len(batch)))]
        self._tail = tail
        self._batch_size, self._begin, self._end = -1, b"", b""
        """The size of the last batch, and the bytes before and behind the correlation id that go with it."""
        base, time, start = _NUMBERS
        marked = produced_part(part.index, Appended(base, -1, time), start)
        header = response_header(response.api_key, 0, flexible=self._is_flexible)
        answer = header + response.encode(version, said.with_part(marked))
        numbers = [number.to_bytes(8, "big") for number in _NUMBERS]
        count = sum(number in answer for number in numbers)
        begin, end = answer.index(numbers[0]), answer.index(numbers[count - 1]) + 8
        self._answer_size, self._before, self._behind = len(answer), answer[CORRELATION_BYTES:begin], answer[end:]
        self._numbers = struct.Struct(f">{begin}x{count}q")

    def is_like(self, said: ProduceRequest) -> bool:
        """Whether a request for the same partition has the same fields."""
        return (
            said.topic_data[0].topic_id is self._topic_id
            and (said.acks, said.timeout_ms, said.transactional_id) == self._said
        )

    def _length(self, size: int) -> bytes:
        return uvarint(size + 1) if self._is_flexible else _LENGTH.pack(size)

    def request(self, correlation_id: int, said: ProduceRequest) -> list[Piece]:
        """The bytes of a request like this one."""
        given = said.topic_data[0].partition_data[0].batch
        assert given is not None, "it comes from within this process"
        batch = given.data
        if len(batch) != self._batch_size:
            self._take_size(len(batch))
        return [self._begin + correlation_id.to_bytes(CORRELATION_BYTES, "big") + self._end, batch, self._tail]

    def _take_size(self, batch_size: int) -> None:
        length = self._length(batch_size)
        size = len(self._head) + CORRELATION_BYTES + len(self._middle) + len(length) + batch_size + len(self._tail)
        self._begin, self._end = _LENGTH.pack(size) + self._head, self._middle + length
        self._batch_size = batch_size

    def answer(self, frame: bytearray, said: ProduceRequest) -> ProduceResponse | None:
        """The answer in a response; None: it is not the usual one."""
        if not (
            len(frame) == self._answer_size
            and frame.startswith(self._before, CORRELATION_BYTES)
            and frame.endswith(self._behind)
        ):
            return None
        base, time, start = (*self._numbers.unpack_from(frame), -1, -1)[:3]
        index = said.topic_data[0].partition_data[0].index
        return said.with_part(produced_part(index, Appended(base, -1, None if time == -1 else time), start))
