"""A controller whose records are applied to an image, and nothing else."""

from collections.abc import Mapping
from uuid import UUID

from pylog.config import NodeConfig
from pylog.config.dynamic import Altered, DynamicBrokerConfig
from pylog.controller.controller import Controller
from pylog.protocol.messages import ConfigResource, NewTopic, ResourceType
from pylog.protocol.metadata_image import MetadataImage, PartitionImage, decode_record
from pylog.record import TopicPartition

HERE, BESIDE = UUID(int=900), UUID(int=901)
"""The log directories of the node."""
TOPIC_ID = UUID(int=77)
KEY = TopicPartition("t", 0)


class Cluster:
    """One node that is its own controller. `commit` applies records, and counts how often there are some."""

    def __init__(self, node_id: int = 1) -> None:
        self.image = MetadataImage()
        self.commits = 0
        cluster, own = (ConfigResource(ResourceType.BROKER, name) for name in ("", str(node_id)))

        def altered() -> Altered:
            return Altered(self.image.configs_of(cluster), self.image.configs_of(own))

        def of_group(name: str) -> Mapping[str, str]:
            return self.image.configs_of(ConfigResource(ResourceType.GROUP, name))

        self.controller = Controller(node_id, DynamicBrokerConfig(NodeConfig(), altered, of_group), lambda: self.image)

    def commit(self, records: list[bytes]) -> None:
        after = self.image.successor()
        for record in records:
            after.apply(decode_record(record))
        self.image = after
        self.commits += bool(records)

    def create(self, name: str = "t", partitions: int = 1, topic_id: UUID = TOPIC_ID) -> None:
        self.commit(self.controller.topics.create(NewTopic(name, partitions), topic_id, [HERE]))

    def state(self, key: TopicPartition = KEY) -> PartitionImage:
        return self.image.topic(key.topic).partitions[key.partition]
