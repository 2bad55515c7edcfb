"""The members of a classic group, the clients that were given an id and have yet to come, the leader, the protocols.

Invariants: a static member's instance id is held by one member; the leader is a member, and there is one where there
are members; `_supporters` counts for each protocol the members that speak it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pylog.coordinator.group.records import StoredMember
from pylog.errors import FencedInstanceId, UnknownMemberId
from pylog.protocol.messages.groups import JoinGroupResponse


@dataclass(slots=True)
class ClassicGroupMember:
    """One member, and the tickets of its messages that wait."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    """True if it has not been in a generation yet."""
    join: int | None = None
    sync: int | None = None
    heartbeat: int | None = None

    @property
    def names(self) -> list[str]:
        """The protocols that it speaks, best first."""
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for the assignor of this name."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        """The member as it is logged."""
        return StoredMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


def restored(member: StoredMember, protocol: str | None) -> ClassicGroupMember:
    """The member of a record; of its protocols the log has the one that was chosen."""
    return ClassicGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        [(protocol or "", member.subscription)],
        member.assignment,
    )


class Roster:
    """The members by id, in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, ClassicGroupMember] = {}
        self.pending: dict[str, str] = {}
        """Ids that were given to clients that have not come yet (KIP-394), with their hosts."""
        self.leader: str | None = None
        self._static: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    def add(self, member: ClassicGroupMember) -> None:
        """Take a member in; the first one leads."""
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        self._supporters.update(set(member.names))
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Let a member go; another one leads where it did."""
        member = self.members.pop(member_id)
        self._supporters.subtract(set(member.names))
        if member.group_instance_id is not None:
            del self._static[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old_id: str, new: ClassicGroupMember) -> None:
        """Put a static member that came back under another id in place of the old one: it leads where that did."""
        led = self.leader == old_id
        self.remove(old_id)
        self.add(new)
        if led:
            self.leader = new.member_id

    def change_protocols(self, member: ClassicGroupMember, protocols: list[tuple[str, bytes]]) -> None:
        """Replace the protocols of a member."""
        self._supporters.subtract(set(member.names))
        member.protocols = protocols
        self._supporters.update(set(member.names))

    def static(self, group_instance_id: str) -> str | None:
        """The member that has this instance id."""
        return self._static.get(group_instance_id)

    def check(self, member_id: str, group_instance_id: str | None) -> ClassicGroupMember:
        """The member of this id. Raises UnknownMemberId, FencedInstanceId (Kafka: ClassicGroup.validateMember)."""
        if group_instance_id is not None:
            holder = self._static.get(group_instance_id)
            if holder is not None and holder != member_id:
                raise FencedInstanceId(
                    f"{group_instance_id!r} is the instance id of member {holder!r} now, which came after {member_id!r}"
                )
            if holder is None:
                raise UnknownMemberId(f"no member of this group has the instance id {group_instance_id!r}: join it")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id!r} is not a member of this group, or not any more: join it again")
        return member

    def joined(self) -> list[ClassicGroupMember]:
        """The members that wait for the next generation."""
        return [member for member in self.members.values() if member.join is not None]

    @property
    def all_joined(self) -> bool:
        """True if all members wait for the next generation, and no other client is on the way."""
        return not self.pending and all(member.join is not None for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Choose a leader that has joined; False where no member has."""
        joined = [member.member_id for member in self.joined()]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def supports_any(self, names: Iterable[str]) -> bool:
        """True if all members speak one of these protocols."""
        return any(self._supporters[name] == len(self.members) for name in names)

    def choose_protocol(self) -> str:
        """The protocol that most members prefer among those that all speak; the first to be named where votes tie."""
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name in member.names if self._supporters[name] == len(self.members))] += 1
        return votes.most_common(1)[0][0]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that a rebalance waits for members: that of the most patient one."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def described(self, protocol: str | None) -> list[JoinGroupResponse.JoinGroupResponseMember]:
        """The members as their leader sees them."""
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id,
                metadata=member.metadata(protocol),
            )
            for member in self.members.values()
        ]  # fmt: skip
