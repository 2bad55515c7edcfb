"""The requests about offsets: commit, fetch, delete, expire (Kafka: OffsetMetadataManager).

Groups validate, each by its protocol; then a commit is a record, and nothing here changes before that is replayed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from pylog.config import NodeConfig
from pylog.coordinator.effects import Answer, LogRecord, Now, Stamp, TopicsView
from pylog.coordinator.group.committed_offsets import CommittedOffsets
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.group_protocol import Group
from pylog.coordinator.group.records import Committed, OffsetChange, offset_record
from pylog.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidRequest,
    OffsetMetadataTooLarge,
    ProtocolError,
    PylogError,
    StaleMemberEpoch,
    UnstableOffsetCommit,
)
from pylog.protocol.messages import NO_ID
from pylog.protocol.messages.offsets import (
    FetchedOffset,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetsFetched,
    OffsetsToFetch,
    TxnOffsetCommitRequest,
)
from pylog.record import TopicPartition

MINUTE_MS = 60 * 1000

Errors = dict[TopicPartition, PylogError | None]


class Committing:
    """The requests about the offsets of the groups in `groups`."""

    def __init__(
        self, offsets: CommittedOffsets, groups: Mapping[str, Group], config: NodeConfig, topics: TopicsView
    ) -> None:
        self._offsets = offsets
        self._groups = groups
        self._config = config
        self._topics = topics
        self._gone: dict[tuple[str, UUID], int] = {}  # name and id of deleted topics: up to which place of the log

    # --- commit ------------------------------------------------------------------------------------------------------

    def commit(self, message: OffsetCommitRequest, ticket: int, out: EffectsBuilder) -> None:
        """Log offsets. A group that does not exist begins to exist by them, where no member commits."""
        try:
            group = self._checked(message)
        except ProtocolError as error:
            out.answer(ticket, message.refused(error))
            return
        if group is not None:
            group.commits(message, out)
        named = self._topics.named()

        def topic_id(topic: str) -> UUID:
            return named[topic].id if topic in named else NO_ID

        self._write(message, ticket, out, topic_id, None)

    def commit_in_transaction(self, message: TxnOffsetCommitRequest, ticket: int, out: EffectsBuilder) -> None:
        """Log offsets that count when the transaction's marker commits it."""
        try:
            self._checked(message)
        except (GroupIdNotFound, StaleMemberEpoch) as error:
            out.answer(ticket, message.refused(IllegalGeneration(str(error))))
        except ProtocolError as error:
            out.answer(ticket, message.refused(error))
        else:
            stamp = Stamp(message.producer_id, message.producer_epoch)
            self._write(message, ticket, out, lambda topic: NO_ID, stamp)

    def _checked(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> Group | None:
        group = self._groups.get(message.group_id)
        if group is not None:
            group.check_commit(message)
        elif message.generation_id >= 0:
            raise GroupIdNotFound(f"there is no group {message.group_id!r}: join it again")
        return group

    def _write(
        self,
        message: OffsetCommitRequest | TxnOffsetCommitRequest,
        ticket: int,
        out: EffectsBuilder,
        topic_id: Callable[[str], UUID],
        stamp: Stamp | None,
    ) -> None:
        errors: Errors = {}
        records, changes = [], []
        for at, part in message.keyed():
            try:
                change = OffsetChange(message.group_id, at, self._committed(at, part, out.now, topic_id(at.topic)))
                records.append(_record(change))
                changes.append(change)
                errors.setdefault(at, None)
            except ProtocolError as error:
                errors[at] = error
        if not records:
            out.answer(ticket, message.results(errors))
            return

        def failed(error: PylogError, out: EffectsBuilder) -> None:
            why = error if stamp is not None and isinstance(error, ProtocolError) else not_stored(error)
            out.answer(ticket, message.results({at: known or why for at, known in errors.items()}))

        out.write(records, [Answer(ticket, message.results(errors))], failed, stamp, changes)

    def _committed(self, partition: TopicPartition, part: Any, now: Now, topic_id: UUID) -> Committed:
        most = self._config.offset_metadata_max_bytes
        metadata = part.committed_metadata or ""
        # The length is counted as Java does: a character beyond the first plane counts as two.
        size = len(metadata) if metadata.isascii() else len(metadata) + sum(char > "\uffff" for char in metadata)
        if size > most:
            raise OffsetMetadataTooLarge(f"{size} characters of metadata for {partition}: {most} are allowed")
        return Committed(part.committed_offset, part.committed_leader_epoch, metadata, now.wall, topic_id=topic_id)

    # --- fetch -------------------------------------------------------------------------------------------------------

    def fetch(self, message: OffsetFetchRequest, ticket: int, out: EffectsBuilder) -> None:
        """The committed offsets of one group, or -1, or the group is not known.

        They are told as far as they are safe, so that the answer waits for nothing (Kafka: a read at the last committed
        offset of the coordinator's log).
        """
        (asked,) = message.groups
        group, group_id = self._groups.get(asked.group_id), asked.group_id
        try:
            if group is not None:
                group.check_fetch(asked)
        except ProtocolError as error:
            out.answer(ticket, message.refused(error))
            return
        topics = asked.topics
        if topics is None:
            every = self._offsets.partitions_of(group_id)
            topics = asked.by_topic((at, at.partition) for at in every if self._current(group_id, at) is not None)
        found = [
            OffsetsFetched.OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    self._fetched(asked, TopicPartition(topic.name, number), require_stable=message.require_stable)
                    for number in topic.partition_indexes
                ],
            )
            for topic in topics
        ]
        out.answer(ticket, OffsetFetchResponse(groups=[OffsetsFetched(group_id=group_id, topics=found)]))

    def _current(self, group_id: str, at: TopicPartition) -> Committed | None:
        """The committed offset; one of a topic that is gone, or was made again since, does not count."""
        committed, topic = self._offsets.safe(group_id, at), self._topics.named().get(at.topic)
        if committed is None or topic is None:
            return None
        return committed if committed.topic_id in (NO_ID, topic.id) else None

    def _fetched(self, asked: OffsetsToFetch, at: TopicPartition, *, require_stable: bool) -> FetchedOffset:
        if require_stable and self._offsets.is_pending(asked.group_id, at):
            error = UnstableOffsetCommit(f"a transaction that has an offset for {at} is open: fetch again")
            return asked.told(at, error)
        committed = self._current(asked.group_id, at)
        if committed is None:
            return asked.told(at)
        return FetchedOffset(
            partition_index=at.partition, committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch, metadata=committed.metadata,
        )  # fmt: skip

    # --- delete and expire -------------------------------------------------------------------------------------------

    def delete(self, message: OffsetDeleteRequest, ticket: int, out: EffectsBuilder) -> None:
        """Delete offsets of topics that no member reads; those of open transactions, too."""
        group = self._groups.get(message.group_id)
        try:
            if group is None:
                raise GroupIdNotFound(f"there is no group {message.group_id!r}")
            group.check_offset_delete()
        except ProtocolError as error:
            out.answer(ticket, message.refused(error))
            return
        errors: Errors = {}
        gone = []
        for at in dict.fromkeys(message.partitions()):
            errors[at] = None
            if group.is_subscribed(at.topic):
                errors[at] = GroupSubscribedToTopic(f"members of {message.group_id!r} read {at.topic!r}")
            elif self._offsets.get(message.group_id, at) is not None or self._offsets.is_pending(message.group_id, at):
                gone.append(at)

        def failed(error: PylogError, out: EffectsBuilder) -> None:
            unstored = not_stored(error)
            out.answer(ticket, message.results({at: known or unstored for at, known in errors.items()}))

        answer = message.results(errors)
        if gone:
            out.write(tombstones(message.group_id, gone), [Answer(ticket, answer)], failed)
        else:
            out.answer(ticket, answer)

    def all_tombstones(self, group_id: str) -> list[LogRecord]:
        """The records that delete all offsets of a group."""
        return tombstones(group_id, self._offsets.partitions_of(group_id))

    def topic_deleted(self, name: str, topic_id: UUID) -> None:
        """Mark the present offsets of this topic for deletion."""
        self._gone[name, topic_id] = self._gone[name, NO_ID] = self._offsets.place

    def forgotten(self) -> list[LogRecord]:
        """The records that delete the offsets of deleted topics (Kafka: OffsetMetadataManager.onTopicsDeleted)."""
        found = self._offsets.of_topics(self._gone)
        if not found:
            self._gone.clear()
        return [offset_record(group_id, at, None) for group_id, at in found]

    def expired(self, group: Group, now: Now) -> list[LogRecord]:
        """The records that delete expired offsets; and the group, when it is empty and those were its last.

        An offset of an open transaction is kept: its marker may be an abort.
        """
        known = self._offsets.of(group.group_id)
        gone = [at for at, committed in known.items() if self._has_expired(group, at, committed, now.wall)]
        records = tombstones(group.group_id, gone)
        if (
            group.expires
            and len(gone) == len(known)
            and group.is_empty
            and not self._offsets.has_pending(group.group_id)
        ):
            records += group.tombstones()
        return records

    def _has_expired(self, group: Group, at: TopicPartition, committed: Committed, wall_ms: int) -> bool:
        start = group.expires_from(committed)
        if start is None or group.is_subscribed(at.topic) or self._offsets.is_pending(group.group_id, at):
            return False
        if committed.expire_ms >= 0:
            return wall_ms >= committed.expire_ms
        return wall_ms - start >= self._config.offsets_retention_minutes * MINUTE_MS


def _record(change: OffsetChange) -> LogRecord:
    try:
        return offset_record(*change)
    except ValueError as error:
        raise InvalidRequest(f"the offset of {change.partition} does not fit into a record: {error}") from None


def tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[LogRecord]:
    """The records that delete the offsets of these partitions."""
    return [offset_record(group_id, at, None) for at in partitions]
