"""Groups of the consumer protocol in a simulation of the coordinator alone: a seed in, invariants after every event.

Members join, leave, die, pause and change what they read; topics come, grow and go; messages and answers are late or
lost; appends fail; the coordinator crashes, with or without what was not synced yet. A member has one connection: what
it says comes in order, or not at all. After every event no two members have a partition, and what is logged of the live
state is the replay of the log. When all is healed, all members have what they are to have, and that is even.
"""

import random

from pylog.config import NodeConfig
from pylog.coordinator.group.consumer_records import CURRENT, consumer_record
from pylog.errors import NotEnoughReplicas
from support.consumer_group_host import Client, ConsumerHost, settle
from support.group_host import Logged

TOPICS = ("t", "u", "va", "vb")
HOSTS = ("/a", "/b")


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.host = ConsumerHost(NodeConfig(group_consumer_max_size=6), sync_always=False)
        self.host.set_topics(va=3)
        self.clients: list[Client] = []
        self.paused: set[str] = set()
        self.names = 0

    # --- what happens ------------------------------------------------------------------------------------------------

    def join(self) -> None:
        if len(self.clients) < 7:
            self.names += 1
            instance = self.rng.choice([None, None, "i", "j"])
            if instance is not None and any(client.instance_id == instance for client in self.clients):
                return
            process = self.rng.choice(HOSTS)
            client = self.new_client(f"m{self.names}", instance, process)
            self.choose_topics(client)
            self.clients.append(client)

    def new_client(self, name: str, instance_id: str | None, process: str) -> Client:
        return Client(self.host, name, instance_id=instance_id, process=process)

    def choose_topics(self, client: Client) -> None:
        client.topics = self.rng.sample(TOPICS, self.rng.randrange(3))
        client.regex = "v.*" if not client.topics or self.rng.random() < 0.2 else ""
        client.has_new_topics = True

    def beat(self) -> None:
        client = self.awake()
        if client is not None:
            client.send(self.rng.choice([0, 0, 20_000]))

    def receive(self) -> None:
        client = self.awake()
        if client is not None:
            client.receive()

    def lose(self) -> None:
        client = self.awake()
        if client is not None:
            client.lose()

    def awake(self) -> Client | None:
        awake = [client for client in self.clients if client.member_id not in self.paused]
        return self.rng.choice(awake) if awake else None

    def leave(self) -> None:
        client = self.awake()
        if client is not None:
            self.clients.remove(client)
            client.send_leave(for_good=client.instance_id is None or self.rng.random() < 0.3)

    def die(self) -> None:
        client = self.awake()
        if client is not None:
            self.clients.remove(client)
            client.lose()

    def pause(self) -> None:
        client = self.awake()
        if client is not None:
            self.paused.add(client.member_id)

    def resume(self) -> None:
        self.paused.discard(self.rng.choice([*sorted(self.paused), ""]))

    def resubscribe(self) -> None:
        client = self.awake()
        if client is not None:
            self.choose_topics(client)

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS)
        before = self.host.topics.topics.get(name)
        grown = (0 if before is None else before.partitions) + self.rng.randrange(1, 4)
        self.host.set_topics(**{name: 0 if before is not None and self.rng.random() < 0.3 else min(grown, 12)})

    def advance(self) -> None:
        self.host.advance(self.rng.choice([0, 100, 5_000, 30_000]))

    def sync(self) -> None:
        self.host.sync()

    def fail(self) -> None:
        self.host.failures.append(NotEnoughReplicas("the simulation says so"))

    def crash(self) -> None:
        """All connections break; a process may die together with the coordinator."""
        lost = self.rng.choice([(), (), ("/a",)])
        for client in list(self.clients):
            client.lose()
            if client.process in lost:
                self.clients.remove(client)
        self.host.answers.clear()
        self.host.failures.clear()
        kept = [end for end in self.host.ends if self.host.safe <= end <= len(self.host.log)]
        self.host.ends = kept[: self.rng.randrange(len(kept)) + 1]
        self.host.restart(keep=self.host.ends[-1], lost=lost)

    # --- what holds --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No partition is two members', as they see it; those that are fenced do not count, and do not know it yet."""
        known = self.host.group().currents if "g" in self.host.coordinator._groups else {}
        holders: dict[object, str] = {}
        for client in self.clients:
            current = known.get(client.member_id)
            if current is None:
                assert not client.owned or self.was_fenced(client.member_id), "nobody knows that it has something"
                continue
            assert client.owned <= current.assigned.keys() | current.revoking.keys(), "it has what it was not given"
            for slot in client.owned:
                assert holders.setdefault(slot, client.member_id) == client.member_id, "two members have it"

    def was_fenced(self, member_id: str) -> bool:
        return any(
            isinstance(e, Logged) and e.record == consumer_record(CURRENT, "g", member_id, None) for e in self.host.log
        )

    def run(self, events: int) -> None:
        usual = {self.beat: 40, self.receive: 30, self.sync: 20, self.advance: 8, self.join: 6, self.resume: 2}
        faults = [
            self.lose,
            self.resubscribe,
            self.change_topics,
            self.pause,
            self.leave,
            self.die,
            self.fail,
            self.crash,
        ]
        weights = usual | {fault: self.rng.choice([0, 1, 3, 6]) for fault in faults}
        for action in self.rng.choices(list(weights), list(weights.values()), k=events):
            action()
            self.check()

    def heal(self) -> None:
        """Everybody is heard of again, and whoever is gone has had the time to be forgotten."""
        self.paused.clear()
        self.host.failures.clear()
        self.host.sync_always = True
        self.host.sync()
        for client in self.clients:
            client.receive()
            client.lose()
        for _ in range(30):
            for client in self.clients:
                client.beat()
            self.check()
            self.host.advance(4_000)
            self.check()
        settle(self.clients)
        self.check()
        if self.clients:
            self.check_settled()

    def check_settled(self) -> None:
        group = self.host.group()
        assert group.state == "Stable"
        clients = self.clients[:6]
        assert {client.member_id for client in self.clients if client.error is None} == group.subscriptions.keys()
        assert len(group.subscriptions) == len(clients)
        topics = self.host.topics.topics
        read = {name: set(group.topics_of(found)) & topics.keys() for name, found in group.subscriptions.items()}
        for client in self.clients:
            if client.error is None:
                assert (
                    client.owned == group.targets[client.member_id] == group.currents[client.member_id].assigned.keys()
                )
        names = {info.id: name for name, info in topics.items()}
        assert group.owners.keys() == {
            (info.id, number)
            for name, info in topics.items()
            if any(name in mine for mine in read.values())
            for number in range(info.partitions)
        }
        for slot, owner in group.owners.items():
            others = [name for name in read if names[slot[0]] in read[name]]
            assert owner in others
            fewest = min(len(group.targets[other]) for other in others)
            assert len(group.targets[owner]) <= fewest + 1, "it could be more even"
