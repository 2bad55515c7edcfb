"""One attack: how long the victim waits meanwhile, and what memory the server takes.

A control is a second victim, of a server that nobody attacks. What it waits is the machine's doing, so the bound of a
wait is `WAIT_SECONDS`, or `NOISE` times what the control waited where that is more.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairness.attack import Attack, Traffic
from fairness.server import Server, kafka, running
from fairness.victim import Victim, Waits

WAIT_SECONDS = 0.3
NOISE = 10
SETTLE_SECONDS = 0.5
FROZEN_SECONDS = 60.0
GROWTH, SLACK_KIB = 16, 24 << 10
"""How much memory an attack may take: so many times what it sends, and this; the latter may stay."""


class Measured(NamedTuple):
    """An attack as it was."""

    name: str
    traffic: Traffic
    seconds: float
    waits: Waits
    control: Waits
    grown_kib: int
    kept_kib: int
    leaves_state: bool
    error: str | None

    @property
    def bound(self) -> float:
        return max(WAIT_SECONDS, NOISE * self.control.longest)

    @property
    def wrong(self) -> list[str]:
        """What is beyond its bound."""
        found = [self.error] if self.error is not None else []
        if self.waits.error is not None:
            found.append(f"the victim: {self.waits.error}")
        if self.waits.longest > self.bound:
            found.append(f"the victim waited {self.waits.longest:.2f} s, {self.bound:.2f} at most are allowed")
        sent = (self.traffic.sent + self.traffic.received) >> 10
        if not self.leaves_state and self.grown_kib > GROWTH * sent + SLACK_KIB:
            found.append(f"{self.grown_kib >> 10} MiB of memory for {sent} KiB")
        if not self.leaves_state and self.kept_kib > sent + SLACK_KIB:
            found.append(f"{self.kept_kib >> 10} MiB of memory are not given back")
        return found

    def __str__(self) -> str:
        times = (self.grown_kib << 10) / max(self.traffic.sent, 1)
        return (
            f"{self.waits.ask:6.2f} {self.waits.append:6.2f} {self.control.longest:7.2f} {self.seconds:7.2f} "
            f"{self.traffic.sent >> 10:8} {self.traffic.received >> 10:8} {self.grown_kib >> 10:7} {times:7.1f} "
            f"{self.kept_kib >> 10:6}  {self.name}{' (refused)' if self.traffic.is_refused else ''}"
        )


HEAD = "   ask append control  attack sent KiB received   MiB   times   kept  attack"


class Trial:
    """A server under attack and its victim, beside a control. A server that does not answer any more is replaced."""

    def __init__(self, work: Path, name: str) -> None:
        self._work, self._name = work, name
        self._servers = 0
        self._control_stack, self._stack = contextlib.ExitStack(), contextlib.ExitStack()
        _, self._control = self._started(self._control_stack)
        self.server, self._victim = self._started(self._stack)

    def _started(self, stack: contextlib.ExitStack) -> tuple[Server, Victim]:
        self._servers += 1
        run = running if self._name == "pylog" else kafka
        server = stack.enter_context(run(self._work / f"server-{self._servers}"))
        victim = Victim(server.bootstrap_servers, "victim")
        stack.callback(victim.close)
        return server, victim

    def close(self) -> None:
        self._stack.close()
        self._control_stack.close()

    def measured(self, attack: Attack) -> Measured:
        """One attack."""
        strike, error = attack.prepare(), None
        time.sleep(0.1)
        server = self.server
        before = server.memory_kib("VmRSS")
        server.forget_memory()
        self._victim.begin()
        self._control.begin()
        began = time.monotonic()
        try:
            traffic = strike(server)
        except Exception as failure:  # noqa: BLE001 - it is what is told
            traffic, error = Traffic(0), f"the attack failed: {failure!r}"
        seconds = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        waits, control = self._victim.end(), self._control.end()
        grown, kept = server.memory_kib("VmHWM") - before, server.memory_kib("VmRSS") - before
        if waits.error is not None or waits.longest > FROZEN_SECONDS:
            self._stack.close()
            self.server, self._victim = self._started(self._stack)
        return Measured(attack.name, traffic, seconds, waits, control, grown, kept, attack.leaves_state, error)


@contextlib.contextmanager
def trial(work: Path, name: str) -> Iterator[Trial]:
    """A trial of `pylog` or `kafka`."""
    made = Trial(work, name)
    try:
        yield made
    finally:
        made.close()
