"""What a test of the consumer protocol has around the coordinator: its host, and members that do as they are told."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from pylog.config import NodeConfig
from pylog.coordinator.effects import Append, LogRecord, TopicInfo
from pylog.coordinator.group import GroupCoordinator
from pylog.coordinator.group.consumer_group import ConsumerGroup
from pylog.coordinator.group.records import record_type
from pylog.errors import FencedInstanceId, FencedMemberEpoch, PylogError, UnknownMemberId
from pylog.protocol.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from support.group_host import GroupHost, Logged
from support.messages import member_heartbeat

Slot = tuple[UUID, int]
Structs = list[tuple[UUID, list[int]]]
SESSION_MS = 45_000
JOIN = member_heartbeat(
    "g", "m", JOIN_EPOCH, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
)
FENCED = (FencedMemberEpoch, UnknownMemberId, FencedInstanceId)


def slots(structs: Structs | ConsumerGroupHeartbeatResponse.Assignment | None) -> set[Slot]:
    assert structs is not None, "an assignment was expected"
    if not isinstance(structs, list):
        structs = [(one.topic_id, one.partitions) for one in structs.topic_partitions]
    return {(topic_id, partition) for topic_id, partitions in structs for partition in partitions}


def structs(slots: Iterable[Slot]) -> Structs:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(slots):
        found.setdefault(topic_id, []).append(partition)
    return list(found.items())


class ConsumerHost(GroupHost):
    """Holds the groups of the consumer protocol against the log, too."""

    def __init__(self, config: NodeConfig | None = None, *, sync_always: bool = True) -> None:
        super().__init__(config, sync_always=sync_always)
        self.ends = [0]
        """Where the log has ended: a crash takes whole batches."""

    def group(self, group_id: str = "g") -> ConsumerGroup:
        found = self.coordinator._groups[group_id]
        assert isinstance(found, ConsumerGroup)
        return found

    def set_topics(self, **partitions: int) -> None:
        """Topics that are there have their ids; one with 0 partitions is deleted."""
        known = dict(self.topics.topics)
        for name, count in partitions.items():
            before = known.pop(name, None)
            if count:
                self.ids += 1
                known[name] = TopicInfo(before.id if before is not None else UUID(int=1000 + self.ids), count)
        self.topics.topics = known

    def slots(self, **partitions: Sequence[int]) -> set[Slot]:
        return {(self.topics.topics[name].id, number) for name, numbers in partitions.items() for number in numbers}

    def append(self, append: Append) -> None:
        super().append(append)
        self.ends.append(len(self.log))

    def append_record(self, record: LogRecord) -> None:
        """A record that somebody else has written."""
        self.log.append(Logged(record, None))
        self.safe = len(self.log)
        self.coordinator.replay(record)
        self.shadow.replay(record)

    def check(self) -> None:
        super().check()
        assert consumer_state(self.coordinator) == consumer_state(self.shadow)
        for group in self.coordinator._groups.values():
            if isinstance(group, ConsumerGroup):
                check_consumer_group(group)


def consumer_state(coordinator: GroupCoordinator) -> dict[str, Any]:
    """All that is logged of the groups."""
    return {
        group_id: (
            group.epoch,
            group.target_epoch,
            group.subscriptions,
            group.targets,
            group.currents,
            group.resolved,
            group.has_partition_metadata,
            group.owners,
            group.static,
        )
        for group_id, group in coordinator._groups.items()
        if isinstance(group, ConsumerGroup)
    }


def check_consumer_group(group: ConsumerGroup) -> None:
    owned = [slot for current in group.currents.values() for slot in (*current.assigned, *current.revoking)]
    assert len(owned) == len(set(owned)), "a partition is two members'"
    assert set(owned) == group.owners.keys()
    assert group.subscriptions.keys() == group.currents.keys()
    assert group.held.keys() <= group.subscriptions.keys()
    assert not group.held.keys() & group.waiting.keys()
    targets = [slot for target in group.targets.values() for slot in target]
    assert len(targets) == len(set(targets)), "a partition is to be two members'"
    assert group.target_epoch.epoch <= group.epoch.epoch


class Client:
    """A member as Kafka's consumer is one: it gives up and takes as it is told, and says so with its next heartbeat."""

    def __init__(
        self,
        host: ConsumerHost,
        member_id: str,
        topics: Sequence[str] = ("t",),
        *,
        regex: str | None = None,
        instance_id: str | None = None,
        process: str = "/h",
        group_id: str = "g",
    ) -> None:
        self.host = host
        self.member_id = member_id
        self.topics = list(topics)
        self.regex = regex
        self.instance_id = instance_id
        self.process = process
        self.group_id = group_id
        self.epoch = JOIN_EPOCH
        self.owned: set[Slot] = set()
        self.is_full = True
        self.has_changed = False
        self.has_new_topics = False
        self.tickets: list[int] = []
        self.error: PylogError | None = None

    def message(self, max_wait_ms: int = 0) -> ConsumerGroupHeartbeatRequest:
        """What it says now. While an answer is on the way it does not say what it owns: it may be told."""
        says_all = not self.tickets and (self.is_full or self.epoch == JOIN_EPOCH)
        says_topics = says_all or self.has_new_topics
        says_owned = says_all or (self.has_changed and not self.tickets)
        if says_all:
            self.is_full = False
        if says_owned:
            self.has_changed = False
        self.has_new_topics = False
        return member_heartbeat(
            self.group_id,
            self.member_id,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=60_000 if says_all else -1,
            subscribed_topic_names=list(self.topics) if says_topics else None,
            subscribed_topic_regex=self.regex or "" if says_topics else None,
            topic_partitions=structs(self.owned) if says_owned else None,
            max_wait_ms=max_wait_ms,
        )

    def send(self, max_wait_ms: int = 0) -> None:
        """Say what there is to say, and join with nothing else on the way; the answer is there, or comes."""
        if not self.tickets or self.epoch != JOIN_EPOCH:
            self.tickets.append(self.host.send(self.message(max_wait_ms), self.member_id, self.process))

    def receive(self) -> None:
        """Take the answers that are there, in the order in which it asked."""
        while self.tickets and self.tickets[0] in self.host.answers:
            self.take(self.host.answers.pop(self.tickets.pop(0)))

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.error = answer.error
        if isinstance(answer.error, FENCED):
            self.forget()
        elif answer.error is not None:
            self.is_full = True
        else:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.has_changed = self.has_changed or self.owned != slots(answer.assignment)
                self.owned = slots(answer.assignment)

    def forget(self) -> None:
        """It is no member any more: it has nothing, and joins anew."""
        self.epoch, self.owned, self.is_full, self.has_changed = JOIN_EPOCH, set(), True, False

    def beat(self, times: int = 1) -> "Client":
        for _ in range(times):
            self.send()
            self.receive()
        return self

    def lose(self) -> None:
        """Whatever is on the way does not come: say all next time."""
        for ticket in self.tickets:
            self.host.answers.pop(ticket, None)
        self.tickets.clear()
        self.is_full = True

    def send_leave(self, *, for_good: bool = True) -> int:
        epoch = LEAVE_EPOCH if for_good else LEAVE_STATIC_EPOCH
        message = member_heartbeat(self.group_id, self.member_id, epoch, self.instance_id)
        self.forget()
        return self.host.send(message, self.member_id, self.process)

    def leave(self, *, for_good: bool = True) -> ConsumerGroupHeartbeatResponse:
        found: ConsumerGroupHeartbeatResponse = self.host.answers.pop(self.send_leave(for_good=for_good))
        return found


def settle(clients: Sequence[Client], rounds: int = 20) -> None:
    """Let all members say something until none has anything to do."""
    for _ in range(rounds):
        before = [(client.epoch, set(client.owned)) for client in clients]
        for client in clients:
            client.beat()
        if before == [(client.epoch, client.owned) for client in clients] and not any(c.has_changed for c in clients):
            return
    raise AssertionError("the members never settle")


def member(
    host: ConsumerHost, name: str = "m", *topics: str, instance_id: str | None = None, process: str = "/h"
) -> Client:
    return Client(host, name, topics or ("t",), instance_id=instance_id, process=process)


def kinds(host: ConsumerHost) -> list[int]:
    """The types of all records in the log."""
    return [record_type(entry.record) for entry in host.log if isinstance(entry, Logged)]


def heartbeat(host: ConsumerHost, **fields: object) -> ConsumerGroupHeartbeatResponse:
    """What member `m` of group `g` is told in epoch 1, or who else says something."""
    values = {"group_id": "g", "member_id": "m", "member_epoch": 1, **fields}
    found: ConsumerGroupHeartbeatResponse = host.ask(member_heartbeat(**values))  # type: ignore[arg-type]
    return found
