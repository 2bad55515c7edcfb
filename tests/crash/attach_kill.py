"""Kill the owner of a log under the processes that share it: what `make attach-kill` runs.

    python -m tests.crash.attach_kill 1000                  so many times
    python -m tests.crash.attach_kill 50 --seed 7 --long    with other moments, and a path of 200 bytes

Five processes write: plain records, idempotent ones, appends by the partition, transactions, and a member of a group
reads; some of them in a child that was forked from the process that has opened the log. The owner of the moment is
killed, or stopped for a while (nobody may take over then), or asked to close. Another one takes over, and a new process
comes for the one that is gone. Now and then a cleaner removes the owner's socket. In the end the histories of all are
held against the log:

    acked          the record lies at that offset
    idempotent     once; plain ones and those in doubt once or twice, in a row
    committed      all records of the transaction are seen, once; of any other transaction all or none
    position       no committed position goes back, and everything below it was read by a member
"""

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import pylog
from pylog import TopicPartition
from pylog.attach.notice import read_notice
from pylog.attach.places import socket_path
from pylog.files import DiskFiles
from tests.crash.attach_worker import CONFIG, GROUP, IN_TRANSACTION, KINDS, TOPIC, TRANSACTIONS
from tests.support.canaries import touched

ALIVE_SECONDS = 0.25
STOPPED_SECONDS = 0.3
PATIENCE_SECONDS = 30.0
KILLS, STOPS = 0.8, 0.1
"""The shares of the ways in which an owner goes; the rest of them closes."""
CLEANERS = 0.2
"""The share of owners whose socket a cleaner of old files removes before they go."""
Event = list[object]


