"""Every public call of a log, and a signal at each place of it where the interpreter looks for one.

It looks where a function begins and behind each call of a compiled one: `sys.setprofile` shows these places, those in
the standard library too. The handler does what a handler may:

use      it appends, by a producer and by a view, and reads, both isolation levels
twice    the same, and it comes again a few places later, as a timer's does
close    it closes the log
raise    it raises

The program has handlers for other signals, too: after the call each is the one that it has installed.

Afterwards the call has given what it gives, or raised an error of pylog's or the handler's; the log can be used, or
opened again; what was acknowledged is there, at its offset, once, and `find_damage` finds nothing.
"""

import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pylog
from pylog.errors import Closed, NetworkError, PylogError
from pylog.record import TopicPartition
from pylog.runtime.future import Future

NUMBER = signal.SIGTERM
TIMER = signal.SIGALRM
"""One that waits for the end of a block each time it comes."""
OTHERS = (signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
MODES = ("use", "twice", "close", "raise")
USES = ("use", "twice")
PLAIN, PAIRS, MONEY = "plain", "pairs", "money"
SMALL = {"index.interval.bytes": 300, "file.delete.delay.ms": 0}
NODE = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1, "log.cleaner.backoff.ms": 10**9}
WAIT_SECONDS = 20
GAP_MOST = 60
"""How many places are at most between two strikes: as many as a call enters on its way to a write."""
LEVELS: tuple[Any, ...] = ("read_uncommitted", "read_committed")


class StruckError(BaseException):
    """What the handler of a signal raises."""


class World:
    """A log with clients, and what was acknowledged in it. `root` is an empty folder."""

    def __init__(self, root: Path, flush: Any) -> None:
        self.paths = [str(root / "one"), str(root / "two")]
        self.other = str(root / "other")
        self.flush = flush
        self.opened: pylog.Log | None = None
        self.number = 0
        self.sent: list[tuple[str, bytes, Future[Any]]] = []
        self.acknowledged: dict[tuple[str, int, int], bytes] = {}
        self.open()
        self.log.create_topic(PLAIN, 1, SMALL)
        self.log.create_topic(PAIRS, 1, {**SMALL, "cleanup.policy": "compact"})
        self.log.create_topic(MONEY, 1, SMALL)
        self.log.consumer(PLAIN, group_id="readers").close()
        pylog.open(self.other).close()
        self.begin()

    def open(self) -> None:
        self.log = pylog.open(self.paths, flush=self.flush, config=NODE)

    def begin(self) -> None:
        """Make what the calls and the handler use."""
        log = self.log
        self.producer = log.producer(linger_ms=0)
        self.bank = log.producer(transactional_id="bank")
        self.reader = pylog.open(self.paths, mode="read")
        self.consumers = [
            log.consumer(PLAIN, isolation_level=level) for level in ("read_uncommitted", "read_committed")
        ]
        self.member = log.consumer(group_id="readers", enable_auto_commit=False)
        self.member.assign([TopicPartition(PLAIN, 0)])
        self.member.seek(TopicPartition(PLAIN, 0), log.topic(PLAIN)[0].start_offset)
        self.handlers_producer = log.producer(linger_ms=0)
        self.handlers_consumers = [log.consumer(PLAIN, MONEY, isolation_level=level) for level in LEVELS]
        self.view = log.topic(PLAIN)[0]
        for consumer in (*self.consumers, *self.handlers_consumers):
            consumer.poll(0)
        self.send(PLAIN)
        self.in_transaction(commit=True)
        self.settle()
        # The thread sleeps on: it is the next close that finds them due.
        log.broker.housekeeping._due |= {"retention": 0, "transactional ids": 0, "offsets": 0}

    def value(self) -> bytes:
        self.number += 1
        return b"%08d" % self.number + b"x" * 200

    def send(self, topic: str, producer: Any = None, key: bytes | None = None) -> Future[Any]:
        value = self.value()
        future: Future[Any] = (producer or self.producer).send(topic, value, key)
        self.sent.append((topic, value, future))
        return future

    def append(self, topic: str = PLAIN) -> None:
        value = self.value()
        offset = self.view.append([pylog.Record(value)]).base_offset
        self.acknowledged[topic, 0, offset] = value

    def in_transaction(self, *, commit: bool) -> None:
        self.bank.begin()
        sent = [(MONEY, value := self.value(), self.bank.send(MONEY, value)) for _ in range(2)]
        if commit:
            self.bank.send_offsets({TopicPartition(PLAIN, 0): self.number}, "bank")
            self.bank.commit()
            self.sent += sent
        else:
            self.bank.abort()

    def settle(self) -> None:
        """Note what was acknowledged by now. An answer that never comes is an error, whatever the answer is."""
        sent, self.sent = self.sent, []
        for topic, value, future in sent:
            with suppress(PylogError, CancelledError, StruckError):
                where = future.result(WAIT_SECONDS)
                self.acknowledged[topic, where.partition, where.offset] = value

    def close(self) -> None:
        self.reader.close()
        self.log.close()

    def judge(self) -> None:
        """Close, open again, and see whether all is there. What it finds are AssertionErrors."""
        self.settle()
        self.close()
        self.open()
        log = self.log
        assert not log.quarantined, log.quarantined
        found = log.find_damage()
        assert not found, found
        records = {
            (name, 0, record.offset): record.value
            for name in (PLAIN, PAIRS, MONEY)
            for record in log.topic(name)[0].records()
        }
        for place, value in self.acknowledged.items():
            name, number, offset = place
            if name != PAIRS and offset >= log.topic(name)[number].start_offset:
                assert records.get(place) == value, f"{value[:8]!r} was acknowledged at {place}: {records.get(place)!r}"
        values = list(records.values())
        assert len(values) == len(set(values)), "a record is there twice"


