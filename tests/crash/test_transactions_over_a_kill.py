"""Transactions over a kill and over a power cut: a killed process loses nothing that it has written.

A producer outlives the process of the log. After a kill it goes on, with its transaction or with the next one, as if
nothing had been: all that was acknowledged is there. After a power cut a transaction may lack records, and is aborted.
"""

import copy
import errno
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.logdirs.log_directory import INCARNATION
from pylog.protocol.messages import NewTopic
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.record import TopicPartition
from pylog.testing import SimClock
from support.messages import add_partitions, added, end_txn
from support.sampling import every
from tests.support.crash import CrashFiles
from tests.support.faults import FaultFiles

from .transaction_nodes import KEYS, NOW, Client, Node, Tree, committed, committed_offset

FLUSH = pytest.mark.parametrize("flush", ["sync", "none"])
OLDER = pytest.mark.parametrize("is_older", [False, True], ids=["version 2", "version 1"])


class OlderClient(Client):
    """A producer of transaction version 1, as librdkafka's: partitions join by a request, an end keeps the epoch."""

    def __init__(self, node: Node, name: str) -> None:
        super().__init__(node, name)
        self.next: dict[TopicPartition, int] = {}

    def send(self, value: bytes, *keys: TopicPartition) -> dict[TopicPartition, int]:
        answer = self.node.ask(add_partitions(self.name, self.id, self.epoch, keys))
        assert set(added(answer).values()) == {None}, answer
        self.sent = self.next
        return super().send(value, *keys)

    def end(self, *, committed: bool) -> None:
        ended = self.node.ask(end_txn(self.name, self.id, self.epoch, committed, transaction_version=1))
        assert ended.error is None, ended.error


def started(flush: str, *, is_older: bool = False, files: CrashFiles | None = None) -> tuple[Node, Client]:
    node = Node(flush=flush, files=files)
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    return node, (OlderClient if is_older else Client)(node, "one")


def after_kill(node: Node, flush: str, *clients: Client) -> Node:
    """Another node over all that was written; the clients have outlived this one."""
    again = Node(node.files.tree(), flush=flush, boot=node.files.boot)
    for client in clients:
        client.node = again
    return again


@FLUSH
@OLDER
def test_an_idle_producer_goes_on_after_a_kill(flush: str, is_older: bool) -> None:
    node, client = started(flush, is_older=is_older)
    client.send(b"1", *KEYS)
    client.end(committed=True)
    again = after_kill(node, flush, client)
    client.send(b"2", *KEYS)
    client.end(committed=True)
    assert [committed(again, key) for key in KEYS] == [{b"1", b"2"}] * 2
    again.broker.close()


@FLUSH
@OLDER
@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("is_logged", [True, False], ids=["begun in the log", "begun ahead of the log"])
def test_an_open_transaction_goes_on(flush: str, is_older: bool, is_committed: bool, is_logged: bool) -> None:
    node, client = started(flush, is_older=is_older)
    client.send(b"1", KEYS[0])
    if is_logged:
        node.clock.advance(1_000)
        node.broker.work()
    if not is_older:
        client.commit_offset(5)
    again = after_kill(node, flush, client)
    client.send(b"2", *KEYS)
    assert [committed(again, key) for key in KEYS] == [set()] * 2
    client.end(committed=is_committed)
    expected = [{b"1", b"2"}, {b"2"}] if is_committed else [set()] * 2
    assert [committed(again, key) for key in KEYS] == expected
    assert committed_offset(again) == (5 if is_committed and not is_older else -1)
    assert again.unstable() == []
    again.broker.close()


def test_a_transaction_that_goes_on_times_out_as_any_other() -> None:
    node, client = started("sync")
    client.send(b"1", *KEYS)
    again = after_kill(node, "sync", client)
    again.clock.advance(200_000)
    again.broker.work()
    assert again.unstable() == []
    ended = again.ask(end_txn("one", client.id, client.epoch, True))
    assert isinstance(ended.error, errors.ProducerFenced | errors.InvalidTxnState)
    again.broker.close()


@FLUSH
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_do_not_see_the_kills(flush: str, seed: int) -> None:
    chance = random.Random(seed)
    node, first = started(flush)
    clients: list[Client] = [first, OlderClient(node, "two"), Client(node, "three")]
    is_open, expected = dict.fromkeys(range(3), False), {key: set[bytes | None]() for key in KEYS}
    written: list[list[tuple[TopicPartition, bytes]]] = [[], [], []]
    for number in range(60):
        place = chance.randrange(3)
        client, value = clients[place], b"%d" % number
        if chance.random() < 0.3:
            node = after_kill(node, flush, *clients)
        if chance.random() < 0.2:
            node.clock.advance(1_000)
            node.broker.work()
        if is_open[place] and chance.random() < 0.5:
            is_committed = chance.random() < 0.7
            client.end(committed=is_committed)
            for key, sent in written[place] if is_committed else ():
                expected[key].add(sent)
            is_open[place], written[place] = False, []
        else:
            keys = chance.sample(KEYS, chance.randint(1, 2))
            client.send(value, *keys)
            written[place] += [(key, value) for key in keys]
            is_open[place] = True
        # What an open transaction of another producer precedes is not read yet.
        assert all(committed(node, key) <= expected[key] for key in KEYS)
    for place, client in enumerate(clients):
        if is_open[place]:
            client.end(committed=False)
    node.broker.work()
    assert {key: committed(node, key) for key in KEYS} == expected
    assert node.unstable() == []
    node.broker.close()


