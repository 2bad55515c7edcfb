"""The world of consumer_group_world.py with the members that consumers have: `ConsumerMembership`.

What a member gives back takes a while; what it knows of topics is old now and then, and lacks one.
"""

import random
from uuid import UUID

from pylog.client.consumer.membership import AssignPartitions, Effect, Fail, Lose, Revoke, Send
from pylog.client.consumer.membership_consumer import ConsumerMembership
from pylog.config import ConsumerConfig
from pylog.protocol.assignor.member import NO_GENERATION
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pylog.record import TopicPartition
from simulation.consumer_group_world import TOPICS, Simulation
from support.consumer_group_host import Client, ConsumerHost, Slot


class MemberClient(Client):
    """A `Client` that a real member's machine speaks for."""

    def __init__(
        self, host: ConsumerHost, name: str, rng: random.Random, *, instance_id: str | None, process: str
    ) -> None:
        self.host, self.rng = host, rng
        self.known: dict[UUID, str] = {}
        self.learn()
        config = ConsumerConfig(group_id="g", group_protocol="consumer", group_instance_id=instance_id)
        self.machine = ConsumerMembership(
            config, host.now.tick, lambda: self.known, lambda: UUID(int=rng.getrandbits(128))
        )
        self.sent: list[tuple[int, ConsumerGroupHeartbeatRequest]] = []
        self.revoking: list[TopicPartition] = []
        self.slots: dict[TopicPartition, Slot] = {}
        super().__init__(host, self.machine.member_id, [], instance_id=instance_id, process=process)

    def learn(self) -> None:
        self.known = {info.id: name for name, info in self.host.topics.topics.items()}

    def forget_a_topic(self) -> None:
        """As a client does when a node says that it does not lead a partition any more."""
        if self.known:
            del self.known[self.rng.choice(sorted(self.known))]

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                assert isinstance(effect.message, ConsumerGroupHeartbeatRequest)
                who = effect.message.member_id
                self.sent.append((self.host.send(effect.message, who, self.process), effect.message))
            elif isinstance(effect, Revoke):
                self.revoking = effect.partitions
            elif isinstance(effect, AssignPartitions):
                for key in effect.added:
                    # Its name may be forgotten by now, while others were given back.
                    self.slots[key] = self.machine._ids[key], key.partition
            elif isinstance(effect, Fail):
                self.error = effect.error
            else:
                assert isinstance(effect, Lose)
        self.member_id = self.machine.member_id
        self.slots = {key: self.slots[key] for key in self.machine.owned}
        self.owned = set(self.slots.values())
        self.epoch = self.machine.generation
        if self.epoch != NO_GENERATION:
            self.error = None

    def send(self, max_wait_ms: int = 0) -> None:
        """Poll, and do what is due."""
        if self.machine.lacks_names and self.rng.random() < 0.7:
            self.learn()
        if self.revoking:
            if self.rng.random() < 0.5:
                return
            partitions, self.revoking = self.revoking, []
            self.carry_out(self.machine.revoked(partitions))
        self.machine.subscribe(frozenset(self.topics))
        self.carry_out(self.machine.poll(self.host.now.tick))

    def receive(self) -> None:
        while self.sent and self.sent[0][0] in self.host.answers:
            ticket, message = self.sent.pop(0)
            self.carry_out(self.machine.answered(message, self.host.answers.pop(ticket), self.host.now.tick))

    def beat(self, times: int = 1) -> Client:
        self.learn()
        for _ in range(4):
            self.send()
            self.receive()
        return self

    def lose(self) -> None:
        for ticket, _ in self.sent:
            self.host.answers.pop(ticket, None)
        self.sent.clear()

    def send_leave(self, *, for_good: bool = True) -> int:
        self.revoking = []
        self.carry_out(self.machine.leave("the simulation says so"))
        return 0


class MemberSimulation(Simulation):
    """One seed."""

    def new_client(self, name: str, instance_id: str | None, process: str) -> Client:
        return MemberClient(self.host, name, self.rng, instance_id=instance_id, process=process)

    def choose_topics(self, client: Client) -> None:
        client.topics = self.rng.sample(TOPICS, self.rng.randrange(1, 4))

    def change_topics(self) -> None:
        """Topics grow; or somebody does not know one any more."""
        client = self.awake()
        if isinstance(client, MemberClient) and self.rng.random() < 0.5:
            client.forget_a_topic()
            return
        name = self.rng.choice(TOPICS)
        before = self.host.topics.topics.get(name)
        self.host.set_topics(**{name: min((0 if before is None else before.partitions) + 2, 12)})
