"""Directories of which each part is of another moment: what a power cut leaves where nothing was synced.

A run of transactions is copied at several moments while it is open. Two copies are mixed, folder by folder, in every
way there is; each mixture is opened as after an unclean stop. What was acknowledged may be gone there, and a committed
transaction may be torn. But nothing hangs: every transactional id can be used, committed records are read, no producer
id and no offset of what was kept is given twice.

With `flush="sync"` a power cut at any operation takes nothing that was acknowledged, and leaves no transaction torn.

Here some pairs of moments are mixed, in half of the ways, and some cuts are made. `PYLOG_MIXED=every` mixes them all,
and cuts often.
"""

import os
import random
from collections.abc import Iterator
from itertools import combinations, product

import pytest

from pylog.protocol.batch import encode
from pylog.protocol.messages import NewTopic
from pylog.protocol.messages.topics import CreateTopicsRequest
from pylog.testing import SimClock
from support.messages import (
    fetched,
    init_producer_id,
    offset_fetch,
)
from tests.support.crash import CrashFiles
from tests.support.operations import Noted

from .transaction_nodes import KEYS, NOW, Client, Node, Tree, committed

FOLDERS = ("t-0", "t-1", "__transaction_state-0", "__consumer_offsets-0", "__cluster_metadata-0")
NAMES = ("one", "two")
EVERY = os.environ.get("PYLOG_MIXED") == "every"


def run() -> Iterator[Tree]:
    """What lies in the directory at moments of a run of transactions, before, in the middle of and behind them."""
    node = Node()
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    plain = node.ask(init_producer_id())
    for number, key in enumerate(KEYS * 2):
        node.produce(
            key,
            encode([(b"plain", None, NOW, ())], now_ms=NOW, producer_id=plain.producer_id, producer_epoch=0,
                   base_sequence=number // 2),
        )  # fmt: skip
    one = Client(node, "one")
    one.send(b"a", KEYS[0])
    one.commit_offset(1)
    yield node.files.tree()
    one.end(committed=True)
    yield node.files.tree()
    two = Client(node, "two")
    one.send(b"b", *KEYS)
    two.send(b"c", KEYS[1])
    yield node.files.tree()
    one.commit_offset(2)
    one.end(committed=False)
    one.send(b"d", KEYS[1])
    yield node.files.tree()
    two.end(committed=True)
    one = Client(node, "one")
    for value in (b"e", b"f"):
        one.send(value, *KEYS)
        one.end(committed=True)
    two.send(b"g", KEYS[0])
    two.commit_offset(3)
    one.send(b"h", KEYS[0])
    yield node.files.tree()
    node.broker.close()


def mixed(early: Tree, late: Tree, choice: tuple[bool, ...]) -> Tree:
    """The one tree, but for the folders of the other one, and for what is beside the folders, where that is chosen."""
    chosen = dict(zip((*FOLDERS, ""), choice, strict=True))

    def part(path: str) -> str:
        name = path.split("/")[1] if path.count("/") >= 1 else ""
        return name if name in FOLDERS else ""

    return {
        path: data for is_late, tree in ((False, early), (True, late)) for path, data in tree.items()
        if chosen[part(path)] is is_late
    }  # fmt: skip


def known_ids(node: Node) -> set[int]:
    found = node.admin.describe_producers(KEYS)
    return {one.producer_id for some in found.values() for one in some}


def check(tree: Tree) -> None:
    """Open what a cut has left: nothing hangs, and everything can be used. And so it is after another kill."""
    node = Node(tree)
    assert node.admin.find_hanging_transactions() == []
    given = known_ids(node)
    assert node.ask(init_producer_id()).producer_id not in given
    ends = {key: node.broker.partition(*key).next_offset for key in KEYS}
    for name in NAMES:
        client = Client(node, name)
        for value in (b"x", b"y"):
            for key, offset in client.send(value, *KEYS).items():
                assert offset >= ends[key]
            client.commit_offset(7)
            client.end(committed=True)
    assert node.unstable() == []
    for key in KEYS:
        partition = node.broker.partition(*key)
        assert partition.last_stable_offset == partition.high_watermark == partition.next_offset
    (part,) = fetched(node.ask(offset_fetch("g", KEYS[:1], require_stable=True)))
    assert (part.error, part.offset) == (None, 7)
    again = Node(node.files.tree())
    assert again.admin.find_hanging_transactions() == again.unstable() == []
    for one in (again, node):
        one.broker.close()


PAIRS = list(combinations(range(5), 2))


@pytest.fixture(scope="module")
def moments() -> list[Tree]:
    return list(run())


@pytest.mark.parametrize("pair", PAIRS if EVERY else [(1, 4), (2, 3)])
def test_no_transaction_hangs_where_parts_of_the_directory_are_older(
    moments: list[Tree], pair: tuple[int, int]
) -> None:
    early, late = (moments[number] for number in pair)
    # An even number of them is late: any five of the six are mixed in every way.
    for choice in product((False, True), repeat=len(FOLDERS) + 1):
        if sum(choice) % 2 and not EVERY:
            continue
        *_, metadata, beside = choice
        if beside and not metadata:
            # The list of topics is synced in every mode, and what says so is not newer: that is damage.
            continue
        try:
            check(mixed(early, late, choice))
        except BaseException as error:
            error.add_note(f"moments {pair}, late: {choice}")
            raise


def acknowledged(files: CrashFiles) -> None:
    """Transactions over both partitions, and what is promised of each: the value, or that it is not read."""
    node = Node(files=files, flush="sync")
    node.ask(CreateTopicsRequest.of([NewTopic("t", 2, {})]))
    clients = [Client(node, name) for name in NAMES]
    for number in range(6):
        client = clients[number % 2]
        client.send(b"%d" % number, *KEYS)
        client.commit_offset(number)
        client.end(committed=number != 3)
        files.note(number)
    clients[0].send(b"open", *KEYS)
    node.broker.close()


def test_with_sync_a_power_cut_takes_nothing_of_a_transaction(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashFiles(SimClock(NOW, 0))
    acknowledged(files)
    chance = random.Random(7)
    for _ in range(3000 if EVERY else 12):
        upto = chance.randrange(len(files.operations))
        tree = files.power_cut(chance, upto)
        promised = {one.what for one in files.operations[:upto] if isinstance(one, Noted)}
        node = Node(tree, flush="sync")
        is_made = "t" in node.broker.image.topics
        if is_made:
            first, second = (committed(node, key) for key in KEYS)
            assert {b"%d" % number for number in promised if number != 3} <= first == second
            assert not first & {b"3", b"open"}
            (part,) = fetched(node.ask(offset_fetch("g", KEYS[:1])))
            assert part.offset >= max(promised - {3}, default=-1)
        node.broker.close()
        if is_made:
            check(tree)
    assert "no coordinator has it" not in caplog.text
