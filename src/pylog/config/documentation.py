"""The text of each config, as it stands below its field: for pages, and for clients that ask DescribeConfigs for it.

A text stands once, in the source of its class, so it is read from there.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import NamedTuple

from pylog.config.options import Config, config_type, kafka_name

__all__ = ["Described", "described", "documentation"]


class Described(NamedTuple):
    """A config as a reference has it: its name, type, default and allowed values as texts, and its documentation."""

    name: str
    type: str
    default: str
    allowed: str
    documentation: str


def described(kind: type[Config]) -> Iterator[Described]:
    """The configs of a class, in the order of its fields. The defaults of topics, which a node has, are left out."""
    texts = documentation(kind)
    for field in fields(kind):
        if "kind" in field.metadata:
            name, value = kafka_name(field.name), field.default
            found = field.metadata["kind"]
            default = "None" if value is None else found.text(value)
            yield Described(name, config_type(found).name.lower(), default, found.allowed, texts.get(name, ""))


def documentation(kind: type) -> Mapping[str, str]:
    """The text of each config of a class, and of those that it inherits from, by Kafka's names.

    None of a class without a source, as in a program that was frozen into one file.
    """
    return _read(kind)


# Beneath `documentation`: mypy looks for the hash of a config where a class of configs is given to what is cached.
@cache
def _read(kind: type) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__[:-1]):
        try:
            source = inspect.getsource(cls)
        except (OSError, TypeError):
            continue
        (body,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(body, ast.ClassDef), cls
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[kafka_name(field.target.id)] = inspect.cleandoc(text.value.value)
    return found