# --- the calls -------------------------------------------------------------------------------------------------------


def _open(world: World) -> None:
    world.opened = pylog.open(world.other)
    world.opened.close()


def _open_to_read(world: World) -> None:
    with pylog.open(world.paths, mode="read") as log:
        log.topics()


def _topics(world: World) -> None:
    name = f"topic-{world.number}"
    world.number += 1
    world.log.create_topic(name)
    world.log.create_partitions(name, 2)
    world.log.delete_topic(name)


def _configs(world: World) -> None:
    world.log.alter_config(PLAIN, {"retention.bytes": 10**9})
    world.log.alter_config(PLAIN, delete=["retention.bytes"])


def _send(world: World) -> None:
    world.send(PLAIN).result(WAIT_SECONDS)


def _burst(world: World) -> None:
    for _ in range(4):
        world.send(PLAIN)
    world.producer.flush()


def _append(world: World) -> None:
    world.append()


def _producer(world: World) -> None:
    with world.log.producer() as producer:
        world.send(PLAIN, producer)


def _poll(world: World, which: int) -> None:
    consumer = world.consumers[which]
    consumer.seek_to_beginning()
    for _ in range(3):
        consumer.poll(1)


def _wait(world: World) -> None:
    consumer = world.consumers[1]
    consumer.seek_to_end()
    consumer.poll(5)


def _commit(world: World) -> None:
    world.member.poll(1)
    world.member.commit()
    world.member.committed([TopicPartition(PLAIN, 0)])


def _member(world: World) -> None:
    with world.log.consumer(
        PLAIN, group_id="members", group_protocol="consumer", auto_offset_reset="earliest"
    ) as member:
        for _ in range(3):
            member.poll(2)


def _transaction(world: World) -> None:
    world.in_transaction(commit=True)


def _abort(world: World) -> None:
    world.in_transaction(commit=False)


def _delete_records(world: World) -> None:
    view = world.log.topic(PLAIN)[0]
    world.log.delete_records({TopicPartition(PLAIN, 0): min(view.start_offset + 1, view.high_watermark)})


def _retention(world: World) -> None:
    world.log.apply_retention()


def _clean(world: World) -> None:
    for _ in range(2):
        world.send(PAIRS, key=b"key").result(WAIT_SECONDS)
    world.log.broker.partition(PAIRS, 0).roll(0)
    world.log.clean(PAIRS)


def _find_damage(world: World) -> None:
    assert not world.log.find_damage(PLAIN), "damage was found"


def _move(world: World) -> None:
    where = world.view.path
    world.log.move_partition(PLAIN, 0, world.paths[where.startswith(world.paths[0] + "/")])


def _view(world: World) -> None:
    view = world.view
    list(view.records())
    list(view.records(isolation_level="read_committed"))
    view.read(view.start_offset)
    view.offset_for_time(0)
    view.check()
    _ = view.size, view.segments, view.last_stable_offset, view.durable_offset, view.leader_epoch


def _columns(world: World) -> None:
    list(world.view.columns(isolation_level="read_committed"))


