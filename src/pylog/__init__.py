"""pylog: Kafka's log as a Python library. `pylog.open(path)` is where it begins."""

from pylog.broker.replica_manager import Follow, Lead
from pylog.client.consumer import RebalanceListener
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer import Producer
from pylog.commitlog.recovery import Recovered
from pylog.errors import PylogError
from pylog.log import Log, open  # noqa: A004
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

__version__ = "0.1.0"

__all__ = [
    "Appended",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DeserializedRecord",
    "Follow",
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
    "TopicPartition",
    "TopicView",
    "Transport",
    "__version__",
    "open",
]
