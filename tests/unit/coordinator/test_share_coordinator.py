"""The share coordinator: Kafka's bytes, epochs, snapshots after updates, and what it drops of its log."""

import uuid
from typing import Any

import pytest

from pylog.config import NodeConfig
from pylog.coordinator.effects import Append, DropBefore, Effect, LogRecord, Now
from pylog.coordinator.share.coordinator import ShareCoordinator
from pylog.coordinator.share.records import ShareKey, ShareState, ShareUpdate, read, record_of
from pylog.coordinator.share.states import StoredBatch
from pylog.errors import (
    CoordinatorNotAvailable,
    CorruptBatch,
    DiskFull,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
    UnsupportedFormat,
)
from pylog.protocol.messages import Session, share_state
from pylog.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    StateRequest,
    WriteShareGroupStateRequest,
    share_partition_name,
)
from support.group_host import FixedTopics

ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
KEY = ShareKey.of("g-1", ID, 4)
BATCHES = [StoredBatch(10, 14, 2, 1), StoredBatch(15, 15, 0, 2)]
STATE = ShareState(3, 2, 7, 10, 5, 1_700_000_000_000, 1_700_000_000_001, BATCHES)
KEY_HEX = "00000003672d310102030405060708090a0b0c0d0e0f1000000004"
BATCHES_HEX = "03000000000000000a000000000000000e02000100000000000000000f000000000000000f00000200"
STATE_HEX = f"0000000000030000000200000007000000000000000a0000018bcfe568000000018bcfe56801{BATCHES_HEX}01000400000005"
UPDATE_HEX = f"00000000000300000007000000000000000a{BATCHES_HEX}01000400000005"
T0 = 1_700_000_000_000
TOPIC = uuid.UUID(int=1)


def record(key: str, value: str | None) -> LogRecord:
    return LogRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def test_records_are_those_of_kafka() -> None:
    update = ShareUpdate(3, 7, 10, 5, BATCHES)
    for content, written in (
        (STATE, record(KEY_HEX, STATE_HEX)),
        (update, record(f"0001{KEY_HEX[4:]}", UPDATE_HEX)),
        (None, record(KEY_HEX, None)),
    ):
        assert record_of(KEY, content) == written
        assert read(written) == (KEY, content)


def test_the_name_of_a_share_partition_is_that_of_kafka() -> None:
    assert share_partition_name("g-1", ID, 4) == "g-1:AQIDBAUGBwgJCgsMDQ4PEA:4"


def test_a_record_of_a_newer_version_and_a_damaged_one() -> None:
    with pytest.raises(UnsupportedFormat):
        read(record(f"0007{KEY_HEX[4:]}", None))
    with pytest.raises(UnsupportedFormat):
        read(record(KEY_HEX, f"0009{STATE_HEX[4:]}"))
    with pytest.raises(CorruptBatch):
        read(record("00", None))
    with pytest.raises(CorruptBatch):
        read(record(KEY_HEX, STATE_HEX[:-30]))


