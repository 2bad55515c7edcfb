"""Configs that are set while a node runs: what goes by them, and that they are there after the next open."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import errors
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.replica_manager.cluster_changes import AT_ONCE
from pylog.config import NodeConfig
from pylog.config.dynamic import dynamic_kinds
from pylog.files import MemoryFiles
from pylog.protocol.messages import (
    ConfigChange,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceChange,
    ResourceType,
    Session,
)
from pylog.protocol.messages.configs import DescribeConfigsRequest
from pylog.server.admission import Admission
from pylog.testing import SimClock
from tests.support.faults import FaultFiles

CANDIDATES = ("7", "3000000", "0.25", "true", "false", "LogAppendTime", "zstd", "compact")


def group(name: str, *changes: ConfigChange, is_whole: bool = False) -> ResourceChange:
    return ResourceChange(ConfigResource(ResourceType.GROUP, name), list(changes), is_whole=is_whole)


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:", clock=SimClock()) as opened:
        yield opened


def another_value(name: str) -> str:
    """A value that a config takes, and does not have by default."""
    kind, default = dynamic_kinds()[name], NodeConfig().to_kafka()[name]
    for text in CANDIDATES:
        with suppress(ValueError):
            found = kind.text(kind.parse(text))
            if found != default:
                return found
    raise AssertionError(f"there is no other value for {name} here")


@pytest.mark.parametrize("name", sorted(dynamic_kinds()))
def test_each_config_that_can_be_altered_is_gone_by_at_once(log: pylog.Log, name: str) -> None:
    value = another_value(name)

    log.admin.alter_node_config({name: value})

    assert log.broker.configs.current.to_kafka()[name] == value
    described = log.admin.describe_node_config()[name]
    assert described == (value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, False)


def test_open_topics_go_by_new_defaults_unless_they_have_their_own(log: pylog.Log) -> None:
    opened, own = log.create_topic("opened"), log.create_topic("own", config={"retention.ms": 5})
    for topic in (opened, own):
        topic[0].append([pylog.Record(b"x")])

    log.admin.alter_node_config({"log.retention.ms": 77, "message.max.bytes": 2000})

    partitions = [log.broker.partition(name, 0) for name in ("opened", "own")]
    assert [one.config.retention_ms for one in partitions] == [77, 5]
    with pytest.raises(errors.RecordTooLarge):
        opened[0].append([pylog.Record(b"x" * 3000)])
    assert log.create_topic("later").config.retention_ms == 77
    assert log.admin.describe_topic_config("opened")["retention.ms"] == (
        "77", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )  # fmt: skip


def test_the_node_itself_comes_before_all_nodes_until_it_is_deleted(log: pylog.Log) -> None:
    log.create_topic("t")[0].append([pylog.Record(b"x")])
    partition = log.broker.partition("t", 0)

    log.admin.alter_node_config({"log.retention.ms": 10})
    log.admin.alter_node_config({"log.retention.ms": 20}, node=log.node_id)
    assert partition.config.retention_ms == 20
    log.admin.alter_node_config(delete=["log.retention.ms"], node=log.node_id)
    assert partition.config.retention_ms == 10
    log.admin.alter_node_config(delete=["log.retention.ms", "no.such"])
    assert partition.config.retention_ms == -1
    assert not log.broker.image.configs


def test_producers_of_open_partitions_and_later_ones_are_known_as_long_as_is_set(log: pylog.Log) -> None:
    log.create_topic("t", partitions=2)[0].append([pylog.Record(b"x")])

    log.admin.alter_node_config({
        "producer.id.expiration.ms": 1234, "transaction.partition.verification.enable": False,
    })  # fmt: skip

    for number in range(2):
        producers = log.broker.partition("t", number).producers
        assert (producers.expiration_ms, producers.verify) == (1234, False)


def test_the_cleaner_looks_as_soon_as_its_new_rest_is_over(log: pylog.Log) -> None:
    topic = log.create_topic("t", config={"cleanup.policy": "compact"})
    topic[0].append([pylog.Record(b"x", b"k")])
    housekeeping, now = log.broker.housekeeping, log._clock.tick_ms()
    assert housekeeping._clean_due == now + 15_000

    log.admin.alter_node_config({"log.cleaner.backoff.ms": 10})
    assert housekeeping._clean_due == now + 10
    log.admin.alter_node_config({"log.cleaner.backoff.ms": 20_000})
    assert housekeeping._clean_due == now + 10


def test_a_server_lets_in_as_many_as_is_set(log: pylog.Log) -> None:
    admission = Admission(log.broker.configs)
    assert admission.enter("a") is None

    log.admin.alter_node_config({"max.connections": 1})
    assert admission.enter("a") == "max.connections"
    log.admin.alter_node_config({"max.connections": 9, "max.connections.per.ip": 1, "max.connection.creation.rate": 0})
    assert admission.enter("a") == "max.connections.per.ip"
    assert admission.wait_ms(0) > 0


def test_nothing_is_changed_where_it_is_only_validated(log: pylog.Log) -> None:
    log.admin.alter_node_config({"log.retention.ms": 5}, validate_only=True)
    log.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000}, validate_only=True)
    with pytest.raises(errors.InvalidRequest):
        log.admin.alter_node_config({"log.retention.ms": "soon"}, validate_only=True)

    assert not log.broker.image.configs


@pytest.mark.parametrize(("config", "said"), [
    ({"num.partitions": 2}, r"Cannot update these configs dynamically: \[num.partitions\]"),
    ({"log.segment.bytes": 5}, "log.segment.bytes='5': it has to be"),
    ({"log.segment.byte": 5}, "did you mean log.segment.bytes"),
    ({"log.cleaner.min.compaction.lag.ms": 9, "log.cleaner.max.compaction.lag.ms": 8}, "is over max.compaction"),
])  # fmt: skip
@pytest.mark.parametrize("node", [None, 1])
def test_a_bad_config_of_nodes_is_an_invalid_request(
    log: pylog.Log, config: dict[str, Any], said: str, node: int | None
) -> None:
    with pytest.raises(errors.InvalidRequest, match=said):
        log.admin.alter_node_config({"message.max.bytes": 5000, **config}, node=node)

    assert not log.broker.image.configs


def test_another_node_is_not_altered(log: pylog.Log) -> None:
    with pytest.raises(errors.InvalidRequest, match="Unexpected broker id, expected 1"):
        log.admin.alter_node_config({"log.retention.ms": 5}, node=2)


def test_lists_grow_and_shrink_from_what_the_node_goes_by(log: pylog.Log) -> None:
    log.admin.alter_node_config(append={"log.cleanup.policy": "compact"})
    assert log.broker.configs.altered.cluster == {"log.cleanup.policy": "delete,compact"}
    log.admin.alter_node_config(subtract={"log.cleanup.policy": "delete"}, node=1)
    assert log.broker.configs.altered.own == {"log.cleanup.policy": "compact"}
    for wrong in ({"log.retention.ms": "1"}, {"no.such": "1"}):
        with pytest.raises(errors.InvalidConfig, match="is not a list"):
            log.admin.alter_node_config(append=wrong)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_configs_of_a_group_are_set_described_and_deleted(log: pylog.Log) -> None:
    log.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000, "consumer_heartbeat_interval_ms": 6000})
    found = log.admin.describe_group_config("g")
    assert {name: one for name, one in found.items() if name.startswith("consumer.")} == {
        "consumer.heartbeat.interval.ms": ("6000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        "consumer.session.timeout.ms": ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG),
    }
    assert found["consumer.session.timeout.ms"].is_set

    log.admin.alter_group_config("g", delete=["consumer.session.timeout.ms"])
    assert not log.admin.describe_group_config("g")["consumer.session.timeout.ms"].is_set
    assert log.admin.describe_group_config("other")["consumer.heartbeat.interval.ms"].value == "5000"


@pytest.mark.parametrize(("config", "error", "said"), [
    ({"consumer.session.timeout.ms": 44_999}, errors.InvalidConfig, "group.consumer.min.session.timeout.ms"),
    ({"consumer.heartbeat.interval.ms": 15_001}, errors.InvalidConfig, "group.consumer.max.heartbeat.interval.ms"),
    ({"consumer.heartbeat.interval.ms": "soon"}, errors.InvalidConfig, "a whole number"),
    ({"no.such": 1}, errors.InvalidConfig, "not a config here"),
    ({"streams.heartbeat.interval.ms": 5000}, errors.InvalidConfig, "not supported by pylog yet"),
    ({"share.delivery.count.limit": 11}, errors.InvalidConfig, "group.share.max.delivery.count.limit=10"),
])  # fmt: skip
def test_a_group_takes_what_its_node_allows(
    log: pylog.Log, config: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        log.admin.alter_group_config("g", config)
    with pytest.raises(errors.InvalidRequest, match="a group has a name"):
        log.admin.alter_group_config("", {"consumer.session.timeout.ms": 50_000})
    with pytest.raises(errors.InvalidRequest, match="Group name must not be empty"):
        log.admin.describe_group_config("")

    assert not log.broker.image.configs


def test_all_configs_of_a_group_are_replaced_at_once(log: pylog.Log) -> None:
    log.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000})
    change = group("g", ConfigChange("consumer.heartbeat.interval.ms", "6000"), is_whole=True)

    assert log.broker.node.cluster_changes.alter_configs([change]) == [None]

    assert log.broker.image.configs == {change.resource: {"consumer.heartbeat.interval.ms": "6000"}}


def test_many_groups_are_changed_by_few_batches(log: pylog.Log) -> None:
    change = ConfigChange("consumer.session.timeout.ms", "50000")
    changes = [group(f"g{number}", change) for number in range(AT_ONCE)]
    changes[3] = group("bad", ConfigChange("consumer.session.timeout.ms", "1"))
    metadata = log.broker.node.topics.metadata_log
    log.create_topic("t")
    before = metadata.partition.state.appends

    found = log.broker.node.cluster_changes.alter_configs(changes)

    assert [number for number, error in enumerate(found) if error is not None] == [3]
    assert len(log.broker.image.configs) == AT_ONCE - 1
    assert metadata.partition.state.appends == before + 1


def test_a_full_disk_is_an_error_of_each_resource() -> None:
    files = FaultFiles(MemoryFiles(), error=errno.ENOSPC, once=False)
    node = ReplicaManager(files, ["log"], NodeConfig(), SimClock(), node_id=1, visible_when_durable=True)
    node.changes.create_topic(NewTopic("t"))
    change = ConfigChange("consumer.session.timeout.ms", "50000")
    files.faults.fail_at = len(files.sites) + 1

    found = node.cluster_changes.alter_configs([group("a", change), group("", change), group("b", change)])

    assert [type(error) for error in found] == [errors.DiskFull, errors.InvalidRequest, errors.DiskFull]
    assert not node.image.configs
    files.heal()
    assert node.cluster_changes.alter_configs([group("a", change)]) == [None]
    node.close()


# --- the next open ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_summed_up", [False, True])
def test_what_was_set_is_there_after_the_next_open(tmp_path: Path, is_summed_up: bool) -> None:
    with pylog.open(tmp_path / "log") as log:
        log.create_topic("t")
        log.admin.alter_node_config({"log.retention.ms": 10, "max.connections": 7})
        log.admin.alter_node_config({"log.retention.ms": 20}, node=1)
        log.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000})
        if is_summed_up:
            metadata = log.broker.node.topics.metadata_log
            metadata._is_due = lambda: True
            metadata.take_snapshot()
            assert metadata._snapshots

    with pylog.open(tmp_path / "log", config={"max.connections": 3}) as log:
        config = log.broker.configs.current
        assert (config.topic_defaults.retention_ms, config.max_connections) == (20, 7)
        assert log.topic("t").config.retention_ms == 20
        assert log.broker.configs.of_group("g").consumer_session_timeout_ms == 50_000
        node = DescribeConfigsRequest.DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="1")
        asked = DescribeConfigsRequest(resources=[node], include_synonyms=True)
        (result,) = log.broker.handle(asked, Session()).result().results
        entries = {one.name: one for one in result.configs}
        assert [(one.value, one.source) for one in entries["max.connections"].synonyms] == [
            ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG), ("3", ConfigSource.STATIC_BROKER_CONFIG),
            ("2147483647", ConfigSource.DEFAULT_CONFIG),
        ]  # fmt: skip


def test_a_reader_sees_what_was_set_and_does_not_say_what_its_owner_was_given(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "log", node_id=7) as owner:
        owner.create_topic("t")
        owner.admin.alter_node_config({"log.retention.ms": 10}, node=7)
        owner.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000})
        with pylog.open(tmp_path / "log", mode="read") as reader:
            assert reader.admin.describe_topic_config("t")["retention.ms"].value == "10"
            assert reader.topic("t").config.retention_ms == 10
            assert reader.admin.describe_group_config("g")["consumer.session.timeout.ms"].is_set
            with pytest.raises(errors.ReadOnly):
                reader.admin.describe_node_config()
            with pytest.raises(errors.ReadOnly):
                reader.admin.alter_node_config({"log.retention.ms": 5})


def test_nodes_behind_a_network_are_altered_as_in_process(log: pylog.Log) -> None:
    with log.serve() as server, pylog.connect(server.bootstrap_servers) as connected:
        connected.admin.alter_node_config({"log.retention.ms": 10})
        connected.admin.alter_node_config({"max.connections": 50}, node=log.node_id)
        connected.admin.alter_group_config("g", {"consumer.session.timeout.ms": 50_000})

        assert connected.admin.describe_node_config() == log.admin.describe_node_config()
        assert connected.admin.describe_node_config()["max.connections"].source is ConfigSource.DYNAMIC_BROKER_CONFIG
        assert connected.admin.describe_group_config("g") == log.admin.describe_group_config("g")
        with pytest.raises(errors.InvalidRequest, match="Cannot update these configs dynamically"):
            connected.admin.alter_node_config({"num.partitions": 2})
        with pytest.raises(errors.LeaderNotAvailable, match="node 9 is not there"):
            connected.admin.alter_node_config({"log.retention.ms": 10}, node=9)
