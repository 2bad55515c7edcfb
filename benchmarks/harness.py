"""Measures ways of doing the same work against each other, in one run; a result is a figure and what it was to be.

A figure alone says little on a shared machine; a ratio of two ways measured in turn says much. So each round runs every
way once, and a ratio is the median of the rounds' ratios. Each round has an order of its own: what a way leaves to the
next one (a kernel that writes back, cold caches) is not always the same one's to bear. A way prepares itself outside
the clock, and gives the seconds that one unit of its work took (a record, an append, a MiB): ways may do different
amounts.

A way that cannot run here raises `Skipped`, or ModuleNotFoundError: it is left out, which is said aloud and in the
results.
"""

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from results import Figure, Target, keep

KEY_BYTES = 8
VALUE_BYTES = 100
RECORD_BYTES = 118
"""A record with such a key and value in a batch of 1000, about: what raw writes write for each."""
MIB = 1 << 20
MODES = ("--quick", "--full")

Way = Callable[[], float]
"""Does the work once; gives the seconds that a unit of it took, without its preparation."""
T = TypeVar("T")


class Skipped(Exception):  # noqa: N818 - it is no error
    """A way cannot run here: its words say what is missing and how to get it."""


def at_least(bound: float) -> Target:
    return Target(bound)


def at_most(bound: float) -> Target:
    return Target(bound, at_most=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds per `unit` of work, a list a way with one number a round; and why other ways have none."""

    seconds: Mapping[str, list[float]]
    missing: Mapping[str, str]
    unit: str

    def speed(self, name: str, pylog: str, other: str, target: Target | None = None, note: str = "") -> Figure:
        """How many times as fast as `other` the way `pylog` is; above 1 pylog is ahead."""
        return self._ratio(name, pylog, other, target, note, is_speed=True)

    def time(self, name: str, pylog: str, other: str, target: Target | None = None, note: str = "") -> Figure:
        """How many times the time of `other` the way `pylog` takes; below 1 pylog is ahead."""
        return self._ratio(name, pylog, other, target, note, is_speed=False)

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])

    def _ratio(self, name: str, pylog: str, other: str, target: Target | None, note: str, *, is_speed: bool) -> Figure:
        sense = "speed" if is_speed else "time"
        gone = [f"{way}: {self.missing[way]}" for way in (pylog, other) if way in self.missing]
        if gone:
            return Figure(name=name, against=other, sense=sense, target=target, note="; ".join(gone), skipped=True)
        mine, theirs = self.seconds[pylog], self.seconds[other]
        rounds = [b / a if is_speed else a / b for a, b in zip(mine, theirs, strict=True)]
        scale, unit = readable(self.median(pylog))
        return Figure(
            name=name, value=self.median(pylog) * scale, unit=f"{unit}/{self.unit}", against=other, sense=sense,
            other=self.median(other) * scale, ratio=statistics.median(rounds), rounds=rounds, target=target, note=note,
        )  # fmt: skip


def skipping(names: Iterable[str], reason: object) -> dict[str, Way]:
    """Ways that cannot run here, all for one reason."""

    def way() -> float:
        raise Skipped(reason)

    return dict.fromkeys(names, way)


def readable(seconds: float) -> tuple[float, str]:
    """The factor and the unit in which so many seconds are a number one can read."""
    return (1e9, "ns") if seconds < 1e-5 else (1e6, "us") if seconds < 1e-2 else (1e3, "ms")


def figure(name: str, value: float, unit: str, target: Target | None = None, note: str = "") -> Figure:
    """A figure that stands for itself."""
    return Figure(name=name, value=value, unit=unit, target=target, note=note)


def measure(ways: Mapping[str, Way], rounds: int, unit: str = "record") -> Measured:
    """Each way once in each round, in another order each time (the same in each run), after one that does not count."""
    missing: dict[str, str] = {}
    for name, way in ways.items():
        try:
            way()  # imports, caches, and what the JVM compiles
        except (Skipped, ModuleNotFoundError) as error:
            missing[name] = str(error)
            print(f"  SKIPPED {name}: {error}", file=sys.stderr)
    names = [name for name in ways if name not in missing]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    draw = random.Random(1)
    for turn in range(rounds):
        for name in draw.sample(names, len(names)):
            gc.collect()
            seconds[name].append(ways[name]())
            scale, short = readable(seconds[name][-1])
            print(
                f"  round {turn + 1}/{rounds}  {name}: {seconds[name][-1] * scale:.1f} {short}/{unit}", file=sys.stderr
            )
    return Measured(seconds, missing, unit)


def report(workload: str, figures: Sequence[Figure], **notes: object) -> None:
    """Print a line of JSON for each figure, and keep them in results/."""
    keep(workload, figures, notes)


def scaled(usual: T, quick: T, full: T | None = None) -> T:
    """`usual`, unless a short run was asked for (`--quick`: shows that a benchmark works) or one of full size
    (`--full`: the sizes of the targets, where the usual ones are smaller to fit all benchmarks into ten minutes).
    """
    if "--quick" in sys.argv[1:]:
        return quick
    return full if full is not None and "--full" in sys.argv[1:] else usual


def enough(run: Callable[[int], float], least: int, most: int, seconds: float = 0.3) -> int:
    """How many units of work `run` has to do to last about so long; `run(count)` gives seconds per unit, as ways do.

    Where threads take turns, whatever lasts less than 0.1 s hides what waiting for the interpreter costs.
    """
    return min(most, max(least, int(seconds / run(least))))


def mode() -> list[str]:
    """The same, as words for a process of our own."""
    return [word for word in MODES if word in sys.argv[1:]]


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the disk of the project (a temporary folder is often memory), removed afterwards."""
    place = Path(__file__).parents[1] / "build" / "bench"
    place.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def fresh(way: Callable[[Path], float]) -> Way:
    """A way that gets an empty folder each time: what lies in a file already makes the next writer of it faster."""

    def run() -> float:
        with scratch() as folder:
            return way(folder)

    return run


def keys_and_values(count: int, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """Distinct 8-byte keys and 100-byte values: one object repeated would flatter every way."""
    draw = random.Random(seed)
    text = draw.randbytes(count + VALUE_BYTES)
    return [(b"%08d" % (index % 100_000_000), text[index : index + VALUE_BYTES]) for index in range(count)]


def growth_mib() -> Callable[[], float]:
    """Starts now; each call gives the most MiB that this process has had resident since, beyond what it has now."""
    status = Path("/proc/self/status")
    if not status.is_file():
        raise Skipped("memory is read from /proc, as Linux has it")

    def resident(name: str) -> float:
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew; getrusage's is that of the parent at least
    before = resident("VmRSS")
    return lambda: resident("VmHWM") - before


def stopwatch() -> Callable[[], float]:
    """Starts now; each call gives the seconds since."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start
