"""Requests that give a node a role: made by hand, and decided by the controller of that node."""

from dataclasses import dataclass, field
from uuid import UUID

__all__ = ["Follow", "Lead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The role of leader of a partition. `replicas` are all nodes that keep it, this one among them."""

    topic: str
    partition: int
    leader_epoch: int
    replicas: tuple[int, ...]
    joining: tuple[int, ...] = ()
    """Those of the replicas that are in the ISR once they have caught up; the others are at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """The role of follower of `leader`. It describes the topic as a whole, for a node that has never heard of it."""

    topic: str
    topic_id: UUID
    partition: int
    partitions: int
    leader: int
    leader_epoch: int
    config: dict[str, str] = field(default_factory=dict)
    counts: bool = False
    """Whether an append with acks=all waits for this node while it is in the ISR."""
