"""Every call that a close, a move, a deletion or a roll makes to its files fails, or is struck by a signal's handler:
what becomes of records that were acknowledged before they were durable.

They are all there afterwards: in the same process, after a kill, and after a power cut wherever the directory says that
it was closed cleanly. No offset is given twice, and nothing is taken for damage.

Here the first call from each line is made to fail, in one of the ways; `make faults` goes through every call, in each.
"""

import errno
import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from pylog.broker.replica_manager import EndedRoles, ReplicaManager
from pylog.errors import PylogError
from pylog.files import Files, MemoryFiles
from pylog.kernel import Record
from pylog.protocol.batch import Origin, encode
from pylog.protocol.messages import NewTopic, Replacement
from support.sampling import every
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

from .engine import CLOCK, NOW
from .nodes import Topics, make_node, read_all

EVERY = os.environ.get("PYLOG_FAULTS") == "every"
PATHS = ("log", "other")
MARKER = ".kafka_cleanshutdown"
WAYS = {
    "EIO": {"error": errno.EIO},
    "ENOSPC": {"error": errno.ENOSPC},
    "struck before": {"interrupt": KeyboardInterrupt},
    "struck after": {"interrupt": KeyboardInterrupt, "late": True},
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What fails is logged, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class World:
    """A node that syncs in the background, as a lazy mode does; `acked` is what was written and so acknowledged."""

    def __init__(self, **how: object) -> None:
        self.disk = CrashFiles(CLOCK)
        self.files = FaultFiles(self.disk, **how)  # type: ignore[arg-type]
        self.node = make_node(self.files, PATHS)
        self.acked: dict[str, list[bytes]] = {"moved": [], "gone": [], "__transaction_state": []}
        for topic in self.acked:
            self.node.changes.create_topic(NewTopic(topic))
            self.append(topic)
            self.node.roles.partition(topic, 0).sync()
        self.durable = {topic: len(values) for topic, values in self.acked.items()}
        self.node.checkpoint()
        self.node.roles.partition("moved", 0).roll(NOW)
        for topic in self.acked:
            self.append(topic, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
            self.append(topic)
        self.calls = len(self.files.sites)

    def append(self, topic: str, **header: object) -> None:
        append(self.node, topic, b"%d of %s" % (len(self.acked[topic]), topic.encode()), self.acked[topic], **header)

    def strike(self, at: int) -> None:
        """Let the call fail that is the `at`-th one from now on."""
        self.files.faults.fail_at = len(self.files.sites) + at


def append(node: ReplicaManager, topic: str, value: bytes, acked: list[bytes], **header: object) -> None:
    """One record, which gets the next offset."""
    leader = node.roles.writer(topic, 0)
    batch = encode([Record(value, timestamp=NOW)], now_ms=NOW, **header)  # type: ignore[arg-type]
    appended = leader.partition.append(batch, epoch=leader.epoch or 0, now_ms=NOW, origin=Origin.REPLICATION)
    leader.advance()
    acked.append(value)
    assert appended.next_offset == len(acked), f"{topic}: offset {appended.base_offset} was given twice"


OPERATIONS: dict[str, Callable[[World], object]] = {
    "close": lambda world: world.node.close(),
    "move": lambda world: world.node.changes.move(Replacement("moved", 0, "other"), EndedRoles()),
    "delete": lambda world: world.node.changes.delete_topic("gone", EndedRoles()),
    "roll": lambda world: world.node.roles.partition("__transaction_state", 0).roll(NOW),
}


def calls_to_fail(operation: str, way: str) -> list[int]:
    """One in eight of the first calls from each place, or all calls, counted from where the operation begins."""
    world = World(**WAYS[way])
    OPERATIONS[operation](world)
    sites = world.files.sites[world.calls :]
    firsts = [at for at, site in enumerate(sites, 1) if sites.index(site) == at - 1]
    # The four ways share the places between them.
    return list(range(1, len(sites) + 1)) if EVERY else every(2, firsts[list(WAYS).index(way) :: len(WAYS)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_acknowledged_records_outlive_any_fault(operation: str, way: str) -> None:
    for at in calls_to_fail(operation, way):
        world = World(**WAYS[way])
        world.strike(at)
        failed = False
        try:
            OPERATIONS[operation](world)
        except (PylogError, KeyboardInterrupt):
            failed = True
        world.files.heal()
        where = f"{operation}, {world.files.failed}, {way}"
        if operation == "close":
            assert_says_again(world.node, failed)
        else:
            assert_lives_on(world, operation, where)
            assert_found(world, world.disk._files.tree(), f"{where}, killed")
            with suppress(PylogError):
                world.node.close()
        assert_found(world, world.disk._files.tree(), where)
        assert_found(world, world.disk.power_cut(random.Random(at)), f"{where}, power cut", power=True)


def assert_says_again(node: ReplicaManager, failed: bool) -> None:
    """A second close is a no-op after one that was whole, and no other."""
    if failed:
        with pytest.raises(PylogError):
            node.close()
    else:
        node.close()


def assert_lives_on(world: World, operation: str, where: str) -> None:
    """The same process has all of it, or says why not; and appends behind it, or does not."""
    for topic in list(world.acked):
        with suppress(PylogError):
            world.node.roles.partition(topic, 0)
            found = read_all(world.node) if operation != "delete" else {}
            assert found.get(topic, (tuple(world.acked[topic]),)) == (tuple(world.acked[topic]),), where
            world.append(topic)


def assert_found(world: World, tree: dict[str, bytes | None], where: str, *, power: bool = False) -> None:
    """What the next open finds; it appends behind that, and the one after it finds the same."""
    clean = all(f"{path}/{MARKER}" in tree for path in PATHS)
    files = MemoryFiles(CLOCK, tree)
    found, node = opened(files)
    assert not node.roles.quarantined, where
    for topic, values in world.acked.items():
        if topic == "gone" and topic not in found:
            continue
        has = list(found[topic][0])
        kept = world.durable[topic] if power and not clean else len(values)
        # What was being appended as it failed may be there as well.
        assert has[: len(values)] == values[: len(has)] and len(has) >= kept, f"{where}: {topic} has {has}"
        append(node, topic, b"new", has)
    node.close()
    again, _ = opened(files)
    assert all(parts[0][-1] == b"new" for topic, parts in again.items()), where


def opened(files: Files) -> tuple[Topics, ReplicaManager]:
    node = make_node(files, PATHS)
    return read_all(node), node
