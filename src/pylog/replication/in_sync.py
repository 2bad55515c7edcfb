"""`InSync`: the followers of a partition as its leader sees them, and which of them are in sync.

    a member (in the ISR)      the high watermark waits for it
    a follower that is near    it has caught up lately: the high watermark waits for it, so that it can join
    any other follower         nothing waits for it

    near     by a fetch from the leader's end, or from the end that the leader had at its fetch before
    joins    once it has everything that is visible, and everything that was there when the leader's term began: at
             once where the log is empty
    leaves   when it has not caught up for `replica.lag.time.max.ms`. One that has all of the log never lags

A leave counts when it is written down: `lagging` only names those that are to leave. A join counts at once, and is
written afterwards. So each replica in the ISR that is written down has every record that was acknowledged.

Time is passed in. (Kafka: cluster.Partition, Replica, PartitionState)
"""

from collections.abc import Iterable


class _Replica:
    """A follower. `end`: it has everything below. `caught_up_ms`: when it last had everything, or was placed.
    `seen_end`: the leader's end at its last fetch, which was at `seen_ms`.
    """

    __slots__ = ("caught_up_ms", "end", "seen_end", "seen_ms")

    def __init__(self, now_ms: int) -> None:
        self.end = self.seen_end = 0
        self.caught_up_ms = now_ms
        self.seen_ms: int | None = None


class InSync:
    """The followers of one partition. The leader is always in sync, and is not among them.

    `members` are in sync from the beginning, `outside` are not. Not thread-safe: a leader holds its lock for it.
    """

    def __init__(self, members: Iterable[int], outside: Iterable[int], now_ms: int) -> None:
        self._replicas: dict[int, _Replica] = {}
        self.members: frozenset[int] = frozenset()
        self.near: frozenset[int] = frozenset()
        self.place(members, outside, now_ms)

    def place(self, members: Iterable[int], outside: Iterable[int], now_ms: int) -> None:
        """Replace the followers. A member that was one before keeps its end; all others begin with the end 0."""
        before, was_member = self._replicas, self.members
        self.members, self.near = frozenset(members), frozenset()
        self._replicas = {node: _Replica(now_ms) for node in (*self.members, *outside)}
        for node in self.members & was_member:
            self._replicas[node].end = before[node].end

    @property
    def followers(self) -> frozenset[int]:
        """The followers, in sync or not."""
        return frozenset(self._replicas)

    @property
    def outside(self) -> frozenset[int]:
        """The followers that are not in sync."""
        return self.followers - self.members

    def is_under(self, min_isr: int) -> bool:
        """Whether fewer replicas are in sync than `min.insync.replicas`, or than there are at all."""
        return 1 + len(self.members) < min(min_isr, 1 + len(self._replicas))

    def fetched(self, node: int, offset: int, end: int, now_ms: int) -> None:
        """Note that a follower has everything below `offset`, while the leader's log ends at `end`. Other nodes are
        ignored.
        """
        replica = self._replicas.get(node)
        if replica is None:
            return
        caught_up_ms = now_ms if offset >= end else replica.seen_ms if offset >= replica.seen_end else None
        if caught_up_ms is not None:
            replica.caught_up_ms = caught_up_ms
            self.near |= {node} - self.members
        replica.end, replica.seen_end, replica.seen_ms = offset, end, now_ms

    def join(self, node: int, bound: int) -> bool:
        """Let a follower be in sync, if it is not and has everything below `bound`; gives whether it has joined."""
        replica = self._replicas.get(node)
        if replica is None or node in self.members or replica.end < bound:
            return False
        self.members |= {node}
        self.near -= {node}
        return True

    def lagging(self, end: int, now_ms: int, lag_ms: int) -> frozenset[int]:
        """The members that are to leave. Nothing waits any more for a follower that was near and lags."""
        lagging = frozenset(
            node
            for node, replica in self._replicas.items()
            if replica.end < end and now_ms - replica.caught_up_ms > lag_ms
        )
        self.near -= lagging
        return lagging & self.members

    def leave(self, nodes: Iterable[int]) -> None:
        """Take members out of the ISR, once that is in the metadata log."""
        self.members -= frozenset(nodes)

    def reached(self, own_end: int) -> int:
        """Up to where the leader, whose part ends at `own_end`, and all that it waits for have the log."""
        reached = own_end
        for node, replica in self._replicas.items():
            if replica.end < reached and (node in self.members or node in self.near):
                reached = replica.end
        return reached

    def missing(self, offset: int) -> list[int]:
        """The members that have not said that they have everything below `offset`."""
        return sorted(node for node in self.members if self._replicas[node].end < offset)
