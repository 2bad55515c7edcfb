"""Decodes of damaged messages: each gives a value or a typed error, in memory that its bytes justify.

Requests are what a server decodes, responses what a client does. Each message has its turn in each version; a decode is
of the bytes of drawn values, most of them damaged, or of bytes at random.
"""

import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from functools import cache

from pylog.errors import CorruptBatch
from pylog.protocol import schema
from pylog.protocol.schema.table import load
from support.every_request import MESSAGES
from wirefuzz.values import damaged, drawn

WATCHED_EVERY = 50
FRAME_BYTES, BYTE_BYTES = 64 << 10, 1000
"""What a decode may take: so much, and for each byte. An element of a list may be one byte, and becomes a dict."""


@cache
def messages() -> list[tuple[schema.MessageSchema, int]]:
    """Every request and response of a served key, in every version."""
    both = [schema.message(f"{name}{kind}") for name in MESSAGES for kind in ("Request", "Response")]
    return [(one, version) for one in both for version in range(one.versions[0], one.versions[1] + 1)]


def inputs(seed: int) -> Iterator[tuple[schema.MessageSchema, int, bytes]]:
    """Messages without an end, and the bytes to decode."""
    dice = random.Random(seed)
    while True:
        for one, version in messages():
            kind = dice.randrange(10)
            if kind == 0:
                yield one, version, dice.randbytes(dice.choice([0, 1, 7, 40, 300]))
                continue
            try:
                whole = one.encode(version, drawn(load(one.name).fields, version, dice))
            except ValueError:
                continue  # a text that is too long for this version, a field at odds with another
            yield one, version, whole
            for _ in range(9):
                yield one, version, damaged(whole, dice)


def run(budget: int, seed: int) -> Counter[str]:
    """Decode so often; how often it gave what. Raises AssertionError, naming the message and its bytes."""
    found: Counter[str] = Counter()
    for number, (one, version, data) in zip(range(budget), inputs(seed), strict=False):
        is_watched = number % WATCHED_EVERY == 0
        if is_watched:
            _decoded(one, version, b"")  # the first one compiles the decoder
            tracemalloc.start()
        found[_decoded(one, version, data)] += 1
        if is_watched:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak <= FRAME_BYTES + BYTE_BYTES * len(data), (
                f"{one.name} {version}: {peak} bytes of memory for {len(data)}: {data.hex()}"
            )
    return found


def _decoded(one: schema.MessageSchema, version: int, data: bytes) -> str:
    try:
        _, end = one.decode(version, data)
    except CorruptBatch:
        return "refused"
    except BaseException as error:
        raise AssertionError(f"{one.name} {version}: {error!r} for {data.hex()}") from error
    assert 0 <= end <= len(data), f"{one.name} {version}: it ends at {end} of {data.hex()}"
    return "decoded"
