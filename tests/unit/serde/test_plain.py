"""Serdes without a schema: text, whole numbers, JSON of anything and of types."""

import builtins
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

import pylog
from pylog import serde


@dataclass
class Plain:
    apples: int
    name: str = ""


class Struct(msgspec.Struct):
    apples: int
    name: str = ""


class Model(pydantic.BaseModel):
    apples: int
    name: str = ""


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    tail: bool = True


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Typed(TypedDict):
    apples: int


def hide(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """Let a module not be installed."""
    really = builtins.__import__

    def find(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == hidden:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return really(name, *args)

    monkeypatch.setattr(builtins, "__import__", find)


@pytest.mark.parametrize(
    ("one", "value", "data"),
    [
        (serde.string(), "größe", "größe".encode()),
        (serde.string("utf-16-le"), "a", b"a\0"),
        (serde.integer(), -2, b"\xff\xff\xff\xfe"),
        (serde.long(), 1 << 40, b"\0\0\1\0\0\0\0\0"),
        (serde.json(), {"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'.encode()),
        (serde.json(Plain), Plain(2, "x"), b'{"apples":2,"name":"x"}'),
        (serde.json(Struct), Struct(2), b'{"apples":2,"name":""}'),
        (serde.json(Model), Model(apples=2), b'{"apples":2,"name":""}'),
        (serde.json(Typed), {"apples": 2}, b'{"apples":2}'),
        (serde.json(list[int]), [1, 2], b"[1,2]"),
        (serde.json(Pet), Dog(), b'{"kind":"dog","tail":true}'),
        (serde.json(Cat | Dog), Cat(lives=3), b'{"kind":"cat","lives":3}'),
        (
            serde.json(dict[str, list[Pet]]),
            {"a": [Cat(), Dog()]},
            b'{"a":[{"kind":"cat","lives":9},{"kind":"dog","tail":true}]}',
        ),
    ],
)
def test_a_value_becomes_bytes_and_back(one: serde.Serde[Any], value: object, data: bytes) -> None:
    assert one.serialize(value) == data
    assert one.deserialize(data) == value


@pytest.mark.parametrize(
    ("one", "data"),
    [
        (serde.string(), b"\xff"),
        (serde.integer(), b"\0\0\0"),
        (serde.long(), b"\0\0\0\0"),
        (serde.json(), b"{"),
        (serde.json(Plain), b'{"apples":"two"}'),
        (serde.json(Struct), b"{}"),
        (serde.json(Model), b'{"apples":[]}'),
        (serde.json(Pet), b'{"kind":"cow"}'),
    ],
)
def test_bytes_that_are_no_such_value_are_refused(one: serde.Serde[Any], data: bytes) -> None:
    with pytest.raises(ValueError):
        one.deserialize(data)


@pytest.mark.parametrize(("one", "number"), [(serde.integer(), 1 << 31), (serde.long(), -(1 << 63) - 1)])
def test_a_number_that_is_too_large_is_refused(one: serde.Serde[int], number: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        one.serialize(number)


def test_json_is_the_same_bytes_without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"a": [1, 2.5, None, True, "ä"], "b": {}}
    fast = serde.json().serialize(value)
    hide(monkeypatch, "orjson")
    assert serde.json().serialize(value) == fast
    assert serde.json().deserialize(fast) == value


def test_json_of_a_type_without_msgspec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "msgspec")
    with pytest.raises(ImportError, match="pip install msgspec"):
        serde.json(Plain)


def test_a_producer_and_a_consumer_take_both_halves() -> None:
    orders = serde.json(Plain)
    with pylog.open(":memory:") as log:
        log.create_topic("t")
        with log.producer(key_serializer=serde.string().serialize, value_serializer=orders.serialize) as producer:
            producer.send("t", Plain(1), key="alice")
            producer.send("t", None, key="alice")
        with log.consumer(
            "t", auto_offset_reset="earliest", consumer_timeout_ms=0, key_deserializer=serde.string().deserialize,
            value_deserializer=orders.deserialize,
        ) as consumer:  # fmt: skip
            records = consumer.poll(timeout_ms=1000)
    assert [(record.key, record.value) for record in records] == [("alice", Plain(1)), ("alice", None)]
