"""Histories that nothing is wrong with: random clients on a log that keeps its promises. A function of a seed."""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from .history import Moved, Op, Outcome, Poll, Read, Send

PARTITIONS = ("p0", "p1", "p2")


@dataclass(slots=True)
class Log:
    """Records by offset, each with whether it is committed (None: not decided yet); markers take an offset, too."""

    records: list[tuple[object, bool | None]] = field(default_factory=list)
    decided: int = 0

    @property
    def stable(self) -> int:
        """Where the first record lies that is not decided."""
        while self.decided < len(self.records) and self.records[self.decided][1] is not None:
            self.decided += 1
        return self.decided


@dataclass(slots=True)
class Going:
    """A transaction, or a single call, on its way."""

    process: str
    start: int
    left: int
    transactional: bool
    actions: list[Send | Poll | Moved] = field(default_factory=list)


class GoodLog:
    """Plays a history; at the end one more process reads everything."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.logs = {name: Log() for name in PARTITIONS}
        self.positions: dict[tuple[str, str], int] = defaultdict(int)
        self.values = 0
        self.clock = 0
        self.history: list[Op] = []

    def play(self, ops: int, processes: int = 5) -> list[Op]:
        going: dict[str, Going] = {}
        while len(self.history) < ops:
            self.clock += 1
            process = f"c{self.random.randrange(processes)}"
            now = going.pop(process, None)
            if now is None:
                transactional = self.random.random() < 0.7
                left = self.random.randint(1, 5) if transactional else 1
                now = Going(process, self.clock, left, transactional)
            if now.left:
                now.left -= 1
                self.act(now)
                going[process] = now
            else:
                self.end(now)
        for now in going.values():
            self.end(now)
        self.read_all()
        return self.history

    def act(self, now: Going) -> None:
        name = self.random.choice(PARTITIONS)
        log = self.logs[name]
        kind = self.random.random()
        if kind < 0.5:
            self.values += 1
            answered = self.random.random() < 0.9
            now.actions.append(Send(name, self.values, len(log.records) if answered else None))
            log.records.append((self.values, None))
        elif kind < 0.95:
            key = (now.process, name)
            end = min(log.stable, self.positions[key] + self.random.randint(1, 8))
            now.actions.append(Poll(self.between(name, self.positions[key], end)))
            self.positions[key] = max(end, self.positions[key])
        else:
            self.positions[now.process, name] = self.random.randint(0, log.stable)
            now.actions.append(Moved((name,)))

    def between(self, name: str, start: int, end: int) -> tuple[Read, ...]:
        records = enumerate(self.logs[name].records[start:end], start)
        return tuple(Read(name, at, value) for at, (value, committed) in records if committed and value is not None)

    def end(self, now: Going) -> None:
        ending = self.clock
        self.clock += 1
        outcome = self.random.choices((Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN), (8, 2, 1))[0]
        happened = outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and self.random.random() < 0.5)
        mine = {action.value for action in now.actions if isinstance(action, Send)}
        for log in self.logs.values():
            start = log.stable
            tail = log.records[start:]
            if any(value in mine for value, _ in tail):
                log.records[start:] = [(value, happened if value in mine else ok) for value, ok in tail]
                log.records.append((None, True))  # the marker
        actions = tuple(now.actions)
        self.history.append(Op(now.process, outcome, actions, now.transactional, now.start, ending, self.clock))

    def read_all(self) -> None:
        polls = tuple(Poll(self.between(name, 0, len(log.records))) for name, log in self.logs.items())
        self.history.append(Op("last", Outcome.OK, polls, False, self.clock, None, self.clock + 1))
