"""A node that this process owns, with its door for other processes."""

from contextlib import ExitStack

from pylog.attach.doorway import Doorway
from pylog.attach.settings import Settings
from pylog.broker.broker import Broker
from pylog.broker.nodes import owner
from pylog.metrics.snapshot import Metrics
from pylog.transport import Transport

__all__ = ["Owned"]


class Owned:
    """A node and its door. Raises what `pylog.open` raises."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        flush = settings.flush or "sync"
        # First what may be missing: no client hears of a node that does not come.
        self.doorway = Doorway(settings.paths, settings.clock, flush)
        try:
            self.broker: Broker = owner(
                list(settings.paths), settings.config, transport, settings.clock, settings.node_id, flush
            )
        except BaseException:
            self.doorway.close()
            raise
        try:
            self.doorway.open(self.broker)
        except BaseException:
            self.close()
            raise

    def hurry(self) -> bool:
        """See `Broker.hurry`."""
        return self.broker.hurry()

    def measure(self, found: Metrics) -> None:
        """See `Broker.measure`."""
        self.broker.measure(found)

    def close(self) -> None:
        """Close the door, then the node."""
        with ExitStack() as closing:
            closing.callback(self.broker.close)
            closing.callback(self.doorway.close)
