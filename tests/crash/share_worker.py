"""A worker of a share group, with a history of what it was given and what it was told: `share_kill` kills it.

    python -m tests.crash.share_worker DIRECTORY HISTORY        it opens the log, and owns it or is attached
    python -m tests.crash.share_worker HOST:PORT HISTORY        it works through a server
    python -m tests.crash.share_worker DIRECTORY HOST:PORT HISTORY        it is that server, and does no job

A line of the history is written before the next step: ["given", job, delivery_count, time, partition, offset],
["said", job, word], ["done", job, word, time, when it was given] where it was taken, ["refused", job, word, error],
["error", text]. Times are of the monotonic clock, which all processes of a machine share.
"""

import faulthandler
import logging
import os
import random
import signal
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress

import pylog
from pylog import ShareRecord, TopicPartition
from pylog.client.share_consumer.share_consumer import ShareConsumer
from pylog.errors import NetworkError
from tests.crash.attach_worker import Asked, History

TOPIC, GROUP, PARTITIONS = "jobs", "workers", 3
DELIVERIES_MAX = 4
SESSION_MS, LOCK_MS = 900, 1500
CONFIG = {
    "group.share.min.session.timeout.ms": SESSION_MS, "group.share.min.heartbeat.interval.ms": SESSION_MS // 3,
    "group.share.session.timeout.ms": SESSION_MS, "group.share.heartbeat.interval.ms": SESSION_MS // 3,
    "group.share.delivery.count.limit": DELIVERIES_MAX, "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": LOCK_MS,
}  # fmt: skip
"""A member that was killed is gone soon, and the locks of one that was stopped."""
WAIT_SECONDS = 30.0
RELEASES, REJECTS = 0.15, 0.05
"""The shares of the words that are not "accept"."""


def work(consumer: ShareConsumer[bytes, bytes], history: History, chance: random.Random, asked: Asked) -> None:
    """Take jobs, and say what becomes of them, a few at a time or many."""
    while not asked:
        records = consumer.poll(200)
        given, said = time.monotonic(), []
        for record, word in [(record, word_for(record, history, chance)) for record in records]:
            history.note("said", job(record), word)
            consumer.acknowledge(record, word)
            said.append((record, word))
            if record is records[-1] or chance.random() < 0.1:
                commit(consumer, history, said, given)
                said.clear()


def commit(
    consumer: ShareConsumer[bytes, bytes], history: History, said: list[tuple[ShareRecord[bytes, bytes], str]],
    given: float,
) -> None:  # fmt: skip
    """Commit, and note what came of each word."""
    errors = consumer.commit_sync()
    for record, word in said:
        key = TopicPartition(record.topic, record.partition)
        # Without an answer nobody knows.
        if key in errors and errors[key] is None:
            history.note("done", job(record), word, time.monotonic(), given)
        else:
            history.note("refused", job(record), word, repr(errors.get(key)))


def word_for(record: ShareRecord[bytes, bytes], history: History, chance: random.Random) -> str:
    history.note(
        "given", job(record), record.delivery_count, time.monotonic(), record.partition, record.offset, os.getpid()
    )
    dice = chance.random()
    return "release" if dice < RELEASES else "reject" if dice < RELEASES + REJECTS else "accept"


def job(record: ShareRecord[bytes, bytes]) -> str:
    assert record.value is not None
    return record.value.decode()


def opened(place: str, asked: Asked) -> AbstractContextManager["pylog.Log | pylog.ConnectedLog | None"]:
    """The log in a directory, or behind a server as soon as that is there; None: the process is to end before."""
    if os.path.isdir(place):
        return pylog.open(place, config=CONFIG, flush="none")
    while not asked:
        with suppress(NetworkError):
            return pylog.connect(place)
    return nullcontext()


def serve(directory: str, address: str, asked: Asked) -> None:
    """Serve the log, as its owner, until it is asked to end."""
    with pylog.open(directory, mode="own", config=CONFIG, flush="none", wait=WAIT_SECONDS) as log, log.serve(address):
        while not asked:
            time.sleep(0.02)


def main() -> int:
    faulthandler.register(signal.SIGUSR1)
    logging.disable(logging.CRITICAL)
    *places, path = sys.argv[1:]
    history, asked, chance = History(path), Asked(), random.Random(path)
    try:
        if len(places) == 2:
            serve(*places, asked)
            return 0
        with opened(*places, asked) as log:
            if log is None:
                return 0
            settings = {"max_poll_records": chance.choice([1, 5, 50]), "acknowledgement": "explicit"}
            with log.share_consumer(TOPIC, group_id=GROUP, **settings) as consumer:
                work(consumer, history, chance, asked)
    except BaseException as error:
        history.note("error", f"{type(error).__name__}: {error}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
