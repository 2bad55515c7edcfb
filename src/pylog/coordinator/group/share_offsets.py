"""The requests about how far a share group is: describe, alter and delete. What is known of that the share coordinator
has, so each asks it (Kafka: GroupCoordinatorService).

To alter and to delete is done in three steps: the group notes what is to be, the share coordinator does it, the group
notes that it is done. A crash in between leaves a note, and the next request goes on from there.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pylog.coordinator.effects import Answer, Effect, Now
from pylog.coordinator.group.consumer_records import Slot
from pylog.coordinator.group.effects_builder import EffectsBuilder, not_stored
from pylog.coordinator.group.share_group import ShareGroup
from pylog.coordinator.group.share_heartbeat import note_begun
from pylog.coordinator.group.share_records import Begun
from pylog.coordinator.group.share_update import initialize
from pylog.coordinator.group.target_assignment import TopicInfos
from pylog.errors import GroupNotEmpty, PylogError, UnknownTopicOrPartition
from pylog.protocol.messages import NO_ID
from pylog.protocol.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupOffset,
    ShareGroupOffsets,
)
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)

Described = ShareGroupOffsets.DescribeShareGroupOffsetsResponseTopic
AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
NOT_BEGUN = -1


# --- describe --------------------------------------------------------------------------------------------------------


def describe(
    message: DescribeShareGroupOffsetsRequest, group: ShareGroup | None, topics: TopicInfos, ticket: int,
    out: EffectsBuilder,
) -> None:  # fmt: skip
    """Tell where a group begins in each partition; the lag is left to the node, which has the ends."""
    (asked,) = message.groups
    if asked.topics is None:
        names = {info.id: name for name, info in topics.items()}
        begun = {} if group is None else group.states.initialized
        wanted = {names[one]: (one, sorted(found.partitions)) for one, found in begun.items() if one in names}
        missing = []
    else:
        there = [one for one in asked.topics if one.topic_name in topics]
        wanted = {one.topic_name: (topics[one.topic_name].id, one.partitions) for one in there}
        missing = [_not_begun(one.topic_name, one.partitions) for one in asked.topics if one.topic_name not in topics]
    if not wanted:
        found = ShareGroupOffsets(group_id=asked.group_id, topics=missing)
        out.answer(ticket, DescribeShareGroupOffsetsResponse(groups=[found]))
        return
    topic = ReadShareGroupStateSummaryRequest.ReadStateSummaryData
    question = ReadShareGroupStateSummaryRequest(group_id=asked.group_id, topics=[
        topic(topic_id=topic_id, partitions=[topic.PartitionData(partition=one, leader_epoch=0) for one in numbers])
        for topic_id, numbers in wanted.values()
    ])  # fmt: skip

    def told(answer: Any, now: Now) -> list[Effect]:
        if isinstance(answer, PylogError):
            return [Answer(ticket, message.refused(answer))]
        of_ids = {topic_id: name for name, (topic_id, _) in wanted.items()}
        known = [
            Described(
                topic_name=of_ids[one.topic_id], topic_id=one.topic_id, partitions=[*map(_described, one.partitions)]
            )
            for one in answer.results
        ]
        group_offsets = ShareGroupOffsets(group_id=asked.group_id, topics=[*known, *missing])
        return [Answer(ticket, DescribeShareGroupOffsetsResponse(groups=[group_offsets]))]

    out.ask(question, told)


def _not_begun(name: str, partitions: list[int]) -> Described:
    parts = [ShareGroupOffset(partition_index=number, start_offset=NOT_BEGUN) for number in partitions]
    return Described(topic_name=name, topic_id=NO_ID, partitions=parts)


def _described(summary: Any) -> ShareGroupOffset:
    if summary.error is not None:
        return ShareGroupOffset(partition_index=summary.partition, start_offset=NOT_BEGUN)
    return ShareGroupOffset(
        partition_index=summary.partition, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch,
        delivery_complete_count=summary.delivery_complete_count,
    )  # fmt: skip


# --- alter -----------------------------------------------------------------------------------------------------------


def alter(
    message: AlterShareGroupOffsetsRequest, group: ShareGroup, topics: TopicInfos, ticket: int, out: EffectsBuilder
) -> None:
    """Begin partitions again, from the offsets that are given. Raises GroupNotEmpty."""
    _check_empty(group)
    starts: dict[Slot, int] = {}
    responses = []
    for topic in message.topics:
        info = topics.get(topic.topic_name)
        answered = AlteredTopic(topic_name=topic.topic_name, topic_id=NO_ID if info is None else info.id, partitions=[])
        responses.append(answered)
        for part in topic.partitions:
            is_there = info is not None and part.partition_index < info.partitions
            error = (
                None if is_there else UnknownTopicOrPartition(f"{topic.topic_name}-{part.partition_index} is not there")
            )
            made = AlteredTopic.AlterShareGroupOffsetsResponsePartition
            answered.partitions.append(made(partition_index=part.partition_index, error=error))
            if info is not None and is_there:
                starts[info.id, part.partition_index] = part.start_offset
    answer = AlterShareGroupOffsetsResponse(responses=responses)
    if not starts:
        out.answer(ticket, answer)
        return
    states = group.states
    names = {info.id: name for name, info in topics.items()}
    initializing = dict(states.initializing)
    for topic_id, number in starts:
        known = initializing.get(topic_id, Begun(names[topic_id], frozenset()))
        initializing[topic_id] = Begun(known.name, known.partitions | {number})
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
    question = initialize(group.group_id, group.epoch.epoch, starts)
    noted = group.state_record(states._replace(initializing=initializing, deleting=deleting))

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        out.answer(ticket, message.refused(not_stored(error)))

    def told(result: Any, now: Now) -> list[Effect]:
        out = EffectsBuilder(now)
        errors = _errors(question, result)
        note_begun(group.live, starts.keys() - errors.keys(), starts.keys(), out)
        for topic in responses:
            for part in topic.partitions:
                part.error = part.error or errors.get((topic.topic_id, part.partition_index))
        out.write((), [Answer(ticket, answer)], failed, tells=group.live.logged_end)
        return out.effects()

    out.write([noted], (), failed)
    out.ask(question, told)


def _errors(
    question: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest, answer: Any
) -> dict[Slot, PylogError]:
    """The errors of partitions in an answer, or that of all."""
    if isinstance(answer, PylogError):
        return {(topic_id, part.partition): answer for topic_id, part in question.keyed()}
    return {
        (topic.topic_id, part.partition): part.error
        for topic in answer.results
        for part in topic.partitions
        if part.error is not None
    }


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise GroupNotEmpty(f"group {group.group_id!r} has members: let them leave first")


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(
    message: DeleteShareGroupOffsetsRequest, group: ShareGroup, topics: TopicInfos, ticket: int, out: EffectsBuilder
) -> None:
    """Forget topics. Raises GroupNotEmpty."""
    _check_empty(group)
    chosen: dict[UUID, tuple[str, list[int]]] = {}
    refused = []
    for topic in message.topics:
        info = topics.get(topic.topic_name)
        if info is not None and info.id in group.states.initialized:
            chosen[info.id] = topic.topic_name, sorted(group.states.initialized[info.id].partitions)
        elif info is not None and info.id in group.states.deleting:
            chosen[info.id] = topic.topic_name, [*range(info.partitions)]
        else:
            error = UnknownTopicOrPartition(f"group {group.group_id!r} has no state of topic {topic.topic_name!r}")
            refused.append(DeletedTopic(topic_name=topic.topic_name, error=error))
    if not chosen:
        out.answer(ticket, DeleteShareGroupOffsetsResponse(responses=refused))
        return
    question = _forget(group, {topic_id: numbers for topic_id, (_, numbers) in chosen.items()})

    def failed(error: PylogError, out: EffectsBuilder) -> None:
        out.answer(ticket, DeleteShareGroupOffsetsResponse(error=not_stored(error)))

    def told(answer: Any, now: Now) -> list[Effect]:
        errors = {topic_id: error for (topic_id, _), error in _errors(question, answer).items()}
        done = [
            DeletedTopic(topic_name=name, topic_id=topic_id, error=errors.get(topic_id))
            for topic_id, (name, _) in chosen.items()
        ]
        deleting = {
            one: name for one, name in group.states.deleting.items() if one not in chosen or one in errors
        }  # fmt: skip
        out = EffectsBuilder(now)
        response = DeleteShareGroupOffsetsResponse(responses=[*done, *refused])
        out.write([group.state_record(group.states._replace(deleting=deleting))], [Answer(ticket, response)], failed)
        return out.effects()

    initialized = {one: begun for one, begun in group.states.initialized.items() if one not in chosen}
    deleting = {**group.states.deleting, **{topic_id: name for topic_id, (name, _) in chosen.items()}}
    noted = group.states._replace(initialized=initialized, deleting=deleting)
    out.write([group.state_record(noted)], (), failed)
    out.ask(question, told)


def _forget(group: ShareGroup, partitions: Mapping[UUID, list[int]]) -> DeleteShareGroupStateRequest:
    topic = DeleteShareGroupStateRequest.DeleteStateData
    return DeleteShareGroupStateRequest(group_id=group.group_id, topics=[
        topic(topic_id=topic_id, partitions=[topic.PartitionData(partition=number) for number in numbers])
        for topic_id, numbers in partitions.items()
    ])  # fmt: skip


def forget_all(group: ShareGroup, out: EffectsBuilder) -> DeleteShareGroupStateRequest | None:
    """Note that all state of a group is to go; return the question for it, or None where it has no state."""
    states, topics = group.states, {info.id: info.partitions for info in group.topics.named().values()}
    begun: dict[UUID, set[int]] = {}
    names: dict[UUID, str] = {}
    for topic_id, one in (*states.initialized.items(), *states.initializing.items()):
        begun.setdefault(topic_id, set()).update(one.partitions)
        names[topic_id] = one.name
    for topic_id, name in states.deleting.items():
        if topic_id in topics:
            begun.setdefault(topic_id, set()).update(range(topics[topic_id]))
            names[topic_id] = name
    if not begun:
        return None
    out.write([group.state_record(states._replace(initializing={}, initialized={}, deleting=names))])
    return _forget(group, {topic_id: sorted(numbers) for topic_id, numbers in begun.items()})


def topic_deleted(group: ShareGroup, topic_id: UUID, out: EffectsBuilder) -> None:
    """Forget a topic that is gone, whose state the share coordinator forgets by itself."""
    found = group.states.without(topic_id)
    if found != group.states:
        out.write([group.state_record(found)])
