"""`StandIn`: a Kafka for the tests of a program, whose answers fail when they are told to.

    with StandIn() as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
        kafka.fail("Produce", errors.NotLeaderOrFollower)
        ...
        kafka.assert_records("orders", [b"one", b"two"])

It is a log in memory and a server of it; every client of Kafka's protocol can use it. Topics are made on first use.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple, Self

from pylog.broker.broker import Broker
from pylog.config import NodeConfig
from pylog.errors import ProtocolError
from pylog.files import MemoryFiles
from pylog.log import Log
from pylog.protocol.messages import ApiRequest
from pylog.protocol.wire.mapping import Body
from pylog.runtime.clock import MovableClock
from pylog.schema_registry import SchemaRegistryServer
from pylog.server.api.call import Fate, Outcome
from pylog.server.api.table import APIS
from pylog.server.dispatch import ServedCall
from pylog.server.quotas import ClientQuotas
from pylog.server.served_node import ServedNode
from pylog.server.server import Server
from pylog.testing.assertions import Expected, assert_records
from pylog.testing.refusal import refusal
from pylog.transport import MemoryTransport

LISTEN = "127.0.0.1:0"
NAMES = sorted(api.name for api in APIS.values())


class SeenRequest(NamedTuple):
    """A request that a client sent."""

    api: str
    """The name of its key: "Produce", "Fetch", "JoinGroup"."""
    version: int
    client_id: str
    body: Body
    """Its fields under Kafka's names, in camel case."""


@dataclass(slots=True, eq=False)
class _Fault:
    api: str
    times: int | None
    """How many requests it still holds for; None: for all."""
    fate: Fate = field(default_factory=Fate)
    error: type[ProtocolError] | None = None


