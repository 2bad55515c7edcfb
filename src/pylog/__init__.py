"""pylog: Kafka's log as a Python library. `pylog.open(path)` is where it begins.

A name is imported when it is first used: a program that only connects to a cluster loads nothing of storage.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.errors import PylogError
from pylog.version import VERSION

if TYPE_CHECKING:
    from pylog import aio, metrics
    from pylog.broker.log_cleaner import Cleaned
    from pylog.client.admin.admin import Admin
    from pylog.client.consumer import RebalanceListener
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer import Producer
    from pylog.client.share_consumer.share_consumer import ShareConsumer
    from pylog.commitlog.recovery import Quarantined, Recovered
    from pylog.config.typed import (
        ConnectionOptions,
        ConsumerOptions,
        NodeOptions,
        ProducerOptions,
        ShareConsumerOptions,
        TopicOptions,
    )
    from pylog.controller.roles import Follow, Lead
    from pylog.handles.connected_log import ConnectedLog, ConnectedPartition, ConnectedTopic, connect
    from pylog.handles.following import Following, ReplicaLag
    from pylog.handles.views import PartitionView, SegmentInfo, TopicView
    from pylog.log import Log, open, serve  # noqa: A004
    from pylog.logdirs.damage import Findings
    from pylog.partition import Appended
    from pylog.protocol.acls import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AclResourceType,
        PatternType,
    )
    from pylog.record import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        DeserializedRecord,
        Header,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        Record,
        RecordMetadata,
        ShareRecord,
        TopicPartition,
    )
    from pylog.runtime.future import Future
    from pylog.server.server import Server
    from pylog.tables import AppendedTable, Selection
    from pylog.transport import MemoryTransport, Transport

__version__ = VERSION

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "Appended",
    "AppendedTable",
    "Cleaned",
    "ConnectedLog",
    "ConnectedPartition",
    "ConnectedTopic",
    "ConnectionOptions",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRecord",
    "DeserializedRecord",
    "Findings",
    "Follow",
    "Following",
    "Future",
    "Header",
    "Lead",
    "Log",
    "MemoryTransport",
    "NodeOptions",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionView",
    "PatternType",
    "Producer",
    "ProducerOptions",
    "PylogError",
    "Quarantined",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Recovered",
    "ReplicaLag",
    "SegmentInfo",
    "Selection",
    "Server",
    "ShareConsumer",
    "ShareConsumerOptions",
    "ShareRecord",
    "TopicOptions",
    "TopicPartition",
    "TopicView",
    "Transport",
    "__version__",
    "aio",
    "connect",
    "errors",
    "metrics",
    "open",
    "serve",
]

ON_FIRST_USE = {
    "AclBinding": "pylog.protocol.acls",
    "AclBindingFilter": "pylog.protocol.acls",
    "AclOperation": "pylog.protocol.acls",
    "AclPermissionType": "pylog.protocol.acls",
    "AclResourceType": "pylog.protocol.acls",
    "Admin": "pylog.client.admin.admin",
    "Appended": "pylog.partition",
    "AppendedTable": "pylog.tables",
    "Cleaned": "pylog.broker.log_cleaner",
    "ConnectedLog": "pylog.handles.connected_log",
    "ConnectedPartition": "pylog.handles.connected_log",
    "ConnectedTopic": "pylog.handles.connected_log",
    "ConnectionOptions": "pylog.config.typed",
    "Consumer": "pylog.client.consumer.consumer",
    "ConsumerGroupMetadata": "pylog.record",
    "ConsumerOptions": "pylog.config.typed",
    "ConsumerRecord": "pylog.record",
    "DeserializedRecord": "pylog.record",
    "Findings": "pylog.logdirs.damage",
    "Follow": "pylog.controller.roles",
    "Following": "pylog.handles.following",
    "Future": "pylog.runtime.future",
    "Header": "pylog.record",
    "Lead": "pylog.controller.roles",
    "Log": "pylog.log",
    "MemoryTransport": "pylog.transport",
    "NodeOptions": "pylog.config.typed",
    "OffsetAndMetadata": "pylog.record",
    "OffsetAndTimestamp": "pylog.record",
    "PartitionView": "pylog.handles.views",
    "PatternType": "pylog.protocol.acls",
    "Producer": "pylog.client.producer",
    "ProducerOptions": "pylog.config.typed",
    "Quarantined": "pylog.commitlog.recovery",
    "RebalanceListener": "pylog.client.consumer",
    "Record": "pylog.record",
    "RecordMetadata": "pylog.record",
    "Recovered": "pylog.commitlog.recovery",
    "ReplicaLag": "pylog.handles.following",
    "SegmentInfo": "pylog.handles.views",
    "Selection": "pylog.tables",
    "Server": "pylog.server.server",
    "ShareConsumer": "pylog.client.share_consumer.share_consumer",
    "ShareConsumerOptions": "pylog.config.typed",
    "ShareRecord": "pylog.record",
    "TopicOptions": "pylog.config.typed",
    "TopicPartition": "pylog.record",
    "TopicView": "pylog.handles.views",
    "Transport": "pylog.transport",
    "aio": "pylog.aio",
    "connect": "pylog.handles.connected_log",
    "metrics": "pylog.metrics",
    "open": "pylog.log",
    "serve": "pylog.log",
}

if not TYPE_CHECKING:  # mypy would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name not in ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        where = ON_FIRST_USE[name]
        module = import_module(where)
        globals()[name] = found = module if where == f"{__name__}.{name}" else getattr(module, name)
        return found

    def __dir__() -> list[str]:
        return sorted(__all__)
