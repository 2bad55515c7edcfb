"""A node whose process is gone, as far as the files can tell, while the test's process lives."""

from weakref import WeakSet

import pylog
from pylog.attach.owned import Owned
from pylog.broker.broker import Broker

_killed: WeakSet[Broker] = WeakSet()


def kill(log: pylog.Log) -> None:
    """Give the directory free. Nothing is synced or written any more, and no thread goes on over closed files."""
    halt(log.broker)
    log.broker.node.directories.release()
    node = log._opened.node
    if isinstance(node, Owned):
        node.doorway.close()
    log._opened.abandon()


def halt(broker: Broker) -> None:
    """End the threads of a node, and close nothing."""
    broker.housekeeping.close()
    broker._worker.close()
    if broker._produce._commit_thread is not None:
        broker._produce._commit_thread.close()


def killed_at_last(broker: Broker) -> Broker:
    """This node, whose threads end with the test (tests/conftest.py): another one may go on over its files."""
    _killed.add(broker)
    return broker


def halt_all() -> None:
    """End the threads of all nodes that are killed at last."""
    for broker in list(_killed):
        halt(broker)
    _killed.clear()
