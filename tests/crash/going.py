"""Processes that go: one of those that share a directory, or the owner of the moment, is killed, stopped, or ended."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from pylog.attach.notice import read_notice
from pylog.files import DiskFiles
from tests.crash.attach_kill import Worker

KILLS, STOPS = 0.7, 0.15
"""The shares of the ways in which a process goes; the rest of them ends when it is asked."""
END_SECONDS = 10.0
OWNERS = 0.4
"""The share of the owner among those that go."""


class Going:
    """Who went, and how. `stop_seconds`: how long a process is stopped."""

    def __init__(self, directory: Path, workers: list[Worker], chance: random.Random, stop_seconds: float) -> None:
        self._directory = directory
        self._workers = workers
        self._chance = chance
        self._stop_seconds = stop_seconds
        self.ways: Counter[str] = Counter()
        self.story: list[str] = []
        """The processes that went, and when."""

    def __repr__(self) -> str:
        return ", ".join(f"{count} {way}" for way, count in sorted(self.ways.items()))

    def _await_end(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.pid == number:
                # One that ends takes its time, and is started anew later.
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(END_SECONDS)

    def one_goes(self) -> None:
        """Let one go, and start those anew that have gone."""
        notice = read_notice(DiskFiles(read_only=True), str(self._directory))
        is_owner = notice is not None and self._chance.random() < OWNERS
        number = notice.pid if is_owner and notice else self._chance.choice(self._workers).process.pid
        dice = self._chance.random()
        way = "killed" if dice < KILLS else "stopped" if dice < KILLS + STOPS else "ended"
        self.ways[f"{'owners' if is_owner else 'workers'} {way}"] += 1
        owner = notice.pid if notice else 0
        self.story.append(f"{time.monotonic():.3f} {number} {way}, {owner} owns the log")
        with suppress(ProcessLookupError):
            if way == "stopped":
                os.kill(number, signal.SIGSTOP)
                time.sleep(self._stop_seconds)
                os.kill(number, signal.SIGCONT)
            else:
                os.kill(number, signal.SIGKILL if way == "killed" else signal.SIGTERM)
                self._await_end(number)
        for worker in self._workers:
            worker.revive()
