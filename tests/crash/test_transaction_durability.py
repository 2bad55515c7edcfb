"""What of a transaction is durable when, with `flush="sync"`: its records before its decision, its markers behind it.

The folders of two moments are laid side by side, as a power cut between two syncs leaves them. Then the power is cut at
any operation of random histories. `PYLOG_MIXED=every` cuts often.
"""

import os
import random
from typing import Any

import pytest

from pylog import errors
from pylog.broker.transaction_markers import TransactionMarkers
from pylog.coordinator.transaction import TransactionCoordinator
from pylog.coordinator.transaction.endings import Endings
from pylog.protocol.messages import NewTopic
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.record import TopicPartition
from pylog.testing import SimClock
from support.messages import end_txn
from tests.support.crash import CrashFiles
from tests.support.operations import Noted

from .test_mixed_moments import check
from .transaction_nodes import KEYS, NOW, Client, Node, Tree, committed, committed_offset

EVERY = os.environ.get("PYLOG_MIXED") == "every"
COORDINATOR = "log/__transaction_state-0/"
DATA = ("log/t-0/", "log/t-1/", "log/__consumer_offsets-0/")


def made() -> tuple[Node, Client]:
    """A node with a topic and a producer, which has committed a transaction before."""
    node = Node(flush="sync")
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    client = Client(node, "one")
    client.send(b"before", *KEYS)
    client.commit_offset(1)
    client.end(committed=True)
    node.clock.advance(1_000)
    node.broker.work()
    return node, client


def begun(client: Client) -> None:
    client.send(b"value", *KEYS)
    client.commit_offset(2)


def laid(first: Tree, second: Tree, *folders: str) -> Tree:
    """The first moment, but for these folders of the second one, and for what was published then."""
    return {path: data for path, data in first.items() if not path.startswith(folders)} | {
        path: data for path, data in second.items() if path.startswith(folders)
    }


def test_records_without_their_beginning_are_aborted_at_the_open() -> None:
    node, client = made()
    before = node.files.tree()
    begun(client)
    node.broker.sync()
    tree = laid(before, node.files.tree(), *DATA)
    again = Node(tree, flush="sync")
    assert [committed(again, key) for key in KEYS] == [{b"before"}] * 2
    assert committed_offset(again) == 1
    ended = again.ask(end_txn("one", client.id, client.epoch, True))
    assert isinstance(ended.error, errors.ProducerFenced | errors.InvalidTxnState)
    check(tree)
    for one in (node, again):
        one.broker.close()


def test_a_beginning_without_its_records_cannot_be_committed() -> None:
    node, client = made()
    before = node.files.tree()
    begun(client)
    node.clock.advance(1_000)
    node.broker.work()
    tree = laid(before, node.files.tree(), COORDINATOR)
    again = Node(tree, flush="sync")
    assert [committed(again, key) for key in KEYS] == [{b"before"}] * 2
    ended = again.ask(end_txn("one", client.id, client.epoch, True))
    assert isinstance(ended.error, errors.ProducerFenced | errors.InvalidTxnState)
    assert [committed(again, key) for key in KEYS] == [{b"before"}] * 2
    check(tree)
    for one in (node, again):
        one.broker.close()


@pytest.mark.parametrize("committed_", [True, False])
def test_a_decision_without_its_markers_is_carried_out_at_the_open(committed_: bool) -> None:
    node, client = made()
    begun(client)
    node.broker.sync()
    before = node.files.tree()
    client.end(committed=committed_)
    tree = laid(before, node.files.tree(), COORDINATOR)
    again = Node(tree, flush="sync")
    values = {b"before", b"value"} if committed_ else {b"before"}
    assert [committed(again, key) for key in KEYS] == [values] * 2
    assert committed_offset(again) == (2 if committed_ else 1)
    check(tree)
    for one in (node, again):
        one.broker.close()


