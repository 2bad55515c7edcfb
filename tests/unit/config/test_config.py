"""Configs: Kafka's names and text forms, both spellings, and messages that say what to do."""

import logging
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.config import ConsumerConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.config.documentation import described, documentation
from pylog.config.offset_reset import duration_ms
from pylog.errors import InvalidConfig

KAFKAS = "org.apache.kafka.clients.consumer."
CLASSES = [TopicConfig, NodeConfig, ProducerConfig, ConsumerConfig]
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@each_class
def test_configs_are_values(cls: Any) -> None:
    assert cls() == cls.from_kafka({})
    assert hash(cls()) == hash(cls())
    assert pickle.loads(pickle.dumps(cls())) == cls()
    with pytest.raises(FrozenInstanceError):
        setattr(cls(), fields(cls)[0].name, 1)
    with pytest.raises(TypeError):
        cls(1)


@each_class
@pytest.mark.parametrize("name", ["", ".", "no.such.thing.at.all", "_"])
def test_an_unknown_name_is_refused(cls: Any, name: str) -> None:
    with pytest.raises(InvalidConfig, match="not a config here: known are"):
        cls.from_kafka({name: 1})


@pytest.mark.parametrize(
    ("cls", "name", "near"),
    [
        (TopicConfig, "retention_m", "retention.ms"),
        (TopicConfig, "segment.byte", "segment.bytes"),
        (TopicConfig, "cleanup.polcy", "cleanup.policy"),
        (NodeConfig, "segment.bytes", "log.segment.bytes"),
        (NodeConfig, "retention.ms", "log.retention.ms"),
        (ProducerConfig, "linger", "linger.ms"),
        (ProducerConfig, "compression", "compression.type"),
        (ConsumerConfig, "auto_offset_rest", "auto.offset.reset"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(cls: Any, name: str, near: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        cls.from_kafka({name: 1})
    assert str(caught.value).endswith(f"did you mean {near}?")


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (TopicConfig, "remote.storage.enable"),
        (TopicConfig, "internal_segment_bytes"),
        (ProducerConfig, "partitioner.class"),
        (ProducerConfig, "transaction_two_phase_commit_enable"),
        (ConsumerConfig, "bootstrap.servers"),
        (ConsumerConfig, "receive_buffer_bytes"),
    ],
)
def test_a_config_that_only_kafka_has_is_refused_by_name(cls: Any, name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"known to Kafka, not supported by pylog yet"):
        cls.from_kafka({name: "1"})


def test_dots_and_underscores_mean_the_same_and_one_of_them_is_enough() -> None:
    assert TopicConfig.from_kafka({"segment.ms": 5}) == TopicConfig.from_kafka({"segment_ms": "5"})
    with pytest.raises(InvalidConfig, match="twice"):
        TopicConfig.from_kafka({"segment.ms": 5, "segment_ms": 5})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("segment.bytes", (1 << 20) - 1, "from 1048576 to 2147483647"),
        ("segment.bytes", 1 << 31, "from 1048576 to 2147483647"),
        ("segment.ms", "0", "from 1 to"),
        ("segment.ms", "1.5", "a whole number"),
        ("segment.ms", 1.0, "a whole number"),
        ("segment.ms", "", "a whole number"),
        ("segment.ms", None, "a whole number"),
        ("segment.ms", True, "a whole number"),
        ("segment.ms", "9" * 5000, "a whole number"),
        ("segment.ms", "١", "a whole number"),
        ("compression.gzip.level", 0, "but not 0"),
        ("compression.type", "none", "one of uncompressed"),
        ("compression.type", "ZSTD", "one of uncompressed"),
        ("cleanup.policy", "delete,shred", "any of compact, delete"),
        ("cleanup.policy", 5, "any of compact, delete"),
        ("cleanup.policy", [[]], "any of compact, delete"),
        ("min.cleanable.dirty.ratio", "1.01", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "half", "from 0 to 1"),
        ("preallocate", "yes", "true or false"),
        ("preallocate", 1, "true or false"),
        ("message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_the_allowed_ones(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        TopicConfig.from_kafka({name: value})
    assert f"{name}={value!r}: it has to be " in str(caught.value)
    assert allowed in str(caught.value)
    with pytest.raises(InvalidConfig):
        TopicConfig(**{name.replace(".", "_"): value})


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "policy"),
    [("delete", {"delete"}), (" compact , delete ", {"compact", "delete"}), ("", set()), (["compact"], {"compact"})],
)
def test_cleanup_policy_is_a_set(text: Any, policy: set[str]) -> None:
    assert TopicConfig.from_kafka({"cleanup.policy": text}).cleanup_policy == policy


def test_canonical_values_have_kafkas_forms() -> None:
    given = {"preallocate": True, "retention_ms": " +5 ", "cleanup.policy": "delete,compact", "segment.ms": 7}
    assert TopicConfig.canonical(given) == {
        "preallocate": "true", "retention.ms": "5", "cleanup.policy": "delete,compact", "segment.ms": "7",
    }  # fmt: skip
    assert TopicConfig.canonical({}) == {}
    with pytest.raises(InvalidConfig):
        TopicConfig.canonical({"segment.bytes": 1000})


def test_defaults_stand_for_missing_values() -> None:
    defaults = TopicConfig(segment_ms=5, retention_bytes=100)
    config = TopicConfig.from_kafka({"segment.ms": 6}, defaults=defaults)
    assert (config.segment_ms, config.retention_bytes) == (6, 100)
    assert TopicConfig.loaded({"segment.ms": "6"}, defaults=defaults) == config
    assert TopicConfig.loaded({}, defaults=defaults) is defaults
    assert defaults.segment_ms == 5


@pytest.mark.parametrize("cls", [TopicConfig, NodeConfig, ProducerConfig, ConsumerConfig])
def test_a_default_is_a_value_of_its_kind(cls: Any) -> None:
    options = [one for one in fields(cls) if "kind" in one.metadata]
    assert len(options) > 0
    for one in options:
        value = one.metadata["kind"].parse(one.default)
        assert (value, type(value)) == (one.default, type(one.default))


def test_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=6 is over max\.compaction\.lag\.ms=5"):
        TopicConfig(min_compaction_lag_ms=6, max_compaction_lag_ms=5)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "cleanup_policy": st.sets(st.sampled_from(["compact", "delete"])).map(frozenset),
        "compression_type": st.sampled_from(["producer", "zstd", "uncompressed"]),
        "min_cleanable_dirty_ratio": st.floats(0, 1),
        "preallocate": st.booleans(),
        "retention_ms": st.integers(-1, 2**63 - 1),
        "segment_bytes": st.integers(1 << 20, 2**31 - 1),
        "compression_gzip_level": st.integers(1, 9) | st.just(-1),
    },
)


