"""Kill the workers of a share group and the owner of their log: what `make share-kill` runs.

    python -m tests.crash.share_kill 500                  so many kills
    python -m tests.crash.share_kill 50 --seed 7          with other moments
    python -m tests.crash.share_kill 50 --served          the workers are clients of a server, which goes as well

Five processes share a directory, and work on the jobs of a topic; each accepts, releases or rejects what it is given.
Jobs are sent meanwhile. One of the workers, or the owner of the moment, is killed, stopped for longer than a lock
lasts, or asked to end; another one comes for it. In the end a last worker accepts what is left. The histories of all
are held against each other:

    done        each job is accepted or rejected by one worker alone; one that was killed may not have heard of it
    given up    what was given as often as the limit allows
    over        no job that was done is given to the last worker
    the end     nothing is left, within a few seconds
"""

import argparse
import json
import logging
import random
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pylog
from tests.crash.attach_kill import Event, Worker
from tests.crash.going import Going
from tests.crash.share_worker import CONFIG, DELIVERIES_MAX, GROUP, LOCK_MS, PARTITIONS, TOPIC

WORKERS = 5
ALIVE_SECONDS = 0.3
PATIENCE_SECONDS = 30.0
JOBS = 20
"""How many jobs are sent before each."""


class Campaign:
    """A log, its workers, and the jobs that were sent."""

    def __init__(self, work: Path, chance: random.Random, *, is_served: bool) -> None:
        self._directory, self._histories = work / "log", work / "histories"
        self._histories.mkdir()
        self._chance = chance
        self.jobs: list[str] = []
        with pylog.open(self._directory, config=CONFIG) as log:
            log.create_topic(TOPIC, partitions=PARTITIONS)
            log.admin.alter_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        module, place = "tests.crash.share_worker", str(self._directory)
        self._workers = []
        if is_served:
            address = f"127.0.0.1:{free_port()}"
            self._workers = [Worker("server", self._histories, module, place, address)]
            place = address
        self._workers += [Worker(str(number), self._histories, module, place) for number in range(WORKERS)]
        self.going = Going(self._directory, self._workers, chance, 1.2 * LOCK_MS / 1000)

    def run(self, times: int) -> None:
        """Let processes go so many times. Raises AssertionError, TimeoutError."""
        is_whole = False
        try:
            with (
                pylog.open(self._directory, mode="attach", wait=PATIENCE_SECONDS) as log,
                log.producer(linger_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=5) as producer,
            ):
                for _ in range(times):
                    self._send(producer)
                    time.sleep(self._chance.uniform(0, 2 * ALIVE_SECONDS))
                    self.going.one_goes()
            for worker in reversed(self._workers):
                worker.end()
            is_whole = True
        finally:
            for worker in self._workers:
                worker.stop(tells=not is_whole)

    def _send(self, producer: pylog.Producer) -> None:
        jobs = [f"job {len(self.jobs) + number}" for number in range(JOBS)]
        for future in [producer.send(TOPIC, job.encode(), key=job.encode()) for job in jobs]:
            future.result(PATIENCE_SECONDS)
        self.jobs += jobs

    # --- the judgement -----------------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """All events of all histories, in order within each."""
        for path in sorted(path for path in self._histories.iterdir() if path.is_file()):
            for line in path.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)

    def judge(self) -> str:
        """Let a last worker take what is left, and hold the histories against each other. Raises AssertionError."""
        events = list(self.events())
        errors = [event for event in events if event[0] == "error"]
        assert not errors, f"processes failed: {errors[:3]}"
        done = self._done(events)
        left = self._left(len(self.jobs) - len(done))
        again = left & done
        assert not again, f"jobs that were done are given again: {sorted(again)[:3]}"
        counts = [int(str(event[2])) for event in events if event[0] == "given"]
        assert max(counts, default=0) <= DELIVERIES_MAX, f"a job was given {max(counts)} times"
        # A worker was killed before it heard of its word, or a job was given too often.
        doubt = {str(event[1]) for event in events if event[0] == "said" and event[2] != "release"}
        doubt |= {str(event[1]) for event in events if event[0] == "given" and event[2] == DELIVERIES_MAX}
        lost = [job for job in self.jobs if job not in done | left | doubt]
        assert not lost, f"{len(lost)} jobs are gone, and nobody has done them: {lost[:3]}"
        return (
            f"{len(self.jobs)} jobs, {len(done)} done, {len(counts)} deliveries, {len(left)} left for the last worker"
        )

    def _done(self, events: list[Event]) -> set[str]:
        """The jobs that were accepted or rejected, each by one worker.

        A worker whose lock has ended may say its word later than another one. Where all before the record is done, too,
        it hears no error, as in Kafka (SharePartition.acknowledge), and its word does not count.
        """
        done: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            if event[0] == "done" and event[2] != "release":
                done[str(event[1])].append((float(str(event[3])), float(str(event[4]))))
        wrong = [job for job, times in done.items() if any(given > min(times)[0] for _, given in times)]
        story = [event for event in events if wrong and event[1] == wrong[0]]
        assert not wrong, f"jobs were given after they were done: {wrong[:3]}; the first: {story}; {self.going.story}"
        return set(done)

    def _left(self, most: int) -> set[str]:
        """What the last worker is given: all that nobody has done."""
        left: set[str] = set()
        with (
            pylog.open(self._directory, mode="own", config=CONFIG, wait=PATIENCE_SECONDS) as log,
            log.share_consumer(TOPIC, group_id=GROUP) as consumer,
        ):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while any(one.lag != 0 for one in log.admin.share_offsets(GROUP).values()):
                assert time.monotonic() < deadline, f"something is left: {log.admin.share_offsets(GROUP)}"
                left |= {str(record.value, "utf-8") for record in consumer.poll(100)}
                consumer.commit_sync()
        assert len(left) <= most, f"{len(left)} jobs were left, and {most} were not done"
        return left


def free_port() -> int:
    """A port that no other process has."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the workers of a share group, and the owner of their log.")
    parser.add_argument("times", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--served", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(run(arguments.times, arguments.seed, is_served=arguments.served))
    return 0


def run(times: int, seed: int = 0, *, is_served: bool = False) -> str:
    """Let processes go so many times. Gives what was seen. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="pylog-share-") as work:
        campaign = Campaign(Path(work), random.Random(seed), is_served=is_served)
        campaign.run(times)
        told = campaign.judge()
        return f"{campaign.going}; {told}"


if __name__ == "__main__":
    sys.exit(main())
