"""Fetch sessions: the partitions that a client fetches, so that requests carry changes and responses carry news.

    epoch -1   no session: the request says everything, the response has everything; a session of that id ends
    epoch  0   the same, and a session begins; its id is in the response, 0 where there is no room for one
    epoch  n   partitions are added, moved and forgotten; the response has those with records, an error or news

The epoch rises by one with each request of a session, and after the largest int it is 1. A partition whose records were
sent goes behind the others, so that none of them starves. (Kafka: FetchManager, FetchSession; KIP-227.)
"""

import random
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from pylog.errors import FetchSessionIdNotFound, FetchSessionTopicId, InvalidFetchSessionEpoch, ProtocolError
from pylog.protocol.messages import FetchedPart, FetchPart
from pylog.runtime.clock import Clock

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
ID_MAX = EPOCH_MAX = (1 << 31) - 1
EVICTION_MS = 120_000
"""A session that was used within this time is not given up for a new one (Kafka: min.incremental.fetch.session...)."""

PARTS_MAX = 1 << 18
"""How many partitions all sessions may have in all."""

UNSENT = (-2, -2)
"""No state of a partition: the next one is news."""

Key = tuple[str, uuid.UUID, int]
Pair = tuple[FetchPart, FetchedPart]


@dataclass(slots=True)
class FetchSession:
    """The partitions of one session in reading order, and the state of each that its client has."""

    id: int
    uses_ids: bool
    epoch: int = 1
    used_ms: int = 0
    parts: OrderedDict[Key, FetchPart] = field(default_factory=OrderedDict)
    known: dict[Key, tuple[int, int]] = field(default_factory=dict)
    """The high watermark and the start of the log that were sent last, of each partition that was read once."""

    def update(self, asked: Iterable[FetchPart], forgotten: Iterable[Key]) -> None:
        """Apply a request: parts that are new or have moved, and partitions to forget."""
        for part in asked:
            self.parts[key_of(part)] = part
        for key in forgotten:
            self.parts.pop(key, None)
            self.known.pop(key, None)

    def news(self, pairs: Sequence[Pair], *, everything: bool = False) -> list[Pair]:
        """The answers that the client has to see. They count as known to the client from now on."""
        sent: list[Pair] = []
        for asked, part in pairs:
            key = key_of(asked)
            state = part.high_watermark, part.log_start_offset
            is_new = part.size or part.error is not None or part.diverging is not None
            if not (is_new or everything or self.known.get(key) != state):
                continue
            sent.append((asked, part))
            if part.error is None:
                self.known[key] = state
            elif key in self.known:
                # The error is told again until it is over, and then what is there.
                self.known[key] = UNSENT
            if part.size and key in self.parts:
                self.parts.move_to_end(key)
        return sent


def key_of(part: FetchPart) -> Key:
    """The key of a partition in a session."""
    return part.topic, part.topic_id, part.partition


class FetchSessions:
    """The sessions of a server, `slots` at most. Who calls anything here, or of a session, holds `lock`."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self.lock = Lock()
        self._slots = slots
        self._clock = clock
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """In the order of their last use."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session_id: int, parts: Sequence[FetchPart], *, uses_ids: bool) -> FetchSession | None:
        """A session of these parts, in place of the one of that id; None where there is no room."""
        self.end(session_id)
        now = self._clock.tick_ms()
        if not self._has_room(len(parts)):
            return None
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_ms < EVICTION_MS:
                return None
            self.end(oldest.id)
        new_id = NO_SESSION
        while new_id == NO_SESSION or new_id in self._sessions:
            new_id = random.randint(1, ID_MAX)
        session = FetchSession(new_id, uses_ids, used_ms=now)
        session.update(parts, ())
        self._sessions[new_id] = session
        return session

    def update(
        self, session: FetchSession, asked: Sequence[FetchPart], forgotten: Iterable[Key]
    ) -> FetchSession | ProtocolError:
        """Apply a request to a session; it ends where there is no room for its new parts."""
        session.update(asked, forgotten)
        if not asked or self._has_room(0):
            return session
        self.end(session.id)
        return FetchSessionIdNotFound(f"the fetch sessions have more than {PARTS_MAX} partitions: fetch without one")

    def _has_room(self, more: int) -> bool:
        return sum(len(session.parts) for session in self._sessions.values()) + more <= PARTS_MAX

    def go_on(self, session_id: int, epoch: int, *, uses_ids: bool) -> FetchSession | ProtocolError:
        """The session of a request, or the error of the request."""
        session = self._sessions.get(session_id)
        if session is None:
            return FetchSessionIdNotFound(f"there is no fetch session {session_id}, or none any more")
        if epoch != session.epoch:
            return InvalidFetchSessionEpoch(f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}")
        if uses_ids != session.uses_ids:
            self.end(session_id)
            return FetchSessionTopicId(f"fetch session {session_id} names topics in the other way")
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_ms = self._clock.tick_ms()
        self._sessions.move_to_end(session_id)
        return session

    def end(self, session_id: int) -> None:
        """Forget a session, if there is one of that id."""
        self._sessions.pop(session_id, None)


def completed_parts(asked: Sequence[FetchPart], parts: Sequence[FetchedPart]) -> list[Pair]:
    """The answers to all parts. A part behind the limit of bytes has no records."""
    pairs = list(zip(asked, parts, strict=False))
    return pairs + [(part, FetchedPart(part.topic, part.partition)) for part in asked[len(parts) :]]
