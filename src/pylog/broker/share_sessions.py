"""Share sessions: the partitions that a member of a share group reads here, so that its requests name changes alone.

    epoch  0   the request has all partitions, and a session begins
    epoch  n   partitions are added and forgotten
    epoch -1   the last request: what the member has not acknowledged is free again

A session is that of a group's member. The epoch rises by one with each request, and after the largest int it is 1. A
session ends with the connection that it began by. (Kafka: ShareSession, ShareSessionCache.)
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from pylog.protocol.messages.share import FINAL_EPOCH, NEW_SESSION, SharedPartition
from pylog.runtime.signals import WholeLock

EPOCH_MAX = (1 << 31) - 1
PARTS_MAX = 1 << 18
"""How many partitions all sessions may have in all."""


class MemberKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


@dataclass(slots=True, eq=False)
class ShareSession:
    """The session of a member."""

    member: MemberKey
    connection: int
    epoch: int = 1
    """That of the next request."""
    parts: dict[SharedPartition, None] = field(default_factory=dict)
    """In the order in which they came."""

    def in_turn(self, epoch: int) -> list[SharedPartition]:
        """The partitions, with another one first in each request."""
        parts = list(self.parts)
        first = epoch % len(parts) if parts and epoch > 0 else 0
        return parts[first:] + parts[:first]


class ShareSessions:
    """The share sessions of a node. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._lock = WholeLock()

    def __contains__(self, session: ShareSession) -> bool:
        return self._sessions.get(session.member) is session

    def get(self, member: MemberKey) -> ShareSession | None:
        """The session of a member."""
        return self._sessions.get(member)

    @property
    def size(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    @property
    def parts_size(self) -> int:
        """The number of partitions that they have in all."""
        return sum(len(one.parts) for one in list(self._sessions.values()))

    def of_group(self, group_id: str) -> list[ShareSession]:
        """The sessions of a group's members."""
        return [one for one in list(self._sessions.values()) if one.member.group_id == group_id]

    def fetch(
        self, member: MemberKey, epoch: int, parts: Collection[SharedPartition],
        forgotten: Iterable[SharedPartition], *, connection: int, acknowledges: bool, sessions_max: int,
    ) -> ShareSession:  # fmt: skip
        """The session of a ShareFetch, after its changes.

        Raises ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached, and InvalidRequest where a
        first request acknowledges.
        """
        with self._lock:
            if epoch == NEW_SESSION:
                if acknowledges:
                    raise InvalidRequest("the first request of a share session acknowledges records: it has none")
                self._sessions.pop(member, None)
                if len(self._sessions) >= sessions_max:
                    raise ShareSessionLimitReached(f"there are {sessions_max} share sessions")
                session = self._sessions[member] = ShareSession(member, connection)
            else:
                session = self._go_on(member, epoch)
            known = len(session.parts)
            session.parts.update(dict.fromkeys(parts))
            has_more = len(session.parts) > known
            for part in forgotten:
                session.parts.pop(part, None)
            if has_more and self.parts_size > PARTS_MAX:
                del self._sessions[member]
                raise ShareSessionLimitReached(f"the share sessions have more than {PARTS_MAX} partitions")
            return session

    def acknowledge(self, member: MemberKey, epoch: int) -> ShareSession:
        """The session of a ShareAcknowledge. Raises ShareSessionNotFound, InvalidShareSessionEpoch."""
        if epoch == NEW_SESSION:
            raise InvalidShareSessionEpoch("a ShareAcknowledge does not begin a share session")
        with self._lock:
            return self._go_on(member, epoch)

    def _go_on(self, member: MemberKey, epoch: int) -> ShareSession:
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionNotFound(f"there is no share session of member {member.member_id!r}, or none any more")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"the share session is at epoch {session.epoch}, not {epoch}")
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def end(self, session: ShareSession) -> None:
        """Forget a session, unless its member has another one by now."""
        with self._lock:
            if session in self:
                del self._sessions[session.member]

    def by_connection(self, connection: int) -> list[ShareSession]:
        """The sessions that began by a connection."""
        with self._lock:
            return [one for one in self._sessions.values() if one.connection == connection]
