"""One request drawn from its schema, and those with which a round begins."""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from differential.symbols import Batch, Symbol
from differential.vocabulary import Draws
from pylog.protocol.codecs import Codec
from pylog.protocol.schema.table import Field, load
from support.every_request import MESSAGES
from support.raw_client import Body

WEIGHTS = {"Produce": 6, "Fetch": 6, "OffsetCommit": 3, "CreateTopics": 3, "InitProducerId": 3, "JoinGroup": 2}
WEIGHTS |= {"ConsumerGroupHeartbeat": 3, "IncrementalAlterConfigs": 3, "DescribeConfigs": 2, "AddPartitionsToTxn": 3}
WEIGHTS |= {"EndTxn": 3, "OffsetFetch": 2, "ListOffsets": 3, "TxnOffsetCommit": 2, "Metadata": 2}
LENGTHS = [1] * 14 + [0, 2, 2, 3, 20]
TOPIC, GROUP = 2, 32
SAME = 0.04
"""How often the second element of a list is the first one again."""


class Asked(NamedTuple):
    message: str
    version: int
    body: Body

    def __str__(self) -> str:
        return f"{self.message} v{self.version} {self.body}"


class Requests:
    """Draws requests; the same dice draw the same ones. `served` has the versions of each message that both serve."""

    def __init__(self, dice: random.Random, prefix: str, served: dict[str, range]) -> None:
        self._dice, self._prefix, self._served = dice, prefix, served
        self._messages = [name for name in MESSAGES if name in served]
        self._weights = [WEIGHTS.get(name, 1) for name in self._messages]

    def draw(self) -> Asked:
        (message,) = self._dice.choices(self._messages, self._weights)
        version = self._dice.choice(self._served[message])
        draws = Draws(self._dice, self._prefix, message)
        return Asked(
            message, version, _guarded(message, self._struct(load(f"{message}Request").fields, version, draws))
        )

    def _struct(self, fields: tuple[Field, ...], version: int, draws: Draws, path: str = "") -> Body:
        return {
            field.name: self._value(field, version, draws, f"{path}{field.name}")
            for field in fields
            if version in field.versions
        }

    def _value(self, field: Field, version: int, draws: Draws, path: str) -> Any:
        if (field.is_array or field.fields) and version in field.nullable and self._dice.random() < 0.1:
            return None
        if not field.is_array:
            return self._single(field, version, draws, path)
        found: list[Any] = []
        for _ in range(self._dice.choice(LENGTHS)):
            again = found and self._dice.random() < SAME
            found.append(found[0] if again else self._single(field.element, version, draws, path))
        return found

    def _single(self, field: Field, version: int, draws: Draws, path: str) -> Any:
        if field.fields:
            return self._struct(field.fields, version, draws, f"{path}.")
        return draws.value(path, field, version)


def _guarded(message: str, body: Body) -> Body:
    """The body without what would change a server for the rounds that follow: quotas, and configs of the node."""
    resources = body.get("resources", ())
    is_lasting = any(one["resourceType"] not in (TOPIC, GROUP) for one in resources)
    if "validateOnly" in body and (message == "AlterClientQuotas" or is_lasting):
        body["validateOnly"] = True
    return body


def begins_session(asked: Asked) -> bool:
    """Whether a Fetch begins a session, by which later ones are told."""
    return asked.message == "Fetch" and asked.body.get("sessionEpoch") == 0


def begins_unseen(asked: Asked) -> bool:
    """Whether Kafka begins a transaction by a request that adds no partition, or that it refuses for its acks.

    pylog does not, so what follows in the round is told otherwise.
    """
    body = asked.body
    if asked.message == "Produce":
        return body["transactionalId"] is not None and body["acks"] not in (-1, 0, 1)
    if asked.message != "AddPartitionsToTxn":
        return False
    lists = [one["topics"] for one in body.get("transactions", ())] or [body.get("v3AndBelowTopics", [])]
    return any(not any(topic["partitions"] for topic in topics) for topics in lists)


def beginning(prefix: str) -> Iterator[Asked]:
    """Topics with records, a transaction, groups of both protocols, committed offsets."""
    topic, owner = f"{prefix}-a", f"{prefix}-t"
    small = [{"name": "compression.type", "value": "gzip"}, {"name": "max.message.bytes", "value": "1000"}]
    policy = [{"name": "cleanup.policy", "value": "compact"}]
    for name, count, configs in ((topic, 1, []), (f"{prefix}-b", 3, small), (f"{prefix}-c", 1, policy)):
        one = {"name": name, "numPartitions": count, "replicationFactor": 1, "configs": configs}
        yield Asked("CreateTopics", 7, {"topics": [one], "timeoutMs": 30_000})
    for number, batch in enumerate([Batch((b"x", b"y")), Batch((b"z",), Codec.LZ4)]):
        yield _produced(topic, number, batch)
    yield Asked("InitProducerId", 4, {"transactionalId": None, "transactionTimeoutMs": 60_000})
    yield _produced(topic, 0, Batch((b"1",), producer="idempotent", base_sequence=0))
    for one in (owner, f"{prefix}-u"):
        yield Asked("InitProducerId", 4, {"transactionalId": one, "transactionTimeoutMs": 60_000})
    for group in ("simple", "empty"):
        yield _committed(f"{prefix}-{group}", topic)
    yield from _joined(f"{prefix}-classic")
    member = {"memberId": f"{prefix}-member", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
    member |= {"groupId": f"{prefix}-consumer", "subscribedTopicNames": [topic]}
    yield Asked("ConsumerGroupHeartbeat", 1, member)
    yield Asked("DescribeLogDirs", 4, {"topics": []})


def _produced(topic: str, number: int, batch: Batch) -> Asked:
    part = {"index": 0, "records": batch}
    return Asked(
        "Produce", 9, {"acks": -1, "timeoutMs": 30_000, "topicData": [{"name": topic, "partitionData": [part]}]}
    )


def _committed(group: str, topic: str) -> Asked:
    part = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": "m"}
    topics = [{"name": topic, "partitions": [part]}]
    return Asked(
        "OffsetCommit", 9, {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}
    )


def _joined(group: str) -> Iterator[Asked]:
    body: Body = {"groupId": group, "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 200, "memberId": ""}
    body |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": bytes(10)}]}
    yield Asked("JoinGroup", 9, body)
    member = Symbol("memberId", group)
    yield Asked("JoinGroup", 9, {**body, "memberId": member})
    body = {"groupId": group, "generationId": Symbol("generationId", group), "memberId": member}
    body |= {"protocolType": "consumer", "protocolName": "range"}
    yield Asked("SyncGroup", 5, {**body, "assignments": [{"memberId": member, "assignment": bytes(10)}]})
