"""A process that writes into a shared log, and keeps a history of what it was told: `attach_kill` kills it.

    python -m tests.crash.attach_worker KIND DIRECTORY [forked] HISTORY

A line of the history is written before the next step: ["sent", value], ["acked", value, offset], ["committed", number],
["read", offset, next], ["position", offset], ["error", text]. With `forked` the log is opened here, and used by a child
that was forked from this process.
"""

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pylog
from pylog import Record
from pylog.errors import DurabilityUnknown, PylogError
from tests.support.canaries import Canaries

TOPIC, TRANSACTIONS, GROUP = "records", "transactions", "group"
BURST, IN_TRANSACTION = 20, 3
SESSION_MS = 900
"""A member that was killed is gone soon."""
LOOK_SECONDS = 0.02
CONFIG = {"group.min.session.timeout.ms": SESSION_MS}


class History:
    """The file of one process."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, *event: object) -> None:
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")


class Asked:
    """Whether the process is to end: by SIGTERM, or as its parent is gone."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._is_asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self._is_asked = True

    def __bool__(self) -> bool:
        return self._is_asked or os.getppid() != self._parent


def plain(log: pylog.Log, name: str, history: History, asked: Asked) -> None:
    """Without idempotence: a record may be there twice, and none is lost."""
    with log.producer(enable_idempotence=False, acks=1, linger_ms=0) as producer:
        number = 0
        while not asked:
            value = f"plain {name} {number}"
            history.note("acked", value, producer.send(TOPIC, value.encode()).result().offset)
            number += 1


def idempotent(log: pylog.Log, name: str, history: History, asked: Asked) -> None:
    """Many at a time: each is there once, in order."""
    with log.producer(linger_ms=1) as producer:
        number = 0
        while not asked:
            values = [f"idempotent {name} {one}" for one in range(number, number + BURST)]
            futures = [producer.send(TOPIC, value.encode()) for value in values]
            for value, future in zip(values, futures, strict=True):
                history.note("acked", value, future.result().offset)
            number += BURST


def view(log: pylog.Log, name: str, history: History, asked: Asked) -> None:
    """By the partition itself: what is in doubt is said to be."""
    part = log.topic(TOPIC)[0]
    number = 0
    while not asked:
        value = f"view {name} {number}"
        try:
            history.note("acked", value, part.append([Record(value.encode())]).base_offset)
        except DurabilityUnknown:
            history.note("unknown", value)
        number += 1


def transactional(log: pylog.Log, name: str, history: History, asked: Asked) -> None:
    """Transactions: all of one or nothing. One that fails is in doubt, and the next one goes on."""
    number = 0
    while not asked:
        try:
            with log.producer(transactional_id=name, linger_ms=0) as producer:
                while not asked:
                    with producer.transaction():
                        for part in range(IN_TRANSACTION):
                            producer.send(TRANSACTIONS, f"{name} {number} {part}".encode())
                    history.note("committed", f"{name} {number}")
                    number += 1
        except PylogError as error:
            history.note("unknown", f"{name} {number}", f"{type(error).__name__}: {error}")
            number += 1


def group(log: pylog.Log, name: str, history: History, asked: Asked) -> None:
    """A member of a group: what is committed was read."""
    with log.consumer(
        TOPIC,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 3,
    ) as consumer:
        while not asked:
            records = consumer.poll(200, max_records=100)
            if not records:
                continue
            history.note("read", records[0].offset, records[-1].offset + 1)
            try:
                consumer.commit()
                history.note("position", records[-1].offset + 1)
            except PylogError as error:
                history.note("refused", f"{type(error).__name__}: {error}")


KINDS: dict[str, Callable[[pylog.Log, str, History, Asked], None]] = {
    one.__name__: one for one in (plain, idempotent, view, transactional, group)
}


def main() -> int:
    faulthandler.register(signal.SIGUSR1)
    kind, directory, *how, path = sys.argv[1:]
    # The system gives the number of a process again some day.
    name = f"{kind}-{os.getpid()}-{time.time_ns()}"
    history = History(path)
    Canaries(f"{path}-canaries").begin()
    with pylog.open(directory, config=CONFIG) as log:
        if how:
            child = os.fork()
            if child:
                return wait_for(child)
        return work(kind, log, name, history)


def wait_for(child: int) -> int:
    """The exit code of a child, which is asked to end where this process is."""
    signal.signal(signal.SIGTERM, lambda *_: end(child))
    # It looks again and again: a handler does not run for a signal that comes just before a wait without an end begins.
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(LOOK_SECONDS)


def end(child: int) -> None:
    # It may have ended by itself, while its parent closes.
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)


def work(kind: str, log: pylog.Log, name: str, history: History) -> int:
    try:
        KINDS[kind](log, name, history, Asked())
        log.close()
    except BaseException as error:
        history.note("error", f"{type(error).__name__}: {error}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
