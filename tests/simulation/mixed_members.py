"""The world of consumer_members.py with members of both protocols, so that the group goes up and down all the time.

While it is a classic group no two of those that it knows have a partition, either; and when all is healed it is as even
as the assignor of its leader makes it, or made it before a static member came back. That one takes what the member had
whose place it takes: the group does not rebalance, and neither what it reads now nor a topic that has grown meanwhile
counts before the next rebalance. (Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin,
ConsumerCoordinator.onLeaderElected; KIP-345, KIP-814.)
"""

from uuid import UUID

from pylog.config import NodeConfig
from pylog.coordinator.group.classic import ClassicGroup
from pylog.coordinator.group.consumer_group import ConsumerGroup
from pylog.coordinator.group.records import GROUP_TYPE, GroupChange, decode, record_type
from pylog.protocol.assignor import decode_assignment
from simulation.consumer_members import MemberClient, MemberSimulation
from support.classic_client import ClassicClient
from support.consumer_group_host import Client, ConsumerHost
from support.group_host import Logged

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
        assert group.listed().group_state == "Stable" or not members
        topics = self.host.topics.topics
        wanted = {topic for client in members for topic in client.topics if topic in topics}
        given = [(topics[topic].id, number) for topic in wanted for number in range(topics[topic].partitions)]
        if isinstance(group, ClassicGroup) and self.somebody_came_back(group):
            found = [key for member in group.roster.members.values() for key in decode_assignment(member.assignment)[0]]
            given = [(topics[topic].id, number) for topic, number in found]
        assert sorted(slot for client in members for slot in client.owned) == sorted(given)

    def somebody_came_back(self, group: ClassicGroup) -> bool:
        """True if the log has the generation with other members, too: a static one has taken another's place since."""
        ids: set[tuple[str, ...]] = set()
        for entry in self.host.log:
            if isinstance(entry, Logged) and record_type(entry.record) == GROUP_TYPE:
                change = decode(entry.record)
                assert isinstance(change, GroupChange)
                if change.stored is None:
                    ids.clear()
                elif change.stored.generation == group.generation:
                    ids.add(tuple(member.member_id for member in change.stored.members))
        return len(ids) > 1
