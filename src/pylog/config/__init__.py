"""Configs, under Kafka's names: `segment.bytes` is `segment_bytes` here, and both spellings are understood.

    TopicConfig       of a topic; defaults can come from the node
    NodeConfig        of a node: topic defaults by broker names (`log.segment.bytes`), and what a node has of its own
    ProducerConfig, ConsumerConfig

Values are checked when an object is made, whoever makes it: what is there is valid. Exception: what a topic was created
with is read back by `TopicConfig.loaded`, which never fails, for a log has to open whatever wrote its configs.

Differences from Kafka 4.3.1, all deliberate: `retention.ms` is -1 (an embedded log deletes nothing that nobody asked it
to delete); a producer's `batch.size` is 262144 (in process there is no request to spread the cost over).
`flush.interval.ms` and `max.open.files` of a node and `consumer.timeout.ms` and
`pylog.max.record.bytes` of a consumer are not Kafka's.
"""

from pylog.config.clients import RECORD_BYTES_MAX, ConsumerConfig, ProducerConfig
from pylog.config.node import NodeConfig
from pylog.config.topic import RECORD_RATIO, TopicConfig

__all__ = ["RECORD_BYTES_MAX", "RECORD_RATIO", "ConsumerConfig", "NodeConfig", "ProducerConfig", "TopicConfig"]
