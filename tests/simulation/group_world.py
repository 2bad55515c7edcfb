"""A coordinator of groups alone, and members that do all that members do: the world of one seed.

    faults: answers that never came (a crash takes them), appends refused, unsynced records lost, members that die,
            pause past their session or come back under their instance id, clocks that jump, processes that end,
            with the owner or without

Held after every event, besides what `GroupHost.check` holds:
    one owner      an assignment that a member was given in a generation overlaps nobody else's in it
    fencing        nobody commits for a partition that another one was given in a later generation
    commits        what a fetch shows is what the log says by a second reckoning, and never goes back, unless a
                   tombstone or a crash took what nobody was told of
    retention      no look for expired offsets takes one of an open transaction, or of a topic that members read
After the faults end, each group with somebody in it is Stable within a bound, and its partitions are all given out.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from pylog.config import NodeConfig
from pylog.coordinator.effects import Append, Now, Stamp
from pylog.coordinator.group.classic import ClassicGroup, ClassicGroupState
from pylog.coordinator.group.members import ClassicGroupMember
from pylog.coordinator.group.records import OffsetChange, decode
from pylog.errors import (
    DiskFull,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    PartitionFailed,
    PylogError,
    RebalanceInProgress,
    RecordTooLarge,
    UnknownMemberId,
)
from pylog.protocol.messages.groups import DeleteGroupsRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from pylog.protocol.messages.offsets import OffsetCommitRequest, TxnOffsetCommitRequest
from pylog.protocol.schema import message as schema
from pylog.record import TopicPartition
from support.group_host import Ended, GroupHost, Logged
from support.messages import (
    Offset,
    commit_errors,
    fetched,
    group_heartbeat,
    join_group,
    leave_group,
    leaving,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)

SESSION_MS = 6_000
REBALANCE_MS = 10_000
PARTITIONS = 4
COMMITS = (OffsetCommitRequest, TxnOffsetCommitRequest)
TOPIC = "t"
SUBSCRIPTION = bytes(2) + schema("ConsumerProtocolSubscription").encode(0, {"topics": [TOPIC], "userData": None})
REFUSALS = (DiskFull, NotEnoughReplicas, NotLeaderOrFollower, PartitionFailed, RecordTooLarge)
Spot = tuple[str, TopicPartition]


@dataclass(slots=True)
class Actor:
    """A member as its client sees it."""

    name: str
    group_id: str
    host: str
    instance: str | None
    asks_for_id: bool
    member_id: str = ""
    generation: int = -1
    skips: bool = False
    members: list[str] = field(default_factory=list)
    owned: list[int] | None = None
    ticket: int | None = None
    asked: Any = None
    paused_until: int = 0
    protocols: tuple[str, ...] = ("range",)
    is_alive: bool = True


class World(GroupHost):
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        delay = random.choice([0, 0, 0, 500])
        config = NodeConfig(
            group_initial_rebalance_delay_ms=delay,
            group_max_size=random.choice([3, 100, 100, 100]),
            offsets_retention_minutes=60,
            offsets_retention_check_interval_ms=5_000,
        )
        self.floor: dict[Spot, int] = {}
        self.owners: dict[tuple[int, str, int, int], str] = {}
        self.latest: dict[tuple[int, str, int], int] = {}  # the last generation in which somebody was given it
        self.fetches: dict[int, tuple[str, dict[TopicPartition, int]]] = {}
        self.deleted = 0  # groups: another one of that name begins with generation 1 again
        self.counter = 0
        self.open: dict[Stamp, str] = {}
        self.producers = 0
        self.asked: dict[int, tuple[int, Any]] = {}
        self.promised: dict[int, list[tuple[Spot, int]]] = {}
        self.names = 0
        self.by_tick = False
        self.said: list[tuple[int, OffsetCommitRequest | TxnOffsetCommitRequest]] = []
        self.impatient = random.random() < 0.5
        self.trace: list[str] = []
        self.visible: dict[Spot, tuple[int, int]] = {}  # place in the log and offset, by the second reckoning
        self.safe_visible: dict[Spot, tuple[int, int]] = {}  # the same as of the last sync: what a fetch may tell
        self.staged: dict[Stamp, dict[Spot, tuple[int, int]]] = {}
        super().__init__(config, sync_always=False)
        self.groups = [f"g{n}" for n in range(random.choice([1, 1, 2]))]
        self.actors = [self.born() for _ in range(random.randint(1, 5))]
        self.weights = {
            "act": 120,
            "sync": 40,
            "time": 16,
            **{
                fault: random.choice([0, 0, 1, 3])
                for fault in (
                    "refuse",
                    "crash",
                    "die",
                    "lose",
                    "birth",
                    "pause",
                    "jump",
                    "end",
                    "admin",
                    "outside",
                    "late",
                    "back",
                )
            },
        }

    def born(self) -> Actor:
        self.names += 1
        random = self.random
        instance = f"i{self.names}" if random.random() < 0.2 else None
        host = f"/h{random.randrange(3)}"
        return Actor(f"c{self.names}", random.choice(self.groups), host, instance, random.random() < 0.5)

    # --- events ------------------------------------------------------------------------------------------------------

    def run(self, events: int) -> None:
        kinds, weights = list(self.weights), list(self.weights.values())
        for kind in self.random.choices(kinds, weights, k=events):
            self.trace.append(kind)
            getattr(self, f"do_{kind}")()
            self.run_due()
        self.heal()

    def run_due(self) -> None:
        for _ in range(50):
            due = self.coordinator.due_ms
            if due is None or due > self.now.tick:
                return
            self.by_tick = True
            self.tick()
            self.by_tick = False
        raise AssertionError("ticks never end")

    def do_act(self) -> None:
        ready = [a for a in self.actors if a.is_alive and a.paused_until <= self.now.tick]
        if ready:
            self.act(self.random.choice(ready))

    def do_sync(self) -> None:
        self.sync()

    def do_time(self) -> None:
        self.pass_time(self.random.choice([1, 100, 1000, 3000]))

    def do_refuse(self) -> None:
        if not self.failures:
            self.failures.append(self.random.choice(REFUSALS)("refused"))

    def do_crash(self) -> None:
        if self.random.random() < 0.5:
            self.fetch(self.random.choice(self.groups))
        keep = self.random.randint(self.safe, len(self.log))
        lost = tuple(f"/h{n}" for n in range(3) if self.random.random() < 0.3)
        self.crash(keep, lost)

    def crash(self, keep: int, lost: tuple[str, ...]) -> None:
        for actor in self.actors:
            actor.ticket = None
            if actor.host in lost:
                actor.is_alive = False
        self.promised.clear()
        self.fetches.clear()
        self.by_tick = True  # what taking over writes is nobody's wish either
        self.restart(keep=keep, lost=lost)
        self.by_tick = False
        self.recount()
        for group in self.coordinator._groups.values():
            assert isinstance(group, ClassicGroup)
            for member in group.roster.members.values():
                assert member.group_instance_id is not None or member.client_host not in lost

    def do_die(self) -> None:
        alive = [actor for actor in self.actors if actor.is_alive]
        if len(alive) > 1:
            self.random.choice(alive).is_alive = False

    def do_lose(self) -> None:
        """A process ends, with all members in it, and the coordinator hears of it."""
        host = f"/h{self.random.randrange(3)}"
        for actor in self.actors:
            actor.is_alive = actor.is_alive and actor.host != host
        if not any(actor.is_alive for actor in self.actors):
            self.actors.append(self.born())
        self.failures.clear()
        static = {name for name, member in self.members_on(host).items() if member.group_instance_id is not None}
        self.by_tick = True
        self.carry_out(self.coordinator.host_lost(host, self.now))
        self.run_due()
        self.by_tick = False
        assert self.members_on(host).keys() == static
        for group in self.coordinator._groups.values():
            assert isinstance(group, ClassicGroup) and host not in group.roster.pending.values()

    def members_on(self, host: str) -> dict[str, ClassicGroupMember]:
        rosters = [group.roster for group in self.coordinator._groups.values() if isinstance(group, ClassicGroup)]
        return {name: one for roster in rosters for name, one in roster.members.items() if one.client_host == host}

    def do_birth(self) -> None:
        if sum(actor.is_alive for actor in self.actors) < 6:
            self.actors.append(self.born())

    def do_back(self) -> None:
        """A static member's process starts again, perhaps while the old one is still there."""
        for actor in self.actors:
            if actor.instance is not None:
                actor.is_alive, actor.member_id, actor.generation, actor.owned, actor.ticket = True, "", -1, None, None
                return

    def do_pause(self) -> None:
        self.random.choice(self.actors).paused_until = self.now.tick + self.random.choice([1000, 7000, 20_000])

    def do_jump(self) -> None:
        self.now = Now(self.now.wall + self.random.choice([-3_600_000, 4_000_000, 8_000_000]), self.now.tick)

    def do_end(self) -> None:
        if self.open:
            stamp = self.random.choice(list(self.open))
            del self.open[stamp]
            self.end(stamp, committed=self.random.random() < 0.7)

    def do_outside(self) -> None:
        """Somebody who is no member commits: that counts for a group without members, and in a transaction."""
        group_id = self.random.choice([*self.groups, "simple"])
        self.counter += 1
        parts = [Offset(TOPIC, self.random.randrange(PARTITIONS), self.counter)]
        if self.random.random() < 0.5:
            self.promised[self.tickets + 1] = [((group_id, TopicPartition(TOPIC, parts[0].partition)), self.counter)]
            self.send(offset_commit(group_id, parts))
        else:
            self.send(txn_offset_commit("x", group_id, *self.begin(group_id), parts))

    def begin(self, group_id: str) -> Stamp:
        self.producers += 1
        stamp = Stamp(self.producers, 0)
        self.open[stamp] = group_id
        return stamp

    def do_admin(self) -> None:
        group_id = self.random.choice(self.groups)
        choice = self.random.random()
        group = self.coordinator._groups.get(group_id)
        if choice < 0.3:
            self.send(DeleteGroupsRequest(groups_names=[group_id]))
        elif choice < 0.6 and isinstance(group, ClassicGroup) and group.roster.members:
            removed = self.random.choice(list(group.roster.members))
            self.send(leave_group(group_id, [leaving(removed)]))
        else:
            self.send(offset_delete(group_id, [TopicPartition(TOPIC, 0), TopicPartition("u", 0)]))

    # --- a member ----------------------------------------------------------------------------------------------------

    def act(self, actor: Actor) -> None:
        if actor.ticket is not None:
            answer = self.answers.pop(actor.ticket, None)
            if answer is None:
                if self.impatient and self.random.random() < 0.05:
                    self.say(actor, actor.asked)  # it has had no answer, and says it again
                return
            actor.ticket = None
            self.hear(actor, answer)
        elif actor.generation < 0:
            self.ask_to_join(actor)
        elif actor.owned is None:
            self.ask_for_assignment(actor)
        else:
            self.work(actor)

    def say(self, actor: Actor, message: Any) -> None:
        actor.asked = message
        self.asked[self.tickets + 1] = (self.deleted, message)
        if isinstance(message, COMMITS):
            self.said.append((self.deleted, message))
            actor.ticket = self.commit(message, self.deleted)
        else:
            actor.ticket = self.send(message, actor.name, actor.host)

    def commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest, deleted: int) -> int:
        length = len(self.log)
        ticket = self.send(message)
        for at in message.partitions() if len(self.log) > length else []:
            latest = self.latest.get((deleted, message.group_id, at.partition), -1)
            assert message.generation_id >= latest, f"{at} of {message.member_id} is committed after it was given on"
        return ticket

    def do_late(self) -> None:
        """A member that was somewhere else for a while commits what it had then, as if nothing had happened."""
        if self.said:
            deleted, before = self.random.choice(self.said[-20:])
            self.counter += 1
            parts = [Offset(TOPIC, at.partition, self.counter) for at in before.partitions()]
            message = offset_commit(
                before.group_id, parts, before.generation_id, before.member_id, before.group_instance_id
            )
            self.commit(message, deleted)

    def ask_to_join(self, actor: Actor) -> None:
        protocols = [(name, SUBSCRIPTION) for name in actor.protocols]
        self.say(
            actor,
            join_group(
                actor.group_id, actor.member_id, actor.instance, "consumer", protocols, SESSION_MS, REBALANCE_MS,
                actor.asks_for_id,
            ),
        )  # fmt: skip

    def ask_for_assignment(self, actor: Actor) -> None:
        count = 0 if actor.skips else len(actor.members)
        names = actor.members[:count]
        shares = [(m, bytes(p for p in range(PARTITIONS) if p % count == n)) for n, m in enumerate(names)]
        self.say(
            actor, sync_group(actor.group_id, actor.generation, actor.member_id, actor.instance, None, None, shares)
        )

    def work(self, actor: Actor) -> None:
        choice = self.random.random()
        said = (actor.generation, actor.member_id, actor.instance)
        if choice < 0.35:
            wait = self.random.choice([0, 0, 0, 2000, 100_000])
            self.say(actor, group_heartbeat(actor.group_id, *said, wait))
        elif choice < 0.65:
            spots, parts = self.progress(actor)
            self.promised[self.tickets + 1] = spots
            self.say(actor, offset_commit(actor.group_id, parts, *said))
        elif choice < 0.8:
            _, parts = self.progress(actor)
            self.say(actor, txn_offset_commit("x", actor.group_id, *self.begin(actor.group_id), parts, *said))
        elif choice < 0.9:
            self.fetch(actor.group_id)
        elif choice < 0.95:
            actor.protocols = self.random.choice([("range",), ("range", "sticky"), ("sticky", "range")])
            actor.generation, actor.owned = -1, None
        else:
            self.say(actor, leave_group(actor.group_id, [leaving(actor.member_id, actor.instance)]))

    def progress(self, actor: Actor) -> tuple[list[tuple[Spot, int]], list[Offset]]:
        """Offsets only ever grow, so that one that goes back is seen."""
        self.counter += 1
        parts = [Offset(TOPIC, p, self.counter) for p in actor.owned or [0]]
        return [((actor.group_id, TopicPartition(TOPIC, part.partition)), self.counter) for part in parts], parts

    def hear(self, actor: Actor, answer: Any) -> None:
        asked = actor.asked
        error = getattr(answer, "error", None)
        if isinstance(asked, LeaveGroupRequest):
            actor.member_id, actor.generation, actor.owned = "", -1, None
            actor.is_alive = self.random.random() < 0.7
            return
        if isinstance(asked, COMMITS):
            error = asked.first_error(answer)
        if error is not None:
            self.hear_error(actor, answer, error)
        elif isinstance(asked, JoinGroupRequest):
            actor.member_id, actor.generation, actor.owned = answer.member_id, answer.generation_id, None
            actor.members = [member.member_id for member in answer.members]
            actor.skips = answer.skip_assignment
        elif isinstance(asked, SyncGroupRequest):
            actor.owned = list(answer.assignment)

    def hear_error(self, actor: Actor, answer: Any, error: PylogError) -> None:
        if isinstance(error, FencedInstanceId):
            actor.is_alive = False
        if isinstance(error, InconsistentGroupProtocol):
            # Of members that were taken over, the coordinator knows the one protocol that was chosen.
            actor.protocols = ("range", "sticky")
        if isinstance(error, MemberIdRequired):
            actor.member_id = answer.member_id
        elif isinstance(error, UnknownMemberId | IllegalGeneration | GroupIdNotFound):
            actor.member_id, actor.generation, actor.owned = "", -1, None
        elif not isinstance(actor.asked, OffsetCommitRequest | TxnOffsetCommitRequest) or isinstance(
            error, RebalanceInProgress
        ):
            actor.generation, actor.owned = -1, None

    def own(self, deleted: int, sync: SyncGroupRequest, assignment: bytes) -> None:
        who = sync.group_instance_id or sync.member_id
        for partition in assignment:
            key = (deleted, sync.group_id, sync.generation_id, partition)
            owner = self.owners.setdefault(key, who)
            assert owner == who, f"{key} is owned by {owner} and {who}"
            told = (deleted, sync.group_id, partition)
            self.latest[told] = max(sync.generation_id, self.latest.get(told, -1))

    # --- what is held ------------------------------------------------------------------------------------------------

    def append(self, append: Append) -> None:
        failing = bool(self.failures)
        if self.by_tick and not failing:
            for record in append.records:
                change = decode(record)
                if isinstance(change, OffsetChange):
                    self.check_expiry(change)
        place = len(self.log)
        super().append(append)
        if not failing:
            for entry in self.log[place:]:
                self.reckon(place, entry)
                place += 1

    def check_expiry(self, change: OffsetChange) -> None:
        assert change.committed is None
        spot = (change.group_id, change.partition)
        assert not any(spot in staged for staged in self.staged.values()), f"{spot} is in an open transaction"
        group = self.coordinator._groups[change.group_id]
        assert isinstance(group, ClassicGroup)
        assert group.state is ClassicGroupState.EMPTY, f"{spot} expires while its group is {group.state}"

    def end(self, stamp: Stamp, *, committed: bool) -> None:
        self.reckon(len(self.log), Ended(stamp, committed))
        super().end(stamp, committed=committed)

    def sync(self) -> None:
        self.safe_visible = dict(self.visible)
        super().sync()

    def reckon(self, place: int, entry: Logged | Ended) -> None:
        """What is committed, reckoned from the log in another way: the latest place wins."""
        if isinstance(entry, Ended):
            for spot, found in self.staged.pop(entry.stamp, {}).items():
                if entry.committed:
                    self.visible[spot] = max(found, self.visible.get(spot, (-1, -1)))
            return
        change = decode(entry.record)
        if not isinstance(change, OffsetChange):
            self.deleted += change.stored is None
            return
        spot = (change.group_id, change.partition)
        if change.committed is None:
            for known in (self.visible, self.floor, *self.staged.values()):
                known.pop(spot, None)
        elif entry.stamp is None:
            self.visible[spot] = (place, change.committed.offset)
        else:
            self.staged.setdefault(entry.stamp, {})[spot] = (place, change.committed.offset)

    def recount(self) -> None:
        """After a crash: only what is left of the log counts, and all that anybody was told is in it."""
        floor = dict(self.floor)
        self.visible, self.staged = {}, {}
        there: set[tuple[Spot, int]] = set()
        for place, entry in enumerate(self.log):
            self.reckon(place, entry)
            there |= {(spot, offset) for spot, (_, offset) in self.visible.items()}
        for spot, offset in floor.items():
            found = self.visible.get(spot, (-1, -1))[1]
            # A commit that was late may have come after it, and counts then.
            assert found >= offset or (spot, offset) in there, f"{spot} was {offset} and is {found} after a crash"
            self.floor[spot] = offset
        self.safe_visible = dict(self.visible)
        stamps = {e.stamp for e in self.log if isinstance(e, Ended)}
        self.open = {stamp: group for stamp, group in self.open.items() if stamp not in stamps}

    def answer(self, answer: Any) -> None:
        super().answer(answer)
        deleted, asked = self.asked.pop(answer.ticket, (0, None))
        if isinstance(asked, SyncGroupRequest) and answer.message.error is None:
            self.own(deleted, asked, answer.message.assignment)
        if answer.ticket in self.fetches:
            group_id, expected = self.fetches.pop(answer.ticket)
            if answer.message.error is None:
                self.fetched(group_id, expected, fetched(answer.message))
        spots = self.promised.pop(answer.ticket, [])
        if spots and not any(commit_errors(answer.message).values()):
            for spot, offset in spots:
                if spot in self.visible:  # or it was deleted again before it was safe
                    self.floor[spot] = max(offset, self.floor.get(spot, -1))

    def fetch(self, group_id: str) -> None:
        expected = {at: offset for (name, at), (_, offset) in self.safe_visible.items() if name == group_id}
        self.fetches[self.tickets + 1] = (group_id, expected)
        self.send(offset_fetch(group_id, None))

    def fetched(self, group_id: str, expected: dict[TopicPartition, int], parts: list[Offset]) -> None:
        shown = {TopicPartition(part.topic, part.partition): part.offset for part in parts}
        assert shown == expected, f"{group_id} shows {shown}, the log said {expected}"
        for at, offset in shown.items():
            if (group_id, at) in self.visible:
                self.floor[group_id, at] = max(offset, self.floor.get((group_id, at), -1))

    # --- the end -----------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """No more faults: within the time that two rebalances may take, everybody has a share."""
        self.trace.append("heal")
        self.impatient = False
        self.failures.clear()
        self.sync_always = True
        self.sync()
        for stamp in list(self.open):
            self.end(stamp, committed=True)
        self.open.clear()
        for actor in self.actors:
            actor.paused_until = 0
        end = self.now.tick + 2 * REBALANCE_MS + 2 * SESSION_MS + 5 * 60_000
        while self.now.tick < end:
            self.settle()
            if self.is_settled():
                break
            due = self.coordinator.due_ms
            self.pass_time(1000 if due is None else min(max(due - self.now.tick, 1), 1000))
            self.run_due()
        assert self.is_settled(), self.picture()
        for group_id in [*self.groups, "simple"]:
            self.fetch(group_id)

    def settle(self) -> None:
        for actor in self.actors:
            for _ in range(6):
                if actor.is_alive:
                    if actor.ticket is None and actor.owned is not None:
                        said = (actor.generation, actor.member_id, actor.instance)
                        self.say(actor, group_heartbeat(actor.group_id, *said))
                    self.act(actor)
                    self.run_due()

    def is_settled(self) -> bool:
        most = self.config.group_max_size
        for group_id in self.groups:
            alive = {a.member_id: a for a in self.actors if a.is_alive and a.group_id == group_id}
            group = self.coordinator._groups.get(group_id)
            assert group is None or isinstance(group, ClassicGroup)
            if not alive:
                if group is not None and (
                    group.state is not ClassicGroupState.EMPTY or (group.stored and group.stored.members)
                ):
                    return False
                continue
            if group is None or group.state is not ClassicGroupState.STABLE:
                return False
            if len(alive) <= most and set(group.roster.members) != alive.keys():
                return False
            shares = [p for m in group.roster.members.values() for p in m.assignment]
            if sorted(shares) != list(range(PARTITIONS)):
                return False
        return True

    def picture(self) -> str:
        groups = {
            name: (g.state, g.generation, {m.member_id: m for m in g.roster.members.values()})
            for name, g in self.coordinator._groups.items()
            if isinstance(g, ClassicGroup)
        }
        return f"not settled: {groups}\n{self.actors}\n{self.trace[-60:]}"
