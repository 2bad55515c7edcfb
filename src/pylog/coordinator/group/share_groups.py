"""The messages about share groups: which group each is for, and who may send it (KIP-932).

A group is of one protocol for good: a message of another one does not find it (Kafka: GroupIdNotFoundException).
"""

from collections.abc import Callable, MutableMapping
from typing import Any

from pylog.config import DynamicBrokerConfig
from pylog.coordinator.effects import Effect, Now, TopicsView
from pylog.coordinator.group import checks, share_heartbeat, share_offsets
from pylog.coordinator.group.consumer_records import Slot
from pylog.coordinator.group.effects_builder import EffectsBuilder
from pylog.coordinator.group.group_protocol import Group
from pylog.coordinator.group.share_group import ShareGroup
from pylog.coordinator.group.share_records import EPOCH, ShareChange
from pylog.coordinator.group.timers import GroupTimers
from pylog.errors import GroupIdNotFound, InvalidGroupId, PylogError
from pylog.protocol.messages import JOIN_EPOCH, Session
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
)
from pylog.protocol.messages.share_state import DeleteShareGroupStateRequest
from pylog.protocol.operations import of_group


class ShareGroups:
    """The share groups among `groups`, which are all of a coordinator."""

    def __init__(
        self, groups: MutableMapping[str, Group], configs: DynamicBrokerConfig, topics: TopicsView,
        deadlines: GroupTimers,
    ) -> None:  # fmt: skip
        self._groups = groups
        self._configs = configs
        self._topics = topics
        self._deadlines = deadlines
        self._asked: dict[str, set[Slot]] = {}

    def replay(self, change: ShareChange, end: int) -> None:
        """Take over the content of a record; the log ends at `end`."""
        group = self._groups.get(change.group_id)
        if not isinstance(group, ShareGroup):
            if change.value is None:
                return
            if group is not None:
                group.close()
            group = self._groups[change.group_id] = self._new(change.group_id)
        group.replay(change)
        group.logged_end = end
        if change.kind == EPOCH and change.value is None:
            group.close()
            del self._groups[change.group_id]
            self._asked.pop(change.group_id, None)

    def _new(self, group_id: str) -> ShareGroup:
        asked = self._asked.setdefault(group_id, set())
        return ShareGroup(group_id, self._configs, self._topics, self._deadlines, self._groups, asked)

    def _found(self, group_id: str, *, makes: bool = False) -> ShareGroup:
        """Raises GroupIdNotFound."""
        group = self._groups.get(group_id)
        if group is None and makes:
            return self._new(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"there is no share group {group_id!r}" + (
                "" if group is None else ": there is one of another protocol"
            ))  # fmt: skip
        return group

    def dispatch(self, message: object, session: Session, ticket: int, out: EffectsBuilder) -> None:
        """Answer a message about share groups. Raises the ProtocolError that refuses it."""
        match message:
            case ShareGroupHeartbeatRequest():
                self._heartbeat(message, session, ticket, out)
            case ShareGroupDescribeRequest():
                out.answer(ticket, self._described(message))
            case DescribeShareGroupOffsetsRequest():
                self._describe_offsets(message, ticket, out)
            case AlterShareGroupOffsetsRequest():
                self._alter_offsets(message, ticket, out)
            case DeleteShareGroupOffsetsRequest():
                self._delete_offsets(message, ticket, out)
            case _:
                raise TypeError(f"a group coordinator has no answer to {type(message).__name__}")

    def _heartbeat(
        self, message: ShareGroupHeartbeatRequest, session: Session, ticket: int, out: EffectsBuilder
    ) -> None:  # fmt: skip
        """Hear a member. The first one makes the group."""
        checks.check_share_heartbeat(message, session)
        group = self._found(message.group_id, makes=message.member_epoch == JOIN_EPOCH)
        share_heartbeat.heartbeat(group, message, session, ticket, out)

    def _described(self, message: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
        """The groups with their members."""
        answer = ShareGroupDescribeResponse()
        names = {info.id: name for name, info in self._topics.named().items()}
        for group_id in message.group_ids:
            try:
                found = self._found(group_id).described(names)
                found.authorized_operations = of_group(is_asked=message.include_authorized_operations)
            except GroupIdNotFound as error:
                told = error.with_traceback(None) if group_id else InvalidGroupId("a group has a name")
                found = answer.DescribedGroup(group_id=group_id, error=told)
            answer.groups.append(found)
        return answer

    def _describe_offsets(
        self, message: DescribeShareGroupOffsetsRequest, ticket: int, out: EffectsBuilder
    ) -> None:  # fmt: skip
        """Tell how far a group is; one that is not there has begun nothing."""
        group = self._groups.get(message.groups[0].group_id)
        known = group if isinstance(group, ShareGroup) else None
        share_offsets.describe(message, known, self._topics.named(), ticket, out)

    def _alter_offsets(self, message: AlterShareGroupOffsetsRequest, ticket: int, out: EffectsBuilder) -> None:
        """Begin partitions again, in a group that may be new."""
        checks.check_group_id(message.group_id)
        group = self._found(message.group_id, makes=True)
        share_offsets.alter(message, group, self._topics.named(), ticket, out)

    def _delete_offsets(self, message: DeleteShareGroupOffsetsRequest, ticket: int, out: EffectsBuilder) -> None:
        """Forget topics of a group."""
        checks.check_group_id(message.group_id)
        share_offsets.delete(message, self._found(message.group_id), self._topics.named(), ticket, out)

    def forget_state(
        self, group_id: str, out: EffectsBuilder, then: Callable[[PylogError | None, EffectsBuilder], None]
    ) -> bool:
        """Let the share coordinator forget all of an empty group; False where there is nothing to forget.

        `then` is called with the first error, and with the builder for what follows.
        """
        group = self._groups.get(group_id)
        question: DeleteShareGroupStateRequest | None = None
        if isinstance(group, ShareGroup) and group.is_empty:
            question = share_offsets.forget_all(group, out)
        if question is None:
            return False
        asked = question

        def told(answer: Any, now: Now) -> list[Effect]:
            error = answer if isinstance(answer, PylogError) else asked.first_error(answer)
            out = EffectsBuilder(now)
            then(error, out)
            return out.effects()

        out.ask(question, told)
        return True
