"""The standing of a share group: what its members have, and how often it was delivered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import TopicPartition
from pylog.client.admin.share_offsets import ShareStanding
from pylog.coordinator.share.share_partition import Acknowledgement, Limits, SharePartition, Wanted
from pylog.coordinator.share.states import AcknowledgeType
from pylog.protocol.messages.share import RECORD_LIMIT
from pylog.testing import StandIn
from support.share_desk import LOCK_MS, RELEASE, share_desk
from support.ways import WAYS, reached

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WAIT_MS = 60_000


@pytest.fixture(params=WAYS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A log with five records in a partition, reached in one of the ways."""
    with reached(request.param, tmp_path / "log") as reach, reach() as log:
        log.create_topic("t", partitions=2)
        log.admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
        with log.producer() as producer:
            for number in range(5):
                producer.send("t", b"%d" % number, partition=0)
        yield log


def test_records_of_members_are_told_and_those_that_came_free(log: Any) -> None:
    assert log.admin.share_standing("g") == {}
    with log.share_consumer("t", group_id="g") as consumer:
        records = consumer.poll(WAIT_MS)
        consumer.acknowledge(records[1], "release")
        consumer.acknowledge(records[2], "reject")
        consumer.commit_sync()
        found = log.admin.share_standing("g")
        assert found is not None
        assert (found[T0].start_offset, found[T0].end_offset) == (1, 5)
        assert (found[T0].acquired, found[T0].in_flight, found[T0].deliveries) == (0, 1, {1: 1})
        assert found[T0].oldest_lock_ms is None
        assert found[T1] == ShareStanding(0, 0, 0, {}, None)
        (again,) = consumer.poll(WAIT_MS)
        assert again.delivery_count == 2
        found = log.admin.share_standing("g")
        assert found is not None
        assert (found[T0].acquired, found[T0].deliveries) == (1, {2: 1})
        assert found[T0].oldest_lock_ms is not None
    assert log.admin.share_standing("g") == {}


def test_the_configs_of_a_group_do_not_list_it(log: Any) -> None:
    assert not [name for name in log.admin.describe_group_config("g") if name.startswith("pylog.share")]


def test_a_log_that_is_only_read_does_not_know_it(tmp_path: Path) -> None:
    with pylog.open(tmp_path) as owner:
        owner.create_topic("t")
        with pylog.open(tmp_path, mode="read") as reader:
            assert reader.admin.share_standing("g") is None


def test_a_node_that_lacks_it_says_nothing() -> None:
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        kafka.fail("DescribeConfigs", pylog.errors.GroupAuthorization)
        with pytest.raises(pylog.errors.GroupAuthorization):
            log.admin.share_standing("g")


def test_the_age_of_a_lock_is_that_of_the_oldest() -> None:
    one: dict[str, Any] = {"max_records": 1, "share_acquire_mode": RECORD_LIMIT}
    with share_desk() as desk:
        desk.begin()
        desk.produce(2)
        desk.fetch(0, **one)
        desk.pass_time(LOCK_MS // 2)
        desk.fetch(1, **one)
        found = desk.log.admin.share_standing("g")
        assert found is not None
        assert (found[T0].acquired, found[T0].oldest_lock_ms) == (2, LOCK_MS // 2)
        desk.acknowledge(2, {(0, 0): RELEASE})
        found = desk.log.admin.share_standing("g")
        assert found is not None
        assert (found[T0].acquired, found[T0].in_flight, found[T0].oldest_lock_ms) == (1, 2, 0)


def test_runs_in_one_state_are_counted() -> None:
    partition, limits = SharePartition(0, 0), Limits(5, 100, 1000)
    partition.acquire("m", 0, [range(4)], Wanted(4, 4), limits, 0)
    partition.acknowledge("m", [Acknowledgement(1, 1, [AcknowledgeType.ACCEPT])], limits, 0)
    partition.take_write()
    partition.written()
    found = partition.standing(1000, 300)
    assert (found.batches, found.acquired, found.deliveries, found.oldest_lock_ms) == (3, 3, {1: 3}, 300)
