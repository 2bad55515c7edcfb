"""Requests that describe and change configs, to a node in memory."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.wire_node import WireNode, wire_node


@pytest.fixture
def node() -> Iterator[WireNode]:
    with wire_node() as made:
        yield made


def described(node: WireNode, version: int = 4, **resource: Any) -> dict[str, Any]:
    asked = {"resourceType": 2, "resourceName": "t", "configurationKeys": None, **resource}
    (result,) = node.ask("DescribeConfigs", version, {"resources": [asked], "includeSynonyms": True})["results"]
    return dict(result)


@pytest.mark.parametrize("version", range(1, 5))
def test_a_config_of_a_topic_says_where_it_comes_from(version: int) -> None:
    with wire_node(log_retention_ms=77) as node:
        node.log.create_topic("t", config={"segment.bytes": 2_000_000})

        configs = {one["name"]: one for one in described(node, version)["configs"]}

        assert [configs[name]["configSource"] for name in ("segment.bytes", "retention.ms", "segment.ms")] == [1, 4, 5]
        synonyms = configs["retention.ms"]["synonyms"]
        assert [(one["name"], one["value"], one["source"]) for one in synonyms] == [
            ("log.retention.ms", "77", 4), ("log.retention.ms", "-1", 5),
        ]  # fmt: skip
        if version >= 3:
            types = [configs[name]["configType"] for name in ("segment.bytes", "retention.ms", "preallocate")]
            assert types == [3, 5, 1]


def test_the_configs_of_the_node_say_which_are_read_only(node: WireNode) -> None:
    name = str(node.log.node_id)

    configs = {one["name"]: one for one in described(node, resourceType=4, resourceName=name)["configs"]}

    assert configs["offsets.topic.num.partitions"]["configSource"] == 4
    assert configs["log.segment.bytes"]["configType"] == 3
    assert [configs[name]["readOnly"] for name in ("num.partitions", "log.segment.bytes", "max.connections")] == [
        True, False, False,
    ]  # fmt: skip


def test_only_the_configs_that_are_asked_for_are_described(node: WireNode) -> None:
    node.log.create_topic("t")

    configs = described(node, configurationKeys=["retention.ms", "none"])["configs"]

    assert [one["name"] for one in configs] == ["retention.ms"]


def test_an_empty_list_of_names_asks_for_all_configs(node: WireNode) -> None:
    node.log.create_topic("t")

    everything = described(node)["configs"]

    assert described(node, configurationKeys=[])["configs"] == everything != []
    assert {one["documentation"] for one in everything} == {None}


@pytest.mark.parametrize(
    ("resource", "name", "word"),
    [
        ({"resourceName": "t"}, "min.insync.replicas", "replicas"),
        ({"resourceType": 4, "resourceName": "1"}, "min.insync.replicas", "replicas"),
        ({"resourceType": 32, "resourceName": "g"}, "consumer.session.timeout.ms", "member"),
    ],
)
def test_each_config_has_a_documentation_where_it_is_asked_for(
    node: WireNode, resource: dict[str, Any], name: str, word: str
) -> None:
    node.log.create_topic("t")
    asked = {"resources": [{"resourceType": 2, "configurationKeys": None, **resource}], "includeDocumentation": True}

    (result,) = node.ask("DescribeConfigs", 3, asked)["results"]

    told = {one["name"]: one["documentation"] for one in result["configs"]}
    assert all(told.values()), told
    assert word in told[name]


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ({"resourceName": "none"}, 3),
        ({"resourceType": 4}, 42),
        ({"resourceType": 4, "resourceName": "2"}, 42),
        ({"resourceType": 8}, 42),
        ({"resourceType": 32, "resourceName": ""}, 42),
    ],
)
def test_what_has_no_configs_is_an_error(node: WireNode, resource: dict[str, Any], code: int) -> None:
    result = described(node, **resource)

    assert (result["errorCode"], result["configs"]) == (code, [])


def alter(node: WireNode, *changes: tuple[str, int, str | None], validate: bool = False, **more: Any) -> int:
    configs = [{"name": name, "configOperation": operation, "value": value} for name, operation, value in changes]
    resource = {"resourceType": 2, "resourceName": "t", "configs": configs, **more}
    (result,) = node.ask(
        "IncrementalAlterConfigs", 1, {"resources": [resource], "validateOnly": validate}
    )["responses"]  # fmt: skip
    return int(result["errorCode"])


def overrides(node: WireNode) -> dict[str, str]:
    return dict(node.log.broker.image.topics["t"].config)


def test_single_configs_are_set_appended_to_subtracted_from_and_deleted(node: WireNode) -> None:
    node.log.create_topic("t")

    assert alter(node, ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact")) == 0
    assert overrides(node) == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert alter(node, ("retention.ms", 1, None), ("cleanup.policy", 3, "delete")) == 0
    assert overrides(node) == {"cleanup.policy": "compact"}


def test_changes_that_make_no_sense_change_nothing(node: WireNode) -> None:
    node.log.create_topic("t")

    assert alter(node, ("retention.ms", 9, "5")) == 42
    assert alter(node, ("retention.ms", 0, "5"), ("retention.ms", 0, "6")) == 42
    assert alter(node, ("retention.ms", 0, "x")) == 40
    assert alter(node, ("retention.ms", 0, "5"), validate=True) == 0
    assert alter(node, ("a", 0, "5"), resourceType=4, resourceName="") == 42
    assert alter(node, ("retention.ms", 0, "5"), resourceName="none") == 3
    assert alter(node, ("retention.ms", 0, "x"), resourceName="none") == 40
    assert alter(node, ("retention.ms", 2, "5"), resourceName="none") == 40
    assert alter(node, ("cleanup.policy", 2, "keep"), resourceName="none") == 40
    assert alter(node, ("retention.ms", 0, None)) == alter(node, ("none", 0, None), resourceName="none") == 42
    assert alter(node, ("retention.ms", 0, "x"), resourceName="a b") == 17
    assert alter(node, ("retention.ms", 0, "5"), resourceName="") == 42
    assert overrides(node) == {}


@pytest.mark.parametrize("version", range(3))
def test_all_configs_are_replaced_at_once(node: WireNode, version: int) -> None:
    node.log.create_topic("t", config={"retention.ms": 5, "segment.ms": 6})
    configs = [{"name": "segment.ms", "value": "7"}, {"name": "preallocate", "value": "true"}]
    resource = {"resourceType": 2, "resourceName": "t", "configs": configs}

    (result,) = node.ask("AlterConfigs", version, {"resources": [resource], "validateOnly": False})["responses"]

    assert result["errorCode"] == 0
    assert overrides(node) == {"segment.ms": "7", "preallocate": "true"}


def test_a_resource_that_is_named_twice_is_refused(node: WireNode) -> None:
    node.log.create_topic("t")
    resource = {"resourceType": 2, "resourceName": "t", "configs": [{"name": "retention.ms", "value": None}]}

    once = node.ask("AlterConfigs", 2, {"resources": [resource], "validateOnly": False})["responses"]
    twice = node.ask("AlterConfigs", 2, {"resources": [resource] * 2, "validateOnly": False})["responses"]

    assert [one["errorCode"] for one in once] == [42]
    assert [one["errorCode"] for one in twice] == [42, 42]


@pytest.mark.parametrize(("resources", "is_brief"), [(10, False), (11, True)])
@pytest.mark.parametrize(("name", "version"), [("AlterConfigs", 1), ("IncrementalAlterConfigs", 1)])
def test_errors_of_many_resources_are_brief(
    node: WireNode, name: str, version: int, resources: int, is_brief: bool
) -> None:
    config = {"name": "odd.config", "value": "1"}
    asked = [{"resourceType": 2, "resourceName": f"t{number}", "configs": [config]} for number in range(resources)]
    if name == "AlterConfigs":
        for number in range(resources):
            node.log.create_topic(f"t{number}")

    found = node.ask(name, version, {"resources": asked})["responses"]

    assert {one["errorCode"] for one in found} == {40}
    assert all("odd.config is not a config" in one["errorMessage"] for one in found)
    assert {len(one["errorMessage"]) < 60 for one in found} == {is_brief}


def test_a_brief_error_is_for_the_name_of_what_is_set_alone(node: WireNode) -> None:
    node.log.create_topic("t0", config={"retention.ms": "5"})
    changes = [{"name": "retention.ms", "configOperation": 1, "value": None}]
    asked = [{"resourceType": 2, "resourceName": f"t{number}", "configs": changes} for number in range(11)]

    found = node.ask("IncrementalAlterConfigs", 1, {"resources": asked})["responses"]

    assert [one["errorCode"] for one in found] == [0] + [3] * 10


@pytest.mark.parametrize(("name", "value", "code"), [
    ("none", "x", 40), ("none", None, 42), ("a b", "x", 17), ("", "x", 42), ("none", "5", 3),
])  # fmt: skip
def test_the_first_that_is_wrong_with_all_configs_is_told(
    node: WireNode, name: str, value: str | None, code: int
) -> None:
    resource = {"resourceType": 2, "resourceName": name, "configs": [{"name": "retention.ms", "value": value}]}

    (result,) = node.ask("AlterConfigs", 2, {"resources": [resource], "validateOnly": False})["responses"]

    assert result["errorCode"] == code


# --- brokers and groups -----------------------------------------------------------------------------------------------


def sources(node: WireNode, kind: int, name: str, key: str) -> tuple[int, list[tuple[str, str, int]]]:
    """Where a config comes from, and its synonyms."""
    (config,) = described(node, resourceType=kind, resourceName=name, configurationKeys=[key])["configs"]
    return config["configSource"], [(one["name"], one["value"], one["source"]) for one in config["synonyms"]]


def test_what_is_set_on_brokers_and_groups_comes_before_what_was_given() -> None:
    with wire_node(log_retention_ms=77, group_consumer_session_timeout_ms=50_000) as node:
        node.log.create_topic("t")
        default, given = ("log.retention.ms", "-1", 5), ("log.retention.ms", "77", 4)

        assert alter(node, ("log.retention.ms", 0, "10"), resourceType=4, resourceName="") == 0
        assert sources(node, 4, "1", "log.retention.ms") == (3, [("log.retention.ms", "10", 3), given, default])
        assert alter(node, ("log.retention.ms", 0, "20"), resourceType=4, resourceName="1") == 0
        every = [("log.retention.ms", "20", 2), ("log.retention.ms", "10", 3), given, default]
        assert sources(node, 4, "1", "log.retention.ms") == (2, every)
        assert sources(node, 4, "", "log.retention.ms") == (3, [("log.retention.ms", "10", 3)])
        assert [one["name"] for one in described(node, resourceType=4, resourceName="")["configs"]] == [default[0]]
        assert sources(node, 2, "t", "retention.ms") == (2, every)

        name, of_node = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
        of_others = [(of_node, "50000", 4), (of_node, "45000", 5)]
        assert sources(node, 32, "g", name) == (4, of_others)
        assert alter(node, (name, 0, "55000"), resourceType=32, resourceName="g") == 0
        assert sources(node, 32, "g", name) == (8, [(name, "55000", 8), *of_others])
        listed = node.ask("ListConfigResources", 1, {"resourceTypes": [32]})["configResources"]
        assert listed == [{"resourceName": "g", "resourceType": 32}]


LIMIT, POLICY = "consumer.heartbeat.interval.ms", "log.cleanup.policy"


# As a Kafka of 4.3.1 answers; it takes a config of a broker of which it has never heard.
@pytest.mark.parametrize(("kind", "name", "change", "code"), [
    (4, "1", ("log.retention.hours", 0, "2"), 42), (4, "", ("num.partitions", 0, "2"), 42),
    (4, "1", ("num.partitions", 1, None), 0), (4, "1", ("no.such", 1, None), 0), (4, "1", ("no.such", 0, "1"), 42),
    (4, "1", ("log.segment.bytes", 0, "2"), 42), (4, "1", ("log.retention.ms", 0, "x"), 42),
    (4, "1", (POLICY, 0, "keep"), 42), (4, "1", (POLICY, 2, "compact"), 0), (4, "1", ("no.such", 2, "1"), 40),
    (4, "1", ("num.partitions", 3, "1"), 40), (4, "1", ("log.retention.ms", 9, "1"), 42),
    (4, "1", ("log.retention.ms", 0, None), 42), (4, "2", ("log.retention.ms", 0, "1"), 42),
    (4, "x", ("log.retention.ms", 0, "1"), 42), (4, "", ("max.connections", 0, "-1"), 42),
    (32, "", (LIMIT, 0, "6000"), 42), (32, "g", ("no.such", 0, "1"), 40), (32, "g", ("no.such", 1, None), 0),
    (32, "g", (LIMIT, 0, "4999"), 40), (32, "g", (LIMIT, 0, "15001"), 40), (32, "g", (LIMIT, 0, "x"), 40),
    (32, "g", (LIMIT, 2, "7"), 40), (32, "g", (LIMIT, 0, None), 42), (16, "m", ("metrics", 0, "a"), 42),
])  # fmt: skip
def test_changes_of_brokers_and_groups_are_answered_as_kafka_does(
    node: WireNode, kind: int, name: str, change: tuple[str, int, str | None], code: int
) -> None:
    assert alter(node, change, resourceType=kind, resourceName=name, validate=True) == code
    assert not node.log.broker.image.configs


def test_all_configs_of_a_broker_are_replaced_at_once(node: WireNode) -> None:
    def replace(*configs: tuple[str, str]) -> int:
        pairs = [{"name": name, "value": value} for name, value in configs]
        resource = {"resourceType": 4, "resourceName": "1", "configs": pairs}
        (result,) = node.ask("AlterConfigs", 2, {"resources": [resource], "validateOnly": False})["responses"]
        return int(result["errorCode"])

    assert replace(("log.retention.ms", "5"), ("max.connections", "9")) == 0
    assert replace(("log.retention.ms", "6")) == 0
    assert node.log.broker.configs.altered.own == {"log.retention.ms": "6"}
    assert replace(("num.partitions", "6")) == 42
    assert replace() == 0
    assert not node.log.broker.image.configs
