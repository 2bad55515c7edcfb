"""What the fields of requests may hold: mostly what is there, now and then what is not, and the ends of the range."""

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from differential.symbols import Batch, Symbol
from pylog.protocol.codecs import Codec
from pylog.protocol.schema.table import Field
from support.wire_requests import T0
from wirefuzz.values import BATCHES, boundaries

CONFIGS = {
    "max.message.bytes": ["1000", "1000000", "-1", "much"],
    "compression.type": ["producer", "zstd", "gzip", "lzma", ""],
    "cleanup.policy": [
        "delete",
        "compact",
        "delete,compact",
        "compact,delete",
        "keep",
        "",
        "compact,compact",
        " delete",
    ],
    "message.timestamp.type": ["CreateTime", "sometimes"],
    "retention.ms": ["-1", "-2", "604800000", "1e3", " 5000000000 ", "9223372036854775808"],
    "segment.bytes": ["2000000", "1", "1048576"],
    "min.insync.replicas": ["1", "0", "2147483648"],
    "unclean.leader.election.enable": ["true", "FALSE", "yes"],
    "min.cleanable.dirty.ratio": ["0.5", "1", "1.1", ".5", "NaN"],
    "no.such.config": ["1"],
    "": ["1"],
}
BROKER_CONFIGS = {
    "log.retention.ms": ["-1"], "message.max.bytes": ["1048588", "-1", "much"], "log.cleaner.threads": ["1", "0"],
    "node.id": ["1"], "log.dirs": ["/x"], "no.such.config": ["1"], "log.cleanup.policy": ["delete", "keep"],
    "num.partitions": ["1"], "auto.create.topics.enable": ["true"],
}  # fmt: skip
GROUP_CONFIGS = {
    "consumer.session.timeout.ms": ["6000", "10000", "1", "much", "2147483647"],
    "consumer.heartbeat.interval.ms": ["500", "1000", "1", "2147483647"], "no.such.config": ["1"],
    "share.session.timeout.ms": ["45000", "1"], "share.auto.offset.reset": ["latest", "never"],
    "streams.num.standby.replicas": ["0", "-1"],
}  # fmt: skip
KINDS = {2: CONFIGS, 4: BROKER_CONFIGS, 32: GROUP_CONFIGS}
FEATURES = ["metadata.version", "transaction.version", "group.version", "kraft.version", "no.such", "share.version"]
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class Draws:
    """Draws the values of one request. Names of one round begin with its prefix."""

    def __init__(self, dice: random.Random, prefix: str, message: str) -> None:
        self.dice, self._prefix, self._message = dice, prefix, message
        self.group_id = self.own(["classic", "consumer", "simple", "empty", "absent"])
        self.owner_id = self.own(["t", "t", "u", "absent"])
        self.goes_on = self.dice.random() < 0.4
        """Whether a Fetch is of the session that began last."""
        self.kind = self.pick([2, 2, 2, 2, 4, 4, 32, 32, 8, 16, 0, 1, 3, 127, -1])

    def pick(self, values: list[Any]) -> Any:
        return self.dice.choice(values)

    def own(self, names: list[str]) -> str:
        return f"{self._prefix}-{self.pick(names)}"

    def rarely(self, usual: Any, rare: list[Any]) -> Any:
        return usual if self.dice.random() < 0.85 else self.pick(rare)

    def value(self, path: str, field: Field, version: int) -> Any:
        """A value of the field at this path."""
        leaf = path.rpartition(".")[2]
        rule = RULES.get(f"{self._message}.{path}") or RULES.get(leaf)
        if rule is None:
            choices = boundaries(field, version)
            return self.pick(choices[:7] if field.kind == "string" else choices)
        if version in field.nullable and self.dice.random() < 0.15:
            return None
        return rule(self)

    def topic(self) -> str:
        if self.dice.random() < 0.95:
            return self.own(["a", "a", "a", "b", "b", "c", "new", "absent"])
        return self.pick(["", ".", "..", self.own(["x y", "é", "x" * 249, "x" * 240, "a.b", "a_b"])])

    def topic_id(self) -> Any:
        if self.dice.random() < 0.85:
            return Symbol("topicId", self.own(["a", "a", "b", "c", "new"]), before=self.pick([0, 0, 0, 1]))
        return self.pick([UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)])

    def partition(self) -> int:
        return int(self.pick([0] * 8 + [1, 1, 2, 3, -1, INT_MAX, -(2**31)]))

    def group(self) -> str:
        return str(self.rarely(self.group_id, ["", self.own(["x y", "other"])]))

    def owner(self) -> str:
        return str(self.rarely(self.owner_id, ["", self.own(["t", "other"])]))

    def member(self) -> Any:
        return self.rarely(Symbol("memberId", self.group_id, before=self.pick([0, 0, 0, 1])), ["", "absent", "m"])

    def generation(self) -> Any:
        kind = "memberEpoch" if self.group_id.endswith("consumer") else "generationId"
        return self.rarely(Symbol(kind, self.group_id, plus=self.pick([0, 0, 0, 1, -1])), [-1, -2, 0, INT_MAX])

    def producer_id(self) -> Any:
        return self.rarely(Symbol("producerId", self.owner_id), [-1, 0, -2, 10**9, LONG_MAX])

    def producer_epoch(self) -> Any:
        epoch = Symbol("producerEpoch", self.owner_id, plus=self.pick([0, 0, 0, 0, -1, 1]))
        return self.rarely(epoch, [-1, 0, 32767, -2])

    def resource_name(self) -> str:
        if self.kind == 4:
            return str(self.pick(["1", "1", "", "2", "x"]))
        return self.group() if self.kind == 32 else self.topic()

    def config(self) -> str:
        return str(self.pick(list(KINDS.get(self.kind, CONFIGS))))

    def config_value(self) -> str:
        every = KINDS.get(self.kind, CONFIGS)
        return str(self.pick([text for texts in every.values() for text in texts]))

    def records(self) -> Any:
        if self.dice.random() < 0.15:
            return self.pick(BATCHES)
        values = tuple(self.dice.randbytes(self.pick([0, 1, 10, 100])) for _ in range(self.pick([1, 1, 2, 5])))
        values = self.pick([values] * 8 + [(bytes(20_000),), (self.dice.randbytes(1500),)])
        kind = self.pick(["plain", "plain", "idempotent", "transactional"])
        if kind == "plain":
            return Batch(values, self.pick(list(Codec)))
        owner = self.owner_id if kind == "transactional" else "idempotent"
        return Batch(values, self.pick(list(Codec)), owner, self.pick([0, 0, 1, 2, INT_MAX]), kind == "transactional")

    def texts(self, *names: str) -> str:
        return str(self.pick([*names, "", "x", "absent"]))


