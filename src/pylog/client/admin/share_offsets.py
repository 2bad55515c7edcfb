"""Offsets of share groups: the progress of a group, what its members have, and where it begins again (KIP-932)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from pylog.client.admin.groups import GroupAdmin
from pylog.client.admin.offset_moves import OffsetMove, Reset, in_use
from pylog.client.cluster import Cluster, about, checked_name, checked_names, raise_first
from pylog.errors import GroupIdNotFound, PylogError
from pylog.protocol.messages.configs import SHARE_STANDING, DescribeConfigsRequest, ResourceType
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)
from pylog.record import TopicPartition, checked_partition, checked_positions


class ShareOffset(NamedTuple):
    """The progress of a share group in a partition (Kafka: SharePartitionOffsetInfo)."""

    start_offset: int | None
    """All before it is done, and perhaps some behind it. None: it has read nothing yet."""
    leader_epoch: int
    lag: int | None
    """How many records are not done; None where it is not known."""


class ShareStanding(NamedTuple):
    """The records of a partition that members of a share group were given, and have not done."""

    start_offset: int
    end_offset: int
    """Behind the last record that was delivered."""
    acquired: int
    """How many records members have now."""
    deliveries: dict[int, int]
    """How many records were delivered so often, by the number of deliveries: those that members have, and those that
    came free again.
    """
    oldest_lock_ms: int | None
    """How long ago the oldest lock has begun, or was renewed; None: no record is locked."""

    @property
    def in_flight(self) -> int:
        """The number of records that were delivered, and are not done."""
        return sum(self.deliveries.values())


class ShareOffsetAdmin(GroupAdmin):
    """Admin calls about the offsets of share groups."""

    def share_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """The progress of a share group in all partitions that it has begun, or in these (Kafka:
        listShareGroupOffsets). A group that is not there has begun nothing. Raises TypeError, and errors of the
        coordinator.

        >>> admin.alter_share_offsets("tasks", {orders: 1})
        >>> admin.share_offsets("tasks")
        {TopicPartition(topic='orders', partition=0): ShareOffset(start_offset=1, leader_epoch=0, lag=2)}
        """
        return share_offsets(self._cluster, group_id, partitions)

    def share_standing(self, group_id: str) -> dict[TopicPartition, ShareStanding] | None:
        """The records that members of a share group have now, in the partitions that the node leads and somebody
        reads; None where that is not known: a Kafka broker does not tell it, nor does a log with mode="read". At a
        cluster it is the partitions of one node. Raises errors of the node.

        >>> admin.alter_group_config("tasks", {"share.auto.offset.reset": "earliest"})
        >>> worker = log.share_consumer("orders", group_id="tasks")
        >>> records = worker.poll(60_000)
        >>> admin.share_standing("tasks")[orders].deliveries
        {1: 3}
        """
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ResourceType.GROUP, resource_name=checked_name("group_id", group_id),
            configuration_keys=[SHARE_STANDING],
        )  # fmt: skip
        (result,) = self._cluster.ask(DescribeConfigsRequest(resources=[resource])).results
        raise_first([result.error])
        told = next((one.value for one in result.configs if one.name == SHARE_STANDING), None)
        return None if told is None else dict(map(_standing, json.loads(told)))

    def alter_share_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group that has no members begin again from these offsets; a group that is not there is made.

        Raises GroupNotEmpty, GroupIdNotFound (there is a group of another type), UnknownTopicOrPartition, TypeError,
        ValueError (Kafka: alterShareGroupOffsets).

        >>> admin.alter_share_offsets("tasks", {orders: 1})
        >>> admin.share_offsets("tasks")[orders].start_offset
        1
        """
        part = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic.AlterShareGroupOffsetsRequestPartition
        topics = AlterShareGroupOffsetsRequest.by_topic(
            (key, part(partition_index=key.partition, start_offset=at.offset))
            for key, at in checked_positions(offsets).items()
        )
        message = AlterShareGroupOffsetsRequest(group_id=checked_name("group_id", group_id), topics=topics)
        raise_first([message.first_error(self._cluster.ask(message))])

    def reset_share_offsets(
        self, group_id: str, to: Literal["earliest", "latest"] | None = None, *, offset: int | None = None,
        time_ms: int | None = None, partitions: Iterable[TopicPartition] | None = None, dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetMove]:  # fmt: skip
        """Let a share group begin again in `partitions`, or in all that it has begun: at an end, at an offset, or at
        the first record that is not older than a time. Records that were done are given again.

        An offset outside of the log becomes the nearest end. With `dry_run` nothing is changed. Raises GroupNotEmpty,
        GroupIdNotFound (where no partitions are given, or there is a group of another type), UnknownTopicOrPartition,
        TypeError, ValueError (none or several of the ways are given).

        >>> admin.alter_share_offsets("tasks", {orders: 2})
        >>> admin.reset_share_offsets("tasks", "earliest")
        {TopicPartition(topic='orders', partition=0): OffsetMove(before=2, after=0)}
        """
        reset = Reset(to, offset=offset, time_ms=time_ms)
        keys = None if partitions is None else [checked_partition(key) for key in partitions]
        found = self.describe_groups([group_id])[group_id]
        if isinstance(found, PylogError):
            if keys is None or not isinstance(found, GroupIdNotFound):
                raise found
        elif found.type != "Share":
            raise GroupIdNotFound(f"there is no share group {group_id!r}: there is one of type {found.type}")
        elif found.members:
            raise in_use(group_id)
        before = {key: one.start_offset for key, one in self.share_offsets(group_id, keys).items()}
        changes = reset.moves(self._cluster, group_id, before, before)
        if not dry_run and changes:
            self.alter_share_offsets(group_id, {key: change.after for key, change in changes.items()})
        return changes

    def delete_share_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Forget the progress of a share group that has no members in topics: it begins as a new one there.

        Raises GroupNotEmpty, GroupIdNotFound, UnknownTopicOrPartition (the group has not begun the topic), after all
        were tried; TypeError (Kafka: deleteShareGroupOffsets).

        >>> admin.alter_share_offsets("tasks", {orders: 1})
        >>> admin.delete_share_offsets("tasks", ["orders"])
        >>> admin.share_offsets("tasks")
        {}
        """
        topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        wanted = [topic(topic_name=name) for name in dict.fromkeys(checked_names("topics", topics))]
        message = DeleteShareGroupOffsetsRequest(group_id=checked_name("group_id", group_id), topics=wanted)
        told = self._cluster.ask(message).responses
        raise_first(one.error and about("topic", one.topic_name, one.error) for one in told)


def share_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, ShareOffset]:
    """See `ShareOffsetAdmin.share_offsets`."""
    wanted = None if partitions is None else [checked_partition(key) for key in partitions]
    message = DescribeShareGroupOffsetsRequest.of(checked_name("group_id", group_id), wanted)
    answer = cluster.ask(message)
    raise_first([message.first_error(answer)])
    return {
        key: ShareOffset(_known(one.start_offset), one.leader_epoch, _known(one.lag))
        for key, one in sorted(message.found(answer).items())
    }


def _standing(told: list[Any]) -> tuple[TopicPartition, ShareStanding]:
    topic, partition, start, end, _, acquired, deliveries, oldest_ms = told
    by_count = {int(count): records for count, records in deliveries.items()}
    return TopicPartition(topic, partition), ShareStanding(start, end, acquired, by_count, oldest_ms)


def _known(number: int) -> int | None:
    return number if number >= 0 else None
