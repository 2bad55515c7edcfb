"""What a test of the consumer protocol has around the coordinator: its host, and members that do as they are told."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from group_host import GroupHost, Logged
from pylog.effects import LogRecord, TopicInfo
from pylog.errors import FencedInstanceId, FencedMemberEpoch, PylogError, UnknownMemberId
from pylog.group import GroupCoordinator
from pylog.group.consumer_group import ConsumerGroup
from pylog.message import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeaten,
)

Slot = tuple[UUID, int]
Structs = list[tuple[UUID, list[int]]]
FENCED = (FencedMemberEpoch, UnknownMemberId, FencedInstanceId)


def slots(structs: Structs | None) -> set[Slot]:
    assert structs is not None, "an assignment was expected"
    return {(topic_id, partition) for topic_id, partitions in structs for partition in partitions}


def structs(slots: Iterable[Slot]) -> Structs:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(slots):
        found.setdefault(topic_id, []).append(partition)
    return list(found.items())


class ConsumerHost(GroupHost):
    """Holds the groups of the consumer protocol against the log, too."""

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

    def append_record(self, record: LogRecord) -> None:
        """A record that somebody else has written."""
        self.log.append(Logged(record, None))
        self.safe = len(self.log)
        self.coordinator.replay(record)

    def check(self) -> None:
        super().check()
        assert consumer_state(self.coordinator) == consumer_state(self.replayed())
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
        self.tickets: list[int] = []
        self.error: PylogError | None = None

    def message(self, max_wait_ms: int = 0) -> ConsumerGroupHeartbeat:
        says_all = self.is_full or self.epoch == JOIN_EPOCH
        return ConsumerGroupHeartbeat(
            self.group_id,
            self.member_id,
            self.epoch,
            self.instance_id,
            rebalance_timeout_ms=60_000 if says_all else -1,
            subscribed_topic_names=list(self.topics) if says_all else None,
            subscribed_topic_regex=self.regex if says_all else None,
            topic_partitions=structs(self.owned) if says_all or self.has_changed else None,
            max_wait_ms=max_wait_ms,
        )

    def send(self, max_wait_ms: int = 0) -> None:
        """Say what there is to say; the answer is there, or comes."""
        message = self.message(max_wait_ms)
        self.is_full = self.has_changed = False
        self.tickets.append(self.host.send(message, self.member_id, self.process))

    def receive(self) -> None:
        """Take the answers that are there."""
        for ticket in list(self.tickets):
            if ticket in self.host.answers:
                self.tickets.remove(ticket)
                self.take(self.host.answers.pop(ticket))

    def take(self, answer: ConsumerGroupHeartbeaten) -> None:
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

    def leave(self, *, for_good: bool = True) -> ConsumerGroupHeartbeaten:
        epoch = LEAVE_EPOCH if for_good else LEAVE_STATIC_EPOCH
        message = ConsumerGroupHeartbeat(self.group_id, self.member_id, epoch, self.instance_id)
        found: ConsumerGroupHeartbeaten = self.host.ask(message, self.member_id, self.process)
        self.forget()
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
