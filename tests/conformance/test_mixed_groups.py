"""A group that changes its protocol, on a real Kafka broker and here: the same records, and either loads the other's.

The clients are librdkafka's: one of the classic protocol, one of the consumer protocol, in whatever order.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pylog
from conformance import dump_log
from conformance.kafka_broker import admin, broker, consume, said
from pylog.coordinator.effects import LogRecord
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    TARGET,
    TARGET_EPOCH,
    consumer_record,
    decode_consumer,
)
from pylog.coordinator.group.records import CONSUMER_TYPES, GROUP_TYPE, decode, group_record, record_type
from pylog.protocol.assignor import Subscription, encode_assignment, encode_subscription
from pylog.protocol.messages import Session
from pylog.record import TopicPartition
from support.consumer_group_host import ConsumerHost
from support.messages import join_group, leave_group, leaving, member_heartbeat, sync_group

REASON = dump_log.missing()
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PARTITIONS = 8
PATIENCE_SECONDS = 40
UP = [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
DOWN = [CURRENT, CURRENT, TARGET, TARGET, TARGET_EPOCH, MEMBER, MEMBER, PARTITION_METADATA, EPOCH]


def member(servers: str, protocol: str) -> Any:
    from confluent_kafka import Consumer

    more = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200}
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "g", "group.protocol": protocol, "log_level": 0,
        "enable.auto.commit": False, **(more if protocol == "classic" else {}),
    })  # fmt: skip
    consumer.subscribe(["t"])
    return consumer


def until(shares: list[int], *consumers: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while [len(consumer.assignment()) for consumer in consumers] != shares:
        for consumer in consumers:
            consumer.poll(0.05)
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]


def group_records(servers: str) -> list[LogRecord]:
    records = [
        LogRecord(key or b"", value)
        for _, _, key, value, _ in consume(servers, "__consumer_offsets", "read_uncommitted")
    ]
    return [found for found in records if record_type(found) == GROUP_TYPE or record_type(found) in CONSUMER_TYPES]


def kinds(records: list[LogRecord]) -> list[int]:
    return [record_type(record) for record in records]


def place_of(records: list[LogRecord], tombstone: LogRecord) -> int:
    return next(place for place, record in enumerate(records) if record == tombstone)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[LogRecord]:
    """What Kafka has written of a group that went up and down, and up again from the other side."""
    from confluent_kafka.admin import NewTopic

    work = tmp_path_factory.mktemp("mixed")
    (work / "data").mkdir()
    settings = {"group.consumer.heartbeat.interval.ms": "500", "group.consumer.min.heartbeat.interval.ms": "500"}
    with broker(work / "data", work, settings=settings) as servers:
        client = admin(servers)
        client.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(PATIENCE_SECONDS)
        old = member(servers, "classic")
        until([8], old)
        new = member(servers, "consumer")
        until([4, 4], old, new)
        new.close()
        until([8], old)
        again = member(servers, "consumer")
        until([4, 4], old, again)
        old.close()
        until([8], again)
        again.close()
        return group_records(servers)


def replayed(records: list[LogRecord]) -> ConsumerHost:
    host = ConsumerHost()
    for record in records:
        host.append_record(record)
    host.check()
    return host


def test_kafka_goes_up_and_down_with_the_records_that_we_write(written: list[LogRecord]) -> None:
    up = place_of(written, group_record("g", None))
    assert kinds(written[up : up + 6]) == [GROUP_TYPE, *UP]
    assert kinds(written[up + 6 : up + 8]) == [MEMBER, EPOCH], "and the new member is in the same batch"
    down = place_of(written, consumer_record(EPOCH, "g", "", None))
    assert kinds(written[down - len(DOWN) + 1 : down + 1]) == DOWN
    assert kinds(written[down + 1 : down + 2]) == [GROUP_TYPE]
    for record in written[:down]:
        change = decode_consumer(record) if record_type(record) in CONSUMER_TYPES else decode(record)
        again = getattr(change, "stored", None)
        if record_type(record) != GROUP_TYPE:
            assert consumer_record(*change) == record  # type: ignore[misc]
        else:
            assert group_record("g", again) == record


def test_a_mixed_group_that_kafka_wrote_is_loaded(written: list[LogRecord]) -> None:
    down = place_of(written, consumer_record(EPOCH, "g", "", None)) - len(DOWN) + 1
    group = replayed(written[:down]).group()
    assert sorted(found.classic is not None for found in group.subscriptions.values()) == [False, True]
    assert sorted(len(current.assigned) for current in group.currents.values()) == [4, 4]
    assert group.state == "Stable"
    host = replayed(written[: down + len(DOWN) + 1])
    classic = host.coordinator._groups["g"]
    assert isinstance(classic, ClassicGroup) and classic.stored is not None
    assert len(classic.stored.members) == 1
    assert replayed(written).group().is_empty


SESSION = Session("mixed")


def ask(log: pylog.Log, message: Any) -> Any:
    return log.broker.handle(message, SESSION).result(10)


def make_mixed(log: pylog.Log, group_id: str) -> Callable[[], None]:
    """A classic member has all, one of the consumer protocol comes; gives what lets that go again."""
    said_by_it = encode_subscription(Subscription(["t"]))
    first = join_group(group_id, protocols=[("range", said_by_it)], session_timeout_ms=45_000)
    joined = ask(log, first)
    every = encode_assignment(TopicPartition("t", number) for number in range(PARTITIONS))
    assert ask(log, sync_group(group_id, 1, joined.member_id, assignments=[(joined.member_id, every)])).error is None
    comes = member_heartbeat(
        group_id, "new", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert ask(log, comes).error is None
    again = ask(log, join_group(group_id, joined.member_id, protocols=[("range", said_by_it)]))
    assert again.error is None
    assert ask(log, sync_group(group_id, again.generation_id, joined.member_id)).error is None
    told = ask(log, member_heartbeat(group_id, "new", again.generation_id))
    assert sum(len(one.partitions) for one in told.assignment.topic_partitions) == PARTITIONS // 2

    def leave(member_id: str = "new") -> None:
        assert ask(log, member_heartbeat(group_id, member_id, -1)).error is None

    return leave


def described(client: Any, names: list[str]) -> dict[str, Any]:
    """The groups, when the broker has loaded their logs."""
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            found = client.describe_consumer_groups(names)
            return {name: future.result(PATIENCE_SECONDS) for name, future in found.items()}
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
                raise


def test_kafka_loads_a_group_that_went_up_or_down_here(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pylog.open(data, flush="none") as log:
        log.create_topic("t", partitions=PARTITIONS)
        make_mixed(log, "up")
        make_mixed(log, "down")()
        gone = make_mixed(log, "gone")
        (one,) = [m.member_id for m in log.admin.describe_group("gone").members if m.member_id != "new"]
        assert [one.error for one in ask(log, leave_group("gone", [leaving(one)])).members] == [None]
        gone()
    with broker(data, tmp_path) as servers:
        groups = described(admin(servers), ["up", "down", "gone"])
    assert {name: group.type.name for name, group in groups.items()} == {
        "up": "CONSUMER",
        "down": "CLASSIC",
        "gone": "CONSUMER",
    }
    assert {name: len(group.members) for name, group in groups.items()} == {"up": 2, "down": 1, "gone": 0}
    assert sorted(len(found.assignment.topic_partitions) for found in groups["up"].members) == [4, 4]
    assert not said(tmp_path)
