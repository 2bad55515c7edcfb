"""Numbers of the last hour, as the server has seen them, and the lines that are drawn of them.

history        a point every half minute for each topic and group, in 8 bytes, and the last look
rate_line      the growth a second between points, as steps
level_line     the numbers themselves
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["HistoryLine", "LogHistory", "level_line", "rate_line"]

STEP_MS = 30_000
POINTS_MAX = 121
WIDTH, HEIGHT = 600, 80

Key = tuple[str, str]
"""The name of a number, and the topic or group that has it."""
Point = tuple[int, float]
"""A time in milliseconds, and a number."""


class LogHistory:
    """The points of the last hour. One thread notes, any may ask."""

    def __init__(self) -> None:
        self._kept: tuple[list[int], dict[Key, array[int]]] = ([], {})
        self._last: tuple[int, Mapping[Key, int]] = (0, {})

    def note(self, tick_ms: int, values: Mapping[Key, int]) -> None:
        """Add a look. A key that it lacks loses its points."""
        times, series = self._kept
        if not times or tick_ms - times[-1] >= STEP_MS:
            none = array("q")
            longer = {
                key: series.get(key, none)[1 - POINTS_MAX :] + array("q", [value]) for key, value in values.items()
            }
            self._kept = [*times, tick_ms][-POINTS_MAX:], longer
        self._last = tick_ms, values

    def of(self, *key: str) -> list[Point]:
        """The points of a number, from the oldest on."""
        (times, series), (tick_ms, values) = self._kept, self._last
        counted, name = key
        numbers = series.get((counted, name), ())
        found: list[Point] = list(zip(times[len(times) - len(numbers) :], numbers, strict=True))
        if (counted, name) in values and tick_ms > times[-1]:
            found.append((tick_ms, values[counted, name]))
        return found


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """A line of SVG, and what it shows in words."""

    points: str
    words: str
    width: int = WIDTH
    height: int = HEIGHT


def rate_line(title: str, points: list[Point], text: Callable[[float], str]) -> HistoryLine | None:
    """The growth a second; what becomes less does not grow. None without two points."""
    steps = [
        (at, max(0.0, (number - before) * 1000 / (second - first)))
        for (first, before), (second, number) in pairwise(points)
        for at in (first, second)
    ]
    return _line(title, steps, text)


def level_line(title: str, points: list[Point], text: Callable[[float], str]) -> HistoryLine | None:
    """The numbers. None without two points."""
    return _line(title, points, text) if len(points) > 1 else None


def _line(title: str, points: list[Point], text: Callable[[float], str]) -> HistoryLine | None:
    if not points:
        return None
    first, last, most = points[0][0], points[-1][0], max(number for _, number in points)
    minutes = max(1, round((last - first) / 60_000))
    of = "the last minute" if minutes == 1 else f"the last {minutes} minutes"
    words = f"{title}, {of}: now {text(points[-1][1])}, at most {text(most)}"
    return HistoryLine(" ".join(_places(points, first, last - first, most)), words)


def _places(points: list[Point], first: int, span: int, most: float) -> Iterator[str]:
    for at, number in points:
        height = number / most if most else 0
        yield f"{(at - first) / span * WIDTH:.1f},{(1 - height) * HEIGHT:.1f}"
