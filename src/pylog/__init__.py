"""pylog: Kafka's log as a Python library. `pylog.open(path)` is where it begins.

A name is imported when it is first used: a program that only connects to a cluster loads nothing of storage.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pylog.errors import PylogError
from pylog.version import VERSION

if TYPE_CHECKING:
    from pylog.broker.replica_manager import Follow, Lead
    from pylog.client.admin.admin import Admin
    from pylog.client.consumer import RebalanceListener
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer import Producer
    from pylog.commitlog.recovery import Recovered
    from pylog.connected_log import ConnectedLog, ConnectedPartition, ConnectedTopic, connect
    from pylog.following import Following, ReplicaLag
    from pylog.log import Log
    from pylog.opening import open, serve  # noqa: A004
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
    from pylog.views import PartitionView, TopicView

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
    "Appended": "pylog.partition",
    "ConnectedLog": "pylog.connected_log",
    "ConnectedPartition": "pylog.connected_log",
    "ConnectedTopic": "pylog.connected_log",
    "Consumer": "pylog.client.consumer.consumer",
    "ConsumerGroupMetadata": "pylog.record",
    "ConsumerRecord": "pylog.record",
    "DeserializedRecord": "pylog.record",
    "Follow": "pylog.broker.replica_manager",
    "Following": "pylog.following",
    "Header": "pylog.record",
    "Lead": "pylog.broker.replica_manager",
    "Log": "pylog.log",
    "MemoryTransport": "pylog.transport",
    "OffsetAndMetadata": "pylog.record",
    "OffsetAndTimestamp": "pylog.record",
    "PartitionView": "pylog.views",
    "Producer": "pylog.client.producer",
    "RebalanceListener": "pylog.client.consumer",
    "Record": "pylog.record",
    "RecordMetadata": "pylog.record",
    "Recovered": "pylog.commitlog.recovery",
    "ReplicaLag": "pylog.following",
    "TopicPartition": "pylog.record",
    "TopicView": "pylog.views",
    "Transport": "pylog.transport",
    "connect": "pylog.connected_log",
    "open": "pylog.opening",
    "serve": "pylog.opening",
}

if not TYPE_CHECKING:  # mypy would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name not in ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(ON_FIRST_USE[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
