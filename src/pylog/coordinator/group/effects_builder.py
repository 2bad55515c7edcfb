"""The effects of one event, collected while it is worked on: answers, and at most one `Append`.

All records of an event go into one batch: they are logged together or not at all, and the changes to undo if they are
not stand beside them. Answers that depend on no record come first, so that no failed append takes them along.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pylog.coordinator.effects import Answer, Append, Ask, Effect, LogRecord, Now, Stamp
from pylog.errors import CoordinatorNotAvailable, NotCoordinator, PylogError, UnknownServer, for_code
from pylog.protocol.messages.groups import (
    ConsumerGroupHeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    not_joined,
)
from pylog.protocol.messages.share import ShareGroupHeartbeatResponse

Failed = Callable[[PylogError, "EffectsBuilder"], None]
"""The reaction to records that were not logged: given the error, and the builder for its effects."""


class EffectsBuilder:
    """The effects of an event that came at `now`."""

    __slots__ = ("_answers", "_append", "_asks", "now")

    def __init__(self, now: Now) -> None:
        self.now = now
        self._answers: list[Answer] = []
        self._append: Append | None = None
        self._asks: list[Ask] = []

    @property
    def has_records(self) -> bool:
        """True if something will be logged."""
        return self._append is not None

    def answer(self, ticket: int, message: object) -> None:
        """Answer at once."""
        self._answers.append(Answer(ticket, message))

    def answer_when_safe(
        self, ticket: int, message: object, refused: Callable[[PylogError], object], *, tells: int
    ) -> None:
        """Answer when the log is safe up to `tells`, where that ends of which the message tells; with `refused` where
        records of the same event are refused.
        """

        def failed(error: PylogError, out: "EffectsBuilder") -> None:
            out.answer(ticket, refused(error))

        self.write((), [Answer(ticket, message)], failed, tells=tells)

    def write(
        self,
        records: Iterable[LogRecord],
        answers: Iterable[Answer] = (),
        undo: Failed | None = None,
        stamp: Stamp | None = None,
        says: Iterable[object] = (),
        tells: int = 0,
    ) -> None:
        """Log the records, and give the answers when they are safe. `says`: the value of each, if it is at hand.

        Without records the answers are given when the log is safe up to `tells`.

        A caller that gives answers gives `undo`, too: it answers them where the append fails. Records of a transaction
        are the only ones of their event.
        """
        if self._append is None:
            self._append = Append([], stamp=stamp, is_lazy=stamp is not None, context=[])
        self._append.tells = max(self._append.tells, tells)
        self._append.records.extend(records)
        self._append.says.extend(says)
        self._append.answers.extend(answers)
        if undo is not None:
            self._append.context.append(undo)

    def ask(self, message: object, told: Callable[[Any, Now], list[Effect]]) -> None:
        """Ask another coordinator, when the records are safe."""
        self._asks.append(Ask(message, told))

    def effects(self) -> list[Effect]:
        """All effects, in the order in which they are to be carried out."""
        return [*self._answers, *([self._append] if self._append is not None else []), *self._asks]


def undone(append: Append, error: PylogError, now: Now) -> list[Effect]:
    """The effects of the failure of an `Append` of ours."""
    out = EffectsBuilder(now)
    for undo in append.context:
        undo(error, out)
    return out.effects()


_NO_QUORUM = {3, 7, 19}
_MOVED = {6, 56}
_TOO_LARGE = {4, 10, 18}


def not_stored(error: PylogError) -> PylogError:
    """The error for a member whose group could not be logged (Kafka: appendGroupMetadataErrorToResponseError)."""
    code = getattr(error, "code", 56)
    text = f"the group could not be written to __consumer_offsets: {error}"
    if code in _NO_QUORUM:
        return CoordinatorNotAvailable(text)
    if code in _MOVED:
        return NotCoordinator(text)
    return UnknownServer(text) if code in _TOO_LARGE else for_code(code)(text)


def refuse(answers: list[Answer], error: PylogError, out: EffectsBuilder) -> None:
    """Answer that the records of these messages could not be logged."""
    for answer in answers:
        out.answer(answer.ticket, _refused(answer.message, not_stored(error)))


def _refused(message: object, error: PylogError) -> object:
    match message:
        case JoinGroupResponse():
            return not_joined(error, message.member_id)
        case LeaveGroupResponse():
            members = [replace(one, error=one.error or error) for one in message.members]
            return LeaveGroupResponse(members=members)
        case _:
            assert isinstance(message, ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse), "no other waits"
            return type(message)(error=error, member_id=message.member_id)
