"""The look for followers that lag. They leave the ISR, so that appends do not wait for a node that is away.

(Kafka: ReplicaManager.maybeShrinkIsr)
"""

import logging
from collections.abc import Callable

from pylog.broker.replica_manager.roles import Roles
from pylog.config import NodeConfig
from pylog.replica import Leader
from pylog.runtime.clock import Clock

logger = logging.getLogger("pylog.broker")


class IsrChanges:
    """Looks twice in each `replica.lag.time.max.ms` at what one node leads, while it has followers.

    `shrunk` hears of each leader whose ISR has become smaller.
    """

    def __init__(self, roles: Roles, clock: Clock, config: NodeConfig, shrunk: Callable[[Leader], None]) -> None:
        self._roles = roles
        self._lag_ms = config.replica_lag_time_max_ms
        self._shrunk = shrunk
        self._due_ms = clock.tick_ms() + self._lag_ms // 2

    @property
    def due_ms(self) -> int | None:
        """When it looks again; None while there is no follower."""
        return self._due_ms if self._roles.has_followers else None

    def work(self, now_ms: int) -> None:
        """Let the followers that lag leave, if it is time to look."""
        if now_ms < self._due_ms or not self._roles.has_followers:
            return
        self._due_ms = now_ms + max(1, self._lag_ms // 2)
        leaders = [role for role in self._roles.taken if isinstance(role, Leader) and role.has_followers]
        found = ((leader, leader.lagging(now_ms, self._lag_ms)) for leader in leaders)
        lagging = {leader: nodes for leader, nodes in found if nodes}
        if not lagging:
            return
        for leader in self._roles.drop_lagging(lagging):
            partition, nodes = leader.partition, sorted(lagging[leader])
            logger.warning(
                "%s-%d: nodes %s have not caught up for %d ms and are not in the ISR any more", partition.topic,
                partition.number, nodes, self._lag_ms,
                extra={"topic": partition.topic, "partition": partition.number, "followers": nodes},
            )  # fmt: skip
            self._shrunk(leader)
