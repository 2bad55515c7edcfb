"""A Produce that a client has prepared has the bytes of one that is encoded, and its answer means the same.

Two connections get the same calls and the same responses; one of them encodes and decodes each.
"""

import uuid
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from pylog.client.network.call import Call
from pylog.client.network.dialogue import Answered, Dialogue
from pylog.errors import NetworkError, NotLeaderOrFollower, PylogError
from pylog.kernel import Appended
from pylog.protocol.batch import encode
from pylog.protocol.messages import NO_ID, ProduceRequest, ProduceResponse, Session
from pylog.protocol.messages.records import produced_error, produced_part
from pylog.protocol.schema import message
from pylog.record import Record
from pylog.runtime.future import Future

VERSIONS = range(3, 14)
IDS = {"t": uuid.UUID(int=7), "other": uuid.UUID(int=8)}


class Exchange(NamedTuple):
    """A Produce of one batch, and the response of the node: `byte` of it is another one, where that is not None."""

    topic: str
    partition: int
    acks: int
    timeout_ms: int
    transactional_id: str | None
    sizes: list[int]
    offset: int
    time: int | None
    start: int
    error: PylogError | None
    throttle_ms: int
    byte: int | None

    def produce(self, version: int) -> ProduceRequest:
        rows = [Record(b"x" * size) for size in self.sizes]
        topic_id = IDS[self.topic] if version >= 13 else NO_ID
        return ProduceRequest.of(
            self.topic, self.partition, encode(rows, now_ms=0), topic_id,
            self.transactional_id if version >= 12 else None, acks=self.acks, timeout_ms=self.timeout_ms,
        )  # fmt: skip

    def response(self, version: int, correlation_id: int) -> bytes:
        found = message("ProduceResponse")
        part = produced_part(self.partition, Appended(self.offset, -1, self.time), self.start)
        if self.error is not None:
            part = produced_error(self.partition, self.error)
        body = self.produce(version).with_part(part)
        body.throttle_time_ms = self.throttle_ms
        tags = b"\0" if found.is_flexible(version) else b""
        data = bytearray(correlation_id.to_bytes(4, "big") + tags + found.encode(version, body))
        if self.byte is not None:
            # Not in the correlation id.
            data[4 + self.byte % (len(data) - 4)] ^= 1
        return len(data).to_bytes(4, "big") + data


exchanges = st.builds(
    Exchange,
    topic=st.sampled_from(sorted(IDS)),
    partition=st.sampled_from([0, 1]),
    acks=st.sampled_from([-1, -1, 1, 0]),
    timeout_ms=st.sampled_from([30_000, 30_000, 1]),
    transactional_id=st.sampled_from([None, None, "x"]),
    sizes=st.lists(st.sampled_from([0, 1, 100, 20_000]), min_size=1, max_size=3),
    offset=st.integers(0, (1 << 63) - 10),
    time=st.one_of(st.none(), st.integers(0, (1 << 63) - 1)),
    start=st.integers(-1, (1 << 63) - 1),
    error=st.sampled_from([None, None, None, NotLeaderOrFollower("it leads no more")]),
    throttle_ms=st.sampled_from([0, 0, 5]),
    byte=st.one_of(st.none(), st.none(), st.integers(0, 200)),
)


def ready(version: int) -> Dialogue:
    """A connection to a node that serves this version of Produce."""
    made = Dialogue("me", 1 << 20)
    made.begin()
    found = message("ApiVersionsResponse")
    versions = [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, low, high in ((0, version, version),)]
    data = (1).to_bytes(4, "big") + found.encode(4, {"errorCode": 0, "apiKeys": versions})
    made.feed(memoryview(len(data).to_bytes(4, "big") + data))
    return made


def asking(said: ProduceRequest) -> Call:
    return Call(1, said, None, Session("me"), Future(), 1000)


def ended(dialogue: Dialogue, response: bytes) -> list[tuple[ProduceResponse, str]] | str:
    """The answers in a response, or the error that has broken the connection."""
    try:
        answers: list[Answered]
        answers, _ = dialogue.feed(memoryview(response))
    except NetworkError as error:
        return str(error)
    return [(one.answer, repr(one.error)) for one in answers]  # type: ignore[misc]


USUAL = Exchange("t", 0, -1, 30_000, None, [5], 7, None, 0, None, 0, None)


@given(version=st.sampled_from(VERSIONS), asked=st.lists(exchanges, min_size=1, max_size=8))
@example(version=3, asked=[USUAL, USUAL._replace(byte=25)])  # a time below -1
def test_a_prepared_produce_is_the_same_as_an_encoded_one(version: int, asked: list[Exchange]) -> None:
    prepared, general = ready(version), ready(version)
    for exchange in asked:
        general._prepared.clear()
        ours, theirs = (asking(exchange.produce(version)) for _ in range(2))
        assert b"".join(prepared.request(ours)) == b"".join(general.request(theirs))  # type: ignore[arg-type]
        assert (ours.version, theirs.prepared) == (theirs.version, None)
        if exchange.acks == 0:
            continue
        response = exchange.response(version, prepared.unanswered[0][0])
        told = ended(prepared, response)
        assert repr(told) == repr(ended(general, response))
        if isinstance(told, str):
            return


def test_the_usual_answer_of_each_version_is_not_decoded() -> None:
    for version in VERSIONS:
        dialogue = ready(version)
        for number in range(2):
            call = asking(USUAL.produce(version))
            dialogue.request(call)
            frame = bytearray(USUAL.response(version, dialogue.unanswered[0][0])[4:])
            assert (call.prepared is not None) == bool(number)
            if call.prepared is not None:
                start = 0 if version >= 5 else -1
                told = call.message.with_part(produced_part(0, Appended(7, -1), start))
                assert call.prepared.answer(frame, call.message) == told
            dialogue.feed(memoryview(len(frame).to_bytes(4, "big") + frame))


def test_only_so_many_partitions_are_prepared_at_once() -> None:
    dialogue = ready(9)
    for partition in range(300):
        dialogue.request(asking(USUAL._replace(partition=partition).produce(9)))
    assert len(dialogue._prepared) == 256
    assert ("t", 0) not in dialogue._prepared
