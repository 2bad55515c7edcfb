"""The routes of calls: the node that a call goes to, and its address, as the answers of nodes have told so far. No I/O.

    a node's id      the address in the last Metadata
    a coordinator    the node in the last FindCoordinator, until that answers NotCoordinator
    any node         one that was reached last, another one, and in the end the addresses that were given at first

After a failure an address rests: 50 ms at first, twice as long after each further one, a second at most
(`reconnect.backoff.ms`, `reconnect.backoff.max.ms`; Kafka: ClusterConnectionStates).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pylog.client.network.address import Address
from pylog.protocol.wire.mapping import Body
from pylog.runtime.sockets import PORT_MAX, UNIX

__all__ = ["Place", "Routes"]

Place = tuple[str, str]
"""The kind and the key of what a coordinator is for: ("group", id) or ("transaction", id)."""
JITTER = 0.2


@dataclass(slots=True)
class _Failures:
    """The failures of an address since it was reached last."""

    count: int
    rests_until_ms: int
    last: Exception


class Routes:
    """The known nodes of a cluster, their leaders and addresses. Not thread-safe."""

    def __init__(
        self, bootstrap: Sequence[Address], backoff_ms: int, backoff_max_ms: int, name: Callable[[Address], str] = str
    ) -> None:  # fmt: skip
        self._bootstrap = list(bootstrap)
        self._name = name
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = max(backoff_max_ms, backoff_ms)
        self._failures: dict[Address, _Failures] = {}
        self._coordinators: dict[Place, int] = {}
        self.nodes: dict[int, Address] = {}
        self.was_reached = False
        """Whether any node has ever answered."""

    # --- nodes -------------------------------------------------------------------------------------------------------

    def learn(self, places: Mapping[int, tuple[str, int]]) -> None:
        """Take over the hosts and ports of nodes in a response to Metadata. Without nodes the old ones stay."""
        found = {node: self._address(*place) for node, place in places.items()}
        nodes = {node: address for node, address in found.items() if address is not None}
        if nodes:
            self.nodes = nodes

    def move(self, address: Address) -> None:
        """The one node behind a Unix socket listens at another address, or again: it is tried at once."""
        self._bootstrap = [address]
        self.nodes = dict.fromkeys(self.nodes, address)
        self._failures.clear()

    def learn_one(self, body: Body) -> None:
        """Take over the node in a response to FindCoordinator."""
        address = self._address(body["host"], body["port"])
        if address is not None and body["nodeId"] >= 0:
            self.nodes[body["nodeId"]] = address

    def _address(self, host: str, port: int) -> Address | None:
        """The address that a node tells. Behind a Unix socket it is that socket, as the host is out of reach."""
        if all(address.is_unix for address in self._bootstrap):
            return self._bootstrap[0]
        is_one = bool(host) and (0 < port <= PORT_MAX or host.startswith(UNIX))
        return Address(host, port) if is_one else None

    def any_node(self, tried: set[Address]) -> Address | None:
        """An address that was not tried, the ones that do not rest first; None: all were."""
        left = [one for one in dict.fromkeys([*self.nodes.values(), *self._bootstrap]) if one not in tried]
        return min(left, key=self.rests_until_ms, default=None)

    # --- coordinators ------------------------------------------------------------------------------------------------

    def coordinator(self, place: Place) -> int | None:
        """The node that coordinates something, as far as that is known."""
        return self._coordinators.get(place)

    def coordinates(self, place: Place, node: int) -> None:
        """A node is the coordinator."""
        self._coordinators[place] = node

    def forget_coordinator(self, place: Place) -> None:
        """It is another node now."""
        self._coordinators.pop(place, None)

    # --- failures ----------------------------------------------------------------------------------------------------

    def failed(self, address: Address, error: Exception, now_ms: int) -> None:
        """An address was not reached, or its connection broke: what it coordinates may have moved."""
        known = self._failures.get(address)
        count = 1 if known is None else known.count + 1
        rest = min(self._backoff_ms << min(count - 1, 30), self._backoff_max_ms)
        rest = round(rest * random.uniform(1 - JITTER, 1 + JITTER))
        self._failures[address] = _Failures(count, now_ms + rest, error)
        gone = {node for node, one in self.nodes.items() if one == address}
        self._coordinators = {place: node for place, node in self._coordinators.items() if node not in gone}

    def reached(self, address: Address) -> None:
        """A node at an address takes requests."""
        self.was_reached = True
        self._failures.pop(address, None)

    def rests_until_ms(self, address: Address) -> int:
        """When to try an address again; 0: now."""
        known = self._failures.get(address)
        return 0 if known is None else known.rests_until_ms

    def last_error(self, address: Address) -> Exception | None:
        """The last error of an address, if it was not reached since."""
        known = self._failures.get(address)
        return None if known is None else known.last

    def failures(self) -> str:
        """The last errors of the addresses that failed, for a message. For any thread."""
        return "; ".join(f"{self._name(address)}: {one.last}" for address, one in list(self._failures.items()))
