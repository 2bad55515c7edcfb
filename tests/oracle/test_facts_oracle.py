"""Errors, configs and the partitioner agree with facts taken from Kafka's own classes.

Names, counts and values come from the files. Where we differ on purpose it is listed here, with the reason, and a
listed difference that is none any more fails too.
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pylog.config import ConsumerConfig, NodeConfig, ProducerConfig, TopicConfig
from pylog.errors import InvalidConfig, ProtocolError, UnknownServer, for_code
from pylog.kernel import murmur2
from pylog.protocol.partitioner import partition_for_key

pytestmark = pytest.mark.oracle

RENAMED = {
    "TopicExistsException": "TopicAlreadyExists",  # as its code is called
    "TimeoutException": "RequestTimedOut",  # Python has a TimeoutError, for another thing
    "InvalidConfigurationException": "InvalidConfig",  # as its code is called
    "NetworkException": "NetworkError",  # "Network" alone says nothing
}

CLASSES: dict[str, Any] = {"topic": TopicConfig, "producer": ProducerConfig, "consumer": ConsumerConfig}
OTHER_DEFAULTS = {
    ("broker", "group.initial.rebalance.delay.ms"): 0,  # in process nobody is on his way
    ("broker", "replica.fetch.max.bytes"): 2 << 20,  # a copy over the loopback is a third faster than with one
    ("broker", "sasl.enabled.mechanisms"): ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),  # there is no Kerberos
    ("broker", "sasl.server.max.receive.size"): 16 << 10,  # names and passwords are short
    ("topic", "retention.ms"): -1,  # nothing is deleted that nobody asked to delete
    ("consumer", "allow.auto.create.topics"): False,  # a misspelt name makes no topic
    ("consumer", "enable.auto.commit"): None,  # where there is a group
    ("producer", "batch.size"): 262144,  # in process there is no request to spread the cost over
}
OTHER_CHOICES = {
    ("consumer", "auto.offset.reset"): {"by_duration:PnDTnHnMn.nS"},  # a pattern, not a choice
}
# Kafka takes any number, and a member that is dead before it is heard of.
OTHER_RANGES = {
    ("consumer", "session.timeout.ms"): [2, 2**31 - 1],
    ("consumer", "heartbeat.interval.ms"): [1, 2**31 - 2],
}
# Kafka has no configs of these names.
OURS = {
    ("consumer", "consumer.timeout.ms"),
    ("consumer", "default.offset.commit.callback"),
    ("consumer", "enable.auto.offset.store"),
    ("producer", "allow.auto.create.topics"),  # from librdkafka
    ("producer", "partitioner"),  # Kafka's partitioner.class names a Java class
    ("broker", "allow.network.file.systems"),
    ("broker", "flush.interval.ms"),
    ("broker", "max.open.files"),
    ("broker", "allow.everyone.if.no.acl.found"),  # a config of Kafka's authorizer
    ("broker", "super.users"),  # the same
    ("broker", "scrub.interval.ms"),
    ("broker", "scrub.io.max.bytes.per.second"),
    ("consumer", "pylog.max.record.bytes"),
    ("topic", "pylog.full.policy"),
    ("topic", "pylog.max.record.bytes"),
}
# Kafka takes less, and fails when it cleans, when it makes the topic whose `segment.bytes` this is, or keeps no ISR.
LEAST = {
    "log.cleaner.dedupe.buffer.size": 48,
    "offsets.topic.segment.bytes": 1 << 20,
    "replica.lag.time.max.ms": 1,
    "share.coordinator.state.topic.segment.bytes": 1 << 20,
    "transaction.state.log.segment.bytes": 1 << 20,
}
# Kafka, too, takes what others of them allow (tests/unit/config/test_dynamic.py).
LIMITED = {
    f"group.{protocol}.{end}{what}"
    for protocol in ("consumer", "share")
    for end in ("", "min.", "max.")
    for what in ("heartbeat.interval.ms", "session.timeout.ms")
} | {
    "group.share.delivery.count.limit",
    "group.share.max.share.sessions",
    "group.share.partition.max.record.locks",
    "group.share.record.lock.duration.ms",
}
# What has to be said along with a value at the edge of its range.
TOGETHER: dict[tuple[str, str], dict[str, object]] = {
    ("producer", "max.in.flight.requests.per.connection"): {"enable.idempotence": False},
    ("producer", "delivery.timeout.ms"): {"linger.ms": 0, "request.timeout.ms": 0},
    ("consumer", "enable.auto.commit"): {"group.id": "g"},
    ("consumer", "group.instance.id"): {"group.id": "g"},
    ("consumer", "group.remote.assignor"): {"group.protocol": "consumer"},
    ("consumer", "heartbeat.interval.ms"): {"session.timeout.ms": 2**31 - 1},
    ("consumer", "session.timeout.ms"): {"heartbeat.interval.ms": 1},
}
LIMITS = {"INT": (-(2**31), 2**31 - 1), "LONG": (-(2**63), 2**63 - 1)}
RANGE = re.compile(r"\[(?P<low>[^,\]]+),\.\.\.(?:,(?P<high>[^\]]+))?\](?: or (?P<also>-?\d+))?")


def configs_of(facts: Path, kind: str) -> dict[str, dict[str, Any]]:
    found = json.loads((facts / f"config_{kind}.json").read_text(encoding="utf-8"))["configs"]
    assert found
    return {config["name"]: config for config in found}


def names_of(cls: type) -> set[str]:
    return {option.name.replace("_", ".") for option in fields(cls)} - {"topic.defaults"}


def value_of(cls: Any, name: str, text: object, also: Mapping[str, object] = MappingProxyType({})) -> Any:
    return getattr(cls.from_kafka({name: text, **also}), name.replace(".", "_"))


def as_given(default: Any) -> Any:
    return ",".join(default) if isinstance(default, list) else default


def good_and_bad(config: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Values at the edges of what a number config allows: just inside and just outside."""
    least, most = LIMITS.get(config["type"], (0, 1))
    found = RANGE.fullmatch(config["valid"] or "[...]")
    low, high, also = least, most, None
    if found:
        low = int(found["low"])
        high = int(found["high"]) if found["high"] else most
        also = int(found["also"]) if found["also"] else None
    good = [low, high] + ([also] if also is not None else [])
    return good, [value for value in (low - 1, high + 1) if value not in good]


