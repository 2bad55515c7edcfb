"""pylog: Kafka's log as a Python library. `pylog.open(path)` is where it begins.

`ON_FIRST_USE` lists names and their modules. A module is imported when its name is first used, or when a log is opened.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pylog.broker.replica_manager import Follow, Lead
from pylog.client.producer import Producer
from pylog.commitlog.recovery import Recovered
from pylog.errors import PylogError
from pylog.log import Log, open, serve  # noqa: A004
from pylog.partition import Appended
from pylog.record import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    DeserializedRecord,
    Header,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Record,
    RecordMetadata,
    TopicPartition,
)
from pylog.transport import MemoryTransport, Transport
from pylog.version import VERSION
from pylog.views import PartitionView, TopicView

if TYPE_CHECKING:
    from pylog.client.admin.admin import Admin
    from pylog.client.consumer import RebalanceListener
    from pylog.client.consumer.consumer import Consumer
    from pylog.connected_log import ConnectedLog, ConnectedPartition, ConnectedTopic, connect
    from pylog.following import Following, ReplicaLag

__version__ = VERSION

__all__ = [
    "Admin",
    "Appended",
    "ConnectedLog",
    "ConnectedPartition",
    "ConnectedTopic",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DeserializedRecord",
    "Follow",
    "Following",
    "Header",
    "Lead",
    "Log",
    "MemoryTransport",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionView",
    "Producer",
    "PylogError",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Recovered",
    "ReplicaLag",
    "TopicPartition",
    "TopicView",
    "Transport",
    "__version__",
    "connect",
    "open",
    "serve",
]

ON_FIRST_USE = {
    "Admin": "pylog.client.admin.admin",
    "ConnectedLog": "pylog.connected_log",
    "ConnectedPartition": "pylog.connected_log",
    "ConnectedTopic": "pylog.connected_log",
    "Consumer": "pylog.client.consumer.consumer",
    "Following": "pylog.following",
    "RebalanceListener": "pylog.client.consumer",
    "ReplicaLag": "pylog.following",
    "connect": "pylog.connected_log",
}

if not TYPE_CHECKING:  # mypy would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name not in ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(ON_FIRST_USE[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
