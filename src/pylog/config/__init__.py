"""Configs, under Kafka's names: `segment.bytes` is `segment_bytes` here, and both spellings are understood.

    TopicConfig       of a topic; defaults can come from the node
    NodeConfig        of a node: topic defaults by broker names (`log.segment.bytes`), and what a node has of its own
    GroupConfig       of a group; defaults come from the node
    DynamicBrokerConfig   what a node that runs goes by: its NodeConfig, and what was set since
    ProducerConfig, ConsumerConfig
    connection.ConnectionConfig   of the connections to a cluster; loaded by those that connect

An object checks its values when it is made, so every config object is valid. One exception: `TopicConfig.loaded` reads
the stored configs of a topic and never fails, because a log has to open with the configs that any program stored.

Differences from Kafka 4.3.1, all deliberate: `retention.ms` is -1 (an embedded log deletes records only on
request); a producer's `batch.size` is 262144 (in process there is no request to spread the cost over);
`sasl.enabled.mechanisms` are PLAIN and SCRAM (there is no Kerberos).
`flush.interval.ms` and `max.open.files` of a node and `consumer.timeout.ms` and
`pylog.max.record.bytes` of a consumer are not Kafka's.
"""

from pylog.config.clients import RECORD_BYTES_MAX, ConsumerConfig, ProducerConfig
from pylog.config.dynamic import DynamicBrokerConfig
from pylog.config.node import GroupConfig, NodeConfig
from pylog.config.options import ConfigType, config_type
from pylog.config.protocol_map import SecurityProtocol, protocols_of
from pylog.config.topic import RECORD_RATIO, TopicConfig

__all__ = [
    "RECORD_BYTES_MAX",
    "RECORD_RATIO",
    "ConfigType",
    "ConsumerConfig",
    "DynamicBrokerConfig",
    "GroupConfig",
    "NodeConfig",
    "ProducerConfig",
    "SecurityProtocol",
    "TopicConfig",
    "config_type",
    "protocols_of",
]
