"""The limits on the connections that a server takes: at once, from one address, and in a second. (Kafka:
ConnectionQuotas)

A connection too many is closed at once. Where too many come in a second, the next ones wait to be accepted.
"""

from collections import Counter

from pylog.config import DynamicBrokerConfig
from pylog.config.options import INT_MAX

__all__ = ["Admission"]

SECOND_MS = 1000


class Admission:
    """The connections of a server. For the loop's thread. A Unix socket has no address: ""."""

    def __init__(self, configs: DynamicBrokerConfig) -> None:
        self._configs = configs
        self.count = 0
        """The connections that are open."""
        self._by_host: Counter[str] = Counter()
        self._began_ms = -SECOND_MS
        self._since = 0
        """The second that is counted, and the connections in it."""

    def wait_ms(self, now_ms: int) -> int:
        """The time during which no further connection is to be accepted."""
        rate = self._configs.current.max_connection_creation_rate
        if rate == INT_MAX:
            return 0
        if now_ms - self._began_ms >= SECOND_MS:
            self._began_ms, self._since = now_ms, 0
        if self._since >= rate:
            return self._began_ms + SECOND_MS - now_ms
        self._since += 1
        return 0

    def enter(self, host: str) -> str | None:
        """Take a connection; gives the config that refuses it, if one does."""
        config = self._configs.current
        if self.count >= config.max_connections:
            return "max.connections"
        if host and self._by_host[host] >= config.max_connections_per_ip:
            return "max.connections.per.ip"
        self.count += 1
        self._by_host[host] += 1
        return None

    def leave(self, host: str) -> None:
        """A connection has ended."""
        self.count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
