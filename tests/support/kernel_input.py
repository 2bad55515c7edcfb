"""Random input for kernels, good and damaged."""

import random
from collections.abc import Sequence

Row = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes | None]]]
END = 2**63 - 1


def rows_of(chance: random.Random) -> list[Row]:
    """A few records: short and long ones, without a key, without a value, with odd times and headers."""

    def content(most: int) -> bytes | None:
        return (
            None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 63, 64, chance.randrange(most))))
        )

    def headers() -> list[tuple[str, bytes | None]]:
        names = ("", "name", "é" * 40, "n" * 70)
        return [(chance.choice(names), content(100)) for _ in range(chance.choice((0, 0, 1, 3, 20)))]

    starts = (0, -1, 1 << 40, END)
    stamps = [None, *starts, *(abs(start - chance.randrange(1 << 20)) for start in starts)]
    return [(content(300), content(30), chance.choice(stamps), headers()) for _ in range(chance.choice((0, 1, 2, 70)))]


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Some bits flipped, or some bytes less."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed if chance.random() < 0.8 else changed[: chance.randrange(len(changed) + 1)])
