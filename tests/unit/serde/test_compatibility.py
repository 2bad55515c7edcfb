"""Levels of compatibility, and a registry in a log that goes by them."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import pylog
from pylog import serde
from pylog.errors import IncompatibleSchema, SchemaRegistryError
from pylog.serde.compatibility import levels
from pylog.serde.registry import checked_level


def payment(*fields: str, **defaults: int) -> serde.Schema:
    made: list[dict[str, Any]] = [{"name": name, "type": "int"} for name in fields]
    made += [{"name": name, "type": "int", "default": default} for name, default in defaults.items()]
    return serde.Schema(json.dumps({"type": "record", "name": "Payment", "fields": made}))


A, AB, A_B, B = payment("a"), payment("a", "b"), payment("a", b=0), payment("b")


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


@pytest.fixture
def registry(log: pylog.Log) -> serde.LogRegistry:
    return serde.LogRegistry(log)


def configs(log: pylog.Log) -> list[tuple[Any, Any]]:
    found = [(json.loads(one.key or b""), json.loads(one.value or b"")) for one in log.topic("_schemas").records()]
    return [(key, value) for key, value in found if key["keytype"] == "CONFIG"]


@pytest.mark.parametrize(
    ("level", "versions", "good", "bad"),
    [
        ("BACKWARD", [A], [A_B], [AB, B]),
        ("backward", [AB, A], [A_B, payment()], [AB]),
        ("BACKWARD_TRANSITIVE", [B, A_B], [payment(b=0), payment()], [A]),
        ("FORWARD", [A], [AB, A_B], [B, payment()]),
        ("FORWARD_TRANSITIVE", [A, AB], [AB, payment("a", "b", "c")], [B]),
        ("FULL", [A], [A_B], [AB, B, payment()]),
        ("FULL_TRANSITIVE", [A, A_B], [payment("a", c=0)], [AB, payment()]),
        ("NONE", [A], [B, serde.Schema("{}", "JSON")], []),
    ],
)
def test_a_level_says_which_version_has_to_read_which(
    level: str, versions: list[serde.Schema], good: list[serde.Schema], bad: list[serde.Schema]
) -> None:
    known = [serde.RegisteredSchema(number, "s", number, one) for number, one in enumerate(versions, 1)]

    def hold(one: serde.Schema) -> levels.Conflict | None:
        return levels.conflict(checked_level(level), one, known, lambda schema: json.loads(schema.text))

    assert not any(map(hold, good))
    assert all("field Payment." in str(hold(one)) for one in bad)


def test_a_new_version_that_cannot_read_the_last_one_is_refused_and_named(registry: serde.LogRegistry) -> None:
    registry.register("s", A)
    with pytest.raises(IncompatibleSchema) as caught:
        registry.register("s", AB)
    assert str(caught.value) == (
        "the schema is not BACKWARD compatible with version 1 of s: the new schema cannot read it: field Payment.b: it "
        "is missing where data was written, and has no default. Change it, or set another level (set_compatibility)"
    )
    assert isinstance(caught.value, SchemaRegistryError)
    assert registry.version("s").version == 1
    assert registry.register("s", A_B) == 2
    assert registry.register("s", A) == 1, "what is registered stays so"


def test_many_faults_are_counted(registry: serde.LogRegistry) -> None:
    registry.register("s", payment())
    with pytest.raises(IncompatibleSchema, match=r"field Payment\.e: [^;]*; and 2 more\. Change"):
        registry.register("s", payment(*"abcdefg"))


def test_a_level_is_a_record_of_confluents_and_of_a_subject_or_of_all(
    log: pylog.Log, registry: serde.LogRegistry
) -> None:
    assert (registry.compatibility(), registry.compatibility("s")) == ("BACKWARD", "BACKWARD")
    registry.set_compatibility("FORWARD")
    registry.set_compatibility("NONE", "s")
    assert (registry.compatibility(), registry.compatibility("s")) == ("FORWARD", "NONE")
    assert serde.LogRegistry(log).compatibility("other") == "FORWARD"
    assert configs(log) == [
        ({"keytype": "CONFIG", "magic": 0}, {"compatibilityLevel": "FORWARD"}),
        ({"keytype": "CONFIG", "subject": "s", "magic": 0}, {"subject": "s", "compatibilityLevel": "NONE"}),
    ]
    with pytest.raises(ValueError, match="'most' is not a level of compatibility: NONE, BACKWARD, BACKWARD_TRANSITIVE"):
        registry.set_compatibility("most")  # type: ignore[arg-type]


def test_levels_that_confluents_registry_wrote_are_gone_by(log: pylog.Log, registry: serde.LogRegistry) -> None:
    log.create_topic("_schemas")
    with log.producer(key_serializer=str.encode) as producer:
        producer.send("_schemas", b'{"compatibilityLevel":"FULL"}', key='{"keytype":"CONFIG","subject":null,"magic":0}')
        key = '{"keytype":"CONFIG","subject":"s","magic":0}'
        producer.send("_schemas", b'{"compatibilityLevel":"NONE"}', key=key).result()
        assert [registry.compatibility(), registry.compatibility("s")] == ["FULL", "NONE"]
        producer.send("_schemas", None, key=key).result()
        assert registry.compatibility("s") == "FULL"


ARRAYS = '{"type":"array","items":@}'


def nested(depth: int, outer: str, inner: str) -> str:
    for _ in range(depth):
        inner = outer.replace("@", inner)
    return inner


@pytest.mark.parametrize(
    ("kind", "around", "inner", "fault"),
    [
        ("JSON", partial(nested, 12, '{"anyOf":[@,@]}'), ('{"minimum":1}', '{"minimum":2}'), "too many"),
        ("JSON", partial(nested, 700, '{"items":@}'), ('{"minimum":1}', '{"minimum":2}'), "RecursionError"),
        (
            "AVRO",
            partial(nested, 12, f"[{ARRAYS},{ARRAYS}]"),
            ('"int"', '""'),
            "too many",
        ),
    ],
    ids=["branches", "deep", "unions"],
)
def test_a_schema_that_would_take_for_ever_is_not_compatible(
    kind: str, around: Callable[[str], str], inner: tuple[str, str], fault: str
) -> None:
    old, new = (serde.Schema(around(one), kind) for one in inner)
    (found,) = levels.faults(new, old, lambda schema: json.loads(schema.text))
    assert fault in found


def test_references_are_put_in_their_places_before_schemas_are_compared(registry: serde.LogRegistry) -> None:
    def order(version: int) -> serde.Schema:
        text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "payment", "type": "Payment"}]})
        return serde.Schema(text, references=(serde.Reference("Payment", "payment", version),))

    registry.set_compatibility("NONE", "payment")
    for one in (A, A_B, B):
        registry.register("payment", one)
    assert [registry.register("order", order(1)), registry.register("order", order(2))] == [4, 5]
    registry.set_compatibility("BACKWARD_TRANSITIVE", "order")
    with pytest.raises(IncompatibleSchema, match=r"version 1 of order: .* field Order\.payment\.b: it is missing"):
        registry.register("order", order(3))
    with pytest.raises(SchemaRegistryError, match="there is no version 9 of subject payment") as caught:
        registry.register("order", order(9))
    assert caught.value.error_code == 42201


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (A, serde.Schema("{}", "JSON"), "one is JSON, the other one AVRO"),
        (serde.Schema("message P {}", "PROTOBUF"), serde.Schema("message Q {}", "PROTOBUF"), "message P is gone"),
        (serde.Schema('{"type":"string"}', "JSON"), serde.Schema('{"type":"number"}', "JSON"), "it may be string"),
    ],
)
def test_schemas_that_cannot_be_compared_are_not_compatible(
    registry: serde.LogRegistry, old: serde.Schema, new: serde.Schema, fault: str
) -> None:
    registry.register("s", old)
    with pytest.raises(IncompatibleSchema, match=fault):
        registry.register("s", new)
    registry.set_compatibility("NONE", "s")
    assert registry.register("s", new) == 2


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (serde.Schema("{", "JSON"), serde.Schema("{}", "JSON"), "one of them is no JSON that can be compared"),
        (serde.Schema("x", "XML"), serde.Schema("y", "XML"), "schemas of type XML cannot be compared"),
    ],
)
def test_what_a_topic_has_that_is_no_schema_is_compatible_with_nothing(
    old: serde.Schema, new: serde.Schema, fault: str
) -> None:
    (found,) = levels.faults(new, old, lambda schema: json.loads(schema.text))
    assert fault in found
