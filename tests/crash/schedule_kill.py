"""Kill the schedulers of a log, and its owner: what `make schedule-kill` runs.

    python -m tests.crash.schedule_kill 300                  so many kills
    python -m tests.crash.schedule_kill 50 --seed 7          with other moments

Four processes share a directory, and each runs a scheduler. Jobs are sent meanwhile, with delays, some of them again
with an id that is taken, some cancelled, some in the place of others. One of the processes, or the owner of the
moment, is killed, stopped or asked to end; another one comes for it. In the end:

    once        each job came once, and not before its time
    never       none came that was cancelled, had a successor, or an id that was taken
    the end     the schedule is empty, and another one has soon moved what was due when its scheduler was killed
"""

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pylog
from pylog.schedule import Schedule, Scheduler
from tests.crash.attach_kill import Worker
from tests.crash.going import Going

WORKERS = 4
ALIVE_SECONDS = 0.3
PATIENCE_SECONDS = 60.0
STOP_SECONDS = 1.5
JOBS = 20
"""How many jobs are sent before each."""
DELAY_MS = 1500
FAR_MS = 3_600_000
"""How far those are that must not come."""


class Campaign:
    """A log, its schedulers, and the jobs that were sent."""

    def __init__(self, work: Path, chance: random.Random) -> None:
        self._directory, self._histories = work / "log", work / "histories"
        self._histories.mkdir()
        self._chance = chance
        self._sent: dict[str, int] = {}
        """The jobs that are to come, and when they are due."""
        with pylog.open(self._directory) as log:
            log.create_topic("jobs", partitions=2)
        command = "tests.crash.schedule_mover", str(self._directory)
        self._workers = [Worker(str(number), self._histories, *command) for number in range(WORKERS)]
        self.going = Going(self._directory, self._workers, chance, STOP_SECONDS)

    def run(self, times: int) -> None:
        """Let processes go so many times. Raises AssertionError, TimeoutError."""
        is_whole = False
        try:
            with (
                pylog.open(self._directory, mode="attach", wait=PATIENCE_SECONDS) as log,
                Schedule(log) as schedule,
            ):  # fmt: skip
                for turn in range(times):
                    for number in range(JOBS):
                        self._send(schedule, f"{turn}.{number}")
                    time.sleep(self._chance.uniform(0, 2 * ALIVE_SECONDS))
                    self.going.one_goes()
            for worker in self._workers:
                worker.end()
            is_whole = True
        finally:
            for worker in self._workers:
                worker.stop(tells=not is_whole)

    def _send(self, schedule: Schedule, job: str) -> None:
        delay_ms = self._chance.randrange(DELAY_MS)
        due_ms = time.time_ns() // 1_000_000 + delay_ms
        match self._chance.choices(["plain", "cancelled", "successor", "unique"], [6, 1, 1, 1])[0]:
            case "plain":
                schedule.send("jobs", job.encode(), delay_ms=delay_ms)
            case "cancelled":
                schedule.send("jobs", f"cancelled {job}".encode(), delay_ms=FAR_MS, job_id=job)
                schedule.cancel(job)
                return
            case "successor":
                schedule.send("jobs", f"replaced {job}".encode(), delay_ms=FAR_MS, job_id=job)
                schedule.send("jobs", job.encode(), delay_ms=delay_ms, job_id=job)
            case "unique":
                for _ in range(2):
                    schedule.send("jobs", job.encode(), delay_ms=delay_ms, job_id=job, unique_for_ms=FAR_MS)
        self._sent[job] = due_ms

    def judge(self) -> str:
        """Let a last scheduler move what is left, and look at what came. Raises AssertionError."""
        events = [json.loads(line) for path in self._histories.iterdir() for line in path.read_bytes().splitlines()]
        errors = [event for event in events if event[0] == "error"]
        assert not errors, f"processes failed: {errors[:3]}"
        with (
            pylog.open(self._directory, mode="own", wait=PATIENCE_SECONDS) as log,
            Schedule(log) as schedule, Scheduler(log),
        ):  # fmt: skip
            deadline = time.monotonic() + PATIENCE_SECONDS
            while left := schedule.waiting():
                assert time.monotonic() < deadline, f"jobs are left: {left[:3]}"
                time.sleep(0.1)
            came = [
                (record.value.decode(), record.timestamp)
                for partition in log.topic("jobs")
                for record in partition.records(isolation_level="read_committed")
            ]
        counts = Counter(job for job, _ in came)
        twice = [job for job, count in counts.items() if count > 1]
        assert not twice, f"{len(twice)} jobs came twice: {twice[:3]}"
        lost, foreign = self._sent.keys() - counts, counts - Counter(self._sent.keys())
        assert not lost, f"{len(lost)} jobs never came: {sorted(lost)[:3]}"
        assert not foreign, f"jobs came that must not: {list(foreign)[:3]}"
        late_ms = [time_ms - self._sent[job] for job, time_ms in came]
        assert min(late_ms) >= 0, f"a job came {-min(late_ms)} ms before its time"
        late_ms.sort()
        return (
            f"{len(came)} jobs came once; late by {late_ms[len(late_ms) // 2]} ms (half of them), "
            f"{late_ms[-len(late_ms) // 100]} ms (99 of 100), {late_ms[-1]} ms (the latest)"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the schedulers of a log, and its owner.")
    parser.add_argument("times", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(run(arguments.times, arguments.seed))
    return 0


def run(times: int, seed: int = 0) -> str:
    """Let processes go so many times. Gives what was seen. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="pylog-schedule-") as work:
        campaign = Campaign(Path(work), random.Random(seed))
        campaign.run(times)
        return f"{campaign.going}; {campaign.judge()}"


if __name__ == "__main__":
    sys.exit(main())
