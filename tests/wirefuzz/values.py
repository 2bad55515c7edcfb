"""Boundary values for the fields of Kafka's messages, and damage for their bytes."""

import random
import struct
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from pylog.protocol.schema.table import Field
from support.raw_client import Body
from support.wire_requests import records

BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
TEXTS = ["", "a", "fuzzed", "..", "../../etc/passwd", "a b", "\0", "\u00e9" * 130, "x" * 249, "x" * 250, "x" * 32_000]
BLOBS = [b"", b"\0", bytes(61), b"\xff" * 61, bytes(range(256)) * 8]
GOOD = records(b"value", timestamp=1_700_000_000_000)
LENGTHS = [struct.pack(">i", number) for number in (-1, -2, 0, 1, 2**31 - 1, -(2**31), 100_000_000)]
VARINTS = [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80", b"\0", b"\1"]


def batches() -> list[bytes]:
    """Records that are damaged, cut, doubled, or claim what they have not."""
    found = [b"", GOOD[:8], GOOD[:12], GOOD[:60], GOOD[:-1], GOOD + GOOD, GOOD + b"\0", bytes(len(GOOD))]
    for at, form in ((8, ">i"), (12, ">i"), (23, ">i"), (57, ">i"), (43, ">q"), (27, ">q")):
        for number in (-1, 0, 2**31 - 1, -(2**31)):
            damaged = bytearray(GOOD)
            struct.pack_into(form, damaged, at, number)
            found.append(bytes(damaged))
    found += [GOOD[:16] + bytes([magic]) + GOOD[17:] for magic in (0, 1, 3, 127)]
    return found + [GOOD[:21] + bytes([0, codec]) + GOOD[23:] for codec in range(1, 9)]


BATCHES = batches()


def boundaries(field: Field, version: int) -> list[Any]:
    """The values at the ends of what a field may hold in a version, for one element where it is an array."""
    found: list[Any]
    if field.kind in BITS:
        bits = BITS[field.kind]
        low, high = (0, 2**bits - 1) if field.kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        found = sorted({low, high, max(low, -2), max(low, -1), 0, 1, high - 1})
    elif field.kind == "bool":
        found = [False, True]
    elif field.kind == "float64":
        found = [0.0, -1.0, float("inf"), float("nan"), 1e308]
    elif field.kind == "uuid":
        found = [UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)]
    elif field.kind == "string":
        found = list(TEXTS)
    else:
        found = [] if field.fields else (BATCHES if field.kind == "records" else BLOBS)
    return [*found, None] if version in field.nullable and not field.is_array else found


def variants(fields: tuple[Field, ...], version: int, body: Body) -> Iterator[Body]:
    """The body with one field changed, for each field and each of its boundary values."""
    for field in fields:
        if version not in field.versions:
            continue
        given = body.get(field.name)
        if field.is_array:
            yield from ({**body, field.name: changed} for changed in _lists(field, version, given))
        elif field.fields and isinstance(given, dict):
            yield from ({**body, field.name: changed} for changed in variants(field.fields, version, given))
        else:
            yield from ({**body, field.name: changed} for changed in boundaries(field, version))


def _lists(field: Field, version: int, given: list[Any] | None) -> Iterator[list[Any] | None]:
    yield []
    if version in field.nullable:
        yield None
    if not given:
        yield from ([value] for value in boundaries(field.element, version))
        return
    yield given * 2
    yield given * 300
    first, *rest = given
    if field.fields:
        yield from ([changed, *rest] for changed in variants(field.fields, version, first))
    else:
        yield from ([changed, *rest] for changed in boundaries(field.element, version))


def drawn(fields: tuple[Field, ...], version: int, dice: random.Random, depth: int = 0) -> Body:
    """A body with a boundary value in each field."""
    found: Body = {}
    for field in fields:
        if version in field.versions:
            found[field.name] = _drawn(field, version, dice, depth)
    return found


def _drawn(field: Field, version: int, dice: random.Random, depth: int) -> Any:
    if version in field.nullable and dice.random() < 0.2:
        return None
    if field.is_array:
        return [_drawn(field.element, version, dice, depth) for _ in range(dice.choice([0, 1, 1, 2, 5 - 2 * depth]))]
    if field.fields:
        return drawn(field.fields, version, dice, depth + 1)
    # Long texts are rare: they make most of the time otherwise.
    choices = boundaries(field, version)
    return dice.choice(choices[:7] if field.kind == "string" and dice.random() < 0.9 else choices)


def damaged(data: bytes, dice: random.Random) -> bytes:
    """The bytes with a few of them changed, cut, or overwritten by a length that lies."""
    found = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(found) + 1)
        kind = dice.randrange(6)
        if kind == 0:
            del found[at:]
        elif kind == 1:
            found[at:at] = dice.randbytes(dice.choice([1, 2, 20]))
        elif kind == 2 and at < len(found):
            found[at] ^= 1 << dice.randrange(8)
        elif kind == 3:
            found[at : at + 4] = dice.choice(LENGTHS)
        elif kind == 4:
            found[at : at + 1] = dice.choice(VARINTS)
        else:
            del found[at : at + dice.choice([1, 2, 8])]
    return bytes(found)
