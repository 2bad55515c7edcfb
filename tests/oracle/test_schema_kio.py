"""The schema codec against kio, an independent implementation of Kafka's messages with classes generated from the same
facts: kio reads to the end what we encode, and writes the same bytes again.

kio has the messages of the wire and of control records. Error codes, durations and times are classes of its own that
take fewer values, so fields of that kind get small ones here.
"""

import importlib
import io
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import for_code
from pylog.protocol.schema import message, names
from pylog.protocol.schema.table import Field, load
from support.schema_values import SIMPLE, struct_values

pytest.importorskip("kio", reason="kio is not installed: nothing to compare the schema codec with")

from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

pytestmark = pytest.mark.oracle

DURATION = re.compile(r".*(Ms|[tT]imeout)$")
TIME = re.compile(r".*[tT]imestamp(Ms)?$")


def narrowed(fields: tuple[Field, ...]) -> dict[str, st.SearchStrategy[Any]]:
    """Strategies by name for the fields that kio reads as an error, a duration or a time."""
    made: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields:
        if field.name.endswith("rrorCode"):
            made[field.name] = st.sampled_from([0] + [code for code in range(1, 100) if for_code(code).code == code])
        elif TIME.match(field.name) or DURATION.match(field.name):
            made[field.name] = st.integers(0, 2**31 - 1)
        made |= narrowed(field.fields)
    return made


@lru_cache(None)
def known_to_kio() -> dict[tuple[str, int], type[Any]]:
    """kio's class for each message and version that both know."""
    found = {}
    ours = set(names())
    for versions in schema_name_map.values():
        for version, kinds in versions.items():
            for target in kinds.values():
                module, _, name = target.partition(":")
                if name in ours and version in message(name).versions:
                    found[name, version] = getattr(importlib.import_module(module), name)
    return found


@given(st.data())
def test_kio_reads_our_bytes_and_writes_the_same(data: st.DataObject) -> None:
    name, version = data.draw(st.sampled_from(sorted(known_to_kio())))
    fields = load(name).fields
    value = data.draw(struct_values(fields, version, {**SIMPLE, **narrowed(fields)}))
    ours = message(name).encode(version, value)
    kind = known_to_kio()[name, version]
    read: Callable[..., Any] = entity_reader(kind)
    entity, size = read(ours, 0)
    assert size == len(ours)
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, entity)
    assert buffer.getvalue() == ours


def test_kio_knows_most_of_the_wire() -> None:
    missing = [name for name in names("request") if not any(name == known for known, _ in known_to_kio())]
    assert len(known_to_kio()) > len(missing) * 5