@given(VALUES)
def test_text_forms_come_back_as_they_were(values: dict[str, Any]) -> None:
    config = TopicConfig(**values)
    assert TopicConfig.from_kafka(config.to_kafka()) == config
    assert TopicConfig.loaded(config.to_kafka()) == config
    stored = TopicConfig.canonical(values)
    assert TopicConfig.loaded(stored) == config
    assert TopicConfig.canonical(stored) == stored


def test_a_stored_segment_size_below_the_minimum_is_taken() -> None:
    assert TopicConfig.loaded({"segment.bytes": "14"}).segment_bytes == 14
    both = {"internal.segment.bytes": "300", "segment.bytes": "1048576"}
    assert TopicConfig.loaded(both).segment_bytes == 300
    assert TopicConfig.loaded(dict(reversed(both.items()))).segment_bytes == 300


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "0"),
        ("segment.bytes", "-1"),
        ("segment.bytes", "many"),
        ("segment.index.bytes", "3"),
        ("compression.zstd.level", "99"),
        ("cleanup.policy", "shred"),
        ("remote.storage.enable", "true"),
        ("of.a.later.version", "1"),
        ("segment_ms", "5"),
    ],
)
def test_a_stored_config_of_no_use_is_ignored_with_a_warning(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pylog.config"):
        assert TopicConfig.loaded({name: value}) == TopicConfig()
    assert f"{name}={value} has no effect" in caplog.text


@given(st.dictionaries(st.sampled_from(sorted(TopicConfig().to_kafka())) | st.text(max_size=8), st.text(max_size=8)))
def test_no_stored_config_keeps_a_log_from_opening(stored: dict[str, str]) -> None:
    TopicConfig.loaded(stored)


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_nodes_configs_are_defaults_for_topics_and_its_own() -> None:
    config = NodeConfig.from_kafka({"log.segment.bytes": 2 << 20, "message_max_bytes": "500", "max.open.files": 9})
    assert config.topic_defaults == TopicConfig(segment_bytes=2 << 20, max_message_bytes=500)
    assert config.max_open_files == 9


def test_retention_of_a_week_is_no_default_and_can_be_set() -> None:
    assert NodeConfig().topic_defaults.retention_ms == -1
    assert NodeConfig.from_kafka({"log.retention.hours": 168}).topic_defaults.retention_ms == 604_800_000
    assert NodeConfig.from_kafka({"log.retention.hours": -1}).topic_defaults.retention_ms == -1


@pytest.mark.parametrize("last", ["log.retention.hours", "log.retention.minutes", "log.retention.ms"])
def test_the_finer_unit_wins_in_any_order(last: str) -> None:
    given = {"log.retention.ms": 1, "log.retention.minutes": 2, "log.retention.hours": 3}
    given[last] = given.pop(last)
    assert NodeConfig.from_kafka(given).topic_defaults.retention_ms == 1
    del given["log.retention.ms"]
    assert NodeConfig.from_kafka(given).topic_defaults.retention_ms == 120_000


@pytest.mark.parametrize(
    ("name", "value"), [("log.segment.bytes", 5), ("log.roll.hours", 0), ("log.roll.hours", "x"), ("max.open.files", 0)]
)
def test_a_bad_value_is_refused_under_the_brokers_name(name: str, value: object) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name}={value!r}: "):
        NodeConfig.from_kafka({name: value})


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "acks"), [("all", -1), ("-1", -1), (-1, -1), ("0", 0), (0, 0), (1, 1), ("1", 1)])
def test_acks_all_is_minus_one(given: object, acks: int) -> None:
    assert ProducerConfig.from_kafka({"acks": given}).acks == acks


