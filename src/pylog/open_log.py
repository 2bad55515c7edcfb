"""The logs that this process has open: what lives on behind a `Log` that was dropped, until it is closed.

The process keeps all of them here, whatever becomes of their handles, and its exit hook closes what is left: what was
sent is delivered then, as by `Log.close`.
"""

import atexit
import os
import weakref
from contextlib import ExitStack

from pylog.broker.broker import Broker
from pylog.broker.read_only_broker import ReadOnlyBroker
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer.client import ProducerClient
from pylog.client.producer.failures import log_failures, together
from pylog.errors import Closed, Undelivered
from pylog.runtime.closing import has_dropped, settle
from pylog.runtime.signals import whole
from pylog.transport import Transport

_open: set["OpenLog"] = set()


class OpenLog:
    """A node, how to reach it, and its clients in this process."""

    def __init__(self, path: str, node: Broker | ReadOnlyBroker, transport: Transport) -> None:
        self.path = path
        self.node = node
        self.transport = transport
        self.clients: weakref.WeakSet[ProducerClient | Consumer] = weakref.WeakSet()
        """Those that were dropped open are in `closing`."""
        self.closed = False
        _open.add(self)

    def __repr__(self) -> str:
        mode = "read" if isinstance(self.node, ReadOnlyBroker) else "own"
        return f"<Log {self.path} node {self.node.node_id}, {mode}>"

    @whole
    def close(self) -> Undelivered | None:
        """See `Log.close`; gives what that raises last of all."""
        if self.closed:
            if isinstance(self.node, Broker):
                self.node.close()
            return None
        for producer in self._producers():
            producer.refuse_inside("close of the log")
        if isinstance(self.node, Broker):
            self.node.hurry()
        for producer in self._producers():
            producer.hurry()
        if has_dropped(self):
            settle()
        self.closed = True
        clients = list(self.clients)
        _open.discard(self)
        failures: list[Undelivered | None] = []
        try:
            self._close_all(clients, failures)
        except BaseException:
            log_failures(together(failures))
            raise
        return together(failures)

    def _close_all(self, clients: list[ProducerClient | Consumer], failures: list[Undelivered | None]) -> None:
        with ExitStack() as closing:
            # Last in, first out: each is closed, whatever another one raises.
            closing.callback(self.node.close)
            if isinstance(self.node, ReadOnlyBroker):
                closing.callback(self.transport.detach, self.node.node_id)
            for client in clients:
                if isinstance(client, Consumer):
                    closing.callback(client.log_closes)
                else:
                    closing.callback(_close_producer, client, failures)

    def add(self, client: ProducerClient | Consumer) -> None:
        """Have a client closed with the log, which ends what it waits for. Raises Closed: it is for its maker then."""
        self.clients.add(client)
        self.check_open()

    def check_open(self) -> None:
        if self.closed:
            raise Closed(f"this log is closed; open {self.path} again")

    def close_dropped(self) -> None:
        """Close it: there is no handle any more."""
        log_failures(self.close())

    def abandon(self) -> None:
        """Let go of it as a process that is killed does."""
        self.closed = True
        _open.discard(self)
        for producer in self._producers():
            producer.abandon()

    def _producers(self) -> list[ProducerClient]:
        return [client for client in list(self.clients) if isinstance(client, ProducerClient)]


def _close_producer(producer: ProducerClient, failures: list[Undelivered | None]) -> None:
    failures.append(producer.close())


@atexit.register
def _close_all() -> None:
    with ExitStack() as closing:
        try:
            settle()
        finally:
            for log in list(_open):
                closing.callback(log.close_dropped)


def _abandon_all() -> None:
    for log in list(_open):
        log.abandon()


# What a child inherits is its parent's: closing it there would flush and answer for records that are not the child's.
os.register_at_fork(after_in_child=_abandon_all)
