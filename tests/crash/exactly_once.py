"""A job that reads, works and writes, killed as often as one wants: what `make exactly-once` runs.

    python -m tests.crash.exactly_once 1000000 200        so many records, so many kills

The job owns the log, so its coordinators, its consumer and its producer die with it. In the end whoever reads committed
records finds what every record became, once, in order for each key.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pylog
from pylog import TopicPartition

KEYS = 1000
PARTITIONS = 6
WORKERS = 2
BATCH = 500


def fill(path: str, records: int) -> None:
    """The input: numbers, counted up for each key."""
    with pylog.open(path, flush="none") as log:
        log.create_topic("in", partitions=PARTITIONS)
        log.create_topic("out", partitions=PARTITIONS)
        with log.producer(linger_ms=50) as producer:
            for number in range(records):
                producer.send("in", b"%d" % (number // KEYS), key=b"%d" % (number % KEYS))


def became(value: bytes) -> bytes:
    """What a record becomes."""
    return b"%d" % (int(value) ** 2)


def job(path: str, say: Connection) -> None:
    """Work until nothing is left; several workers share the input as members of a group. `say` is told of each
    transaction.
    """
    with pylog.open(path) as log:
        threads = [threading.Thread(target=work, args=(log, number, say), daemon=True) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def work(log: pylog.Log, number: int, say: Connection) -> None:
    with (
        log.consumer(
            "in", group_id="job", auto_offset_reset="earliest", enable_auto_commit=False,
            isolation_level="read_committed",
        ) as source,
        log.producer(transactional_id=f"job-{number}") as target,
    ):  # fmt: skip
        while (records := source.poll(timeout_ms=200, max_records=BATCH)) or not is_all_done(log):
            if not records:
                continue
            try:
                with target.transaction():
                    for record in records:
                        assert record.value is not None
                        target.send("out", became(record.value), key=record.key)
                    after = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                    target.send_offsets(after, source.group_metadata())
                say.send(None)
            except (pylog.errors.IllegalGeneration, pylog.errors.RebalanceInProgress, pylog.errors.CommitFailed,
                    pylog.errors.UnknownMemberId, pylog.errors.TransactionAbortable):  # fmt: skip
                # The group has moved on: the transaction was aborted, and its records are read again by whom they
                # belong to now.
                go_back(source)


def go_back(source: pylog.Consumer) -> None:
    committed = source.committed(source.assignment())
    for key in source.assignment():
        known = committed.get(key)
        if known is not None:
            source.seek(key, known.offset)
        else:
            source.seek_to_beginning(key)


def done(path: str) -> int:
    """How many records were worked on, as far as the group has committed."""
    with pylog.open(path, mode="read") as log:
        return committed(log)


def committed(log: pylog.Log) -> int:
    return sum(known.offset for known in log.admin.committed("job").values())


def is_all_done(log: pylog.Log) -> bool:
    return committed(log) == sum(view.next_offset for view in log.topic("in"))


def start(path: str) -> tuple[BaseProcess, Connection]:
    """A job, and where it says that a transaction was committed."""
    heard, say = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("forkserver").Process(target=job, args=(path, say))
    process.start()
    say.close()
    return process, heard


def run(path: str, records: int, kills: int, seed: int) -> int:
    """Kill the job so often, at moments that let each of them do its share, then let it end; gives how many of the
    killed ones had done something.
    """
    dice, pause, at_work = random.Random(seed), 0.01, 0
    for number in range(kills):
        before = done(path)
        process, heard = start(path)
        if dice.random() > 0.1:  # else it is killed while it opens, recovers and joins
            heard.poll(30)
        process.join(dice.uniform(0, 2 * pause))
        assert process.exitcode in (None, 0), f"the job ended with {process.exitcode}"
        process.kill()
        process.join()
        share = (records - before) / (kills - number)
        ended = done(path) - before
        at_work += ended > 0
        pause = min(max(pause * (1.1 if ended < share else 0.9), 0.001), 3.0)
    process, _ = start(path)
    process.join()
    assert process.exitcode == 0, f"the last job ended with {process.exitcode}"
    return at_work


def check(path: str, records: int) -> None:
    """Raise AssertionError unless every record became what it should, once, in order for each key."""
    seen: dict[bytes | None, int] = {}
    with pylog.open(path) as log:
        assert committed(log) == records
        for view in log.topic("out"):
            for record in view.records(isolation_level="read_committed"):
                expected = seen.get(record.key, 0)
                assert record.value == b"%d" % expected**2, f"{record.key!r} has {record.value!r} after {expected}"
                seen[record.key] = expected + 1
            assert view.last_stable_offset == view.next_offset, f"{view} has a transaction that is open"
    assert sum(seen.values()) == records, f"{records} went in, {sum(seen.values())} came out"


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a read-process-write job at random moments.")
    parser.add_argument("records", type=int)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log")
        fill(path, arguments.records)
        at_work = run(path, arguments.records, arguments.kills, arguments.seed)
        check(path, arguments.records)
    killed = f"{arguments.kills} kills, {at_work} of them of a job that had done something"
    print(f"{arguments.records} records, {killed}, {time.monotonic() - began:.0f} s: each once, in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
