"""The traffic of the connections of a client program so far. The network's thread counts, any thread reads."""

from pylog.client.network.call import Call
from pylog.metrics import table
from pylog.metrics.histogram import Times
from pylog.metrics.snapshot import Metrics
from pylog.runtime.clock import stopwatch_ns

__all__ = ["Traffic"]


class Traffic:
    """Counts of all connections, those that have ended among them."""

    __slots__ = ("_latencies", "bytes_in", "bytes_out", "connections")

    def __init__(self) -> None:
        self.connections = self.bytes_in = self.bytes_out = 0
        self._latencies: dict[str, Times] = {}
        """By the name of the request."""

    def note_answer(self, call: Call) -> None:
        """A call was answered by a node."""
        times = self._latencies.get(call.name)
        if times is None:
            times = self._latencies.setdefault(call.name, Times())
        times.add(stopwatch_ns() - call.begun_ns)

    def measure(self, found: Metrics, open_connections: int) -> None:
        """Add the numbers of now."""
        found.add(table.CLIENT_CONNECTION_COUNT, open_connections)
        found.add(table.CLIENT_CONNECTIONS, self.connections)
        found.add(table.CLIENT_BYTES_OUT, self.bytes_out)
        found.add(table.CLIENT_BYTES_IN, self.bytes_in)
        for request, times in list(self._latencies.items()):
            found.add(table.REQUEST_LATENCIES, times.histogram, request=request)
