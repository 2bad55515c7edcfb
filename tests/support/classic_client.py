"""A member of the classic protocol beside those of the consumer protocol: a `Client` that a real machine speaks for."""

import random
from typing import Any

from pylog.client.consumer.membership import AssignPartitions, Effect, Elect, Fail, Lose, Revoke, Send
from pylog.client.consumer.membership_classic import ClassicMembership
from pylog.config import ConsumerConfig
from pylog.errors import NetworkError
from pylog.record import TopicPartition
from support.consumer_group_host import Client, ConsumerHost, Slot

SESSION_MS = 10_000


class ClassicClient(Client):
    """What it gives back takes a while, where there is a `rng` to say so."""

    def __init__(
        self,
        host: ConsumerHost,
        name: str,
        topics: tuple[str, ...] = ("t",),
        *,
        instance_id: str | None = None,
        process: str = "/h",
        strategy: str = "cooperative-sticky",
        rng: random.Random | None = None,
    ) -> None:
        config = ConsumerConfig(
            group_id="g",
            group_instance_id=instance_id,
            partition_assignment_strategy=tuple(strategy.split(",")),
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=30_000,
        )
        self.machine = ClassicMembership(config, host.now.tick)
        self.name, self.rng = name, rng
        self.sent: list[tuple[int, Any]] = []
        self.revoking: list[TopicPartition] = []
        self.slots: dict[TopicPartition, Slot] = {}
        super().__init__(host, "", topics, instance_id=instance_id, process=process)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self.sent.append((self.host.send(message, self.name, self.process), message))
                case Elect(assignor, members, is_settled):
                    counts = {name: info.partitions for name, info in self.host.topics.topics.items()}
                    if not is_settled:
                        self.carry_out(self.machine.elected(effect, assignor.assign(counts, members)))
                case Revoke(partitions):
                    self.revoking = partitions
                case Fail(error):
                    self.error = error
                case AssignPartitions():
                    self.error = None
                case _:
                    assert isinstance(effect, Lose)
        topics = self.host.topics.topics
        mine = {key: (topics[key.topic].id, key.partition) for key in self.machine.owned if key.topic in topics}
        self.slots = {key: self.slots.get(key, mine[key]) for key in mine}
        self.owned = set(self.slots.values())
        self.member_id, self.epoch = self.machine.member_id, self.machine.generation

    def send(self, max_wait_ms: int = 0) -> None:
        """Poll, and do what is due."""
        if self.revoking:
            if self.rng is not None and self.rng.random() < 0.5:
                return
            partitions, self.revoking = self.revoking, []
            self.carry_out(self.machine.revoked(partitions))
        self.machine.subscribe(frozenset(self.topics))
        self.carry_out(self.machine.poll(self.host.now.tick))

    def receive(self) -> None:
        for ticket, message in list(self.sent):
            if ticket in self.host.answers:
                self.sent.remove((ticket, message))
                self.carry_out(self.machine.answered(message, self.host.answers.pop(ticket), self.host.now.tick))

    def beat(self, times: int = 1) -> "ClassicClient":
        for _ in range(6 * times):
            self.send()
            self.host.advance(0)
            self.receive()
        return self

    def lose(self) -> None:
        """What is on the way does not come: its connection breaks, and it says so to itself."""
        lost, self.sent = self.sent, []
        for ticket, message in lost:
            self.host.answers.pop(ticket, None)
            self.carry_out(self.machine.answered(message, NetworkError("the test says so"), self.host.now.tick))

    def send_leave(self, *, for_good: bool = True) -> int:
        self.revoking = []
        self.carry_out(self.machine.leave("the test says so"))
        return 0
