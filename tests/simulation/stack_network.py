"""The world that a whole log lives in, in one thread: time, processes, and a network that is not kind to them.

    World      what is to happen, in the order of its time; `wait` lets it happen until something has come
    Process    a client, or the node: its clock, its timers, its end of the network; they end with it when it is killed
    Network    loses, doubles, delays and reorders messages and answers

Who waits for an answer lets the world go on, so calls that block are nested in each other: at most `DEPTH_MAX` deep,
and each begins where another one waits. A process that is killed while it waits is left by `KilledError`.

What `transport` promises is kept: every future is answered in the end, and what was sent does not arrive after that.
Heartbeats of the consumer protocol are never doubled: the copy would be kept back in the place of the first, and the
target be given to nobody. (Kafka's connections double nothing.)
"""

import heapq
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from random import Random
from typing import Any

from pylog.errors import NetworkError, RequestTimedOut
from pylog.protocol.messages import Message, Session
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pylog.runtime.clock import SteppedClock
from pylog.runtime.future import Future
from pylog.transport import Handle

WALL = 1_700_000_000_000
DEPTH_MAX = 3
EVENTS_AT_ONCE_MAX = 20_000


class KilledError(BaseException):
    """The process that was waiting is no more."""


class ViolatedError(AssertionError):
    """What must always hold did not."""


def require(holds: object, text: str) -> None:
    if not holds:
        raise ViolatedError(text)


@dataclass(slots=True)
class Rates:
    """How often what goes wrong; each seed has some of it, and not the rest."""

    lose: float = 0.05
    double: float = 0.2
    slow: float = 0.2
    crash: float = 0.006
    """After an event of the node."""
    kill: float = 0.01
    """Before a step of a client."""
    pause: float = 0.02
    jump: float = 0.02

    @classmethod
    def drawn(cls, random: Random) -> "Rates":
        usual = cls()
        return cls(*(random.choice((0.0, rate / 3, rate)) for rate in (getattr(usual, f.name) for f in fields(cls))))