def choices(config: dict[str, Any]) -> list[str]:
    return re.fullmatch(r"(?:\(case insensitive\) )?\[(.*)\]", config["valid"])[1].split(", ")  # type: ignore[index]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_every_error_has_its_class(facts: Path) -> None:
    errors = json.loads((facts / "errors.json").read_text(encoding="utf-8"))["errors"]
    seen: dict[type[ProtocolError], int] = {}
    renamed = set()
    for error in errors:
        if error["exception"] is None:
            with pytest.raises(ValueError, match="no error"):
                for_code(error["code"])
            continue
        cls = for_code(error["code"])
        assert (cls.code, cls.kafka_name, cls.retriable) == (error["code"], error["name"], error["retriable"])
        if error["exception"] in RENAMED:
            renamed.add(error["exception"])
        assert cls.__name__ == RENAMED.get(error["exception"], error["exception"].removesuffix("Exception"))
        assert seen.setdefault(cls, cls.code) == cls.code
    assert renamed == set(RENAMED)
    assert len(seen) == sum(error["exception"] is not None for error in errors)
    assert for_code(max(error["code"] for error in errors) + 1) is UnknownServer


# --- configs ----------------------------------------------------------------------------------------------------------

each_kind = pytest.mark.parametrize("kind", sorted(CLASSES))