def _of(*values: Any) -> Callable[[Draws], Any]:
    return lambda draws: draws.pick(list(values))


def _user(draws: Draws) -> str:
    return draws.own(["alice", "bob", "carol"])


RULES: dict[str, Callable[[Draws], Any]] = {
    **dict.fromkeys(["name", "topic", "topicName", "topicNames", "subscribedTopicNames"], Draws.topic),
    **dict.fromkeys(["topicId"], Draws.topic_id),
    **dict.fromkeys(["partition", "partitionIndex", "partitions", "partitionIndexes", "index"], Draws.partition),
    **dict.fromkeys(["groupId", "groups", "groupIds", "groupsNames"], Draws.group),
    **dict.fromkeys(["transactionalId", "v3AndBelowTransactionalId", "transactionalIds"], Draws.owner),
    **dict.fromkeys(["producerId", "v3AndBelowProducerId", "producerIdFilters"], Draws.producer_id),
    **dict.fromkeys(["producerEpoch", "v3AndBelowProducerEpoch"], Draws.producer_epoch),
    "memberId": Draws.member,
    **dict.fromkeys(["generationId", "memberEpoch", "generationIdOrMemberEpoch"], Draws.generation),
    **dict.fromkeys(["groupInstanceId", "instanceId"], _of("static", "other", "")),
    "resourceType": lambda draws: draws.kind,
    "resourceTypes": _of(2, 4, 8, 16, 32, 1, 127, 0, -1),
    "resourceName": Draws.resource_name,
    **dict.fromkeys([f"{m}.resources.configs.name" for m in ("AlterConfigs", "IncrementalAlterConfigs")], Draws.config),
    "CreateTopics.topics.configs.name": lambda draws: draws.pick(list(CONFIGS)),
    "CreateTopics.topics.configs.value": lambda draws: draws.pick(
        [text for texts in CONFIGS.values() for text in texts]
    ),
    "configurationKeys": Draws.config,
    "value": Draws.config_value,
    "configOperation": _of(0, 0, 0, 1, 1, 2, 3, 4, -1, 127),
    "records": Draws.records,
    "timeoutMs": _of(30_000, 30_000, INT_MAX),
    "acks": _of(-1, -1, -1, 1, 1, 2, -2),
    "maxWaitMs": _of(0, 0, 1, 20),
    "minBytes": _of(0, 0, 1, 100),
    "maxBytes": _of(INT_MAX, INT_MAX, 1000, 1, 0),
    "partitionMaxBytes": _of(INT_MAX, INT_MAX, 1000, 1, 0),
    "isolationLevel": _of(0, 1, 0, 1, 0, 1, 2, -1),
    "sessionId": lambda draws: draws.rarely(Symbol("sessionId", "session") if draws.goes_on else 0, [0, -1, 777]),
    "sessionEpoch": lambda draws: draws.rarely(
        Symbol("sessionEpoch", "session") if draws.goes_on else draws.pick([-1, -1, 0]), [-1, 0, 1, INT_MAX, -2]
    ),
    "fetchOffset": _of(0, 0, 0, 1, 2, 3, 5, 100, -1, LONG_MAX),
    "logStartOffset": _of(-1, 0, 1),
    "lastFetchedEpoch": _of(-1, -1, -1, 0, 1, INT_MAX),
    "currentLeaderEpoch": _of(-1, -1, -1, -1, 0, 1, INT_MAX, -2),
    "leaderEpoch": _of(0, 0, 1, -1, INT_MAX, -2),
    "committedLeaderEpoch": _of(-1, 0, 1, INT_MAX),
    "committedOffset": _of(0, 1, 5, -1, LONG_MAX, -2),
    "committedMetadata": _of("", "m", "x" * 4096, "x" * 4097),
    "retentionTimeMs": _of(-1, -1, 0, 1000),
    "offset": _of(0, 1, 2, 3, 100, -1, -2, LONG_MAX),
    "timestamp": _of(-1, -2, -3, -4, -5, -6, -7, T0, T0 + 1, 0, LONG_MAX),
    "replicaId": _of(*[-1] * 12, -2, 0, 1, -3),
    "replicaEpoch": _of(-1, 0),
    "clusterId": _of("x", ""),
    "rackId": _of("", "", "r"),
    "highWatermark": _of(LONG_MAX, 0),
    "numPartitions": _of(1, 1, 2, 3, -1, 0, -2, INT_MAX),
    "replicationFactor": _of(1, 1, 1, -1, 0, 2, 32767),
    "count": _of(1, 2, 3, 4, 0, -1, INT_MAX),
    **dict.fromkeys(["brokerIds", "replicas"], _of(1, 1, 1, 1, 2, -1)),
    "transactionTimeoutMs": _of(60_000, 60_000, 900_000, 900_001, 0, -1, INT_MAX),
    "sessionTimeoutMs": _of(10_000, 10_000, 10_000, 999, 0, -1, 1_800_000, 1_800_001),
    "rebalanceTimeoutMs": _of(200, 200, 300, 0, -1),
    "ConsumerGroupHeartbeat.rebalanceTimeoutMs": _of(1000, 1000, -1, 0),
    "ConsumerGroupHeartbeat.memberEpoch": lambda draws: draws.rarely(draws.generation(), [0, 0, 0, -1, -2, -3]),
    "subscribedTopicRegex": _of("", ".*-a", "(", "absent.*"),
    "serverAssignor": _of("uniform", "range", "", "absent"),
    "protocolType": _of("consumer", "consumer", "consumer", "connect", ""),
    "protocolName": _of("range", "range", "range", "sticky", ""),
    "JoinGroup.protocols.name": _of("range", "range", "range", "sticky", ""),
    "metadata": _of(bytes(10), bytes(10), b"", b"x"),
    "assignment": _of(bytes(10), b"", b"x"),
    "reason": _of("", "why", "x" * 300),
    "key": lambda draws: draws.texts("any", draws.group_id),
    "coordinatorKeys": lambda draws: draws.texts("any", draws.group_id),
    "keyType": _of(0, 0, 1, 1, 2, 3, -1),
    "statesFilter": _of("Stable", "stable", "Empty", "Dead", "NoSuch", ""),
    "typesFilter": _of("classic", "consumer", "Consumer", "share", "NoSuch", ""),
    "stateFilters": _of("Empty", "Ongoing", "CompleteCommit", "NoSuch", ""),
    "durationFilter": _of(-1, -1, 0, 1_000_000_000),
    "transactionalIdPattern": _of("", ".*", ".*-t", "(", "absent"),
    "endpointType": _of(1, 1, 1, 2, 0, 3, -1),
    "responsePartitionLimit": _of(2000, 2000, 1, 2, 0, -1, INT_MAX),
    "electionType": _of(0, 1, 2, -1),
    "mechanism": _of(1, 2, 0, 3, -1, 127),
    "SaslHandshake.mechanism": lambda draws: draws.texts("PLAIN", "SCRAM-SHA-256"),
    "iterations": _of(4096, 8192, 4095, 16384, 16385, 0, -1, INT_MAX),
    "salt": _of(b"salt", b"", bytes(100)),
    "saltedPassword": _of(bytes(32), bytes(64), b""),
    "AlterUserScramCredentials.deletions.name": _user,
    "AlterUserScramCredentials.upsertions.name": _user,
    "DescribeUserScramCredentials.users.name": _user,
    "path": lambda draws: draws.rarely(Symbol("logDir", "dir"), ["/absent", "", "relative"]),
    "feature": _of(*FEATURES),
    "maxVersionLevel": _of(999, 32767, -1, -32768),
    "upgradeType": _of(1, 2, 3, 0, 4, -1),
    "entityType": _of("user", "client-id", "ip", "absent", ""),
    "entityName": lambda draws: draws.own(["alice", "bob"]),
    "AlterClientQuotas.entries.ops.key": _of("producer_byte_rate", "request_percentage", "absent"),
    "AlterClientQuotas.entries.ops.value": _of(1e9, 1e12),
    "matchType": _of(0, 1, 2, 3, -1),
    "match": lambda draws: draws.own(["alice", "bob"]),
    "clientSoftwareName": _of("wire", "a-b.c", "", "-", "a b"),
    "clientSoftwareVersion": _of("1", "1.0-x", "", "!"),
    "coordinatorEpoch": _of(0, 0, 1, -1, INT_MAX),
    "transactionVersion": _of(0, 1, 2, 2, -1, 3),
}
