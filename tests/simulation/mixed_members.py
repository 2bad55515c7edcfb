"""The world of consumer_members.py with members of both protocols, so that the group goes up and down all the time.

While it is a classic group no two of those that it knows have a partition, either; and when all is healed it is as even
as the assignor of its leader makes it.
"""

from uuid import UUID

from pylog.config import NodeConfig
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_group import ConsumerGroup
from simulation.consumer_members import MemberClient, MemberSimulation
from support.classic_client import ClassicClient
from support.consumer_group_host import Client, ConsumerHost

STRATEGIES = ("range", "cooperative-sticky", "range,cooperative-sticky", "sticky")


class MixedSimulation(MemberSimulation):
    """One seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        policy = self.rng.choice(["bidirectional"] * 4 + ["upgrade", "downgrade", "disabled"])
        self.host = ConsumerHost(
            NodeConfig(group_consumer_max_size=6, group_consumer_migration_policy=policy), sync_always=False
        )
        self.host.set_topics(va=self.rng.choice([3, 8]), vb=2)
        self.share = self.rng.choice([0.2, 0.5, 0.8])
        self.strategy = self.rng.choice(STRATEGIES)

    def new_client(self, name: str, instance_id: str | None, process: str) -> Client:
        if self.rng.random() < self.share:
            return ClassicClient(
                self.host, name, (), instance_id=instance_id, process=process, strategy=self.strategy, rng=self.rng
            )
        return MemberClient(self.host, name, self.rng, instance_id=instance_id, process=process)

    def choose_topics(self, client: Client) -> None:
        client.topics = self.rng.choice([["va"], ["va", "vb"], ["va", "vb"]])

    def leave(self) -> None:
        """Now and then all of the consumer protocol go, one after the other, and somebody comes again."""
        super().leave()
        if self.rng.random() < 0.5:
            for client in list(self.clients):
                if isinstance(client, MemberClient) and client.member_id not in self.paused:
                    self.clients.remove(client)
                    client.send_leave()
                    self.check()
        self.join()

    def change_topics(self) -> None:
        super().change_topics()
        for client in self.clients:
            if isinstance(client, ClassicClient) and client.machine.is_leader:
                client.machine.join_again()

    def check(self) -> None:
        group = self.host.coordinator._groups.get("g")
        holders: dict[tuple[UUID, int], str] = {}
        for client in self.clients:
            if isinstance(group, ConsumerGroup):
                current = group.currents.get(client.member_id)
                known = current is not None
                if current is not None and known:
                    assert client.owned <= current.assigned.keys() | current.revoking.keys(), "it was not given that"
            else:
                members = group.roster.members if isinstance(group, ClassicGroup) else {}
                known = client.member_id in members and isinstance(client, ClassicClient)
            for slot in client.owned if known else ():
                assert holders.setdefault(slot, client.member_id) == client.member_id, "two members have it"

    def check_settled(self) -> None:
        if "g" not in self.host.coordinator._groups:
            return
        group = self.host.coordinator._groups["g"]
        members = [client for client in self.clients if client.error is None and client.epoch > 0]
        assert group.listed().state == "Stable" or not members
        topics = self.host.topics.topics
        wanted = {topic for client in members for topic in client.topics if topic in topics}
        owned = [slot for client in members for slot in client.owned]
        assert sorted(owned) == sorted((topics[t].id, n) for t in wanted for n in range(topics[t].partitions))
