"""One partition of `__share_group_state` as a machine: requests and the time in, effects out.

    Initialize   a group begins a partition, or begins it again: a new state epoch
    Read         a leader takes a partition up: all that is written of it, and no older leader writes from then on
    Write        a leader notes what members have done
    Delete       the group is gone, or the topic

    request -> errors of single partitions, or a record each -> Append -> replayed: that is the state now

After `share.coordinator.snapshot.update.records.per.snapshot` updates a partition's state is written as a whole. Once
in a while a tick writes all of them so, and what lies before in the log is dropped (`DropBefore`): nothing of it counts
any more. (Kafka compacts nothing here either; it drops what lies before the oldest state: ShareCoordinatorShard.)

Invariant: the states are the replay of the log, and change by nothing else. A request that is refused writes nothing.
An answer that appends nothing tells of what was replayed of its partitions: it waits until that is safe.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pylog.config import NodeConfig
from pylog.coordinator.effects import Answer, Append, DropBefore, Effect, LogRecord, Now, Stamp, TopicInfo, TopicsView
from pylog.coordinator.share.records import ShareKey, ShareState, ShareUpdate, read, record_of
from pylog.coordinator.share.states import StoredBatch, combined
from pylog.errors import (
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    ProtocolError,
    PylogError,
    UnknownTopicOrPartition,
)
from pylog.protocol.messages import Session, share_state
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    StateRequest,
    WriteShareGroupStateRequest,
)
from pylog.record import TopicPartition

UNTOLD = -1
"""An epoch, an offset or a count that is not told."""
Content = ShareState | ShareUpdate | None
ReadResult = ReadShareGroupStateRequest.part_result
SummaryResult = ReadShareGroupStateSummaryRequest.part_result


@dataclass(slots=True)
class _Known:
    """A state, and what is not in its records."""

    state: ShareState
    leader_epoch: int
    """The latest leader that was heard of."""
    updates: int = 0
    """How many there are since the state was written as a whole."""
    end: int = 0
    """Where its last record ends, as far as this machine has appended it."""


class ShareCoordinator:
    """An `effects.Coordinator` for one partition. The host gives it requests about share partitions that hash to it."""

    def __init__(self, partition: int, config: NodeConfig, topics: TopicsView) -> None:
        self.partition = partition
        self._config = config
        self._topics = topics
        self._named: Mapping[str, TopicInfo] = {}
        self._by_id: dict[int, TopicInfo] = {}
        self._states: dict[ShareKey, _Known] = {}
        self.safe_end = 0
        self._has_old = False
        """Whether there are records that later ones replace."""
        self._prune_tick = 0
        self._written_whole: tuple[int, int] | None = None
        """Where the records lie that have all states: what is before them is dropped when they are safe."""

    @property
    def states(self) -> dict[ShareKey, ShareState]:
        """The state of each partition of a share group in the log."""
        return {key: known.state for key, known in self._states.items()}

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: LogRecord, stamp: Stamp | None = None) -> None:
        """Take over a record of the log. Raises UnsupportedFormat, CorruptBatch."""
        self._take(*read(record))

    def appended(self, append: Append, end: int) -> None:
        """Take over an Append of its own, as `replay` would with each of its records."""
        for key, content in append.says:
            known = self._take(key, content)
            if known is not None:
                known.end = end
        if append.context is not None:
            self._has_old, self._written_whole = False, (end - len(append.records), end)

    def _take(self, key: ShareKey, content: Content) -> _Known | None:
        """Take over what was written of a state; gives what it is from now on."""
        known = self._states.get(key)
        self._has_old = self._has_old or known is not None or content is None
        if content is None:
            self._states.pop(key, None)
            return None
        if isinstance(content, ShareState):
            leader_epoch = content.leader_epoch if known is None else max(known.leader_epoch, content.leader_epoch)
            known = self._states[key] = _Known(content, leader_epoch)
        elif known is not None:
            known.state = _updated(known.state, content)
            known.leader_epoch = max(known.leader_epoch, content.leader_epoch)
            known.updates += 1
        return known

    def replay_marker(self, stamp: Stamp, *, committed: bool) -> None:
        """Do nothing: this log has no transactions."""

    def take_over(self, now: Now) -> list[Effect]:
        """Begin to answer."""
        self._put_pruning_off(now)
        return []

    def append_failed(self, append: Append, error: PylogError, now: Now) -> list[Effect]:
        """Tell those who wait for it. Nothing has changed."""
        unavailable = CoordinatorNotAvailable(f"the state of a share group could not be stored: {error}")
        unavailable.__cause__ = error
        return [Answer(one.ticket, _refused(one.message, unavailable)) for one in append.answers]

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle(self, message: object, session: Session, ticket: int, now: Now) -> list[Effect]:
        """Answer a message about share partitions of this one."""
        assert isinstance(message, StateRequest), "the router sends no other message here"
        changes: list[tuple[ShareKey, Content]] = []
        tells = 0

        def part(topic_id: uuid.UUID, asked: Any) -> object:
            nonlocal tells
            if asked.partition < 0:
                raise InvalidRequest("The partition id cannot be a negative number.")
            key = ShareKey(message.group_id, topic_id.int, asked.partition)
            known = self._states.get(key)
            if known is not None:
                tells = max(tells, known.end)
            return self._part(message, key, known, asked, now, changes)

        answer = Answer(ticket, message.answered(part))
        records = [record_of(*change) for change in changes]
        return [Append(records, [answer], says=changes, tells=tells)]

    def _part(
        self, message: object, key: ShareKey, known: _Known | None, asked: Any, now: Now,
        changes: list[tuple[ShareKey, Content]],
    ) -> object:  # fmt: skip
        match message:
            case WriteShareGroupStateRequest():
                changes.append((key, self._written(key, _found(known, "Write"), asked, now)))
            case ReadShareGroupStateRequest():
                return self._read(key, _found(known, "Read"), asked, now, changes)
            case InitializeShareGroupStateRequest():
                changes.append((key, self._begun(key, known, asked, now)))
            case DeleteShareGroupStateRequest():
                self._check_there(key)
                if known is not None:
                    changes.append((key, None))
            case _:
                assert isinstance(message, ReadShareGroupStateSummaryRequest), "there are five requests"
                return self._summary(key, known)
        return PartitionResult(partition=key.partition)

    def _begun(self, key: ShareKey, known: _Known | None, asked: Any, now: Now) -> ShareState:
        if known is not None:
            _check_state_epoch(known.state, asked.state_epoch)
        self._check_there(key)
        epoch = 0 if known is None else known.state.snapshot_epoch + 1
        count = UNTOLD if asked.start_offset == UNTOLD else 0
        return ShareState(epoch, asked.state_epoch, 0, asked.start_offset, count, now.wall, now.wall, [])

    def _read(
        self, key: ShareKey, known: _Known, asked: Any, now: Now, changes: list[tuple[ShareKey, Content]]
    ) -> object:
        _check_leader_epoch(known, asked.leader_epoch)
        self._check_there(key)
        state = known.state
        if asked.leader_epoch not in (UNTOLD, known.leader_epoch):
            # An older leader is refused from now on.
            changes.append((key, self._change(known, asked.leader_epoch, state.start_offset,
                                              state.delivery_complete_count, [], now)))  # fmt: skip
        batches = [share_state.StateBatch(**batch._asdict()) for batch in state.batches]
        return ReadResult(
            partition=key.partition, state_epoch=state.state_epoch, start_offset=state.start_offset,
            state_batches=batches,
        )  # fmt: skip

    def _written(self, key: ShareKey, known: _Known, asked: Any, now: Now) -> ShareState | ShareUpdate:
        _check_leader_epoch(known, asked.leader_epoch)
        _check_state_epoch(known.state, asked.state_epoch)
        self._check_there(key)
        batches = [
            StoredBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in asked.state_batches
        ]
        count = asked.delivery_complete_count
        return self._change(known, known.state.leader_epoch, asked.start_offset, count, batches, now)

    def _summary(self, key: ShareKey, known: _Known | None) -> object:
        self._check_there(key)
        if known is None:
            return SummaryResult(partition=key.partition, start_offset=UNTOLD)
        state = known.state
        return SummaryResult(
            partition=key.partition, state_epoch=state.state_epoch, leader_epoch=state.leader_epoch,
            start_offset=state.start_offset, delivery_complete_count=state.delivery_complete_count,
        )  # fmt: skip

    def _change(
        self, known: _Known, leader_epoch: int, start_offset: int, complete: int, batches: list[StoredBatch], now: Now
    ) -> ShareState | ShareUpdate:
        """The record of a change: what has changed, or once in a while all of the state."""
        update = ShareUpdate(
            known.state.snapshot_epoch, leader_epoch, start_offset, complete, combined([], batches, start_offset)
        )
        if known.updates < self._config.share_coordinator_snapshot_update_records_per_snapshot:
            return update
        return _updated(known.state, update)._replace(
            snapshot_epoch=known.state.snapshot_epoch + 1, created_ms=now.wall, written_ms=now.wall
        )

    # --- what a request has to hold to -------------------------------------------------------------------------------

    def _check_there(self, key: ShareKey) -> None:
        named = self._topics.named()
        if named is not self._named:
            self._named, self._by_id = named, {info.id.int: info for info in named.values()}
        info = self._by_id.get(key.topic)
        if info is None or key.partition >= info.partitions:
            topic_id = uuid.UUID(int=key.topic)
            raise UnknownTopicOrPartition(f"there is no partition {key.partition} of a topic with id {topic_id}")

    # --- topics, time ------------------------------------------------------------------------------------------------

    def topic_deleted(self, name: str, topic_id: uuid.UUID, now: Now) -> list[Effect]:
        """Delete the states of a topic that is gone."""
        gone: list[tuple[ShareKey, Content]] = [(key, None) for key in self._states if key.topic == topic_id.int]
        return [Append([record_of(*change) for change in gone], says=gone)] if gone else []

    @property
    def due_ms(self) -> int | None:
        """When records are to be dropped that later ones replace, if there are any."""
        return self._prune_tick if self._has_old or self._written_whole is not None else None

    def tick(self, now: Now) -> list[Effect]:
        """Drop what lies before the states as a whole, and write these again."""
        if now.tick < self._prune_tick:
            return []
        self._put_pruning_off(now)
        effects: list[Effect] = []
        if self._written_whole is not None and self.safe_end >= self._written_whole[1]:
            effects.append(DropBefore(self._written_whole[0]))
            self._written_whole = None
        return effects + self._all_whole(now)

    def _all_whole(self, now: Now) -> list[Effect]:
        if not self._has_old or not self._states:
            return []
        whole: list[tuple[ShareKey, Content]] = [
            (key, known.state._replace(snapshot_epoch=known.state.snapshot_epoch + 1, written_ms=now.wall))
            for key, known in self._states.items()
        ]
        return [Append([record_of(*change) for change in whole], says=whole, context=True)]

    def _put_pruning_off(self, now: Now) -> None:
        self._prune_tick = now.tick + self._config.share_coordinator_state_topic_prune_interval_ms

    def expire(self, now: Now) -> list[Effect]:
        """Do nothing: states end with their groups, or topics."""
        return []

    # --- what this log has not ---------------------------------------------------------------------------------------

    is_ahead = False
    """All of the state is in the log."""

    def unsafe(self, message: object = None) -> Mapping[TopicPartition, int]:
        """No transaction ends here."""
        return {}

    def note_durable(self, ends: Mapping[TopicPartition, int]) -> None:
        """See `unsafe`."""

    def write_down(self, now: Now) -> list[Effect]:
        """See `is_ahead`."""
        return []

    def take_up(self, predecessor: object, now: Now) -> None:
        """See `is_ahead`."""


def _updated(state: ShareState, update: ShareUpdate) -> ShareState:
    """A state after an update."""
    start_offset = state.start_offset if update.start_offset == UNTOLD else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == UNTOLD else update.leader_epoch,
        start_offset=start_offset, delivery_complete_count=update.delivery_complete_count,
        batches=combined(state.batches, update.batches, start_offset),
    )  # fmt: skip


def _found(known: _Known | None, what: str) -> _Known:
    if known is None:
        raise InvalidRequest(f"{what} operation on uninitialized share partition not allowed.")
    return known


def _check_leader_epoch(known: _Known, leader_epoch: int) -> None:
    if leader_epoch != UNTOLD and known.leader_epoch > leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {leader_epoch} is over, the latest is {known.leader_epoch}")


def _check_state_epoch(state: ShareState, state_epoch: int) -> None:
    if state_epoch != UNTOLD and state.state_epoch > state_epoch:
        raise FencedStateEpoch(f"state epoch {state_epoch} is over, the latest is {state.state_epoch}")


def _refused(answer: Any, error: ProtocolError) -> object:
    """An answer that was not given, with an error for each partition that had none."""
    for topic in answer.results:
        for part in topic.partitions:
            part.error = part.error or error
    return answer
