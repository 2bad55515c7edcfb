"""Share groups as the admin sees them: members, how far they are, and where they begin again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.client.admin.share_offsets import ShareOffset
from pylog.errors import GroupIdNotFound, GroupNotEmpty, PylogError, UnknownTopicOrPartition
from pylog.record import TopicPartition
from unit.client.test_group_admin import log

__all__ = ["log"]

T0 = TopicPartition("t", 0)
NOWHERE = TopicPartition("nowhere", 0)
WAIT_MS = 60_000


def fill(log: Any) -> None:
    with log.producer() as producer:
        for number in range(5):
            producer.send("t", b"%d" % number, timestamp_ms=1000 + number)


def test_a_share_group_is_listed_and_described_with_its_members(log: Any) -> None:
    fill(log)
    log.admin.reset_share_offsets("g", "earliest", partitions=[T0])
    with log.share_consumer("t", group_id="g", client_id="worker") as consumer:
        assert len(consumer.poll(WAIT_MS)) == 5
        (listed,) = log.admin.list_groups(types=["share"])
        found = log.admin.describe_group("g")
        (member,) = found.members
        assert (listed.group_id, listed.state, listed.type) == ("g", "Stable", "Share")
        assert (found.state, found.type, found.assignor) == ("Stable", "Share", "simple")
        assert (member.client_id, member.subscription, member.assignment) == ("worker", ("t",), (T0,))
        assert member.epoch == found.assignment_epoch == found.generation > 0
        for refused in (
            lambda: log.admin.reset_share_offsets("g", "earliest", dry_run=True),
            lambda: log.admin.alter_share_offsets("g", {T0: 1}),
            lambda: log.admin.delete_share_offsets("g", ["t"]),
            lambda: log.admin.delete_group("g"),
        ):
            with pytest.raises(GroupNotEmpty):
                refused()
    assert log.admin.describe_group("g").members == ()
    assert [one.group_id for one in log.admin.list_groups(types=["classic"])] == []


def test_how_far_it_is_is_what_is_left_to_do(log: Any) -> None:
    fill(log)
    log.admin.alter_share_offsets("g", {T0: 0})
    assert log.admin.share_offsets("g") == {T0: ShareOffset(0, 0, 5)}
    with log.share_consumer("t", group_id="g", acknowledgement="explicit") as consumer:
        for record in consumer.poll(WAIT_MS):
            consumer.acknowledge(record, "release" if record.offset == 3 else "accept")
    assert log.admin.share_offsets("g")[T0].lag == log.admin.lag("g")[T0].lag == 1
    assert log.admin.lag("g")[T0].end_offset == 5
    assert log.admin.share_offsets("g", [NOWHERE]) == {NOWHERE: ShareOffset(None, 0, None)}
    assert log.admin.share_offsets("none") == {}


@pytest.mark.parametrize(
    ("way", "after"),
    [({"to": "earliest"}, 0), ({"to": "latest"}, 5), ({"offset": 3}, 3), ({"offset": 99}, 5), ({"time_ms": 1002}, 2)],
)
def test_it_begins_again_where_it_is_told(way: dict[str, Any], after: int) -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        fill(log)
        admin = log.admin
        assert admin.reset_share_offsets("g", **way, partitions=[T0]) == {T0: (None, after)}
        admin.alter_share_offsets("g", {T0: 1})
        assert admin.reset_share_offsets("g", **way, dry_run=True) == {T0: (1, after)}
        assert admin.share_offsets("g")[T0].start_offset == 1
        assert admin.reset_share_offsets("g", **way) == {T0: (1, after)}
        assert admin.share_offsets("g")[T0] == ShareOffset(after, 0, 5 - after)


def test_it_forgets_a_topic_and_is_forgotten(log: Any) -> None:
    fill(log)
    log.admin.alter_share_offsets("g", {T0: 2})
    with pytest.raises(UnknownTopicOrPartition, match="nowhere"):
        log.admin.delete_share_offsets("g", ["nowhere", "t"])
    assert log.admin.share_offsets("g") == {}
    found = log.admin.delete_groups(["g", "none"])
    assert found["g"] is None and isinstance(found["none"], GroupIdNotFound)
    assert log.admin.list_groups() == []


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda admin: admin.reset_share_offsets("none", "latest"), GroupIdNotFound),
        (lambda admin: admin.reset_share_offsets("read", "latest", partitions=[T0]), GroupIdNotFound),
        (lambda admin: admin.alter_share_offsets("read", {T0: 1}), GroupIdNotFound),
        (lambda admin: admin.delete_share_offsets("none", ["t"]), GroupIdNotFound),
        (lambda admin: admin.reset_share_offsets("g", "latest", partitions=[NOWHERE]), UnknownTopicOrPartition),
        (lambda admin: admin.alter_share_offsets("g", {NOWHERE: 1}), UnknownTopicOrPartition),
        (lambda admin: admin.reset_offsets("g", "latest"), GroupIdNotFound),
        (lambda admin: admin.committed("g"), GroupIdNotFound),
        (lambda admin: admin.reset_share_offsets("g"), ValueError),
        (lambda admin: admin.reset_share_offsets("g", "latest", offset=1), ValueError),
        (lambda admin: admin.alter_share_offsets("g", {T0: -1}), ValueError),
        (lambda admin: admin.delete_share_offsets("g", "t"), TypeError),
        (lambda admin: admin.share_offsets(3), TypeError),
    ],
)
def test_what_cannot_be_is_refused(ask: Callable[[Any], object], error: type[Exception]) -> None:
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        log.admin.alter_offsets("read", {T0: 0})
        log.admin.alter_share_offsets("g", {T0: 0})
        with pytest.raises(error):
            ask(log.admin)


def test_who_only_reads_a_directory_sees_how_far_its_share_groups_are(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner, pylog.open(tmp_path, mode="read") as reader:
        owner.create_topic("t")
        fill(owner)
        assert reader.admin.list_groups() == [] and reader.admin.share_offsets("g") == {}
        owner.admin.alter_share_offsets("g", {T0: 1})
        assert reader.admin.share_offsets("g") == {T0: ShareOffset(1, 0, 4)}
        with owner.share_consumer("t", group_id="g", client_id="worker") as consumer:
            assert len(consumer.poll(WAIT_MS)) == 4
            assert [one.client_id for one in reader.admin.describe_group("g").members] == ["worker"]
            consumer.commit_sync()
            assert reader.admin.share_offsets("g")[T0].lag == reader.admin.lag("g")[T0].lag == 0
        with pytest.raises(PylogError):
            reader.admin.alter_share_offsets("g", {T0: 1})