class Desk:
    """A coordinator with a log, and a second one that replays it."""

    def __init__(self, **config: int) -> None:
        self.config = NodeConfig(**config)
        self.topics = FixedTopics(t=2)
        self.now = Now(T0, 0)
        self.machine, self.log = ShareCoordinator(0, self.config, self.topics), list[LogRecord]()
        self.start = 0
        self.refuses: DiskFull | None = None
        self.tells = 0
        self.carry_out(self.machine.take_over(self.now))

    def carry_out(self, effects: list[Effect]) -> list[Any]:
        answers: list[Any] = []
        for effect in effects:
            if isinstance(effect, DropBefore):
                self.start = effect.offset
                continue
            assert isinstance(effect, Append)
            if effect.records and self.refuses is not None:
                answers += self.machine.append_failed(effect, self.refuses, self.now)
                continue
            self.log += effect.records
            self.tells = effect.tells
            self.machine.appended(effect, len(self.log))
            answers += effect.answers
        self.machine.safe_end = len(self.log)
        replayed = ShareCoordinator(0, self.config, self.topics)
        for one in self.log[self.start :]:
            replayed.replay(one)
        assert replayed.states == self.machine.states, "the state is the replay of the log"
        return [answer.message for answer in answers]

    def ask(self, message: StateRequest[Any]) -> Any:
        """The part of the answer about the one partition that is asked."""
        (answer,) = self.carry_out(self.machine.handle(message, Session(), 1, self.now))
        return answer.results[0].partitions[0]

    def begin(self, state_epoch: int = 1, start_offset: int = -1, partition: int = 0, topic: uuid.UUID = TOPIC) -> Any:
        data = InitializeShareGroupStateRequest.InitializeStateData
        part = data.PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
        return self.ask(
            InitializeShareGroupStateRequest(group_id="g", topics=[data(topic_id=topic, partitions=[part])])
        )

    def read(self, leader_epoch: int = 0) -> Any:
        data = ReadShareGroupStateRequest.ReadStateData
        part = data.PartitionData(partition=0, leader_epoch=leader_epoch)
        return self.ask(ReadShareGroupStateRequest(group_id="g", topics=[data(topic_id=TOPIC, partitions=[part])]))

    def summary(self) -> Any:
        data = ReadShareGroupStateSummaryRequest.ReadStateSummaryData
        part = data.PartitionData(partition=0, leader_epoch=0)
        return self.ask(
            ReadShareGroupStateSummaryRequest(group_id="g", topics=[data(topic_id=TOPIC, partitions=[part])])
        )

    def write(self, *batches: tuple[int, int, int, int], start: int = 0, state_epoch: int = 1, leader: int = 0) -> Any:
        data = WriteShareGroupStateRequest.WriteStateData
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        part = data.PartitionData(
            partition=0, state_epoch=state_epoch, leader_epoch=leader, start_offset=start, delivery_complete_count=2,
            state_batches=[share_state.StateBatch(**dict(zip(names, one, strict=True))) for one in batches],
        )  # fmt: skip
        return self.ask(WriteShareGroupStateRequest(group_id="g", topics=[data(topic_id=TOPIC, partitions=[part])]))

    def delete(self, topic: uuid.UUID = TOPIC) -> Any:
        data = DeleteShareGroupStateRequest.DeleteStateData
        part = data.PartitionData(partition=0)
        return self.ask(DeleteShareGroupStateRequest(group_id="g", topics=[data(topic_id=topic, partitions=[part])]))

    def logged(self) -> list[ShareState | ShareUpdate | None]:
        return [read(one)[1] for one in self.log]


def test_a_partition_begins_is_written_and_read() -> None:
    desk = Desk()
    assert desk.begin().error is None
    assert (desk.read().start_offset, desk.read().state_epoch) == (-1, 1)
    assert desk.write((0, 9, 2, 1), (10, 19, 0, 1)).error is None
    assert desk.write((5, 9, 2, 1), (10, 10, 4, 2), start=5).error is None
    found = desk.read()
    kept = [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in found.state_batches]
    assert (found.start_offset, kept) == (5, [(5, 9, 2, 1), (10, 10, 4, 2), (11, 19, 0, 1)])
    first, *updates = desk.logged()
    assert first == ShareState(0, 1, 0, -1, -1, T0, T0, [])
    assert updates[0] == ShareUpdate(0, 0, 0, 2, [StoredBatch(0, 9, 2, 1), StoredBatch(10, 19, 0, 1)])
    assert desk.summary().delivery_complete_count == 2


def test_what_was_never_begun_is_neither_read_nor_written() -> None:
    desk = Desk()
    assert isinstance(desk.read().error, InvalidRequest)
    assert isinstance(desk.write().error, InvalidRequest)
    found = desk.summary()
    assert (found.error, found.start_offset, found.delivery_complete_count) == (None, -1, -1)
    assert desk.delete().error is None
    assert not desk.log


def test_an_older_state_epoch_is_fenced() -> None:
    desk = Desk()
    desk.begin(state_epoch=4, start_offset=7)
    assert isinstance(desk.write(state_epoch=3).error, FencedStateEpoch)
    assert isinstance(desk.begin(state_epoch=3).error, FencedStateEpoch)
    assert desk.begin(state_epoch=5, start_offset=2).error is None
    assert desk.machine.states[ShareKey.of("g", TOPIC, 0)] == ShareState(1, 5, 0, 2, 0, T0, T0, [])


def test_a_leader_that_reads_fences_the_one_before() -> None:
    desk = Desk()
    desk.begin()
    assert desk.read(leader_epoch=3).error is None
    assert isinstance(desk.write(leader=2).error, FencedLeaderEpoch)
    assert isinstance(desk.read(leader_epoch=2).error, FencedLeaderEpoch)
    assert desk.write(leader=3).error is None
    assert desk.logged()[1] == ShareUpdate(0, 3, -1, -1, [])
    size = len(desk.log)
    assert desk.read(leader_epoch=3).error is None
    assert len(desk.log) == size, "the same leader reads without a record"
    assert desk.summary().leader_epoch == 3