def test_the_records_are_durable_before_the_decision_is_written() -> None:
    files = CrashFiles(SimClock(NOW, 0))
    node = Node(files=files, flush="sync")
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    client = Client(node, "one")
    client.send(b"value", *KEYS)
    partitions = [node.broker.partition(*key) for key in KEYS]
    assert [one.durable_offset for one in partitions] == [0, 0]
    host: Any = node.broker._coordinating._coordinators.of("__transaction_state", "one")
    appended: list[list[int]] = []
    append = host._append

    def watched(*given: object) -> None:
        appended.append([one.durable_offset for one in partitions])
        append(*given)

    host._append = watched
    client.end(committed=True)
    assert appended == [[1, 1]]
    node.broker.close()


# --- random histories ------------------------------------------------------------------------------------------------

History = list[tuple[bytes, tuple[TopicPartition, ...], bool]]


def played(files: CrashFiles, chance: random.Random) -> History:
    """Transactions of two producers over any partitions, each answered when it is noted; gives what they were."""
    node = Node(files=files, flush="sync")
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    clients = [Client(node, name) for name in ("one", "two")]
    history: History = []
    for number in range(30):
        place = chance.randrange(2)
        client = clients[place]
        keys = tuple(chance.sample(KEYS, chance.randint(1, 2)))
        value = b"%d" % number
        client.send(value, *keys)
        if chance.random() < 0.2:
            node.clock.advance(1_000)
            node.broker.work()
        if chance.random() < 0.15:
            # A successor takes over in the middle of it.
            history.append((value, keys, False))
            clients[place] = Client(node, client.name)
        else:
            committed_ = chance.random() < 0.7
            history.append((value, keys, committed_))
            client.end(committed=committed_)
        files.note(number)
    node.broker.close()
    return history


def judged(tree: Tree, history: History, done: int) -> None:
    """Raise AssertionError for what must not be; of the first `done` transactions the end was answered."""
    node = Node(tree, flush="sync")
    try:
        check_history(node, history, done)
    finally:
        node.broker.close()


def check_history(node: Node, history: History, done: int) -> None:
    if "t" not in node.broker.image.topics:
        assert not done
        return
    found = {key: committed(node, key) for key in KEYS}
    for number, (value, keys, is_committed) in enumerate(history):
        seen = {value in found[key] for key in keys}
        assert len(seen) == 1, f"transaction {number} is torn"
        must, may = is_committed and number < done, is_committed
        assert seen <= {must, may}, f"transaction {number} is {'read' if True in seen else 'lost'}"
    assert node.unstable() == []


def faults(seed: int, cuts: int) -> int:
    """How many of so many power cuts leave what must not be."""
    chance = random.Random(seed)
    files = CrashFiles(SimClock(NOW, 0))
    history = played(files, chance)
    found = 0
    for _ in range(cuts):
        upto = chance.randrange(len(files.operations))
        tree = files.power_cut(chance, upto)
        done = sum(isinstance(one, Noted) for one in files.operations[:upto])
        again = CrashFiles(SimClock(NOW, 0), tree)
        try:
            judged(tree, history, done)
            # What the open writes is cut, too.
            Node(files=again, flush="sync").broker.close()
            judged(again.power_cut(chance, chance.randrange(len(again.operations) + 1)), history, done)
        except AssertionError:
            found += 1
    return found


@pytest.mark.parametrize("seed", range(40 if EVERY else 2))
def test_no_power_cut_shows_a_part_of_a_transaction(seed: int) -> None:
    assert faults(seed, 200 if EVERY else 25) == 0


@pytest.mark.planted
@pytest.mark.parametrize(
    ("place", "name", "planted"),
    [
        (TransactionMarkers, "records_durable", lambda *_: None),
        (Endings, "unsafe", lambda *_: {}),
        (TransactionCoordinator, "take_over", lambda *_: []),
    ],
    ids=["a decision does not wait for records", "a record does not wait for markers", "markers are not written again"],
)
def test_power_cuts_find_a_planted_fault(
    place: type, name: str, planted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, planted)
    assert any(faults(seed, 40) for seed in range(20))
