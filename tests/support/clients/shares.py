"""Members of share groups in explicit mode, of three client libraries under one interface."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pylog
from support.clients.java import Java, JavaObject, decoded
from support.clients.values import Client

POLL_MS = 200


@dataclass(frozen=True, slots=True)
class Shared:
    """A record that a member was given."""

    offset: int
    value: bytes | None
    count: int


class ShareMember(Protocol):
    def poll(self) -> list[Shared]:
        """The records that come within a fifth of a second."""

    def acknowledge(self, offset: int, word: str) -> None:
        """Say what becomes of a record of partition 0."""

    def commit(self) -> list[str]:
        """Send what was acknowledged; gives the names of errors."""

    def close(self) -> None: ...


class PylogMember:
    def __init__(self, client: Any, servers: str, group: str, topic: str) -> None:
        self._log = pylog.connect(servers)
        self._consumer = self._log.share_consumer(
            topic, group_id=group, acknowledgement="explicit", fetch_max_wait_ms=POLL_MS
        )
        self._topic = topic
        self._polled: dict[int, Any] = {}

    def poll(self) -> list[Shared]:
        records = self._consumer.poll(POLL_MS)
        self._polled |= {record.offset: record for record in records}
        return [Shared(record.offset, record.value, record.delivery_count) for record in records]

    def acknowledge(self, offset: int, word: str) -> None:
        self._consumer.acknowledge(self._polled[offset], word)

    def commit(self) -> list[str]:
        return [type(error).__name__ for error in self._consumer.commit_sync().values() if error is not None]

    def close(self) -> None:
        self._consumer.close()
        self._log.close()


class ConfluentMember:
    def __init__(self, client: Any, servers: str, group: str, topic: str) -> None:
        import confluent_kafka as ck

        self._types = ck.AcknowledgeType
        config = {"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": "explicit"}
        self._consumer = ck.ShareConsumer({**config, "log_level": 0})
        self._consumer.subscribe([topic])
        self._topic = topic

    def poll(self) -> list[Shared]:
        found = self._consumer.poll(POLL_MS / 1000)
        return [Shared(one.offset(), one.value(), one.delivery_count()) for one in found]

    def acknowledge(self, offset: int, word: str) -> None:
        self._consumer.acknowledge_offset(self._topic, 0, offset, getattr(self._types, word.upper()))

    def commit(self) -> list[str]:
        return [str(error) for error in self._consumer.commit_sync(10).values() if error is not None]

    def close(self) -> None:
        self._consumer.close()


class JavaMember(JavaObject):
    def __init__(self, client: Java, servers: str, group: str, topic: str) -> None:
        config = {"group_id": group, "share_acknowledgement_mode": "explicit"}
        super().__init__(client, client.make("shareConsumer", config))
        self.call("subscribe", topics=[topic])

    def poll(self) -> list[Shared]:
        return [Shared(offset, decoded(value), count) for offset, value, count in self.call("poll", millis=POLL_MS)]

    def acknowledge(self, offset: int, word: str) -> None:
        self.call("acknowledge", offset=offset, type=word)

    def commit(self) -> list[str]:
        found: list[str] = self.call("commit")
        return found


MEMBERS: dict[str, Callable[[Any, str, str, str], ShareMember]] = {
    "pylog": PylogMember, "confluent": ConfluentMember, "java": JavaMember,
}  # fmt: skip


def join(client: Client, servers: str, group: str, topic: str) -> ShareMember:
    """A member of a share group by this client library."""
    return MEMBERS[client.name](client, servers, group, topic)
