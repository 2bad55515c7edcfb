"""A leader whose followers count, and what waits for one that is away."""

from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition, errors
from pylog.protocol.messages import (
    ConsumerGroupHeartbeat,
    DescribeGroups,
    Heartbeat,
    InitProducerId,
    ListGroups,
    OffsetCommit,
    OffsetCommitPart,
    OffsetFetch,
    Session,
)

SESSION = Session()
SECONDS = 20
T0 = TopicPartition("t", 0)
ONE = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with pylog.open(tmp_path / "log", node_id=1, config=ONE) as log:
        log.create_topic("t")
        log.admin.alter_offsets("g", {T0: 1})
        yield log


def ask(log: pylog.Log, message: Any) -> Any:
    """The answer, which waits for nothing."""
    return log.broker.handle(message, SESSION).result(0)


def position(log: pylog.Log, group: str = "g") -> int:
    (part,) = ask(log, OffsetFetch(group, [T0])).parts
    assert part.error is None
    offset: int = part.offset
    return offset


def test_what_is_not_appended_waits_for_no_follower(log: pylog.Log) -> None:
    log.lead("__consumer_offsets", followers={2})
    commit = log.broker.handle(OffsetCommit("g", [OffsetCommitPart("t", 0, 5)]), SESSION)
    assert not commit.done()
    assert (position(log), position(log, "another")) == (1, -1)
    assert [group.group_id for group in ask(log, ListGroups()).groups] == ["g"]
    assert ask(log, DescribeGroups(["g"])).groups[0].error is None
    assert isinstance(ask(log, Heartbeat("another", "m", 1)).error, errors.UnknownMemberId)
    log.lead("__consumer_offsets")
    assert commit.result(0).errors == {T0: None}
    assert position(log) == 5


def test_a_consumer_group_waits_for_its_own_records_alone(log: pylog.Log) -> None:
    def heartbeat(group: str, member: str, epoch: int) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            group, member, epoch, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )

    joined = ask(log, heartbeat("h", "m", 0))
    assert joined.error is None
    log.lead("__consumer_offsets", followers={2})
    waiting = log.broker.handle(heartbeat("late", "m", 0), SESSION)
    again = log.broker.handle(heartbeat("late", "m", 0), SESSION)
    assert not waiting.done() and not again.done()
    assert ask(log, heartbeat("h", "m", joined.member_epoch)).error is None
    log.lead("__consumer_offsets")
    assert waiting.result(0).error is None and again.result(0).error is None


def test_a_transactional_id_waits_for_its_own_records_alone(log: pylog.Log) -> None:
    known = ask(log, InitProducerId("known"))
    log.lead("__transaction_state", followers={2})
    waiting = log.broker.handle(InitProducerId("late"), SESSION)
    assert not waiting.done()
    with log.producer() as producer:
        assert producer.send("t", b"x").result(SECONDS).offset == 0
    assert [one.transactional_id for one in log.admin.list_transactions()] == ["known", "late"]
    fenced = ask(log, InitProducerId("known", 60_000, known.producer_id, known.producer_epoch + 5))
    assert isinstance(fenced.error, errors.ProducerFenced)
    log.lead("__transaction_state")
    assert waiting.result(0).error is None