class StandIn:
    """A log in memory behind a server, on a free port of the loopback. Thread-safe; close it, or use it in `with`.

    `config` takes Kafka's broker configs. `log` is the log itself, to fill it or to look at it; after a `restart` it is
    another one. `schema_registry`: Confluent's HTTP interface to the schemas in its topic `_schemas` is served, too.

    `requests` are those that clients have sent so far, in the order in which they began. Each has taken effect, or
    waits for something else: a poll for records, an append for a disk. The list grows until `requests.clear()`.

    A fault holds for the next `times` requests of a key, or for all until `heal` (None). Several for one key follow
    each other. Raises InvalidConfig.

    >>> from pylog.testing import StandIn
    >>> kafka = StandIn()
    >>> topic = kafka.log.create_topic("orders")
    >>> there = pylog.connect(kafka.bootstrap_servers)
    >>> producer = there.producer()
    >>> producer.send("orders", b"book").result().offset
    0
    """

    def __init__(self, *, config: Mapping[str, object] | None = None, schema_registry: bool = False) -> None:
        self.clock = MovableClock()
        """The clock of node and server. `advance` moves it."""
        self.requests: list[SeenRequest] = []
        self._config = NodeConfig.from_kafka(config or {})
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._is_killed = False
        self._registry: SchemaRegistryServer | None = None
        self._start({}, LISTEN, LISTEN if schema_registry else None)

    def __repr__(self) -> str:
        return f"<StandIn {self.bootstrap_servers}{', killed' if self._is_killed else ''}>"

    def _start(self, tree: Mapping[str, bytes | None], listen: str, registry_listen: str | None) -> None:
        self._files = MemoryFiles(self.clock, tree)
        transport = MemoryTransport()
        broker = Broker(
            self._files, ["log"], config=self._config, clock=self.clock, transport=transport, node_id=None, flush="none"
        )
        self.log = Log(":memory:", broker, broker, transport, self.clock)
        quotas = ClientQuotas(lambda: broker.image.quotas, self.clock)
        node = ServedNode(broker.handle, broker.node_id, broker.configs, self.clock, quotas=quotas)
        with ExitStack() as undo:
            undo.callback(self.log.close)
            self._server = Server(node, listen, intercept=self._intercept)
            undo.callback(self._server.kill)
            if registry_listen is not None:
                self._registry = SchemaRegistryServer(self.log, registry_listen)
            undo.pop_all()

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers` for a client. It stays the same over a `restart`."""
        return self._server.bootstrap_servers

    @property
    def schema_registry_url(self) -> str:
        """The value of `schema.registry.url` for a client. It stays the same over a `restart`. Raises ValueError where
        no registry was asked for.
        """
        if self._registry is None:
            raise ValueError("this server has no registry of schemas: make it with StandIn(schema_registry=True)")
        return self._registry.url

    # --- looking at it -----------------------------------------------------------------------------------------------

    def requests_of(self, api: str) -> list[SeenRequest]:
        """The requests of one key so far. Raises ValueError where no request has that name.

        >>> len(kafka.requests_of("Produce"))
        1
        """
        _check_name(api)
        return [seen for seen in self.requests if seen.api == api]

    def assert_records(self, topic: str, expected: Iterable[Expected], *, partition: int | None = None) -> None:
        """See `assert_records`.

        >>> kafka.assert_records("orders", ["book"])
        """
        assert_records(self.log, topic, expected, partition=partition)

    # --- faults ------------------------------------------------------------------------------------------------------

    def fail(self, api: str, error: type[ProtocolError], *, times: int | None = 1) -> None:
        """Answer with an error, and do nothing else: `fail("Produce", errors.NotLeaderOrFollower)`.

        A request whose answer has no place for an error (Metadata without topics) is answered as always, and the fault
        holds for the next one. Raises TypeError where `error` is not a class of `pylog.errors` with Kafka's code,
        ValueError where no request has that name, or `times` is below 1.

        >>> kafka.fail("Produce", pylog.errors.NotLeaderOrFollower)
        >>> producer.send("orders", b"pen").result().offset
        1
        >>> len(kafka.requests_of("Produce"))
        3
        """
        given: object = error
        if not (isinstance(given, type) and issubclass(given, ProtocolError)):
            raise TypeError(f"{given!r} is not a class of Kafka's errors: give one such as errors.NotLeaderOrFollower")
        self._add(_Fault(api, times, error=error))

    def delay(self, api: str, ms: int, *, times: int | None = 1) -> None:
        """Carry the request out, and answer so much later. Later requests of its connection are answered behind it.

        Raises ValueError as `fail` does.

        >>> kafka.delay("Produce", 10)
        >>> producer.send("orders", b"pen").result().offset
        1
        """
        self._add(_Fault(api, times, Fate(delay_ms=ms)))

    def drop(self, api: str, *, times: int | None = 1) -> None:
        """Carry the request out, and never answer: the client has to give up waiting.

        Raises ValueError as `fail` does.

        >>> kafka.drop("Produce")
        >>> impatient = there.producer(request_timeout_ms=50, delivery_timeout_ms=100)
        >>> type(impatient.send("orders", b"pen").exception()).__name__
        'RequestTimedOut'
        """
        self._add(_Fault(api, times, Fate(is_lost=True)))

    def disconnect(self, api: str, *, times: int | None = 1, carried_out: bool = True) -> None:
        """End the connection in place of an answer; `carried_out=False`: and do nothing else.

        Raises ValueError as `fail` does.

        >>> kafka.disconnect("Produce", carried_out=False)
        >>> producer.send("orders", b"pen").result().offset
        1
        """
        self._add(_Fault(api, times, Fate(None if carried_out else _nothing, ends_connection=True)))

    def heal(self) -> None:
        """Forget all faults.

        >>> kafka.fail("Produce", pylog.errors.NotLeaderOrFollower, times=None)
        >>> kafka.heal()
        >>> producer.send("orders", b"pen").result().offset
        1
        """
        with self._lock:
            self._faults.clear()

    def advance(self, ms: int) -> None:
        """Move the clock ahead: sessions, transactions, retention and idle connections end as if the time had passed.

        What a client waits for by a clock of its own takes as long as always. Raises ValueError for a negative time.

        >>> kafka.advance(45_000)
        """
        self.clock.advance(ms)

    def kill(self) -> None:
        """End as by `kill -9`: connections break, nothing more is answered. What was written stays for `restart`.

        >>> kafka.kill()
        >>> kafka
        <StandIn 127.0.0.1:..., killed>
        """
        if self._is_killed:
            return
        self._is_killed = True
        if self._registry is not None:
            self._registry.close()
        self._server.kill()
        self._left = self._files.tree()
        self.log.close()

    def restart(self) -> None:
        """Kill it where that was not done, and serve what it has left at the same address, as a new process would.

        Raises OSError where another program has taken the address.

        >>> kafka.restart()
        >>> kafka.assert_records("orders", ["book"])
        """
        address = self.bootstrap_servers
        registry = None if self._registry is None else str(self._registry.address)
        self.kill()
        self._start(self._left, address, registry)
        self._is_killed = False

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End at once, whatever clients still wait for.

        >>> kafka.close()
        >>> kafka
        <StandIn 127.0.0.1:..., killed>
        """
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- in the server's thread --------------------------------------------------------------------------------------

    def _add(self, fault: _Fault) -> None:
        _check_name(fault.api)
        if fault.times is not None and fault.times < 1:
            raise ValueError(f"times is {fault.times}: give a number from 1 on, or None for all requests until heal()")
        with self._lock:
            self._faults.append(fault)

    def _intercept(self, call: ServedCall) -> Fate | None:
        request = call.request
        if request is None:
            return None
        seen = SeenRequest(call.api.name, call.version, request.session.client_id, _fields(call, request.body))
        fault = next((one for one in list(self._faults) if one.api == seen.api), None)
        if fault is None:
            fate = Fate(call.answer)
        elif fault.error is not None:
            fate = Fate(partial(self._refuse, call, fault, fault.error))
        else:
            self._use(fault)
            fate = fault.fate
        return fate._replace(answer=partial(self._begin, seen, fate.answer or call.answer))

    def _begin(self, seen: SeenRequest, answer: Callable[[ServedNode], Outcome], node: ServedNode) -> Outcome:
        try:
            return answer(node)
        finally:
            # Behind the call: who has seen a request may count on what it did, and move the clock that it goes by.
            self.requests.append(seen)

    def _refuse(self, call: ServedCall, fault: _Fault, error: type[ProtocolError], node: ServedNode) -> Outcome:
        refused = refusal(call, error, node)
        return call.answer(node) if refused is None or not self._use(fault) else refused

    def _use(self, fault: _Fault) -> bool:
        """Count a request that a fault is for; False: it holds for no more."""
        with self._lock:
            if fault not in self._faults:
                return False
            if fault.times is not None:
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
            return True


def _fields(call: ServedCall, request: ApiRequest[object] | Body) -> Body:
    """The fields of a request under Kafka's names."""
    if isinstance(request, ApiRequest):
        schema = call.api.request
        return schema.decode(call.version, schema.encode(call.version, request))[0]
    return request


def _nothing(node: ServedNode) -> Body:
    return {}


def _check_name(api: str) -> None:
    if api not in NAMES:
        near = get_close_matches(api, NAMES, 1)
        hint = f": did you mean {near[0]!r}?" if near else f"; there are {', '.join(NAMES)}"
        raise ValueError(f"{api!r} is no API key{hint}")
