"""Rows of Arrow columns into open batches: both kernels do the same, and refuse the same."""

import random
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from pylog import kernel
from pylog.kernel import pure

compiled = pytest.importorskip("pylog.kernel.compiled", reason="there is no compiled kernel")

T0 = 1_700_000_000_000


def column(cells: list[bytes | None], *, skipped: int = 0, with_validity: bool = True) -> tuple[Any, Any, Any, int]:
    """A binary column as Arrow lays it out, `skipped` rows before its first."""
    cells = [b"before"] * skipped + cells
    validity = bytearray(len(cells) // 8 + 1)
    offsets, data = [0], b""
    for number, cell in enumerate(cells):
        validity[number >> 3] |= (cell is not None) << (number & 7)
        data += cell or b""
        offsets.append(len(data))
    return bytes(validity) if with_validity else None, struct.pack(f"={len(offsets)}i", *offsets), data, skipped


def outcome(twin: ModuleType, limits: list[int | None], *arguments: Any) -> Any:
    """What a call gives, and the streams that the batches have then."""
    batches = [None if limit is None else twin.OpenBatch(limit) for limit in limits]
    try:
        found: Any = twin.add_columns(batches, *arguments)
    except (ValueError, TypeError) as error:
        found = type(error), str(error)
    return found, [batch and (bytes((closed := batch.close())[0]), *closed[1:]) for batch in batches]


def same(limits: list[int | None], *arguments: Any) -> Any:
    wanted = outcome(pure, limits, *arguments)
    assert outcome(compiled, limits, *arguments) == wanted
    return wanted[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_rows_are_added_alike(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(60)

    def cells(nulls: bool) -> list[bytes | None]:
        return [
            None if nulls and chance.random() < 0.3 else chance.randbytes(chance.choice((0, 3, 8, 200)))
            for _ in range(count)
        ]

    keys = chance.choice((None, column(cells(True), skipped=3), column(cells(False), with_validity=False)))
    values = column(cells(True), skipped=chance.randrange(20))
    stamps: Any = T0
    if chance.random() < 0.7:
        times = [chance.choice((T0, T0 - 5, 0, 1 << 62)) for _ in range(count)]
        stamps = struct.pack(f"={count + 1}q", 7, *times), 1
    limits = [chance.choice((None, 100, 5_000, 50_000)) if chance.random() < 0.3 else 50_000 for _ in range(5)]
    same(limits, chance.randrange(5), values, keys, stamps, chance.randrange(count + 1), count)


def test_it_ends_before_a_row_that_cannot_be_added() -> None:
    values = column([b"a", b"b" * 100, b"c"])
    assert same([1000], 0, values, None, T0, 0, 3) == 3
    assert same([100], 0, values, None, T0, 0, 3) == 1
    assert same([None], 0, values, None, T0, 1, 3) == 1
    assert same([1000], 0, values, None, (struct.pack("=3q", 1, 2, -1), 0), 0, 3) == 2
    assert same([1000], 0, values, None, -5, 0, 3) == 0
    assert same([1000], 0, values, None, T0, 3, 3) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v, o, d, f: (v, o, d[:-1], f), "row 2 of a column lies outside of its bytes"),
        (lambda v, o, d, f: (v, o[:-1], d, f), "a column has no row 2"),
        (lambda v, o, d, f: (b"", o, d, f), "a column has no row 0"),
        (lambda v, o, d, f: (None, o, d, -1), "a column has no row 0"),
        (lambda v, o, d, f: (v, struct.pack("=4i", 0, 2, 1, 3), d, f), "row 1 of a column lies outside"),
        (lambda v, o, d, f: (v, struct.pack("=4i", -1, 1, 2, 3), d, f), "row 0 of a column lies outside"),
        (lambda v, o, d, f: (v, o, None, f), "row 0 of a column lies outside"),
    ],
)
def test_columns_that_lie_are_refused(change: Callable[..., Any], message: str) -> None:
    good = column([b"a", b"b", b"c"])
    for values, keys in ((change(*good), good), (good, change(*good))):
        kind, said = same([1000], 0, values, keys, T0, 0, 3)
        assert kind is ValueError and message in said


def test_a_partition_or_times_that_are_not_there_are_refused() -> None:
    values = column([b"a"])
    assert same([1000], 1, values, None, T0, 0, 1) == (ValueError, "there is no partition 1 of 1")
    assert same([1000], -1, values, None, T0, 0, 1)[0] is ValueError
    assert same([1000], 0, values, None, (b"1234567", 0), 0, 1) == (ValueError, "a column has no row 0")
    assert same([1000], 0, values, None, (bytes(8), -1), 0, 1) == (ValueError, "a column has no row 0")


def test_a_closed_batch_is_refused() -> None:
    for twin in pure, compiled:
        batch = twin.OpenBatch(100)
        batch.close()
        with pytest.raises(ValueError, match="closed"):
            twin.add_columns([batch], 0, column([b"a"]), None, T0, 0, 1)


def test_the_kernel_has_it() -> None:
    assert kernel.add_columns in (pure.add_columns, compiled.add_columns)
