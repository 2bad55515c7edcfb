"""Which seeds are played: SEEDS, and STACK for the whole log, say how many, or which: "2000", "1000-1999", "17-17"."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def seeds(usual: int, name: str = "SEEDS") -> range:
    """The seeds to be played, `usual` of them unless the variable `name` says otherwise."""
    first, _, last = os.environ.get(name, str(usual)).rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


@contextmanager
def playing(seed: int, name: str = "SEEDS") -> Iterator[None]:
    """Whatever goes wrong is a failure that says how to play it again."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"seed {seed}: {name}={seed}-{seed} plays it again: {error!r}") from error