class World:
    """Everything happens in `wait`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rates = Rates.drawn(self.random)
        self.is_faulty = True
        self.now_ms = 0
        self.depth = 0
        self.events: list[tuple[int, int, Callable[[], object]]] = []
        self.count = 0
        self.at_once = 0

    def fails(self, rate: float) -> bool:
        return self.is_faulty and self.random.random() < rate

    def at(self, tick_ms: int, call: Callable[[], object]) -> None:
        self.count += 1
        heapq.heappush(self.events, (max(tick_ms, self.now_ms), self.count, call))

    def after(self, delay_ms: int, call: Callable[[], object]) -> None:
        self.at(self.now_ms + delay_ms, call)

    def wait(self, is_over: Callable[[], bool], until_ms: int) -> bool:
        self.depth += 1
        try:
            while not is_over():
                if not self.events or self.events[0][0] > until_ms:
                    self.now_ms = max(self.now_ms, until_ms)
                    return is_over()
                self.happen()
            return True
        finally:
            self.depth -= 1

    def happen(self) -> None:
        tick_ms, _, call = heapq.heappop(self.events)
        self.at_once = self.at_once + 1 if tick_ms <= self.now_ms else 0
        require(self.at_once < EVENTS_AT_ONCE_MAX, f"something goes round at {self.now_ms} ms: {call}")
        self.now_ms = max(self.now_ms, tick_ms)
        call()


class Process(SteppedClock):
    """Who lives and dies as one."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.ahead_ms = 0
        self.waits = 0
        """How many of its calls wait now."""

    def wall_ms(self) -> int:
        return WALL + self.world.now_ms + self.ahead_ms

    def tick_ms(self) -> int:
        return self.world.now_ms

    def call_at(self, tick_ms: int, call: Callable[[], object]) -> None:
        self.world.at(tick_ms, lambda: self.enter(call))

    def enter(self, call: Callable[[], object]) -> None:
        if self.alive:
            # Below it another process may be waiting, which lives on.
            with suppress(KilledError):
                call()

    def wait(self, is_over: Callable[[], bool], timeout_ms: float | None) -> bool:
        self.check()
        self.waits += 1
        try:
            require(timeout_ms is not None, f"{self.name} waits for ever")
            until_ms = self.world.now_ms + int(-(-(timeout_ms or 0) // 1))
            self.world.wait(lambda: not self.alive or is_over(), until_ms)
        finally:
            self.waits -= 1
        self.check()
        return is_over()

    def check(self) -> None:
        if not self.alive:
            raise KilledError


class Answer(Future[Any]):
    """Of a message: who waits for it lets the world go on."""

    __slots__ = ("process",)

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process

    def _wait(self, timeout: float | None) -> None:
        if not self.process.wait(self.done, None if timeout is None else timeout * 1000):
            raise TimeoutError(f"no answer within {timeout} seconds")


@dataclass(slots=True, eq=False)
class Sent:
    """A message under way, and its answer."""

    future: Answer
    message: Message
    session: Session
    copies: int = 0
    """So many of it have not arrived yet."""
    is_heard: bool = False
    """Whether an answer to it is on its way, or it is decided that there will be none."""


class Network:
    """Between clients and one node. `enter` lets the node have an event, during which it may crash."""

    def __init__(self, world: World, enter: Callable[[Callable[[], object]], None]) -> None:
        self.world = world
        self.enter = enter
        self.handle: Handle | None = None
        self.open: dict[Sent, None] = {}
        self.outbox: list[tuple[Sent, Future[Any]]] = []
        """What the node has answered in the event of now."""

    def delay_ms(self) -> int:
        random = self.world.random
        return random.randint(1, 1500) if self.world.fails(self.world.rates.slow / 4) else random.randint(0, 3)

    def send(self, process: Process, message: Message, session: Session) -> Future[Any]:
        process.check()
        sent = Sent(Answer(process), message, session)
        self.open[sent] = None
        if self.world.fails(self.world.rates.lose):
            self.silence(sent)
            return sent.future
        is_double = not isinstance(message, ConsumerGroupHeartbeatRequest) and self.world.fails(self.world.rates.double)
        for _ in range(1 + is_double):
            sent.copies += 1
            self.world.after(self.delay_ms(), lambda: self.arrive(sent))
        return sent.future

    def silence(self, sent: Sent) -> None:
        """Nothing is heard any more, and the sender learns so."""
        sent.is_heard = True
        kind = self.world.random.choice((RequestTimedOut, NetworkError))
        error = kind("no answer has come")
        self.world.after(self.world.random.randint(20, 1500), lambda: self.deliver(sent, None, error))

    def arrive(self, sent: Sent) -> None:
        sent.copies -= 1
        if sent.future.done():
            return
        if self.handle is None:
            if not sent.is_heard and not sent.copies:
                self.silence(sent)
            return
        self.enter(lambda: self.take(sent))

    def take(self, sent: Sent) -> None:
        assert self.handle is not None
        self.handle(sent.message, sent.session).add_done_callback(lambda done: self.outbox.append((sent, done)))

    def flush(self) -> None:
        """What the node has answered goes on its way."""
        outbox, self.outbox = self.outbox, []
        for sent, done in outbox:
            if sent.future.done():
                continue
            if self.world.fails(self.world.rates.lose):
                if not sent.is_heard and not sent.copies:
                    self.silence(sent)
                continue
            sent.is_heard = True
            error = done.exception(0)
            value = done.result(0) if error is None else None
            self.world.after(
                self.delay_ms(), lambda sent=sent, value=value, error=error: self.deliver(sent, value, error)
            )

    def deliver(self, sent: Sent, value: Any, error: BaseException | None) -> None:
        self.open.pop(sent, None)
        if sent.future.done():
            return
        settle = partial(sent.future.set_exception, error) if error else partial(sent.future.set_result, value)
        sent.future.process.enter(settle)

    def node_died(self) -> None:
        """What it had, and has not answered, is never answered."""
        self.handle = None
        self.outbox.clear()
        for sent in self.open:
            if not sent.is_heard and not sent.copies:
                self.silence(sent)


class Wire:
    """The end of the network that a process has: a transport."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    def attach(self, node: int, handle: Handle) -> None:
        self._network.handle = handle

    def detach(self, node: int) -> None:
        self._network.handle = None

    def name(self, node: int) -> str:
        return f"node {node}"

    def forget(self, session: Session) -> None:
        pass

    def abandon(self) -> None:
        pass

    def send(self, node: int, message: Message, session: Session) -> Future[Any]:
        return self._network.send(self._process, message, session)
