"""Frames to a server in a process of its own: each is answered, or ends its connection; no other client notices.

First each field of each request in each version has each of its boundary values, then requests are drawn at random and
damaged. Behind each frame goes an ApiVersions, so the end of its answers is known. A server must log no traceback and
answer no UNKNOWN_SERVER_ERROR: either is a request that it did not foresee.
"""

import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from conformance.wire.servers import PylogServer
from pylog.errors import CorruptBatch
from pylog.protocol import schema
from pylog.protocol.schema.table import load
from support.every_request import MESSAGES, errors_in, fitting, requests_for
from support.raw_client import DisconnectedError, WireClient, plain
from support.wire_requests import Requests, error_of, records
from wirefuzz.values import damaged, drawn, variants

WAITING = {"Fetch", "JoinGroup", "SyncGroup", "Produce"}
"""Requests that may wait for as long as they say."""
PATIENCE_SECONDS, SHORT_SECONDS = 10.0, 0.05
BYSTANDER_EVERY = 200
BYSTANDER_SECONDS = 5.0
SENTINEL = struct.pack(">hhih", 18, 0, 0x5EEDF00D, 0)
NAMES = {schema.message(name).api_key: name.removesuffix("Request") for name in schema.names("request")}


class Frame(NamedTuple):
    name: str
    version: int
    data: bytes


class Found(NamedTuple):
    """What became of the frames, and what should not have."""

    counts: Counter[str]
    failures: list[str]
    memory_mib: int
    slowest_seconds: float


def systematic(wire: WireClient, topic: str) -> Iterator[Frame]:
    """Every key, version, field and boundary value."""
    topic_id = Requests(wire).topic_id(topic)
    for name, (body, _) in requests_for(topic, topic_id).items():
        for version in served(wire, name):
            fields = load(f"{name}Request").fields
            for changed in variants(fields, version, fitting(fields, version, body)):
                yield from framed(wire, name, version, changed)


def at_random(wire: WireClient, topic: str, seed: int) -> Iterator[Frame]:
    """Requests in which everything is drawn, or one of the usual ones, damaged nine times of ten."""
    dice = random.Random(seed)
    usual = requests_for(topic, Requests(wire).topic_id(topic))
    while True:
        name = dice.choice(MESSAGES)
        fields = load(f"{name}Request").fields
        version = dice.choice(served(wire, name) or [0])
        body = drawn(fields, version, dice) if dice.random() < 0.5 else fitting(fields, version, usual[name][0])
        for frame in framed(wire, name, version, body):
            yield frame
            for _ in range(4):
                yield frame._replace(data=damaged(frame.data, dice))


def served(wire: WireClient, name: str) -> range:
    """The versions of a request that the server says it serves, but those of Produce that it only says (KIP-896)."""
    request = schema.message(f"{name}Request")
    low, high = wire.versions.get(request.api_key, (0, -1))
    return range(max(low, request.versions[0]), high + 1)


def framed(wire: WireClient, name: str, version: int, body: dict[str, object]) -> Iterator[Frame]:
    request = schema.message(f"{name}Request")
    with suppress(ValueError):  # a text that is too long for this version
        data = request.encode(version, body)
        yield Frame(name, version, wire.header(request.api_key, version, request.is_flexible(version)) + data)


