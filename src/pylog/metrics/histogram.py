"""The durations of calls: how many of them in each class. The bounds of classes double, from a microsecond to a
minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CLASSES", "LAST", "Histogram", "Times"]

CLASSES = 28
LAST = CLASSES - 1
BOUNDS_MS = tuple(2**index / 1000 for index in range(LAST))
"""Class `index` has the durations below this bound and not below the one before. The last class has the rest."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The durations of calls, as a reader gets them.

    >>> times = pylog.metrics.Histogram(counts=(3, 1, 0), sum=6.0, bounds=(1.0, 4.0))
    >>> times.count, times.mean
    (4, 1.5)
    """

    counts: tuple[int, ...]
    """How many calls were in each class."""
    sum: float
    """The time of all calls together, in milliseconds."""
    bounds: tuple[float, ...] = BOUNDS_MS
    """The upper bound of each class but the last, in milliseconds."""

    @property
    def count(self) -> int:
        """The number of all calls."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """The average time in milliseconds; 0.0 where there were no calls."""
        return self.sum / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """A bound in milliseconds: `share` of the calls (0.99, say) took less. 0.0 where there were no calls, infinity
        where they took longer than the largest bound. Raises ValueError (`share` is not in 0..1).

        >>> times.quantile(0.5), times.quantile(0.99)
        (1.0, 4.0)
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
    """The histogram of an object that works: `add` costs a few tenths of a microsecond."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * CLASSES
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """Count a call that took so many nanoseconds."""
        index = min((ns // 1000).bit_length(), LAST)
        self.counts[index] += 1
        self.total_ns += ns

    @property
    def histogram(self) -> Histogram:
        """The histogram of now."""
        return histogram_of(self.counts, self.total_ns)


def histogram_of(counts: Sequence[int], total_ns: int) -> Histogram:
    """Make a histogram from the counts of the classes and the total time."""
    return Histogram(tuple(counts), total_ns / 1_000_000)
