"""What stands in for the broker around a group coordinator: it appends, replays, answers, and holds live against log.

A second coordinator, the shadow, does nothing but replay: that is what the first one is held against after each event.
The log is a list. `unsynced` of its entries are not safe yet: the answers behind them wait for `sync`, and a crash may
take them. With `sync_always` every append is safe at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from pylog.config import DynamicBrokerConfig, NodeConfig
from pylog.config.dynamic import NOTHING_ALTERED
from pylog.coordinator.effects import Answer, Append, Ask, Effect, LogRecord, Now, Stamp, TopicInfo
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.group.classic import ClassicGroup, ClassicGroupState
from pylog.coordinator.group.consumer_group import ConsumerGroup
from pylog.errors import PylogError
from pylog.protocol.messages import Session
from pylog.protocol.messages.groups import ListGroupsRequest

T0 = 1_700_000_000_000


class Ended(NamedTuple):
    """A transaction's marker in the log."""

    stamp: Stamp
    committed: bool


class Logged(NamedTuple):
    record: LogRecord
    stamp: Stamp | None


class FixedTopics:
    """Topics that a test names."""

    def __init__(self, **partitions: int) -> None:
        self.topics = {name: TopicInfo(UUID(int=n), count) for n, (name, count) in enumerate(partitions.items(), 1)}

    def named(self) -> dict[str, TopicInfo]:
        return self.topics


class GroupHost:
    """A coordinator with a log of its own."""

    make: Callable[..., GroupCoordinator] = GroupCoordinator

    def __init__(self, config: NodeConfig | None = None, *, sync_always: bool = True) -> None:
        self.config = config or NodeConfig()
        self.group_overrides: dict[str, dict[str, str]] = {}
        """What is set on groups."""
        self.topics = FixedTopics(t=8, u=8)
        self.sync_always = sync_always
        self.now = Now(T0, 0)
        self.log: list[Logged | Ended] = []
        self.safe = 0
        self.waiting: list[tuple[int, Answer]] = []
        self.answers: dict[int, Any] = {}
        self.failures: list[PylogError] = []
        self.asks: list[Ask] = []
        """The questions to the share coordinator that it has not answered, and (`asked`) those that it has."""
        self.questions: list[Any] = []
        self.is_busy = False
        self.share_coordinator: Callable[[Any], Any] = lambda message: message.answered(
            lambda _, part: message.part_result(partition=part.partition)
        )
        self.lost: set[str] = set()
        self.tickets = 0
        self.unanswered: set[int] = set()
        self.ids = 0
        self.coordinator = self.fresh()
        self.shadow = self.fresh()
        self.carry_out(self.coordinator.take_over(self.now))

    @property
    def configs(self) -> DynamicBrokerConfig:
        return DynamicBrokerConfig(
            self.config, of_group=lambda group_id: self.group_overrides.get(group_id, NOTHING_ALTERED.own)
        )

    def fresh(self) -> GroupCoordinator:
        return type(self).make(
            0, self.configs, self.topics, is_lost=lambda host: host in self.lost, new_member_id=self.new_id
        )

    def new_id(self, client_id: str) -> str:
        self.ids += 1
        return f"{client_id}-{self.ids}"

    # --- events ------------------------------------------------------------------------------------------------------

    def send(self, message: Any, client_id: str = "c", host: str = "/h") -> int:
        self.tickets += 1
        self.unanswered.add(self.tickets)
        self.carry_out(self.coordinator.handle(message, Session(client_id, host), self.tickets, self.now))
        self.check()
        return self.tickets

    def ask(self, message: Any, client_id: str = "c", host: str = "/h") -> Any:
        """The answer, which has to be there at once."""
        return self.answers.pop(self.send(message, client_id, host))

    def listed(self, **filters: Any) -> list[tuple[str, str, str, str]]:
        """The groups that a ListGroups tells: id, type of protocol, state and type."""
        groups = self.ask(ListGroupsRequest(**filters)).groups
        return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups]

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.answer(effect)
            elif isinstance(effect, Ask):
                self.asks.append(effect)
                self.answer_asks()
            else:
                assert isinstance(effect, Append)
                assert all(isinstance(one, Ask) for one in effects[effects.index(effect) + 1 :]), (
                    "they are lost with it"
                )
                is_refused = bool(self.failures)
                self.append(effect)
                if is_refused:
                    return

    def answer_asks(self) -> None:
        """Let the share coordinator answer, unless it is `busy`."""
        while self.asks and not self.is_busy:
            ask = self.asks.pop(0)
            self.questions.append(ask.message)
            self.carry_out(ask.told(self.share_coordinator(ask.message), self.now))
            self.check()

    def answer(self, answer: Answer) -> None:
        assert answer.ticket in self.unanswered, f"ticket {answer.ticket} is answered, and was before or never asked"
        self.unanswered.remove(answer.ticket)
        self.answers[answer.ticket] = answer.message

    def append(self, append: Append) -> None:
        if self.failures:
            self.carry_out(self.coordinator.append_failed(append, self.failures.pop(0), self.now))
            return
        for record in append.records:
            self.log.append(Logged(record, append.stamp))
            self.shadow.replay(record, append.stamp)
        self.coordinator.appended(append, len(self.log))
        upto = len(self.log) if append.records else append.tells
        self.waiting += [(upto, answer) for answer in append.answers]
        if self.sync_always:
            self.sync()
        else:
            self.release()

    def sync(self) -> None:
        self.safe = len(self.log)
        self.coordinator.safe_end = self.safe
        self.release()

    def release(self) -> None:
        due = [answer for upto, answer in self.waiting if upto <= self.safe]
        self.waiting = [(upto, answer) for upto, answer in self.waiting if upto > self.safe]
        for answer in due:
            self.answer(answer)

    def end(self, stamp: Stamp, *, committed: bool) -> None:
        """A marker is written: that is safe at once."""
        self.log.append(Ended(stamp, committed))
        self.coordinator.replay_marker(stamp, committed=committed)
        self.shadow.replay_marker(stamp, committed=committed)
        self.sync()
        self.check()

    def advance(self, ms: int) -> None:
        """Let time go by, and do what is due on the way when it is due."""
        end = self.now.tick + ms
        while True:
            due = self.coordinator.due_ms
            if due is None or due > end:
                break
            self.pass_time(max(due - self.now.tick, 0))
            self.tick()
        self.pass_time(end - self.now.tick)

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.wall + ms, self.now.tick + ms)

    def tick(self) -> None:
        self.carry_out(self.coordinator.tick(self.now))
        self.check()

    def restart(self, *, keep: int | None = None, lost: tuple[str, ...] = ()) -> None:
        """Another coordinator takes over from the log, of which at least what is safe is left."""
        self.log = self.log[: max(self.safe, len(self.log) if keep is None else keep)]
        self.waiting = []
        self.unanswered.clear()
        self.safe = len(self.log)
        self.lost = set(lost)
        self.coordinator, self.shadow = self.replayed(), self.replayed()
        self.carry_out(self.coordinator.take_over(self.now))
        self.check()

    def lose(self, host: str) -> None:
        """The process of a host ends: what is due then is done."""
        self.carry_out(self.coordinator.host_lost(host, self.now))
        self.check()
        self.advance(0)

    # --- invariants --------------------------------------------------------------------------------------------------

    def replayed(self) -> GroupCoordinator:
        coordinator = self.fresh()
        for entry in self.log:
            if isinstance(entry, Ended):
                coordinator.replay_marker(entry.stamp, committed=entry.committed)
            else:
                coordinator.replay(entry.record, entry.stamp)
        return coordinator

    def check(self) -> None:
        """What is logged of the live state is the replay of the log, a settled group is as it was logged, and each
        ticket without an answer is somebody's.
        """
        assert logged(self.coordinator) == logged(self.shadow)
        waiting: set[int | None] = {answer.ticket for _, answer in self.waiting}
        for group in self.coordinator._groups.values():
            if isinstance(group, ClassicGroup):
                check_group(group)
                for member in group.roster.members.values():
                    waiting |= {member.join, member.sync, member.heartbeat} - {None}
            else:
                waiting |= {*group.held.values()}
                if isinstance(group, ConsumerGroup):
                    waiting |= {ticket for ticket, _ in group.waiting.values()}
        assert waiting == self.unanswered, "somebody is forgotten, or waits for what was said"


