"""One connection as the client sees it, without I/O: calls become bytes, and bytes become answers.

    VERSIONS --ApiVersions--> (LOGIN --SaslHandshake, SaslAuthenticate...-->) READY            broken by an error

A node answers in the order of the requests, so the oldest request that is unanswered is the one that a response
belongs to; another correlation id breaks the connection. A node that is older than our ApiVersions answers in version
0, with its own range in it, and is asked again (KIP-35).

Invariant: what comes in is believed no further than it can be checked. A length is refused before memory is made for
it (`protocol/wire/framing`), a response that is no response is a NetworkError, and both end the connection.
"""

import enum
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from pylog.client.network.call import Call
from pylog.client.network.mismatch import IS_TLS, NO_LOGIN, TLS_ALERT
from pylog.client.network.prepared import PREPARED_MAX, PreparedQuestion
from pylog.client.network.versions import NodeVersions
from pylog.errors import (
    CorruptBatch,
    IllegalSaslState,
    InvalidRequest,
    NetworkError,
    PylogError,
    RequestTimedOut,
    SaslAuthentication,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pylog.protocol.error_codes import of_code
from pylog.protocol.messages import ApiResponse, ProduceRequest
from pylog.protocol.messages.records import produced_error
from pylog.protocol.sasl.exchange import SaslClient
from pylog.protocol.schema import Piece
from pylog.protocol.schema import message as schema
from pylog.protocol.wire.framing import SIZE_BYTES, Framer
from pylog.protocol.wire.headers import API_VERSIONS
from pylog.protocol.wire.mapping import Body
from pylog.protocol.wire.questions.question import error_in
from pylog.transport import PendingAnswer
from pylog.version import VERSION

__all__ = ["Answered", "Dialogue", "DialogueState", "Pieces"]

SOFTWARE_NAME = "pylog"
VERSIONS_NEWEST = 4
SASL_STEPS_MAX = 8
CORRELATION_MASK = (1 << 31) - 1

Pieces = list[Piece]
"""Buffers to send, one after the other."""


class DialogueState(enum.Enum):
    """The state of a connection."""

    VERSIONS = "versions"
    LOGIN = "login"
    READY = "ready"


class Answered(NamedTuple):
    """A call and its answer, or its error; and the response, if there was one."""

    call: Call
    answer: object
    error: PylogError | None = None
    body: Body | ApiResponse | None = None


class _OwnRequest(NamedTuple):
    """A request of the connection's own, before it is ready."""

    name: str
    version: int


class Dialogue:
    """The state of one connection. `login` begins an exchange of SASL, by `mechanism`, or None.

    `limit` is the size of the largest response that is taken.
    """

    def __init__(
        self, client_id: str, limit: int, mechanism: str = "", login: Callable[[], SaslClient] | None = None
    ) -> None:  # fmt: skip
        self.state = DialogueState.VERSIONS
        self.versions: NodeVersions | None = None
        self._client_id = client_id.encode()
        self.framer = Framer(limit, keeps=True)
        """Tells where to receive to: where a large response has begun, by `filled`, else by `feed`."""
        self._mechanism = mechanism
        self._login = login
        self._exchange: SaslClient | None = None
        self._login_steps = 0
        self.was_answered = False
        """True once a call was answered."""
        self.session_ms = 0
        """How long a login holds; 0: for as long as the connection. After that the node takes another login alone."""
        self._authenticate_version = 0
        self._next_id = 0
        self._prepared: dict[tuple[str, int], PreparedQuestion] = {}
        """The requests that it has sent before, by topic and partition."""
        self.unanswered: deque[tuple[int, Call | _OwnRequest]] = deque()
        """The requests that have no answer yet, oldest first, with their correlation ids."""

    # --- what goes out -----------------------------------------------------------------------------------------------

    def begin(self) -> Pieces:
        """The first request."""
        return self._versions_request(VERSIONS_NEWEST)

    def request(self, call: Call) -> Pieces:
        """The bytes of a call. Raises UnsupportedVersion, ValueError (what it says does not fit into a request)."""
        prepared = self._prepared_for(call.message)
        if prepared is None:
            pieces = self._encoded(call)
        else:
            call.version, call.prepared = prepared.version, prepared
            self._next_id = (self._next_id + 1) & CORRELATION_MASK
            pieces = prepared.request(self._next_id, call.message)
        if not call.is_silent:
            self.unanswered.append((self._next_id, call))
        return pieces

    def _prepared_for(self, said: object) -> PreparedQuestion | None:
        if type(said) is not ProduceRequest or len(said.topic_data) != 1:
            return None
        topic = said.topic_data[0]
        if len(topic.partition_data) != 1:
            return None
        found = self._prepared.get((topic.name, topic.partition_data[0].index))
        return found if found is not None and found.is_like(said) else None

    def _encoded(self, call: Call) -> Pieces:
        assert self.versions is not None, "only a connection that is ready takes calls"
        said, name = call.message, call.name
        if call.question is None:
            call.version, pieces = self.versions.encoded(said)
        else:
            call.version = self.versions.choose(call.question, said)
            body = call.question.body(said, call.version)
            pieces = schema(f"{name}Request").encode_pieces(call.version, body)
        framed = self._framed(name, call.version, pieces)
        if isinstance(said, ProduceRequest):
            self._prepare(said, call.version, framed)
        return framed

    def _prepare(self, said: ProduceRequest, version: int, pieces: Pieces) -> None:
        pairs = said.pairs
        if len(pairs) == 1 and said.acks:
            if len(self._prepared) >= PREPARED_MAX:
                del self._prepared[next(iter(self._prepared))]
            ((topic, part),) = pairs
            self._prepared[topic.name, part.index] = PreparedQuestion(said, version, pieces)

    @property
    def awaited(self) -> list[Call]:
        """The calls that are unanswered, oldest first."""
        return [one for _, one in self.unanswered if isinstance(one, Call)]

    @property
    def has_login(self) -> bool:
        """True for a client that logs in."""
        return self._login is not None

    @property
    def is_quiet(self) -> bool:
        """True while every request has its answer."""
        return not self.unanswered

    def awaits_alone(self, answer: PendingAnswer) -> bool:
        """Whether this answer is awaited, and no other one."""
        if len(self.unanswered) != 1:
            return False
        _, one = self.unanswered[0]
        return isinstance(one, Call) and one.future is answer

    def _framed(self, name: str, version: int, pieces: Pieces) -> Pieces:
        self._next_id = (self._next_id + 1) & CORRELATION_MASK
        request = schema(f"{name}Request")
        header = b"".join((
            request.api_key.to_bytes(2, "big"), version.to_bytes(2, "big"), self._next_id.to_bytes(4, "big"),
            len(self._client_id).to_bytes(2, "big"), self._client_id, b"\0" if request.is_flexible(version) else b"",
        ))  # fmt: skip
        first, *others = pieces
        assert isinstance(first, bytes), "fields stand before records"
        size = len(header) + len(first) + sum(map(len, others))
        return [b"".join((size.to_bytes(SIZE_BYTES, "big"), header, first)), *others]

    def _ask(self, name: str, version: int, body: Body) -> Pieces:
        pieces = self._framed(name, version, schema(f"{name}Request").encode_pieces(version, body))
        self.unanswered.append((self._next_id, _OwnRequest(name, version)))
        return pieces

    def _versions_request(self, version: int) -> Pieces:
        said = {"clientSoftwareName": SOFTWARE_NAME, "clientSoftwareVersion": VERSION}
        return self._ask("ApiVersions", version, said if version >= 3 else {})

    # --- what comes in -----------------------------------------------------------------------------------------------

    def filled(self, count: int) -> tuple[list[Answered], Pieces]:
        """So many bytes were received into the target of the framer: answers, and what is to be sent because of them.

        Raises NetworkError and the errors of a login: the connection is broken.
        """
        frame = self.framer.filled(count)
        return self._take([] if frame is None else [frame])

    def feed(self, data: memoryview) -> tuple[list[Answered], Pieces]:
        """Bytes were received: as `filled`."""
        try:
            frames = self.framer.feed(data)
        except InvalidRequest as error:
            if self.state is DialogueState.VERSIONS and data[: len(TLS_ALERT)] == TLS_ALERT:
                raise NetworkError(IS_TLS) from None
            raise NetworkError(f"the node sends what is no response: {error}") from None
        return self._take(frames)

    def _take(self, frames: list[bytearray]) -> tuple[list[Answered], Pieces]:
        answers: list[Answered] = []
        pieces: Pieces = []
        for frame in frames:
            one = self._owner(frame)
            try:
                if isinstance(one, Call):
                    answers.append(self._answered(one, frame))
                    self.was_answered = True
                else:
                    pieces += self._go_on(one, frame)
            except CorruptBatch as error:
                raise NetworkError(f"the node sends what is no response: {error.reason}") from None
        return answers, pieces

    def _owner(self, frame: bytearray) -> Call | _OwnRequest:
        if len(frame) < 4:
            raise NetworkError(f"the node sends what is no response: {len(frame)} bytes have no header")
        given = int.from_bytes(frame[:4], "big", signed=True)
        if not self.unanswered:
            raise NetworkError(f"the node answers request {given}, and was asked nothing")
        wanted, one = self.unanswered.popleft()
        if given != wanted:
            self.unanswered.appendleft((wanted, one))
            raise NetworkError(f"the node answers request {given} where {wanted} is the next")
        return one

    @staticmethod
    def _body(name: str, version: int, frame: bytearray, into: type | None = None) -> Any:
        response = schema(f"{name}Response")
        has_tags = response.is_flexible(version) and response.api_key != API_VERSIONS
        if has_tags and len(frame) > 4 and frame[4]:
            raise CorruptBatch("the header of a response has tagged fields", position=4)
        body, end = response.decode(version, frame, 5 if has_tags else 4, into=into)
        if end != len(frame):
            raise CorruptBatch(f"{len(frame) - end} bytes follow a {response.name}", position=end)
        return body

    def _answered(self, call: Call, frame: bytearray) -> Answered:
        if call.prepared is not None:
            produced = call.prepared.answer(frame, call.message)
            if produced is not None:
                return Answered(call, produced, None, produced)
        if call.question is None:
            body = self._body(call.name, call.version, frame, call.message.response)
            answer = call.message.heard_in(call.version, body)
            return Answered(call, answer, None, answer)
        body = self._body(call.name, call.version, frame)
        try:
            return Answered(call, call.question.answer(call.message, body, call.version), None, body)
        except PylogError as error:
            return Answered(call, None, error, body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # A None where no node puts one.
            raise NetworkError(f"the node answers {call.name} with what means nothing: {error!r}") from error

    # --- before it is ready ------------------------------------------------------------------------------------------

    def _go_on(self, step: _OwnRequest, frame: bytearray) -> Pieces:
        if step.name == "ApiVersions":
            return self._take_versions(step, frame)
        body = self._body(step.name, step.version, frame)
        if step.name == "SaslHandshake":
            error = of_code(body["errorCode"])
            if isinstance(error, UnsupportedSaslMechanism):
                known = ", ".join(body["mechanisms"]) or "none"
                raise UnsupportedSaslMechanism(f"the node does not take {self._mechanism}: it has {known}")
            if isinstance(error, IllegalSaslState):
                raise IllegalSaslState(NO_LOGIN)
            if error is not None:
                raise error
            return self._authenticate(b"")
        error = error_in(body)
        if error is not None:
            raise error
        self.session_ms = body.get("sessionLifetimeMs", 0)
        return self._authenticate(bytes(body["authBytes"]))

    def _take_versions(self, step: _OwnRequest, frame: bytearray) -> Pieces:
        # A node that does not know the version answers in version 0; the code is the first field of every version.
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == UnsupportedVersion.code and step.version > 0:
            ranges = {one["apiKey"]: one["maxVersion"] for one in self._body("ApiVersions", 0, frame)["apiKeys"]}
            return self._versions_request(max(0, min(ranges.get(API_VERSIONS, 0), step.version - 1)))
        body = self._body("ApiVersions", step.version, frame)
        error = of_code(body["errorCode"])
        if error is not None:
            raise error
        self.versions = NodeVersions.of(body)
        if self._login is None:
            self.state = DialogueState.READY
            return []
        self._authenticate_version = self.versions.common("SaslAuthenticate", 0, 2)
        return self.log_in()

    def log_in(self) -> Pieces:
        """Log in, at first and again before a session ends (KIP-368). No call goes out until that is done."""
        assert self._login is not None, "there is a login"
        assert self.versions is not None, "they come first"
        self.state = DialogueState.LOGIN
        self._exchange, self._login_steps = self._login(), 0
        handshake = self.versions.common("SaslHandshake", 1, 1)
        return self._ask("SaslHandshake", handshake, {"mechanism": self._mechanism})

    def _authenticate(self, challenge: bytes) -> Pieces:
        assert self._exchange is not None, "there is a login"
        self._login_steps += 1
        if self._login_steps > SASL_STEPS_MAX:
            raise SaslAuthentication(f"{self._mechanism}: the node does not come to an end")
        token = self._exchange.step(challenge)
        if token is None:
            self.state = DialogueState.READY
            self._exchange = None
            return []
        return self._ask("SaslAuthenticate", self._authenticate_version, {"authBytes": token})

    # --- the end -----------------------------------------------------------------------------------------------------

    def late(self, now_ms: int, who: str) -> list[Answered]:
        """The calls whose time is up, with their error, which names the node: `who`. The connection is of no use then:
        their answers may come.
        """
        late = [call for call in self.awaited if call.deadline_ms <= now_ms]
        return [
            Answered(call, None, RequestTimedOut(
                f"{who} has not answered a {call.name} in time: whether it has had an effect is not known"
            ))
            for call in late
        ]  # fmt: skip


def silent_answer(call: Call) -> Answered:
    """The answer to a call that a node does not answer."""
    said: ProduceRequest = call.message
    return Answered(call, said.with_parts([produced_error(part.index, None) for _, part in said.pairs]))
