"""Members of a group of the newer protocol and their coordinator, with the same time on the way for every message."""

import uuid
from heapq import heappop, heappush
from itertools import count

import pytest

from pylog.client.consumer.membership import Effect, MembershipState, Revoke, Send
from pylog.client.consumer.membership_consumer import ConsumerMembership
from pylog.config import ConsumerConfig, NodeConfig
from pylog.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from support.consumer_group_host import ConsumerHost

MS = 5


class Wire:
    """A coordinator, and what is on its way to it and back."""

    def __init__(self) -> None:
        self.host = ConsumerHost(NodeConfig())
        self.host.set_topics(t=4, u=4)
        self.coming: list[tuple[int, int, Member, object, object]] = []
        self.numbers = count()
        self.members: list[Member] = []

    @property
    def now(self) -> int:
        return self.host.now.tick

    def carry(self, member: "Member", message: object, answer: object = None) -> None:
        heappush(self.coming, (self.now + MS, next(self.numbers), member, message, answer))

    def step(self) -> None:
        self.host.advance(1)
        while self.coming and self.coming[0][0] <= self.now:
            _, _, member, message, answer = heappop(self.coming)
            if answer is None:
                member.waiting[self.host.send(message, member.machine.member_id)] = message
            else:
                member.machine.answered(message, answer, self.now)
                member.poll()
        for member in self.members:
            for ticket in [ticket for ticket in member.waiting if ticket in self.host.answers]:
                self.carry(member, member.waiting.pop(ticket), self.host.answers.pop(ticket))
            if self.now % 100 == 0:
                member.poll()


class Member:
    def __init__(self, wire: Wire, number: int) -> None:
        config = ConsumerConfig(group_id="g", group_protocol="consumer")
        topics = wire.host.topics.topics
        self.machine = ConsumerMembership(
            config, wire.now, lambda: {info.id: name for name, info in topics.items()}, lambda: uuid.UUID(int=number)
        )
        self.wire = wire
        self.waiting: dict[object, object] = {}
        self.sent = 0
        wire.members.append(self)

    def subscribe(self, *topics: str) -> None:
        self.machine.subscribe(frozenset(topics))
        self.poll()

    def look(self) -> None:
        """Topics have changed."""
        self.machine.join_again()
        self.poll()

    def poll(self) -> None:
        for _ in range(10):
            effects = self.machine.poll(self.wire.now)
            if not effects:
                return
            self.do(effects)
        pytest.fail("a poll has no end")

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                assert isinstance(effect.message, ConsumerGroupHeartbeatRequest)
                self.sent += 1
                self.wire.carry(self, effect.message)
            elif isinstance(effect, Revoke):
                self.do(self.machine.revoked(effect.partitions))


@pytest.mark.parametrize("apart_ms", [0, 1, 3, MS, 7, 2 * MS])
def test_changes_that_follow_each_other_settle(apart_ms: int) -> None:
    wire = Wire()
    one = Member(wire, 1)
    one.subscribe("t")
    events = [
        (1500, lambda: one.subscribe("t", "u")),
        (1500 + apart_ms, one.look),
        (3000, lambda: Member(wire, 2).subscribe("t", "u")),
        (8000, lambda: wire.host.set_topics(t=6)),
    ]
    for at, event in [*events, (20_000, one.poll)]:
        while wire.now < at:
            wire.step()
        event()
    owned = [key for member in wire.members for key in member.machine.owned]
    assert len(owned) == len(set(owned)) == 10
    assert [member.machine.state for member in wire.members] == [MembershipState.STABLE] * 2
    assert sum(member.sent for member in wire.members) < 50