@pytest.mark.parametrize("value", ["ALL", 2, -2, None, True, "quorum"])
def test_other_acks_are_refused(value: object) -> None:
    with pytest.raises(InvalidConfig, match="one of all, -1, 0, 1"):
        ProducerConfig.from_kafka({"acks": value})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ProducerConfig, "partitioner.availability.timeout.ms"),
        (ConsumerConfig, "share.acknowledgement.mode"),
    ],
)
def test_a_client_config_that_only_kafka_has_is_refused(kind: type[ProducerConfig | ConsumerConfig], name: str) -> None:
    with pytest.raises(InvalidConfig, match="known to Kafka"):
        kind.from_kafka({name: "1"})


@pytest.mark.parametrize("given", [{"acks": 1}, {"acks": "0"}, {"retries": 0}])
def test_idempotence_gives_way_unless_it_was_asked_for(given: dict[str, object]) -> None:
    assert ProducerConfig().enable_idempotence is True
    assert ProducerConfig.from_kafka(given).enable_idempotence is False
    with pytest.raises(InvalidConfig, match="enable_idempotence=True needs"):
        ProducerConfig.from_kafka({**given, "enable.idempotence": "true"})
    with pytest.raises(InvalidConfig, match="transactional_id='etl' needs"):
        ProducerConfig.from_kafka({**given, "transactional.id": "etl"})


def test_a_transaction_needs_idempotence_and_a_name() -> None:
    assert ProducerConfig(transactional_id="etl").enable_idempotence is True
    with pytest.raises(InvalidConfig, match="needs enable_idempotence=True"):
        ProducerConfig.from_kafka({"transactional.id": "etl", "enable.idempotence": False})
    with pytest.raises(InvalidConfig, match="a text that is not empty, or None"):
        ProducerConfig.from_kafka({"transactional.id": " "})


def test_more_batches_under_way_than_a_node_remembers_are_no_idempotence() -> None:
    config = {"max.in.flight.requests.per.connection": 6}
    with pytest.raises(InvalidConfig, match="at most so many, or for enable_idempotence=False"):
        ProducerConfig.from_kafka(config)
    assert ProducerConfig.from_kafka({**config, "enable.idempotence": False}).max_in_flight_requests_per_connection == 6


def test_delivery_covers_linger_and_a_request() -> None:
    assert ProducerConfig().delivery_timeout_ms == 120_000
    assert ProducerConfig(linger_ms=100_000).delivery_timeout_ms == 130_000
    assert ProducerConfig(linger_ms=2**63 - 1).delivery_timeout_ms == 2**31 - 1
    with pytest.raises(InvalidConfig, match="together, which are 30005: raise it"):
        ProducerConfig.from_kafka({"delivery.timeout.ms": 30_004})


@pytest.mark.parametrize("name", ["partitioner", "key_serializer", "value_serializer"])
def test_a_callable_is_taken_as_it_is_and_another_value_refused(name: str) -> None:
    assert getattr(ProducerConfig.from_kafka({name: max}), name) is max
    for value in ("fnv1a", 1):
        with pytest.raises(InvalidConfig, match=r"it has to be a callable \("):
            ProducerConfig.from_kafka({name: value})
    assert ProducerConfig(partitioner="round_robin").partitioner == "round_robin"


def test_a_consumer_waits_for_ever_unless_told() -> None:
    assert ConsumerConfig().consumer_timeout_ms is None
    assert ConsumerConfig.from_kafka({"consumer_timeout_ms": "5"}).consumer_timeout_ms == 5
    assert ConsumerConfig.from_kafka({"consumer_timeout_ms": None}).consumer_timeout_ms is None


