"""A request that is prepared is answered as one that is decoded: the same bytes of a response, and the same log.

Two servers get the same requests; one of them decodes each, as somebody looks at its requests.
"""

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

import pylog
from pylog.protocol.compression import Codec
from pylog.protocol.schema import message
from pylog.runtime.clock import SystemClock
from pylog.server.calls import Intercept
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from support.wire_bodies import batch
from support.wire_client import WireClient, request_frame, response_body

VERSIONS = range(3, 14)
TOPICS: dict[str, dict[str, str]] = {
    "t": {},
    "other": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compact": {"cleanup.policy": "compact"},
}


def numbered(sequence: int) -> bytes:
    return batch(b"n", producer_id=7, producer_epoch=0, base_sequence=sequence)


def changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


GOOD = batch(b"a", b"b")
BATCHES = {
    "good": GOOD,
    "large": batch(*[b"x" * 90] * 40),
    "lz4": batch(b"a" * 99, codec=Codec.LZ4),
    "zstd": batch(b"a" * 99, codec=Codec.ZSTD),
    "bad crc": changed(GOOD, len(GOOD) - 1),
    "bad length": changed(GOOD, 11),
    "bad magic": changed(GOOD, 16),
    "other length": struct.pack(">qi", 0, len(GOOD)) + GOOD[12:],
    "two": GOOD + GOOD,
    "none": b"",
    "short": b"short",
    "control": batch(b"a", control=True),
    "transactional": batch(b"a", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
    **{f"sequence {sequence}": numbered(sequence) for sequence in (0, 0, 1, 2, 5)},
}


class Asked(NamedTuple):
    """A Produce of one part."""

    version: int
    topic: str
    partition: int
    acks: int
    data: bytes
    correlation_id: int

    def frame(self, log: pylog.Log) -> bytes:
        topic: dict[str, Any] = {"name": self.topic}
        if self.version >= 13:
            topic = {"topicId": log.broker.image.topics[self.topic].id}
        part = {"index": self.partition, "records": self.data}
        topics = [{**topic, "partitionData": [part]}]
        body = {"transactionalId": None, "acks": self.acks, "timeoutMs": 60_000, "topicData": topics}
        return request_frame("Produce", self.version, body, correlation_id=self.correlation_id)


requests = st.builds(
    Asked, st.sampled_from(VERSIONS), st.sampled_from(sorted(TOPICS)), st.sampled_from([0, 0, 0, 1, 9]),
    st.sampled_from([1, 1, -1, 5]), st.sampled_from(sorted(BATCHES.values())), st.integers(0, 2**31 - 1),
)  # fmt: skip
"""Mostly alike, as each is sent more than once."""


class Side:
    """A log behind a server, and a client of it."""

    def __init__(self, flush: Any, intercept: Intercept | None) -> None:
        self.log = pylog.open(":memory:", flush=flush)
        for topic, config in TOPICS.items():
            self.log.create_topic(topic, partitions=2, config=config)
        broker = self.log.broker
        node = ServedNode(broker.handle, broker.node_id, broker.configs, SystemClock())
        self.server = Server(node, "127.0.0.1:0", intercept=intercept)
        self.client = WireClient(self.server.bootstrap_servers)

    def close(self) -> None:
        self.client.socket.close()
        self.server.close()
        self.log.close()

    def answers(self, asked: list[Asked], *, at_once: bool) -> list[dict[str, Any]]:
        """The responses without what differs between two logs: ids of topics, and times."""
        frames, found = [one.frame(self.log) for one in asked], []
        for frame in [b"".join(frames)] if at_once else frames:
            self.client.socket.sendall(frame)
            found += [self.client.receive_frame() for _ in (frames if at_once else [frame])]
        return [alike(one, answer) for one, answer in zip(asked, found, strict=True)]

    def contents(self) -> dict[str, list[Any]]:
        return {
            f"{topic}-{number}": [
                (record.offset, record.key, record.value, record.timestamp_type) for record in part.records(0)
            ]
            for topic in TOPICS
            for number, part in enumerate(self.log.topic(topic))
        }


def alike(asked: Asked, answer: bytes) -> dict[str, Any]:
    correlation_id, body = response_body("Produce", asked.version, answer)
    assert correlation_id == asked.correlation_id
    assert answer.endswith(message("ProduceResponse").encode(asked.version, body))
    (topic,) = body["responses"]
    (part,) = topic["partitionResponses"]
    topic.pop("topicId", None)
    part["logAppendTimeMs"] = part["logAppendTimeMs"] > 0
    part.pop("errorMessage", None)
    return body


@contextmanager
def both(flush: str) -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        sides = []
        for intercept in (None, lambda call: None):
            sides.append(Side(flush, intercept))
            stack.callback(sides[-1].close)
        yield sides[0], sides[1]


@given(
    st.lists(requests, min_size=1, max_size=5), st.lists(st.integers(0, 4), min_size=1, max_size=20),
    st.sampled_from(["none", "sync"]), st.booleans(),
)  # fmt: skip
def test_a_prepared_request_is_answered_as_a_decoded_one(
    kinds: list[Asked], order: list[int], flush: str, at_once: bool
) -> None:
    asked = [kinds[index % len(kinds)] for index in order]

    with both(flush) as (prepares, decodes):
        assert prepares.answers(asked, at_once=at_once) == decodes.answers(asked, at_once=at_once)
        assert prepares.contents() == decodes.contents()
