"""Values that each server makes for itself, by names that both share.

A request holds symbols; `Numbers.resolve` puts a server's own values in their places, and `Numbers.name` the other way
round in its answers. `Numbers.learn` takes new ones from an answer.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pylog.protocol.codecs import Codec
from support.raw_client import Body
from support.wire_requests import T0, records

MEMBER = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|[A-Za-z0-9_-]{22}$")
"""A member id that a server made: of a client id and a UUID."""


@dataclass(frozen=True)
class Symbol:
    """A value by its kind and its name. `plus` is added to a number; `before` says how many older ones to go back."""

    kind: str
    name: str
    plus: int = 0
    before: int = 0


@dataclass(frozen=True)
class Batch:
    """A batch of records; `producer` owns the id and the epoch in it."""

    values: tuple[bytes, ...]
    codec: Codec = Codec.NONE
    producer: str | None = None
    base_sequence: int = -1
    transactional: bool = False


ABSENT = {"topicId": UUID(int=77), "producerId": 10**9, "producerEpoch": 0, "memberId": "absent", "generationId": 1}
ABSENT |= {"sessionId": 12345, "sessionEpoch": 1, "memberEpoch": 1, "logDir": "/absent"}
"""What stands for a symbol that the server has no value for."""


@dataclass
class Numbers:
    """The values that one server has made, oldest first."""

    values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    names: dict[tuple[str, Any], str] = field(default_factory=dict)

    def put(self, kind: str, name: str, value: Any) -> None:
        known = self.values.setdefault((kind, name), [])
        if not known or known[-1] != value:
            known.append(value)
        if kind != "memberId" or MEMBER.match(value):
            # A text that a client has chosen stands for itself.
            self.names.setdefault((kind, value), f"{kind} {len(known)} of {name}")

    def resolve(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.resolve(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, Batch):
            return self._batch(value)
        if not isinstance(value, Symbol):
            return value
        known = self.values.get((value.kind, value.name), [])
        found = known[-1 - value.before] if len(known) > value.before else ABSENT[value.kind]
        return found + value.plus if value.plus else found

    def _batch(self, batch: Batch) -> bytes:
        more: dict[str, Any] = {"codec": batch.codec}
        if batch.producer is not None:
            more["producer_id"] = self.resolve(Symbol("producerId", batch.producer))
            more["producer_epoch"] = max(0, self.resolve(Symbol("producerEpoch", batch.producer)))
            more |= {"base_sequence": batch.base_sequence, "transactional": batch.transactional}
        return records(*batch.values, timestamp=T0, **more)

    def name(self, kind: str, value: Any) -> Any:
        """The symbol of a value, or the value where no server made it."""
        return self.names.get((kind, value), value)

    def learn(self, message: str, request: Body, answer: Body) -> None:
        """Take the numbers that an answer has."""
        if message in ("CreateTopics", "Metadata"):
            for topic in answer["topics"]:
                if topic["errorCode"] == 0 and topic.get("topicId", UUID(int=0)).int:
                    self.put("topicId", topic["name"], topic["topicId"])
        elif message == "InitProducerId" and answer["errorCode"] == 0:
            owner = request["transactionalId"] or "idempotent"
            self.put("producerId", owner, answer["producerId"])
            self.put("producerEpoch", owner, answer["producerEpoch"])
        elif message == "EndTxn" and answer["errorCode"] == 0 and answer.get("producerId", -1) >= 0:
            self.put("producerId", request["transactionalId"], answer["producerId"])
            self.put("producerEpoch", request["transactionalId"], answer["producerEpoch"])
        elif message == "JoinGroup" and answer["memberId"]:
            self.put("memberId", request["groupId"], answer["memberId"])
            if answer["errorCode"] == 0:
                self.put("generationId", request["groupId"], answer["generationId"])
        elif message == "ConsumerGroupHeartbeat" and answer["errorCode"] == 0:
            self.put("memberEpoch", request["groupId"], answer["memberEpoch"])
            if answer["memberId"] is not None:
                self.put("memberId", request["groupId"], answer["memberId"])
        elif message == "Fetch" and answer.get("errorCode") == 0 and answer["sessionId"]:
            self.put("sessionId", "session", answer["sessionId"])
            self.values[("sessionEpoch", "session")] = [request["sessionEpoch"] + 1]
        elif message == "DescribeLogDirs":
            for one in answer["results"]:
                self.put("logDir", "dir", one["logDir"])
