"""Crash enumeration: a workload writes through `CrashFiles`, every state that a crash could leave is opened, and what
is found there is held against what had been promised by then.

    Recoverable    a workload that has run (`partitions.Run`, `nodes.NodeRun`): opens a state, and judges what it finds
    Enumeration    goes through the states: each tree is recovered once, and judged by every set of promises

A second enumeration begins in some of the states: the recovery from them is a workload of its own.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from pylog.files import Files, MemoryFiles
from pylog.testing import SimClock
from tests.support.crash import CrashFiles
from tests.support.cuts import CrashState

NOW = 1_700_000_000_000
CLOCK = SimClock(wall_ms=NOW)


class SeededFiles(CrashFiles):
    """`CrashFiles` for a workload that varies: `seed` decides how large its records are; with 0 they are as written."""

    def __init__(self, seed: int) -> None:
        super().__init__(CLOCK)
        self._chance = random.Random(seed) if seed else None

    def varied(self, size: int) -> int:
        """About `size` bytes."""
        return size if self._chance is None else size + self._chance.choice((0, 1, 7, 20, 50))


class Failed(NamedTuple):
    """What was found where nothing could be opened."""

    fault: str


class Recoverable(Protocol):
    """A workload that has run."""

    files: CrashFiles

    def opened(self, files: Files) -> object:
        """Open what lies in `files`, as the owner does after a crash."""

    def recovered(self, files: Files) -> Any:
        """The same, and look at all of it; `fault` of the answer says what is wrong with it at first sight."""

    def judged(self, found: Any, notes: tuple[object, ...], *, power: bool) -> str:
        """What is wrong with what was found, after those promises; "" when nothing is."""


@dataclass(slots=True)
class Result:
    """What enumerating the states of a workload has shown."""

    name: str
    states: int = 0
    """Distinct states that were recovered."""
    judged: int = 0
    """Distinct states with what had been promised."""
    again: int = 0
    """States of a second crash, during the recovery from one."""
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that is done to a partition, and how the states of it are told."""

    name: str
    run: Callable[[CrashFiles], Recoverable]


class Enumeration:
    """The states of one workload: each is recovered once, and judged by every set of promises it can be left with.

    One in `second_every` is the start of a second enumeration: of the crashes during its recovery, of which one in
    `second_stride` is recovered. With `stride`, only one state in so many is recovered.
    """

    def __init__(
        self, workload: Workload, *, stride: int = 1, second_every: int = 40, second_stride: int = 7,
        failures_max: int = 1, seed: int = 0,
    ) -> None:  # fmt: skip
        self.result = Result(workload.name)
        self._run = workload.run(SeededFiles(seed))
        self._seed = seed
        self._known: dict[int, Any] = {}
        self._stride, self._second_every, self._second_stride = stride, second_every, second_stride
        self._failures_max = failures_max

    def finish(self, *, samples: int = 2) -> Result:
        """Go through all states; `samples` random ones are among them after each operation."""
        files = self._run.files
        ways: list[tuple[str, Iterator[CrashState]]] = [
            ("kill", files.kills()),
            ("power", files.power_cuts(weak=True, samples=samples, seed=self._seed)),
        ]
        for way, states in ways:
            for number, state in enumerate(states):
                wrong = self._judged(state, power=way == "power")
                if wrong:
                    name = self.result.name
                    self.result.failures.append(
                        f"{name}: {way} state {number}, operation {state.operation}: {wrong}\n"
                        f"    python -m tests.crash.campaign --replay {name} {way} {number} {samples} {self._seed}"
                    )
                if len(self.result.failures) >= self._failures_max:
                    return self.result
        return self.result

    def _judged(self, state: CrashState, *, power: bool) -> str:
        result, key = self.result, hash(state.key)
        is_new = key not in self._known
        if is_new:
            taken = len(self._known) % self._stride == 0
            self._known[key] = _recovered(self._run, MemoryFiles(CLOCK, state.tree)) if taken else None
            result.states += taken
        found = self._known[key]
        if found is None:
            return ""
        result.judged += 1
        wrong = found.fault or self._run.judged(found, state.notes, power=power)
        if not wrong and is_new and result.states % self._second_every == 0:
            wrong = _again(self._run, state, found, result, self._second_stride)
        return wrong

    def state(self, way: str, number: int, *, samples: int) -> tuple[CrashState, str]:
        """One state, and what is wrong with it."""
        files = self._run.files
        states = files.kills() if way == "kill" else files.power_cuts(weak=True, samples=samples, seed=self._seed)
        state = next(islice(states, number, None))
        return state, self._judged(state, power=way == "power")


def _recovered(run: Recoverable, files: Files) -> Any:
    try:
        return run.recovered(files)
    except Exception as error:  # noqa: BLE001
        return Failed(f"opening it raised {error!r}")


def _again(run: Recoverable, state: CrashState, found: Any, result: Result, stride: int) -> str:
    """Crash in the middle of the recovery: the next one has to come to the same log."""
    files = CrashFiles(CLOCK, state.tree)
    run.opened(files)
    for second in islice(files.power_cuts(samples=0), result.states % stride, None, stride):
        result.again += 1
        other = _recovered(run, MemoryFiles(CLOCK, second.tree))
        if other != found:
            return f"after a second crash, at operation {second.operation} of the recovery: {other} instead of {found}"
    return ""
