"""Offsets of groups: what they have committed and how far behind they are, and committing for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pylog.client.admin.groups import GroupAdmin
from pylog.client.admin.offset_moves import OffsetMove, Reset, in_use, listed_offsets
from pylog.client.admin.share_offsets import share_offsets
from pylog.client.cluster import checked_name, raise_first
from pylog.errors import GroupIdNotFound, UnknownMemberId
from pylog.protocol.messages import LATEST
from pylog.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pylog.record import OffsetAndMetadata, TopicPartition, checked_partition, checked_positions


class PartitionLag(NamedTuple):
    """The position and lag of a group in a partition. None: it has not committed there."""

    committed: int | None
    """Of a share group: its start, before which all is done."""
    end_offset: int
    lag: int | None
    member_id: str | None
    """The member that has the partition now; None in a share group, where several may have it."""


class OffsetAdmin(GroupAdmin):
    """Admin calls about the offsets that groups have committed."""

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed, everywhere or in these partitions (Kafka:
        listConsumerGroupOffsets). Raises TypeError, and errors of the coordinator.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.committed("billing")
        {TopicPartition(topic='orders', partition=0): OffsetAndMetadata(offset=1, metadata='', leader_epoch=-1)}
        """
        wanted = None if partitions is None else [checked_partition(key) for key in partitions]
        message = OffsetFetchRequest.of(checked_name("group_id", group_id), wanted)
        answer = self._cluster.ask(message)
        raise_first([message.first_error(answer)])
        found = message.found(answer)
        return {key: found[key].position for key in sorted(found) if found[key].committed_offset >= 0}

    def lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in every partition that it has committed, or that a member has; of a share group in every
        one that it has begun.

        Raises GroupIdNotFound.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.lag("billing")[orders]
        PartitionLag(committed=1, end_offset=3, lag=2, member_id=None)
        """
        group = self.describe_group(group_id)
        if group.type == "Share":
            begun = share_offsets(self._cluster, group_id)
            ends = listed_offsets(self._cluster, list(begun), LATEST)
            return {key: PartitionLag(one.start_offset, ends[key], one.lag, None) for key, one in begun.items()}
        committed = self.committed(group_id)
        holders = {key: member.member_id for member in group.members for key in member.assignment}
        ends = listed_offsets(self._cluster, sorted({*committed, *holders}), LATEST)
        lags = {}
        for key, end in ends.items():
            known = committed.get(key)
            offset = None if known is None else known.offset
            behind = None if offset is None else max(0, end - offset)
            lags[key] = PartitionLag(offset, end, behind, holders.get(key))
        return lags

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Commit for a group that has no members.

        Raises GroupNotEmpty, UnknownTopicOrPartition, TypeError, ValueError (Kafka: alterConsumerGroupOffsets).

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.committed("billing")[orders].offset
        1
        """
        wanted = checked_positions(offsets)
        for key in wanted:
            self._cluster.leader(key)
        topics = OffsetCommitRequest.offsets(wanted)
        message = OffsetCommitRequest(group_id=checked_name("group_id", group_id), topics=topics)
        error = message.first_error(self._cluster.ask(message))
        raise_first([in_use(group_id) if isinstance(error, UnknownMemberId) else error])

    def reset_offsets(
        self, group_id: str, to: Literal["earliest", "latest"] | None = None, *, offset: int | None = None,
        time_ms: int | None = None, shift: int | None = None,
        partitions: Sequence[TopicPartition] | None = None, dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
        """Reset the committed offsets of a group in `partitions`, or in all that it has committed: to an end, to an
        offset, to the first record that is not older than a time, or by so many records on (or back).

        An offset outside of the log becomes the nearest end. With `dry_run` nothing is changed. Raises GroupNotEmpty,
        GroupIdNotFound (where no partitions are given), UnknownTopicOrPartition, TypeError, ValueError (none or several
        of the ways are given).

        >>> admin.alter_offsets("billing", {orders: 2})
        >>> admin.reset_offsets("billing", "earliest")
        {TopicPartition(topic='orders', partition=0): OffsetMove(before=2, after=0)}
        """
        reset = Reset(to, offset=offset, time_ms=time_ms, shift=shift)
        committed = {key: found.offset for key, found in self.committed(group_id).items()}
        if self._has_members(group_id, may_be_unknown=partitions is not None or bool(committed)):
            # In vain: its members would go on where they are.
            raise in_use(group_id)
        keys = list(committed) if partitions is None else [checked_partition(key) for key in partitions]
        changes = reset.moves(self._cluster, group_id, committed, keys)
        if not dry_run and changes:
            self.alter_offsets(group_id, {key: change.after for key, change in changes.items()})
        return changes

    def _has_members(self, group_id: str, *, may_be_unknown: bool) -> bool:
        try:
            return bool(self.describe_group(group_id).members)
        except GroupIdNotFound:
            if not may_be_unknown:
                raise
            return False

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group has committed in partitions of topics that no member subscribes to.

        Raises GroupIdNotFound, GroupSubscribedToTopic, UnknownTopicOrPartition.

        >>> admin.alter_offsets("billing", {orders: 1})
        >>> admin.delete_offsets("billing", [orders])
        >>> admin.committed("billing")
        {}
        """
        part = OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition
        topics = OffsetDeleteRequest.by_topic(
            (key, part(partition_index=key.partition)) for key in map(checked_partition, partitions)
        )
        message = OffsetDeleteRequest(group_id=checked_name("group_id", group_id), topics=topics)
        raise_first(one.error for one in message.found(self._cluster.ask(message)).values())
