"""The checker finds every anomaly, alone and among ten thousand good operations, and nothing in good histories."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from support.sampling import every

from .anomalies import ALLOWED, Anomaly, check, failures
from .good import GoodLog
from .history import Moved, Op, Outcome, Poll, Read, Send

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


def send(value: object, offset: int | None = None, partition: str = "x") -> Send:
    return Send(partition, value, offset)


def poll(*reads: tuple[int, object], partition: str = "x") -> Poll:
    return Poll(tuple(Read(partition, *read) for read in reads))


def op(process: str, *actions: Send | Poll | Moved, outcome: Outcome = OK, **more: object) -> Op:
    return Op(process, outcome, actions, **{"start": 10**9, "end": 10**9, **more})  # type: ignore[arg-type]


def ab(process: str = "w") -> list[Op]:
    """Two values, at 0 and 1."""
    return [op(process, send("a", 0)), op(process, send("b", 1))]


MOST = [*ab(), op("w", send("c", 2))]
PLANTED: dict[str, tuple[Anomaly, list[Op]]] = {
    "two reads of one offset": (
        Anomaly.INCONSISTENT_OFFSET,
        [op("w", send("a")), op("w", send("b")), op("r", poll((0, "a"))), op("s", poll((0, "b")))],
    ),
    "an answer and a read of one offset": (
        Anomaly.INCONSISTENT_OFFSET,
        [op("w", send("a", 0), outcome=UNKNOWN, transactional=False), op("w", send("b")), op("r", poll((0, "b")))],
    ),
    "two answers of one offset": (Anomaly.INCONSISTENT_OFFSET, [op("w", send("a", 0)), op("v", send("b", 0))]),
    "one value read at two offsets": (Anomaly.DUPLICATE, [op("w", send("a", 0)), op("r", poll((0, "a"), (1, "a")))]),
    "a value read elsewhere than answered": (Anomaly.DUPLICATE, [op("w", send("a", 0)), op("r", poll((4, "a")))]),
    "an answered value is passed over": (Anomaly.LOST_WRITE, [*ab(), op("r", poll((1, "b")))]),
    "an answered value outside of transactions is passed over": (
        Anomaly.LOST_WRITE,
        [op("w", send("a", 0), transactional=False), op("w", send("b", 1)), op("r", poll((1, "b")))],
    ),
    "an answered value is absent at the end": (Anomaly.UNSEEN, [op("w", send("a", 0))]),
    "a value without an offset is absent at the end": (Anomaly.UNSEEN, [op("w", send("a"))]),
    "a value of an aborted transaction is read": (
        Anomaly.ABORTED_READ,
        [op("w", send("a", 0), outcome=FAILED), op("r", poll((0, "a")))],
    ),
    "a value that failed is read before it is answered": (
        Anomaly.ABORTED_READ,
        [op("r", poll((0, "a"))), op("w", send("a"), outcome=FAILED)],
    ),
    "a value of nobody is read": (Anomaly.UNWRITTEN_READ, [op("r", poll((0, "z")))]),
    "a transaction reads its own value": (Anomaly.PRECOMMITTED_READ, [op("w", send("a", 0), poll((0, "a")))]),
    "a value is read before its commit was asked for": (
        Anomaly.PRECOMMITTED_READ,
        [op("r", poll((0, "a")), start=1, end=6), op("w", send("a", 0), start=1, ending=7, end=9)],
    ),
    "a value is read before it was sent": (
        Anomaly.PRECOMMITTED_READ,
        [op("r", poll((0, "a")), start=1, end=6), op("w", send("a", 0), start=7, end=9)],
    ),
    "half of an unanswered transaction is passed over": (
        Anomaly.TORN_TRANSACTION,
        [
            op("w", send("a", 0), send("b", 0, "y"), outcome=UNKNOWN),
            op("w", send("c", 1, "y")),
            op("r", poll((0, "a")), poll((1, "c"), partition="y")),
        ],
    ),
    "half of an unanswered transaction is absent at the end": (
        Anomaly.TORN_TRANSACTION,
        [op("w", send("a"), send("b", partition="y"), outcome=UNKNOWN), op("r", poll((0, "a")))],
    ),
    "half of a committed transaction is passed over": (
        Anomaly.TORN_TRANSACTION,
        [op("w", send("a", 0), send("b", 1)), op("r", poll((1, "b")))],
    ),
    "a consumer goes back": (
        Anomaly.NONMONOTONIC_POLL,
        [*ab(), op("r", poll((0, "a"), (1, "b"))), op("r", poll((0, "a")))],
    ),
    "a consumer reads one value again": (
        Anomaly.NONMONOTONIC_POLL,
        [op("w", send("a", 0)), op("r", poll((0, "a"))), op("r", poll((0, "a")))],
    ),
    "a poll goes back": (Anomaly.INTERNAL_NONMONOTONIC_POLL, [*ab(), op("r", poll((1, "b"), (0, "a")))]),
    "the polls of one transaction go back": (
        Anomaly.INTERNAL_NONMONOTONIC_POLL,
        [*ab(), op("r", poll((0, "a"), (1, "b")), poll((1, "b")))],
    ),
    "a consumer leaves a value out": (
        Anomaly.SKIPPED_POLL,
        [*MOST, op("r", poll((0, "a"))), op("r", poll((2, "c"))), op("s", poll((1, "b")))],
    ),
    "a poll leaves a value out": (
        Anomaly.INTERNAL_SKIPPED_POLL,
        [*MOST, op("r", poll((0, "a"), (2, "c"))), op("s", poll((1, "b")))],
    ),
    "the polls of one transaction leave a value out": (
        Anomaly.INTERNAL_SKIPPED_POLL,
        [*MOST, op("r", poll((0, "a")), poll((2, "c"))), op("s", poll((1, "b")))],
    ),
    "a consumer elsewhere leaves a value out here": (
        Anomaly.SKIPPED_POLL,
        [*MOST, op("r", poll((0, "a"))), op("r", Moved(("y",))), op("r", poll((2, "c"))), op("s", poll((1, "b")))],
    ),
    "a producer's operations change places": (
        Anomaly.NONMONOTONIC_SEND,
        [op("w", send("b", 1)), op("w", send("a", 0))],
    ),
    "the sends of one operation change places": (
        Anomaly.INTERNAL_NONMONOTONIC_SEND,
        [op("w", send("b", 1), send("a", 0))],
    ),
    "the sends of an aborted one change places": (
        Anomaly.INTERNAL_NONMONOTONIC_SEND,
        [op("w", send("b", 1), send("a", 0), outcome=FAILED)],
    ),
    "two transactions lie before each other": (
        Anomaly.G0,
        [op("w", send("a", 0), send("b", 1, "y")), op("v", send("c", 1), send("d", 0, "y"))],
    ),
    "three transactions lie before each other": (
        Anomaly.G0,
        [
            op("w", send("a", 0), send("b", 1, "z")),
            op("v", send("c", 1), send("d", 0, "y")),
            op("u", send("e", 1, "y"), send("f", 0, "z")),
        ],
    ),
    "two transactions read of each other": (
        Anomaly.G1C,
        [op("w", send("a", 0), poll((0, "b"), partition="y")), op("v", send("b", 0, "y"), poll((0, "a")))],
    ),
    "three transactions read of each other, one was not answered": (
        Anomaly.G1C,
        [
            op("w", send("a", 0), poll((0, "b"), partition="y")),
            op("v", send("b", 0, "y"), poll((0, "c"), partition="z")),
            op("u", send("c", 0, "z"), poll((0, "a")), outcome=UNKNOWN),
        ],
    ),
    "a transaction reads of one that it precedes": (
        Anomaly.G1C_OF_WRITES,
        [op("v", send("c", 1), send("d", 0, "y")), op("w", send("a", 0), poll((0, "d"), partition="y"))],
    ),
}
AT_THE_END = {Anomaly.UNSEEN}
ENDS = {"half of an unanswered transaction is absent at the end"}
FOLLOWS = {
    "half of a committed transaction is passed over": {Anomaly.LOST_WRITE},
}

planted = pytest.mark.parametrize("name", PLANTED)


def kinds(history: list[Op], *, complete: bool = False) -> set[Anomaly]:
    return {finding.anomaly for finding in check(history, complete=complete)}


def is_complete(name: str) -> bool:
    return PLANTED[name][0] in AT_THE_END or name in ENDS


@planted
def test_an_anomaly_alone_is_found_under_its_name(name: str) -> None:
    anomaly, history = PLANTED[name]
    assert kinds(history, complete=is_complete(name)) == {anomaly} | FOLLOWS.get(name, set())


@planted
def test_an_anomaly_among_many_good_operations_is_found(name: str, found_among_many: dict[str, set[Anomaly]]) -> None:
    assert found_among_many[name] == {PLANTED[name][0]} | FOLLOWS.get(name, set())


@pytest.fixture(scope="module")
def many() -> list[Op]:
    return GoodLog(1).play(10_000)


@pytest.fixture(scope="module")
def found_among_many(many: list[Op]) -> dict[str, set[Anomaly]]:
    """What is found where all are spread over the good operations, each with partitions and processes of its own."""
    found: dict[str, set[Anomaly]] = {name: set() for name in PLANTED}
    for complete in (False, True):
        places: list[tuple[float, str, Op]] = []
        for name in (name for name in PLANTED if is_complete(name) is complete):
            history = PLANTED[name][1]
            random = Random(name)
            spread = sorted(random.random() * len(many) for _ in history)
            places += [(place, name, renamed(name, each)) for place, each in zip(spread, history, strict=True)]
        places += [(float(place), "", each) for place, each in enumerate(many)]
        places.sort(key=lambda item: item[0])
        for finding in check([each for _, _, each in places], complete=complete):
            names = {places[each][1] for each in finding.ops}
            assert len(names) == 1, f"{finding} has to do with {names}"
            assert names != {""} or finding.anomaly in ALLOWED
            for name in names - {""}:
                found[name].add(finding.anomaly)
    return found


def renamed(name: str, each: Op) -> Op:
    def within(action: Send | Poll | Moved) -> Send | Poll | Moved:
        if isinstance(action, Moved):
            return Moved(tuple((name, partition) for partition in action.partitions))
        if isinstance(action, Send):
            return Send((name, action.partition), (name, action.value), action.offset)
        return Poll(tuple(Read((name, read.partition), read.offset, (name, read.value)) for read in action.reads))

    return replace(each, process=(name, each.process), actions=tuple(within(action) for action in each.actions))


def test_every_known_anomaly_has_a_planted_example() -> None:
    assert {anomaly for anomaly, _ in PLANTED.values()} == set(Anomaly)
    assert len(PLANTED) >= 30


@planted
def test_histories_that_kafka_allows_are_named_and_pass(name: str) -> None:
    anomaly, history = PLANTED[name]
    assert bool(failures(check(history, complete=is_complete(name)))) == (anomaly not in ALLOWED)


@pytest.mark.parametrize("seed", range(40))
def test_good_histories_have_no_findings(seed: int) -> None:
    assert not failures(check(GoodLog(seed).play(300), complete=True))


def test_a_long_good_history_has_no_findings(many: list[Op]) -> None:
    assert not failures(check(many, complete=True))


@pytest.mark.parametrize(
    "history",
    [
        [],
        [*ab(), op("r", poll((1, "b"))), op("s", poll((0, "a")))],
        [*ab(), op("r", poll((0, "a"), (1, "b"))), op("r", Moved(("x",)), poll((0, "a")))],
        [op("w", send("a", 0)), op("r", poll())],
        [op("w", send("a", 0), outcome=UNKNOWN), op("w", send("b", 1)), op("r", poll((1, "b")))],
        [op("w", send("a", 0), outcome=FAILED), op("w", send("b", 1)), op("r", poll((1, "b")))],
        [op("w", send("a", 0), outcome=FAILED), op("w", send("b", 0)), op("r", poll((0, "b")))],
        [op("w", send("a", 0), poll((0, "a")), transactional=False)],
        [op("w", send("a", 0)), op("w", send("b", 5)), op("r", poll((0, "a"), (5, "b")))],
    ],
    ids=[
        "nothing",
        "read by another",
        "sought",
        "nothing read",
        "never came",
        "aborted",
        "lost",
        "plain",
        "a gap of offsets",
    ],
)
def test_odd_but_correct_histories_pass(history: list[Op]) -> None:
    assert not check(history)


# --- mutated good histories ------------------------------------------------------------------------------------------


def turned_back(history: list[Op], random: Random) -> list[Op]:
    """A poll gives two of its records in the other order."""
    return _changed_poll(
        history, random, 2, lambda reads, at: (*reads[:at], reads[at + 1], reads[at], *reads[at + 2 :])
    )


def left_out(history: list[Op], random: Random) -> list[Op]:
    """A poll gives all but one in its middle."""
    return _changed_poll(history, random, 3, lambda r, at: (*r[: at + 1], *r[at + 2 :]))


def twice(history: list[Op], random: Random) -> list[Op]:
    """A poll gives one of its records twice."""
    return _changed_poll(history, random, 1, lambda r, at: (*r[: at + 1], *r[at:]))


def another(history: list[Op], random: Random) -> list[Op]:
    """A poll gives another value than there is."""
    return _changed_poll(history, random, 1, lambda r, at: (*r[:at], r[at]._replace(value="other"), *r[at + 1 :]))


def nowhere(history: list[Op], random: Random) -> list[Op]:
    """A value that was read is of nobody."""
    place, value = _some_read(history, random)
    actions = tuple(a for a in history[place].actions if not (isinstance(a, Send) and a.value == value))
    return [*history[:place], replace(history[place], actions=actions), *history[place + 1 :]]


def aborted(history: list[Op], random: Random) -> list[Op]:
    """What was read was aborted."""
    place, _ = _some_read(history, random)
    return [*history[:place], replace(history[place], outcome=FAILED), *history[place + 1 :]]


def too_early(history: list[Op], random: Random) -> list[Op]:
    """What was read was committed only after everything."""
    place, _ = _some_read(history, random)
    return [*history[:place], replace(history[place], ending=10**12), *history[place + 1 :]]


def lost(history: list[Op], random: Random) -> list[Op]:
    """Nobody ever saw an answered value."""
    _, value = _some_read(history, random, outcome=OK)

    def without(action: Send | Poll | Moved) -> Send | Poll | Moved:
        if isinstance(action, Poll):
            return Poll(tuple(read for read in action.reads if read.value != value))
        return action

    return [replace(each, actions=tuple(without(action) for action in each.actions)) for each in history]


def _changed_poll(
    history: list[Op],
    random: Random,
    least: int,
    change: Callable[[tuple[Read, ...], int], tuple[Read, ...]],
    margin: int = 0,
) -> list[Op]:
    where = [
        (place, number)
        for place, each in enumerate(history)
        for number, action in enumerate(each.actions)
        if isinstance(action, Poll) and len(action.reads) >= least
    ]
    place, number = random.choice(where)
    reads = history[place].actions[number].reads  # type: ignore[union-attr]
    changed = Poll(change(reads, random.randrange(len(reads) - least + 1)))
    actions = (*history[place].actions[:number], changed, *history[place].actions[number + 1 :])
    return [*history[:place], replace(history[place], actions=actions), *history[place + 1 :]]


def _some_read(history: list[Op], random: Random, outcome: Outcome | None = None) -> tuple[int, object]:
    """One value that somebody read, and the place of its writer."""
    read = {each.value for op in history for poll in op.actions if isinstance(poll, Poll) for each in poll.reads}
    return random.choice(
        [
            (place, action.value)
            for place, each in enumerate(history)
            for action in each.actions
            if isinstance(action, Send) and action.value in read and outcome in (None, each.outcome)
        ]
    )


@pytest.mark.parametrize("mutate", [turned_back, left_out, twice, another, nowhere, aborted, too_early, lost])
@pytest.mark.parametrize("seed", every(3, range(25)))
def test_a_mutated_good_history_fails(mutate: Callable[[list[Op], Random], list[Op]], seed: int) -> None:
    assert failures(check(mutate(GoodLog(seed).play(200), Random(seed)), complete=True))
