"""The partitions of each member of a group: Kafka's assignors, as pure functions, and the bytes that members exchange.

    range                topic by topic, neighbouring partitions to the same member
    roundrobin           all partitions in turn
    sticky               as even as it can be; a member keeps the partitions that it had
    cooperative-sticky   the same, but a partition that changes hands is free for one round in between (KIP-429)

The leader of a group calls `assign` with the numbers of partitions and all members. Every leader finds the same result,
because it does not depend on the order in which they come. Topics that do not exist are left out, and so are owned
partitions that do not exist. Racks are carried and not used: all replicas of an embedded log are on one machine.

Kafka's result depends on the order of a Java map here and there: the first member in it keeps one partition more. That
order is that of the hashes, and ours too. Where Kafka's order is the one in which the members came (two of them claim
the same partition), the hashes decide here. Kafka's sticky assignors may give partitions to a member without
subscription; ours do not, and move none to an earlier owner that no longer subscribes to it.

Read `member` first, then `simple`, `sticky`, `constrained` and `general`; `evening` improves the result, and
`subscription` has the bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pylog.protocol.assignor.member import Assignment, Assignor, SubscribedMember, partitions_of
from pylog.protocol.assignor.simple import Range, RoundRobinAssignor
from pylog.protocol.assignor.sticky import CooperativeSticky, Sticky, assign_uniform
from pylog.protocol.assignor.subscription import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

__all__ = [
    "ASSIGNORS",
    "SERVER_ASSIGNORS",
    "Assignment",
    "Assignor",
    "SubscribedMember",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "partitions_of",
]

_ALL: tuple[Assignor, ...] = (Range(), RoundRobinAssignor(), Sticky(), CooperativeSticky())
ASSIGNORS = MappingProxyType({assignor.name: assignor for assignor in _ALL})
"""The assignors by the name on which the members of a group agree."""

SERVER_ASSIGNORS: MappingProxyType[str, Callable[[Mapping[str, int], Sequence[SubscribedMember]], Assignment]]
SERVER_ASSIGNORS = MappingProxyType({"uniform": assign_uniform, "range": Range().assign})
"""The assignors of a coordinator, which assigns itself in groups of the consumer protocol (KIP-848)."""