@each_kind
def test_every_config_of_kafka_is_ours_or_listed_as_missing(facts: Path, kind: str) -> None:
    theirs = configs_of(facts, kind)
    ours = names_of(CLASSES[kind])
    assert ours - theirs.keys() == {name for other, name in OURS if other == kind}
    for name in theirs.keys() - ours:
        with pytest.raises(InvalidConfig, match="known to Kafka"):
            CLASSES[kind].from_kafka({name: "1"})


@each_kind
def test_config_defaults_are_kafkas(facts: Path, kind: str) -> None:
    cls = CLASSES[kind]
    theirs = configs_of(facts, kind)
    differing = set()
    for name in names_of(cls) & theirs.keys():
        ours = getattr(cls(), name.replace(".", "_"))
        default = as_given(theirs[name]["default"])
        if ours != value_of(cls, name, default, TOGETHER.get((kind, name), {})):
            assert ours == OTHER_DEFAULTS.get((kind, name)), f"{name} is {ours}, Kafka: {theirs[name]['default']}"
            differing.add((kind, name))
    assert differing == {key for key in OTHER_DEFAULTS if key[0] == kind}


@each_kind
def test_config_ranges_are_kafkas(facts: Path, kind: str) -> None:
    cls = CLASSES[kind]
    theirs = configs_of(facts, kind)
    checked = 0
    for name in names_of(cls) & theirs.keys():
        if theirs[name]["type"] not in {"INT", "LONG", "DOUBLE"}:
            continue
        good, bad = good_and_bad(theirs[name])
        if (kind, name) in OTHER_RANGES:
            good, bad = OTHER_RANGES[kind, name], [good[0], 0]
        also = TOGETHER.get((kind, name), {})
        for value in good:
            assert value_of(cls, name, str(value), also) == value_of(cls, name, value, also) == value, name
        for value in bad:
            with pytest.raises(InvalidConfig, match=re.escape(f"{name}={value!r}")):
                value_of(cls, name, value, also)
        checked += 1
    assert checked


def test_a_number_excluded_from_a_range_is_refused(facts: Path) -> None:
    for kind, cls in CLASSES.items():
        for name, config in configs_of(facts, kind).items():
            found = RANGE.fullmatch(config["valid"] or "")
            if name in names_of(cls) and found and found["also"]:
                for value in range(int(found["also"]) + 1, int(found["low"])):
                    with pytest.raises(InvalidConfig):
                        value_of(cls, name, value)


@each_kind
def test_config_choices_and_switches_are_kafkas(facts: Path, kind: str) -> None:
    cls = CLASSES[kind]
    theirs = configs_of(facts, kind)
    for name in names_of(cls) & theirs.keys():
        config, also = theirs[name], TOGETHER.get((kind, name), {})
        if config["type"] == "BOOLEAN":
            assert [value_of(cls, name, text, also) for text in ("true", "false", "TRUE")] == [True, False, True]
        elif config["valid"] == "non-empty string":
            assert value_of(cls, name, "any", also) == "any"
            with pytest.raises(InvalidConfig):
                value_of(cls, name, "", also)
        elif config["type"] in {"STRING", "LIST"} and config["valid"]:
            left_out = OTHER_CHOICES.get((kind, name), set())
            assert left_out <= set(choices(config))
            for choice in choices(config):
                if choice in left_out:
                    with pytest.raises(InvalidConfig):
                        value_of(cls, name, choice)
                else:
                    value_of(cls, name, choice)
            with pytest.raises(InvalidConfig):
                value_of(cls, name, "".join(choices(config)))
        elif name == "partition.assignment.strategy":
            # Kafka's are classes; ours have names as well.
            assert value_of(cls, name, "org.apache.kafka.clients.consumer.StickyAssignor") == ("sticky",)
        else:
            assert config["type"] not in {"STRING", "LIST"} or value_of(cls, name, "any", also) == "any"


# --- nodes ------------------------------------------------------------------------------------------------------------