@pytest.mark.parametrize("method", ["begin", "delete"])
def test_a_topic_that_is_not_there(method: str) -> None:
    desk = Desk()
    assert isinstance(getattr(desk, method)(topic=uuid.UUID(int=9)).error, UnknownTopicOrPartition)
    assert isinstance(desk.begin(partition=2).error, UnknownTopicOrPartition)
    assert isinstance(desk.begin(partition=-1).error, InvalidRequest)


def test_the_state_is_written_as_a_whole_after_so_many_updates() -> None:
    desk = Desk(share_coordinator_snapshot_update_records_per_snapshot=2)
    desk.begin(start_offset=0)
    for offset in range(4):
        desk.now = Now(T0 + offset, offset)
        desk.write((offset, offset, 2, 1))
    assert [type(one) for one in desk.logged()] == [ShareState, ShareUpdate, ShareUpdate, ShareState, ShareUpdate]
    assert desk.logged()[3] == ShareState(1, 1, 0, 0, 2, T0 + 2, T0 + 2, [StoredBatch(0, 2, 2, 1)])
    assert desk.logged()[4] == ShareUpdate(1, 0, 0, 2, [StoredBatch(3, 3, 2, 1)])


def test_a_deleted_state_is_gone_and_begins_anew() -> None:
    desk = Desk()
    desk.begin(state_epoch=4)
    assert desk.delete().error is None
    assert desk.logged()[-1] is None
    assert isinstance(desk.read().error, InvalidRequest)
    assert desk.begin(state_epoch=1).error is None


def test_the_states_of_a_deleted_topic_go_with_it() -> None:
    desk = Desk()
    desk.begin()
    desk.begin(partition=1)
    desk.carry_out(desk.machine.topic_deleted("t", TOPIC, desk.now))
    assert desk.logged()[2:] == [None, None]
    assert not desk.machine.topic_deleted("t", TOPIC, desk.now)


def test_what_later_records_replace_is_dropped_when_all_of_it_is_safe() -> None:
    desk = Desk(share_coordinator_state_topic_prune_interval_ms=100)
    desk.begin(start_offset=0)
    assert desk.machine.due_ms is None
    desk.write((0, 0, 2, 1))
    assert desk.machine.due_ms == 100
    desk.carry_out(desk.machine.tick(Now(T0, 99)))
    assert len(desk.log) == 2
    desk.carry_out(desk.machine.tick(Now(T0 + 100, 100)))
    assert desk.logged()[2] == ShareState(1, 1, 0, 0, 2, T0, T0 + 100, [StoredBatch(0, 0, 2, 1)])
    assert (desk.start, desk.machine.due_ms) == (0, 200)
    desk.carry_out(desk.machine.tick(Now(T0 + 200, 200)))
    assert (desk.start, len(desk.log), desk.machine.due_ms) == (2, 3, None)


def test_nothing_is_dropped_that_is_not_safe_to_drop() -> None:
    desk = Desk(share_coordinator_state_topic_prune_interval_ms=100)
    desk.begin(start_offset=0)
    desk.write((0, 0, 2, 1))
    desk.carry_out(desk.machine.tick(Now(T0, 100)))
    desk.machine.safe_end = 2
    assert desk.machine.tick(Now(T0, 200)) == []


def test_an_answer_without_a_record_waits_for_what_it_tells_of() -> None:
    desk = Desk()
    desk.begin()
    desk.write((0, 0, 2, 1))
    desk.read()
    assert desk.tells == 2


def test_a_state_that_cannot_be_stored_is_not_known() -> None:
    desk = Desk()
    desk.begin()
    desk.refuses = DiskFull("full")
    assert isinstance(desk.write((0, 0, 2, 1)).error, CoordinatorNotAvailable)
    desk.refuses = None
    assert desk.read().state_batches == []


def test_a_change_of_a_state_that_was_deleted_changes_nothing() -> None:
    machine = Desk().machine
    machine.replay(record_of(KEY, ShareUpdate(0, 1, 5, 0, BATCHES)))
    assert machine.states == {}


def test_states_do_not_expire() -> None:
    desk = Desk()
    desk.begin()
    assert desk.machine.expire(Now(T0 + 10**12, 10**12)) == [] and len(desk.machine.states) == 1
