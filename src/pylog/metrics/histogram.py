"""How often something took how long, in classes whose bounds double: from a microsecond to a minute."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CLASSES", "LAST", "Histogram", "Times"]

CLASSES = 28
LAST = CLASSES - 1
BOUNDS_MS = tuple(2**index / 1000 for index in range(LAST))
"""Class `index` has what took less than this, and not less than the bound before; the last one has the rest."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often something took how long, as a reader gets it."""

    counts: tuple[int, ...]
    """How often in each class."""
    sum: float
    """Milliseconds in all."""
    bounds: tuple[float, ...] = BOUNDS_MS
    """The upper bound of each class but the last, in milliseconds."""

    @property
    def count(self) -> int:
        """How often in all."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Milliseconds on average; 0.0 where there was nothing."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """A bound, in milliseconds, that `share` (0.99, say) stayed below; 0.0 where there was nothing. Infinity, where
        that is beyond the largest bound. Raises ValueError (not in 0..1).
        """
        if not 0 <= share <= 1:
            raise ValueError(f"a share is a number from 0 to 1, not {share!r}")
        wanted, seen = share * self.count, 0
        if not self.count:
            return 0.0
        for count, bound in zip(self.counts, self.bounds, strict=False):
            seen += count
            if seen >= wanted:
                return bound
        return float("inf")

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)), self.sum + other.sum, self.bounds
        )


class Times:
    """The same as it is kept: `add` costs a few tenths of a microsecond."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * CLASSES
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """It took so many nanoseconds."""
        index = min((ns // 1000).bit_length(), LAST)
        self.counts[index] += 1
        self.total_ns += ns

    @property
    def histogram(self) -> Histogram:
        """As it is now."""
        return histogram_of(self.counts, self.total_ns)


def histogram_of(counts: Sequence[int], total_ns: int) -> Histogram:
    """A histogram of what is kept as two fields."""
    return Histogram(tuple(counts), total_ns / 1_000_000)