class Worker:
    """A process of a campaign, as often as it has to be started: a module, its arguments, and its history."""

    def __init__(self, name: str, histories: Path, *command: str) -> None:
        self._name = name
        self._histories = histories
        self._command = command
        self._started = 0
        self.start()

    def start(self) -> None:
        """Start it once more."""
        self._started += 1
        history = self._histories / f"{self._name}-{self._started}"
        command = [sys.executable, "-m", *self._command, str(history)]
        self.process = subprocess.Popen(command, start_new_session=True)

    def revive(self) -> None:
        """Start it again if it has ended."""
        if self.process.poll() is not None:
            self.start()

    def end(self) -> None:
        """Let it close its log. Raises AssertionError: it does not end."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process {self._name} does not end") from None

    def stop(self, *, tells: bool) -> None:
        """Kill it, and let it say where it is before, if it `tells`. Those that it has forked come with it."""
        for number in [*([signal.SIGUSR1] if tells else []), signal.SIGKILL]:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            time.sleep(0.2 * tells)
        self.process.wait()


class Campaign:
    """A log, its processes, and how long takeovers took."""

    def __init__(self, work: Path, chance: random.Random, *, long: bool) -> None:
        self._directory = work / ("x" * 90 + "/" + "y" * 90 if long else "log")
        self._histories = work / "histories"
        self._histories.mkdir()
        self._chance = chance
        self.takeovers: list[float] = []
        self.ways: Counter[str] = Counter()
        with pylog.open(self._directory, config=CONFIG) as log:
            for name in (TOPIC, TRANSACTIONS, "probes"):
                log.create_topic(name)
        module = "tests.crash.attach_worker"
        self._workers = [
            Worker(kind, self._histories, module, kind, str(self._directory), *["forked"][: number % 2])
            for number, kind in enumerate(KINDS)
        ]

    def run(self, times: int) -> None:
        """Let owners go so many times. Raises AssertionError, TimeoutError."""
        is_whole = False
        try:
            self._run(times)
            is_whole = True
        finally:
            for worker in self._workers:
                worker.stop(tells=not is_whole)

    def _run(self, times: int) -> None:
        with pylog.open(self._directory, mode="attach", wait=PATIENCE_SECONDS) as log:
            probes = log.producer(linger_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=5)
            probes.send("probes", b"0").result(PATIENCE_SECONDS)
            for _ in range(times):
                time.sleep(self._chance.uniform(0, 2 * ALIVE_SECONDS))
                if self._chance.random() < CLEANERS:
                    self._clean()
                self._owner_goes(probes)
                for worker in self._workers:
                    worker.revive()
            probes.close()
        for worker in self._workers:
            worker.end()

    def _owner(self) -> int:
        notice = read_notice(DiskFiles(read_only=True), str(self._directory))
        return 0 if notice is None else notice.pid

    def _owner_goes(self, probes: pylog.Producer) -> None:
        owner, dice = self._owner(), self._chance.random()
        if not owner:
            return
        way = "killed" if dice < KILLS else "stopped" if dice < KILLS + STOPS else "closed"
        self.ways[way] += 1
        try:
            if way == "stopped":
                self._stop(owner)
                return
            os.kill(owner, signal.SIGKILL if way == "killed" else signal.SIGTERM)
        except ProcessLookupError:
            return
        began = time.monotonic()
        probes.send("probes", b"1").result(PATIENCE_SECONDS)
        if way == "killed":
            self.takeovers.append(time.monotonic() - began)

    def _clean(self) -> None:
        """Remove the socket of the owner, and attach anew to it or to its successor."""
        notice = read_notice(DiskFiles(read_only=True), str(self._directory))
        if notice is None:
            return
        with suppress(FileNotFoundError):
            os.unlink(socket_path(str(self._directory), notice.socket))
            self.ways["cleaned"] += 1
        with pylog.open(self._directory, mode="attach", wait=PATIENCE_SECONDS) as log:
            log.create_topic("probes", exist_ok=True)

    def _stop(self, owner: int) -> None:
        os.kill(owner, signal.SIGSTOP)
        try:
            time.sleep(STOPPED_SECONDS)
            assert self._owner() == owner, "a stopped owner was robbed"
        finally:
            os.kill(owner, signal.SIGCONT)

    # --- the judgement -----------------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """All events of all histories, in order within each."""
        for path in sorted(path for path in self._histories.iterdir() if path.is_file()):
            lines = path.read_bytes().split(b"\n")
            for line in lines[:-1]:
                yield json.loads(line)

    def judge(self) -> str:
        """Hold the histories against the log. Raises AssertionError."""
        wrong = [line for folder in self._histories.glob("*-canaries") for line in touched(folder)]
        assert not wrong, f"bytes went to files that are not the log's: {wrong[:3]}"
        with pylog.open(self._directory, mode="own", config=CONFIG, wait=PATIENCE_SECONDS) as log:
            events = list(self.events())
            errors = [event for event in events if event[0] == "error"]
            assert not errors, f"processes failed: {errors[:3]}"
            records = {record.offset: str(record.value, "utf-8") for record in log.topic(TOPIC)[0].records()}
            acked = _check_records(events, records)
            committed = _check_transactions(events, log)
            positions = _check_group(events, log)
        return f"{acked} records acknowledged, {committed} transactions and {positions} positions committed"


def _check_records(events: list[Event], records: dict[int, str]) -> int:
    acked = 0
    for event in events:
        if event[0] == "acked":
            acked += 1
            offset = event[2]
            assert isinstance(offset, int) and records.get(offset) == event[1], (
                f"{event}: there is {records.get(offset)}"
            )
    counts = Counter(records.values())
    twice = [value for value, count in counts.items() if count > 1 and value.split()[0] == "idempotent"]
    assert not twice, f"idempotent records are there more than once: {twice[:3]}"
    last: dict[str, int] = {}
    for value in dict.fromkeys(records.values()):
        kind, name, number = value.split()
        if kind == "idempotent":
            assert int(number) == last.get(name, -1) + 1, f"{value} comes after {last.get(name)}"
            last[name] = int(number)
    return acked


def _check_transactions(events: list[Event], log: pylog.Log) -> int:
    # A kill leaves the transactions of the processes that ended with it open, for as long as their time-out.
    for found in log.admin.list_transactions(states=["Ongoing"]):
        log.producer(transactional_id=found.transactional_id).close()
    seen = Counter(
        str(record.value, "utf-8") for record in log.topic(TRANSACTIONS)[0].records(isolation_level="read_committed")
    )
    twice = [value for value, count in seen.items() if count > 1]
    assert not twice, f"committed records are there more than once: {twice[:3]}"
    parts: dict[str, int] = defaultdict(int)
    for value in seen:
        parts[value.rpartition(" ")[0]] += 1
    assert set(parts.values()) <= {IN_TRANSACTION}, "there is a part of a transaction"
    committed = [str(event[1]) for event in events if event[0] == "committed"]
    missing = [name for name in committed if name not in parts]
    assert not missing, f"committed transactions are gone: {missing[:3]}"
    return len(committed)


def _check_group(events: list[Event], log: pylog.Log) -> int:
    key = TopicPartition(TOPIC, 0)
    positions = [int(str(event[1])) for event in events if event[0] == "position"]
    found = log.admin.committed(GROUP).get(key)
    position = 0 if found is None else found.offset
    assert position >= max(positions, default=0), f"the group is at {position}, after {max(positions)}"
    end = 0
    for first, last in sorted((int(str(e[1])), int(str(e[2]))) for e in events if e[0] == "read"):
        if first > end:
            break
        end = max(end, last)
    assert end >= position, f"the group is at {position}, and read up to {end}"
    return len(positions)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the owner of a log under the processes that share it.")
    parser.add_argument("times", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--long", action="store_true", help="a path that is too long for a socket")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(run(arguments.times, arguments.seed, long=arguments.long))
    return 0


def run(times: int, seed: int = 0, *, long: bool = False) -> str:
    """Let owners go so many times. Gives what was seen. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="pylog-attach-") as work:
        campaign = Campaign(Path(work), random.Random(seed), long=long)
        campaign.run(times)
        told = campaign.judge()
        seconds = sorted(campaign.takeovers) or [0.0]
        ways = ", ".join(f"{count} {way}" for way, count in sorted(campaign.ways.items()))
        return (
            f"{ways}; {told}; takeovers took {1000 * median(seconds):.0f} ms in the median, "
            f"{1000 * seconds[-1]:.0f} ms at most"
        )


if __name__ == "__main__":
    sys.exit(main())