def states(is_older: bool) -> Iterator[tuple[Tree, Any, str]]:
    """What a kill leaves at each operation of two transactions, in the middle of a write, too; what was told by then:
    the producer, the number of its transaction, and how many of its records were answered.
    """
    files = CrashFiles(SimClock(NOW, 0))
    node, client = started("sync", is_older=is_older, files=files)

    def note(transaction: int, answered: int) -> None:
        as_it_is = copy.copy(client)
        as_it_is.sent = dict(client.sent)
        files.note(("told", (as_it_is, transaction, answered)))

    for transaction in range(2):
        note(transaction, 0)
        for number in range(2):
            client.send(b"%d %d" % (transaction, number), *KEYS)
            note(transaction, number + 1)
        client.end(committed=True)
    boot = files.incarnation("")
    assert boot is not None
    for state in files.kills():
        told = dict(state.notes)  # type: ignore[call-overload]
        if told:
            yield state.tree, told["told"], boot
    node.broker.close()


@OLDER
def test_a_kill_at_any_moment_leaves_a_transaction_that_can_be_committed(is_older: bool) -> None:
    count = 0
    for tree, (told, transaction, answered), boot in every(2, list(states(is_older))):
        client = copy.copy(told)
        client.node = after = Node(tree, flush="sync", boot=boot)
        client.sent = client.next = dict(told.sent)
        for number in range(answered, 2):
            client.send(b"%d %d" % (transaction, number), *KEYS)
        client.end(committed=True)
        expected = {b"%d %d" % (one, number) for one in range(transaction + 1) for number in range(2)}
        assert [committed(after, key) for key in KEYS] == [expected] * 2
        assert after.unstable() == []
        after.broker.close()
        count += 1
    assert count > 30


# --- where records may be lost ----------------------------------------------------------------------------------------


@FLUSH
@pytest.mark.parametrize("is_idle", [True, False])
def test_after_a_power_cut_every_producer_begins_anew(flush: str, is_idle: bool) -> None:
    node, client = started(flush)
    client.send(b"1", *KEYS)
    if is_idle:
        client.end(committed=True)
    again = Node(node.files.tree(), flush=flush)
    assert again.unstable() == []
    refused = again.ask(end_txn("one", client.id, client.epoch, True)).error
    assert isinstance(refused, errors.ProducerFenced | errors.InvalidTxnState)
    with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
        client.node = again
        client.send(b"2", *KEYS)
    again.broker.close()


def test_what_a_power_cut_has_left_open_stays_so_over_a_kill() -> None:
    """The open behind the cut could not write that it has aborted what may lack records, and was killed."""
    node, client = started("sync")
    client.send(b"1", *KEYS)
    tree = node.files.tree()
    reached = 0
    for fail_at in every(2, range(1, 200)):
        inner = type(node.files)(SimClock(NOW, 0), tree)
        files = FaultFiles(inner, fail_at, error=errno.ENOSPC, once=False)
        try:
            Node(flush="sync", files=files)
        except errors.PylogError:
            pass
        else:
            reached += 1
        again = Node(inner.tree(), flush="sync", boot=inner.boot)
        refused = again.ask(end_txn("one", client.id, client.epoch, True)).error
        assert isinstance(refused, errors.ProducerFenced | errors.InvalidTxnState), (fail_at, refused)
        assert committed(again, KEYS[0]) == set()
        again.broker.close()
        if not files.faults.failed:
            break
    assert reached > 1


def test_damage_in_any_partition_counts_as_a_loss() -> None:
    node, client = started("sync")
    client.send(b"1", *KEYS)
    for flipped, is_lost in ((False, False), (True, True)):
        tree = node.files.tree()
        path = "log/t-1/00000000000000000000.log"
        data = bytearray(tree[path] or b"")
        data[-1] ^= flipped
        tree[path] = bytes(data)
        again = Node(tree, flush="sync", boot=node.files.boot)
        assert (again.ask(end_txn("one", client.id, client.epoch, True)).error is not None) is is_lost
        # And it is remembered: the next open finds nothing cut.
        once_more = Node(again.files.tree(), flush="sync", boot=node.files.boot)
        assert (committed(once_more, KEYS[0]) == set()) is is_lost
        once_more.broker.close()


@pytest.mark.parametrize("content", [b"", b"another boot", b"\xff" * 10])
def test_a_note_that_says_something_else_is_a_loss(content: bytes) -> None:
    node, client = started("sync")
    client.send(b"1", *KEYS)
    again = Node(node.files.tree() | {f"log/{INCARNATION}": content}, flush="sync", boot=node.files.boot)
    assert again.ask(end_txn("one", client.id, client.epoch, True)).error is not None
    assert again.files.tree()[f"log/{INCARNATION}"] == node.files.boot.encode()
    again.broker.close()