class Target:
    """A server under fire, with one client that fires and one that only wants to work."""

    def __init__(self, work: Path) -> None:
        (work / "data").mkdir()
        self.server = PylogServer(work)
        self.server.start()
        self.found = Found(Counter(), [], 0, 0.0)
        self._bystander = WireClient(self.server.bootstrap_servers)
        self._written, self._logged, self._slowest = 0, 0, 0.0
        self._recent: list[Frame] = []
        self._client: WireClient | None = None
        for topic in ("fuzzed", "bystander"):
            self._make(topic)

    def close(self) -> None:
        self._bystander.close()
        if self._client is not None:
            self._client.close()
        self.server.stop()

    def _make(self, topic: str) -> None:
        asked = {"name": topic, "numPartitions": 1, "replicationFactor": 1}
        self._bystander.ask("CreateTopics", {"topics": [asked], "timeoutMs": 30_000})

    def fire(self, frames: Iterator[Frame], budget: int, failures_max: int = 10) -> None:
        """Send so many frames, looking after the bystander now and then."""
        for number, frame in zip(range(budget), frames, strict=False):
            self._recent.append(frame)
            self.found.counts[self._fired(frame)] += 1
            if number % BYSTANDER_EVERY == BYSTANDER_EVERY - 1:
                self.look_around()
                self._make("fuzzed")
            if len(self.found.failures) >= failures_max:
                break
        self.look_around()

    def look_around(self) -> None:
        """The other client still produces and reads, and nothing unforeseen was logged."""
        began = time.monotonic()
        requests, value = Requests(self._bystander), b"%d" % self._written
        part = requests.produce("bystander", records(value, timestamp=time.time_ns() // 1_000_000))
        if error_of(part) != "NONE" or part["baseOffset"] != self._written:
            self._fail(f"the bystander was told {part}")
        self._written = part["baseOffset"] + 1
        if not requests.fetch("bystander", part["baseOffset"])["records"].endswith(value + b"\0"):
            self._fail("the bystander does not read what it wrote")
        self._slowest = max(self._slowest, time.monotonic() - began)
        if self._slowest > BYSTANDER_SECONDS:
            self._fail(f"the bystander waited for {self._slowest:.1f} s")
        said = self.server.said()
        if "Traceback" in said[self._logged :]:
            self._fail(f"the server logged\n{said[self._logged :][-4000:]}")
        self._logged = len(said)
        self._recent.clear()

    def result(self) -> Found:
        return self.found._replace(memory_mib=self.server.memory_mib(), slowest_seconds=self._slowest)

    def _fail(self, what: str) -> None:
        sent = "\n".join(
            f"    {one.name} {one.version} {one.data.hex()[:400]}" for one in self._recent[-BYSTANDER_EVERY:]
        )
        self.found.failures.append(f"{what}\n  after\n{sent}")

    def _fired(self, frame: Frame) -> str:
        client = self._client or WireClient(self.server.bootstrap_servers)
        self._client = None
        client.wait_for(SHORT_SECONDS if frame.name in WAITING else PATIENCE_SECONDS)
        try:
            client.send_bytes(struct.pack(">i", len(frame.data)) + frame.data + struct.pack(">i", 10) + SENTINEL)
            answer = client.receive_frame()
            if answer[:4] != SENTINEL[4:8]:
                self._look_at(frame, answer)
                while client.receive_frame()[:4] != SENTINEL[4:8]:
                    pass
        except (DisconnectedError, ConnectionError):
            client.close()
            return "disconnected"
        except TimeoutError:
            client.close()
            if frame.name in WAITING or not _is_whole(frame):
                return "waited"
            self._fail(f"no answer to {frame.name} {frame.version} {frame.data.hex()[:2000]}")
            return "unanswered"
        self._client = client
        return "answered"

    def _look_at(self, frame: Frame, answer: bytes) -> None:
        """Decode the answer; the damage may have made another request of a frame."""
        if len(frame.data) < 8:
            self._fail(f"an answer to {frame.data.hex()}, which is no request")
            return
        key, version = struct.unpack_from(">hh", frame.data)
        name = NAMES[key]
        response = schema.message(f"{name}Response")
        if key == 18 and not 0 <= version <= response.versions[1]:
            version = 0
        position = 5 if response.is_flexible(version) and key != 18 else 4
        try:
            body, end = response.decode(version, answer, position)
        except CorruptBatch as error:
            self._fail(f"the answer to {name} {version} {frame.data.hex()[:2000]} does not decode: {error}")
            return
        if end != len(answer) or answer[:4] != frame.data[4:8]:
            self._fail(f"the answer to {name} {version} is another one's")
        if "UNKNOWN_SERVER_ERROR" in errors_in(plain(body)):
            self._fail(f"UNKNOWN_SERVER_ERROR for {name} {version} {frame.data.hex()[:2000]}")


def _is_whole(frame: Frame) -> bool:
    """Whether the frame is of the request that it is named after; damage may have made it one that waits."""
    return len(frame.data) >= 4 and NAMES.get(struct.unpack_from(">h", frame.data)[0]) not in WAITING