def synonyms(facts: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Our topic configs with the broker configs their defaults come from, the strongest first."""
    for name, config in configs_of(facts, "topic").items():
        if name in names_of(TopicConfig):
            yield name, config["synonyms"]


def test_every_config_of_a_node_is_one_of_a_broker(facts: Path) -> None:
    theirs = configs_of(facts, "broker")
    assert names_of(NodeConfig) - theirs.keys() == {name for kind, name in OURS if kind == "broker"}
    sources = {synonym["name"] for _, found in synonyms(facts) for synonym in found}
    for name in theirs.keys() - sources - names_of(NodeConfig):
        with pytest.raises(InvalidConfig, match="not a config here"):
            NodeConfig.from_kafka({name: "1"})


def test_a_nodes_own_defaults_and_ranges(facts: Path) -> None:
    theirs = configs_of(facts, "broker")
    for name in names_of(NodeConfig) & theirs.keys():
        ours = getattr(NodeConfig(), name.replace(".", "_"))
        default = OTHER_DEFAULTS.get(("broker", name), theirs[name]["default"])
        assert ours == default
        good, bad = good_and_bad(theirs[name]) if theirs[name]["type"] in LIMITS else ([default], [])
        if name in LEAST:
            assert min(good) < LEAST[name]
            good, bad = [LEAST[name], max(good)], [LEAST[name] - 1]
        if name in LIMITED:
            good = [default]
        assert [value_of(NodeConfig, name, value) for value in good] == good
        for value in bad:
            with pytest.raises(InvalidConfig, match=re.escape(f"{name}={value!r}")):
                value_of(NodeConfig, name, value)


def test_a_brokers_name_sets_the_default_of_the_topics(facts: Path) -> None:
    for name, found in synonyms(facts):
        field_name = name.replace(".", "_")
        for synonym in found:
            try:
                expected = value_of(TopicConfig, name, synonym["value_of_2"])
            except InvalidConfig:
                with pytest.raises(InvalidConfig):
                    NodeConfig.from_kafka({synonym["name"]: "2"})
                continue
            defaults = NodeConfig.from_kafka({synonym["name"]: "2"}).topic_defaults
            assert getattr(defaults, field_name) == expected, synonym
            assert defaults == TopicConfig(**{field_name: expected})


def test_the_first_of_several_names_wins(facts: Path) -> None:
    several = 0
    for name, found in synonyms(facts):
        for at, stronger in enumerate(found):
            for weaker in found[at + 1 :]:
                several += 1
                given = {weaker["name"]: "7", stronger["name"]: "2"}
                defaults = NodeConfig.from_kafka(given).topic_defaults
                assert getattr(defaults, name.replace(".", "_")) == value_of(TopicConfig, name, stronger["value_of_2"])
    assert several


def test_topic_defaults_are_the_brokers(facts: Path) -> None:
    theirs = configs_of(facts, "broker")
    for name, config in configs_of(facts, "topic").items():
        default = theirs[config["server_default"]]["default"] if config["server_default"] else None
        if name in names_of(TopicConfig) and default is not None and ("topic", name) not in OTHER_DEFAULTS:
            ours = getattr(NodeConfig().topic_defaults, name.replace(".", "_"))
            assert ours == value_of(TopicConfig, name, as_given(default)), name


# --- partitions -------------------------------------------------------------------------------------------------------


def test_keys_go_where_kafkas_partitioner_puts_them(facts: Path) -> None:
    found = json.loads(gzip.decompress((facts / "murmur2.json.gz").read_bytes()))
    assert found["rows"]
    for row in found["rows"]:
        fact = dict(zip(found["columns"], row, strict=True))
        key = bytes.fromhex(fact["key"])
        assert murmur2(key) == fact["murmur2"], fact["key"]
        assert murmur2(key) & 0x7FFFFFFF == fact["to_positive"]
        chosen = [partition_for_key(key, count) for count in found["partition_counts"]]
        assert chosen == fact["partitions"], fact["key"]
