"""What a node that runs goes by, and its groups: what was given, and what was set since."""

import logging
from collections.abc import Mapping

import pytest

from pylog.config import DynamicBrokerConfig, GroupConfig, NodeConfig
from pylog.config.dynamic import DYNAMIC, Altered, altered_config, checked_text, dynamic_kinds
from pylog.errors import InvalidConfig, InvalidRequest


def node(
    given: NodeConfig | None = None, groups: Mapping[str, Mapping[str, str]] | None = None, **altered: str
) -> DynamicBrokerConfig:  # fmt: skip
    now = Altered({}, {name.replace("_", "."): text for name, text in altered.items()})
    return DynamicBrokerConfig(given or NodeConfig(), lambda: now, lambda group_id: (groups or {}).get(group_id, {}))


def test_what_is_set_on_the_node_comes_before_all_nodes_and_what_was_given() -> None:
    given = NodeConfig.from_kafka({"max.connections": 1, "max.connections.per.ip": 2, "log.retention.hours": 3})
    all_nodes = {"max.connections": "10", "max.connections.per.ip": "20", "log.retention.ms": "30"}

    now = altered_config(given, Altered(all_nodes, {"max.connections": "100", "log.segment.bytes": "2000000"}))

    assert (now.max_connections, now.max_connections_per_ip) == (100, 20)
    assert (now.topic_defaults.retention_ms, now.topic_defaults.segment_bytes) == (30, 2_000_000)
    assert altered_config(given, Altered({}, {})) == given


def test_what_can_be_altered_is_some_of_the_node_and_every_default_of_topics() -> None:
    assert DYNAMIC < dynamic_kinds().keys() < NodeConfig().to_kafka().keys()
    assert "num.partitions" not in dynamic_kinds()
    assert "log.retention.hours" not in dynamic_kinds()


@pytest.mark.parametrize(("altered", "said"), [
    ({"log.retention.ms": "soon"}, "log.retention.ms=soon has no effect: not a whole number"),
    ({"num.partitions": "5"}, "num.partitions=5 has no effect: it cannot be altered here"),
    ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, "have no effect: min.comp"),
])  # fmt: skip
def test_stored_values_of_no_use_are_ignored_with_a_warning(
    altered: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pylog.config"):
        assert node(**{name.replace(".", "_"): text for name, text in altered.items()}).current == NodeConfig()

    assert said in caplog.text


@pytest.mark.parametrize(("name", "value", "error"), [
    ("num.partitions", "5", InvalidRequest), ("log.retention.hours", "5", InvalidRequest),
    ("log.retention.ms", "soon", InvalidConfig), ("no.such", "5", InvalidConfig),
])  # fmt: skip
def test_only_good_values_for_what_can_be_altered_are_stored(name: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        checked_text(name, value)


def test_values_are_stored_in_kafkas_forms() -> None:
    assert checked_text("log.retention.ms", " 5 ") == "5"
    assert checked_text("log.cleanup.policy", "delete, compact") == "delete,compact"


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_goes_by_what_is_set_on_it_within_the_limits_of_now(caplog: pytest.LogCaptureFixture) -> None:
    given = NodeConfig(group_consumer_heartbeat_interval_ms=7000)
    groups = {
        "g": {"consumer.heartbeat.interval.ms": "6000"},
        "outside": {"consumer.heartbeat.interval.ms": "1", "consumer.session.timeout.ms": "99999999"},
        "odd": {"consumer.heartbeat.interval.ms": "soon", "streams.session.timeout.ms": "50000"},
    }
    configs = node(given, groups)

    assert configs.of_group("none") == GroupConfig(consumer_heartbeat_interval_ms=7000)
    assert configs.of_group("g") == GroupConfig(consumer_heartbeat_interval_ms=6000)
    outside = GroupConfig(consumer_heartbeat_interval_ms=5000, consumer_session_timeout_ms=60_000)
    assert configs.of_group("outside") == outside
    assert configs.of_group("odd") == configs.of_group("none")
    assert "consumer.heartbeat.interval.ms=soon has no effect" in caplog.text
    assert "streams.session.timeout.ms=50000 has no effect" in caplog.text


def test_a_group_is_looked_up_anew_only_where_something_has_changed() -> None:
    groups = {"g": {"consumer.heartbeat.interval.ms": "6000"}}
    configs = node(groups=groups)

    assert configs.of_group("g") is configs.of_group("g")
    groups["g"] = {"consumer.heartbeat.interval.ms": "8000"}
    assert configs.of_group("g").consumer_heartbeat_interval_ms == 8000


@pytest.mark.parametrize(("config", "said"), [
    ({"heartbeat.interval.ms": 4999}, "greater than or equal to group.consumer.min.heartbeat.interval.ms=5000"),
    ({"heartbeat.interval.ms": 15_001}, "less than or equal to group.consumer.max.heartbeat.interval.ms=15000"),
    ({"session.timeout.ms": 44_999}, "greater than or equal to group.consumer.min.session.timeout.ms=45000"),
    ({"session.timeout.ms": 60_001}, "less than or equal to group.consumer.max.session.timeout.ms=60000"),
    ({"min.session.timeout.ms": 45_001}, "greater than or equal to group.consumer.min.session.timeout.ms=45001"),
    ({"max.heartbeat.interval.ms": 4999}, "less than or equal to group.consumer.max.heartbeat.interval.ms=4999"),
    ({"session.timeout.ms": 5000, "min.session.timeout.ms": 1}, "must be greater than group.consumer.heartbeat"),
])  # fmt: skip
def test_a_node_is_not_opened_with_what_its_own_limits_forbid(config: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        NodeConfig.from_kafka({f"group.consumer.{name}": value for name, value in config.items()})


def test_a_share_group_has_configs_of_its_own() -> None:
    node = NodeConfig(group_share_record_lock_duration_ms=20_000)
    stored = {"share.delivery.count.limit": "99", "share.auto.offset.reset": "by_duration:PT1H"}
    found = GroupConfig.loaded(stored, node)
    assert (found.share_delivery_count_limit, found.share_record_lock_duration_ms) == (10, 20_000)
    assert (found.share_auto_offset_reset, found.share_isolation_level) == ("by_duration:PT1H", "read_uncommitted")
    with pytest.raises(InvalidConfig, match=r"share\.session.timeout.ms=5 must be greater than or equal to"):
        GroupConfig(share_session_timeout_ms=5).check_within(node)
    with pytest.raises(InvalidConfig, match=r"group.share.max.share.sessions=1 must be .* group.share.max.size=200"):
        NodeConfig(group_share_max_share_sessions=1)