def logged(coordinator: GroupCoordinator) -> Any:
    offsets = coordinator._offsets
    groups = {
        name: group.stored
        for name, group in coordinator._groups.items()
        if isinstance(group, ClassicGroup) and (group.stored is not None or name in offsets._committed)
    }
    return groups, offsets._committed, offsets._pending, offsets._open


def check_group(group: ClassicGroup) -> None:
    roster, stored = group.roster, group.stored
    assert (roster.leader is None) == (not roster.members)
    assert roster.leader is None or roster.leader in roster.members
    static = [m.group_instance_id for m in roster.members.values() if m.group_instance_id is not None]
    assert len(static) == len(set(static))
    assert not roster.pending.keys() & roster.members.keys()
    if group.state is ClassicGroupState.EMPTY:
        assert not roster.members
    if group.state is ClassicGroupState.STABLE:
        assert stored is not None
        assert (stored.generation, stored.protocol, stored.protocol_type) == (
            group.generation,
            group.protocol,
            group.protocol_type,
        )
        assert {m.member_id: m.assignment for m in stored.members} == {
            m.member_id: m.assignment for m in roster.members.values()
        }
        assert stored.leader == roster.leader
    for member in roster.members.values():
        assert member.join is None or group.state is ClassicGroupState.PREPARING
        assert member.sync is None or group.state is ClassicGroupState.COMPLETING
        assert member.heartbeat is None or group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING)
