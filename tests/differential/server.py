"""One server under comparison: a request in symbols goes out, an answer in symbols comes back."""

import re
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from differential.requests import Asked
from differential.symbols import MEMBER, Numbers
from pylog.protocol import schema
from pylog.protocol.batch import split
from support.raw_client import Body, DisconnectedError, WireClient, error_name

PATIENCE_SECONDS = 3.0
AGAIN = {"NOT_LEADER_OR_FOLLOWER", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"}
AGAIN_TIMES, AGAIN_SECONDS = 40, 0.025
OWN = {
    "throttleTimeMs", "errorMessage", "statusMessage", "message", "logAppendTimeMs", "host", "port", "clusterId",
    "transactionStartTimeMs", "clientHost", "nodeEndpoints", "documentation", "totalBytes", "usableBytes", "rack",
    "brokerEpoch", "partitionSize", "batchIndexErrorMessage", "lastTimestamp", "logEndOffset", "lastFetchTimestamp",
    "lastCaughtUpTimestamp", "replicaDirectoryId",
}  # fmt: skip
"""Fields in which two servers may differ: times, addresses, sizes of disks, words."""
FEW = 1000
"""Ids of topics up to here were made up by a request."""
IDENTITIES = (
    "resourceType", "resourceName", "name", "topicName", "topic", "topicId", "groupId", "transactionalId", "user",
    "producerId", "key", "index", "partition", "partitionIndex", "partitionId", "logDir", "memberId",
)  # fmt: skip
NAMES = ("name", "topicName", "topic", "groupId", "transactionalId", "resourceName", "user")


class Server:
    """A server and what it has numbered. `prefix` is that of the present round."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers, self.numbers = bootstrap_servers, Numbers()
        self._wire = WireClient(bootstrap_servers)
        self.prefix = ""
        self.configs: set[str] = set()
        """The configs of which both servers tell."""

    def close(self) -> None:
        self._wire.close()

    def served(self) -> dict[int, tuple[int, int]]:
        return self._wire.versions

    def raw(self, message: str, version: int, body: Body) -> Body:
        """The answer as it came."""
        return self._wire.ask(message, body, version=version)

    def send(self, asked: Asked) -> str | None:
        """Send a request; an outcome where there will be no answer."""
        try:
            self._wire.wait_for(PATIENCE_SECONDS)
            self._wire.send(asked.message, self.numbers.resolve(asked.body), version=asked.version)
        except (DisconnectedError, ConnectionError):
            return self._again("disconnected")
        return None

    def receive(self, asked: Asked) -> Any:
        """The answer in symbols; a word where the connection ended, or none came."""
        try:
            answer = self._wire.receive(asked.message, asked.version)
        except (DisconnectedError, ConnectionError):
            return self._again("disconnected")
        except TimeoutError:
            return self._again("waits")
        self.numbers.learn(asked.message, self.numbers.resolve(asked.body), answer)
        return self.plain(answer)

    def ask(self, asked: Asked) -> Any:
        return self.send(asked) or self.receive(asked)

    def settled(self, asked: Asked, answer: Any, errors: set[str] = AGAIN) -> Any:
        """The answer, asked for again as long as it says that the server is not ready."""
        for _ in range(AGAIN_TIMES):
            if not errors & errors_of(answer):
                break
            time.sleep(AGAIN_SECONDS)
            answer = self.ask(asked)
        return answer

    def _again(self, word: str) -> str:
        with suppress(OSError):
            self._wire.close()
        self._wire = WireClient(self._servers)
        return word

    def plain(self, value: Any, name: str = "") -> Any:
        """A value with symbols for this server's numbers, without the fields in `OWN`; lists are sorted."""
        if isinstance(value, dict):
            return {key: self.plain(item, key) for key, item in value.items() if key not in OWN}
        if isinstance(value, list):
            kept = [item for item in value if not self._is_older(item)]
            if name == "configs":
                return {one["name"]: self.plain({**one, "name": ""}) for one in kept if one["name"] in self.configs}
            return sorted(_merged([self.plain(item, name) for item in kept]), key=_place)
        if isinstance(value, UUID):
            known = self.numbers.name("topicId", value)
            return "?" if known == value and value.int > FEW and value.int != 2**128 - 1 else str(known)
        if name.lower().endswith("errorcode"):
            return error_name(value)
        if name == "records":
            return [self._batch(batch) for batch in split(value or b"")]
        return self._named(name, value)

    def _named(self, name: str, value: Any) -> Any:
        if name == "sessionId":
            # A request that was sent again has begun another session.
            return bool(value)
        if name in ("producerId", "memberId", "logDir"):
            known = self.numbers.name(name, value)
            return "?" if known == value and name == "memberId" and MEMBER.match(value or "") else known
        if isinstance(value, str) and (found := self.numbers.name("memberId", value)) != value:
            return found
        return value

    def _is_older(self, item: Any) -> bool:
        """Whether an item of a list is of another round than this one."""
        named = [item] if isinstance(item, str) else [item.get(key) for key in NAMES] if isinstance(item, dict) else []
        return any(
            isinstance(text, str) and re.match(r"r\d+-", text) and not text.startswith(f"{self.prefix}-")
            for text in named
        )

    def _batch(self, batch: Any) -> Body:
        plain = {"at": batch.base_offset, "count": batch.last_offset_delta + 1, "codec": batch.codec.name}
        plain |= {"epoch": batch.leader_epoch, "sequence": batch.base_sequence, "control": batch.is_control}
        plain |= {"transactional": batch.is_transactional, "producerEpoch": batch.producer_epoch}
        plain["producer"] = self.numbers.name("producerId", batch.producer_id)
        if not batch.is_control:
            found = batch.records("t", 0, 0)
            plain["records"] = [(one.offset, one.timestamp, one.key, one.value) for one in found]
        return plain


PARTS = {"partitions", "partitionResponses", "resultsByPartition", "partitionResult", "topics", "topicResults"}


def _merged(items: list[Any]) -> list[Any]:
    """Items with what a topic has in several of them in one; a topic without partitions left out."""
    found: dict[str, Any] = {}
    for item in items:
        parts = PARTS & item.keys() if isinstance(item, dict) and "errorCode" not in item else set()
        if not parts:
            found[f"{len(found)}"] = item
            continue
        (part,) = parts
        key = repr({name: value for name, value in item.items() if name != part})
        same = found.setdefault(key, {**item, part: []})
        same[part] = sorted(_merged([*same[part], *item[part]]), key=_place)
        if not same[part]:
            del found[key]
    return list(found.values())


def _place(item: Any) -> tuple[str, str]:
    """Where an item of a list goes: by what it is of, then by the rest of it."""
    return identity(item), repr(item)


def identity(item: Any) -> str:
    """What an item of a list is of."""
    named = [str(item[key]) for key in IDENTITIES if key in item] if isinstance(item, dict) else []
    if named and "transactionalId" in item:
        return str(item["transactionalId"])
    return " ".join(named) or repr(item)


def errors_of(value: Any) -> set[str]:
    """The names of the errors in an answer in symbols."""
    if isinstance(value, list):
        return set[str]().union(*map(errors_of, value))
    if not isinstance(value, dict):
        return set()
    found = {item for name, item in value.items() if name.lower().endswith("errorcode")}
    return found.union(*map(errors_of, value.values()))


def both_serve(one: Server, other: Server, messages: list[str]) -> dict[str, range]:
    """The versions of each message that both serve."""
    found: dict[str, range] = {}
    for name in messages:
        request = schema.message(f"{name}Request")
        ranges = [server.served().get(request.api_key, (0, -1)) for server in (one, other)]
        low = max(request.versions[0], *(low for low, _ in ranges))
        found[name] = range(low, min(high for _, high in ranges) + 1)
    return {name: versions for name, versions in found.items() if versions}


def configs_of(server: Server) -> set[str]:
    """The names of the configs that a server tells of a topic, a node and a group."""
    topic = {"name": "configs", "numPartitions": 1, "replicationFactor": 1}
    server.ask(Asked("CreateTopics", 5, {"topics": [topic], "timeoutMs": 30_000}))
    resources = [{"resourceType": kind, "resourceName": name} for kind, name in ((2, "configs"), (4, "1"), (32, "g"))]
    answer = server.raw("DescribeConfigs", 4, {"resources": [{**one, "configurationKeys": None} for one in resources]})
    return {config["name"] for result in answer["results"] for config in result.get("configs", ())}
