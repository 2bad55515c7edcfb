"""`pylog.config.typed` says of each config what its class takes. `python tests/unit/config/test_typed.py` writes it."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from pylog.config import ConsumerConfig, NodeConfig, ProducerConfig, TopicConfig, typed
from pylog.config.connection import ConnectionConfig
from pylog.config.options import (
    Acks,
    BytesPerSecond,
    Config,
    Function,
    Kind,
    Names,
    Share,
    SomeOf,
    Switch,
    Whole,
    Words,
)
from pylog.config.share_consumer import ShareConsumerConfig

FILE = Path(typed.__file__)
HEAD = '''"""The configs that a call may be given, for editors and type checkers: which there are, and what each takes.

By keyword, with underscores: ProducerOptions, ConsumerOptions, ShareConsumerOptions, ConnectionOptions. By Kafka's
names, in a dict, where a number or a switch may be text: TopicOptions, NodeOptions.

`python tests/unit/config/test_typed.py` writes this file from the config classes, which say what each config means.
"""

from collections.abc import Iterable
from typing import Literal, TypedDict

from pylog.config.clients import OnCommit, Partitioner
'''
OF_SIGNATURES = {
    "group_id", "key_deserializer", "key_serializer", "share_acknowledgement_mode", "value_deserializer",
    "value_serializer",
}  # fmt: skip
"""Parameters of `ClientHalf.producer`, `consumer` and `share_consumer`, where the mode is `acknowledgement`."""


def annotation(kind: Kind, *, is_text: bool) -> str:
    """The type of what an option takes, as it is written in Python."""
    match kind:
        case Acks():
            found = 'int | Literal["all"]'
        case Whole():
            found = "int | str" if is_text else "int"
        case Share() | BytesPerSecond():
            found = "float | str" if is_text else "float"
        case Switch():
            found = "bool | str" if is_text else "bool"
        case Words() if kind.words and type(kind) is Words:
            found = f"Literal[{words(kind.words)}]"
        case Words():
            found = "str"
        case SomeOf() | Names():
            found = "str | Iterable[str]"
        case Function() if not kind.words:
            return "OnCommit | None"
        case Function():
            return f"Literal[{words(kind.words)}] | Partitioner | None"
        case _:
            raise AssertionError(f"{kind}: say here what it takes")
    return f"{found} | None" if takes_none(kind) else found


def words(some: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in some)


def takes_none(kind: Kind) -> bool:
    try:
        return kind.parse(None) is None
    except ValueError:
        return False


def by_keyword(cls: type[Config], name: str, about: str) -> str:
    options = {spec.name: spec.metadata["kind"] for spec in fields(cls) if spec.name not in OF_SIGNATURES}
    lines = [f"    {option}: {annotation(kind, is_text=False)}" for option, kind in options.items()]
    return "\n".join([f"class {name}(TypedDict, total=False):", f'    """{about}"""', "", *lines, ""])


def by_kafka_name(kinds: dict[str, Kind], name: str, about: str) -> str:
    lines = [f'        "{option}": {annotation(kind, is_text=True)},' for option, kind in kinds.items()]
    body = [f"{name} = TypedDict(", f'    "{name}",', "    {", *lines, "    },", "    total=False,", ")"]
    return "\n".join([*body, f'"""{about}"""', ""])


def written() -> str:
    topic = TopicConfig.kinds()
    of_topics = {name: topic[of] for of, names in TopicConfig.broker_names().items() for name in names}
    return "\n\n".join([
        HEAD,
        by_keyword(ProducerConfig, "ProducerOptions", "The configs of a producer. (`ProducerConfig`)"),
        by_keyword(ConsumerConfig, "ConsumerOptions", "The configs of a consumer. (`ConsumerConfig`)"),
        by_keyword(
            ShareConsumerConfig, "ShareConsumerOptions", "The configs of a share consumer. (`ShareConsumerConfig`)"
        ),
        by_keyword(ConnectionConfig, "ConnectionOptions", "The configs of a connection. (`ConnectionConfig`)"),
        by_kafka_name(topic, "TopicOptions", "The configs of a topic. (`TopicConfig`)"),
        by_kafka_name(
            dict(sorted({**NodeConfig.kinds(), **of_topics}.items())), "NodeOptions",
            "The configs of a node. (`NodeConfig`)",
        ),
    ])  # fmt: skip


def test_every_config_has_the_type_of_what_its_class_takes() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "run python tests/unit/config/test_typed.py"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