def test_a_consumer_without_a_group_commits_nothing() -> None:
    assert not ConsumerConfig().commits
    assert ConsumerConfig(group_id="g").commits
    assert not ConsumerConfig.from_kafka({"group.id": "g", "enable.auto.commit": "false"}).commits
    with pytest.raises(InvalidConfig, match=r"needs a group\.id"):
        ConsumerConfig(enable_auto_commit=True)
    with pytest.raises(InvalidConfig, match=r"needs a group\.id"):
        ConsumerConfig(group_instance_id="one")
    with pytest.raises(InvalidConfig, match=r"heartbeat.interval.ms=9000 is not below session.timeout.ms=9000"):
        ConsumerConfig(group_id="g", heartbeat_interval_ms=9000, session_timeout_ms=9000)
    usual = ConsumerConfig(group_id="g")
    assert (usual.heartbeat_interval_ms, usual.session_timeout_ms) == (3000, 45_000)
    assert usual.partition_assignment_strategy == ("range", "cooperative-sticky")
    for bad in ("", 7):
        with pytest.raises(InvalidConfig, match="a text that is not empty, or None"):
            ConsumerConfig(group_id=bad)  # type: ignore[arg-type]


def test_a_config_of_the_other_group_protocol_is_no_config() -> None:
    """As in Kafka's ConsumerConfig: it would have no effect."""
    for name, value in (
        ("heartbeat.interval.ms", 3000), ("session.timeout.ms", "45000"), ("partition.assignment.strategy", "range")
    ):  # fmt: skip
        with pytest.raises(InvalidConfig, match=rf"{name} has no meaning with group\.protocol=consumer"):
            ConsumerConfig.from_kafka({"group.id": "g", "group.protocol": "CONSUMER", name: value})
    with pytest.raises(InvalidConfig, match=r"group\.remote\.assignor has no meaning with group\.protocol=classic"):
        ConsumerConfig(group_id="g", group_remote_assignor="uniform")
    assert ConsumerConfig(group_id="g", group_protocol="consumer", group_remote_assignor="range").commits


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("range", ("range",)),
        ("sticky, roundrobin", ("sticky", "roundrobin")),
        ([f"{KAFKAS}CooperativeStickyAssignor"], ("cooperative-sticky",)),
        (f"{KAFKAS}RangeAssignor,sticky", ("range", "sticky")),
    ],
)
def test_assignors_have_names_and_kafkas_names(given: Any, names: tuple[str, ...]) -> None:
    assert ConsumerConfig(partition_assignment_strategy=given).partition_assignment_strategy == names


@pytest.mark.parametrize(
    "given", ["", [], "best", "range,range", ["range", "org.apache.kafka.clients.consumer.RangeAssignor"], 5]
)
def test_a_value_that_is_no_list_of_assignors_is_refused(given: Any) -> None:
    with pytest.raises(InvalidConfig, match="range, roundrobin, sticky, cooperative-sticky"):
        ConsumerConfig(partition_assignment_strategy=given)


@pytest.mark.parametrize(
    ("duration", "ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("pt0.25s", 250), ("P2DT3H4M5.678901S", 183_845_678), ("PT0S", 0)],
)
def test_a_reset_may_go_back_in_time(duration: str, ms: int) -> None:
    reset = ConsumerConfig(auto_offset_reset=f"by_duration:{duration}").auto_offset_reset
    assert duration_ms(reset) == ms


@pytest.mark.parametrize(
    "duration", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "-PT1H", "PT-1H", "P1Y", "PT1H "[:-1] + "x"]
)
def test_a_value_that_is_no_duration_is_refused(duration: str) -> None:
    with pytest.raises(InvalidConfig, match="by_duration"):
        ConsumerConfig(auto_offset_reset=f"by_duration:{duration}")


def test_a_deserializer_is_called() -> None:
    assert ConsumerConfig(value_deserializer=bytes.decode).value_deserializer is bytes.decode
    with pytest.raises(InvalidConfig, match="a callable bytes -> key"):
        ConsumerConfig(key_deserializer="json")  # type: ignore[arg-type]


def test_a_config_without_a_source_has_no_documentation() -> None:
    scope = {"ProducerConfig": ProducerConfig, "__name__": "frozen"}
    exec("class Frozen(ProducerConfig):\n    __slots__ = ()", scope)

    assert documentation(scope["Frozen"]) == documentation(ProducerConfig)  # type: ignore[arg-type]
    assert documentation(ProducerConfig)["linger.ms"].startswith("How long")


def test_each_config_is_described_with_its_default_and_what_it_allows() -> None:
    found = {one.name: one for one in described(ProducerConfig)}

    assert found["linger.ms"].default == "5" and "whole number" in found["linger.ms"].allowed
    assert all(one.documentation for one in found.values())
    topic = {one.name: one.default for one in described(TopicConfig)}
    assert (topic["cleanup.policy"], topic["preallocate"]) == ("delete", "false")