def _admin(world: World) -> None:
    admin, key = world.log.admin, TopicPartition(PLAIN, 0)
    admin.list_groups()
    admin.alter_offsets("tools", {key: 1})
    admin.describe_group("tools")
    admin.committed("tools")
    admin.delete_offsets("tools", [key])
    admin.list_transactions()
    admin.describe_transaction("bank")
    admin.describe_producers([key])
    admin.find_hanging_transactions()
    admin.describe_log_dirs()
    admin.list_offsets({key: "earliest"})


def _read(world: World) -> None:
    with world.reader.consumer(PLAIN, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.poll(1)
        consumer.poll(1)


def _flush(world: World) -> None:
    world.append()
    world.log.flush()


def _close(world: World) -> None:
    world.close()
    world.open()
    world.begin()


CALLS: dict[str, Callable[[World], None]] = {
    "open": _open,
    "open to read": _open_to_read,
    "topics": _topics,
    "configs": _configs,
    "send": _send,
    "burst": _burst,
    "append": _append,
    "producer": _producer,
    "poll": lambda world: _poll(world, 0),
    "poll committed": lambda world: _poll(world, 1),
    "wait": _wait,
    "commit": _commit,
    "member": _member,
    "transaction": _transaction,
    "abort": _abort,
    "delete records": _delete_records,
    "retention": _retention,
    "clean": _clean,
    "find damage": _find_damage,
    "move": _move,
    "view": _view,
    "columns": _columns,
    "admin": _admin,
    "read": _read,
    "flush": _flush,
    "close": _close,
}


# --- a signal in them ------------------------------------------------------------------------------------------------


def handle(world: World, mode: str) -> None:
    """What the handler does. A log that is closed by then is none that it can use."""
    if mode == "raise":
        raise StruckError
    if mode == "close":
        world.log.close()
        return
    with suppress(Closed, NetworkError):
        world.send(PLAIN, world.handlers_producer).result(WAIT_SECONDS)
        world.append()
        for consumer in world.handlers_consumers:
            consumer.poll(0)


def run_struck(call: Callable[[], None], places: tuple[int, ...], handler: Callable[[], None]) -> int:
    """Run `call`, with a signal at the so many-th places (0: none); gives how many there were until the last one."""
    seen, number = 0, TIMER if len(places) > 1 else NUMBER
    handlers = {other: lambda number, frame: None for other in OTHERS}
    handlers[number] = lambda number, frame: handler()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal seen
        if event in ("call", "c_return"):
            seen += 1
            if seen in places:
                if seen == places[-1]:
                    sys.setprofile(None)
                signal.raise_signal(number)

    before = {number: signal.signal(number, ours) for number, ours in handlers.items()}
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        found = {number: signal.signal(number, theirs) for number, theirs in before.items()}
        assert found == handlers, f"a handler is not the one that was installed: {found} instead of {handlers}"
    return seen


def attempt(world: World, name: str, mode: str, place: int) -> int:
    """One call with a signal in it; gives how many places there were. Raises AssertionError for what is wrong."""
    seen = 0
    errors: list[BaseException] = []

    def handler() -> None:
        try:
            handle(world, mode)
        except StruckError:
            raise
        except BaseException as error:
            errors.append(error)
            raise

    try:
        places = (place, place + 1 + place % GAP_MOST) if mode == "twice" else (place,)
        seen = run_struck(lambda: CALLS[name](world), places, handler)
    except (PylogError, StruckError) as error:
        if mode in USES:
            raise AssertionError("the call failed, although the handler only uses the log:\n" + _said(error)) from error
    except BaseException as error:
        raise AssertionError("an error without a type:\n" + _said(error)) from error
    assert not errors, "the handler failed:\n" + _said(errors[0])
    return seen


def _said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-12))


def recover(world: World, mode: str) -> None:
    """Go on with the log after a signal has ended a call: another one can be made."""
    if mode in USES:
        world.settle()
        # Or the calls, which read all there is, would have new places at their beginning alone.
        world.log.delete_records({TopicPartition(PLAIN, 0): -1})
        world.send(PLAIN).result(WAIT_SECONDS)
        return
    if mode == "raise":
        # A transaction that was struck is over when somebody says so.
        with suppress(PylogError):
            world.bank.abort()
    if world.opened is not None:
        world.opened.close()
        world.opened = None
    pylog.open(world.other).close()
    world.judge()
    world.begin()
