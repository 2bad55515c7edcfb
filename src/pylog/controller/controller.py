"""All decisions of a cluster over one image."""

from collections.abc import Callable

from pylog.config import DynamicBrokerConfig
from pylog.controller.acls import AclControl
from pylog.controller.configs import ConfigControl
from pylog.controller.nodes import NodeControl
from pylog.controller.partitions import PartitionControl
from pylog.controller.producer_ids import ProducerIdControl
from pylog.controller.quotas import QuotaControl
from pylog.controller.topics import TopicControl
from pylog.controller.users import UserControl
from pylog.protocol.metadata_image import MetadataImage

__all__ = ["Controller"]


class Controller:
    """The decisions of node `node_id`, which is a quorum of one.

    `image` gives the committed content of the metadata log. The caller commits the records of one decision before it
    asks for the next one.
    """

    def __init__(self, node_id: int, configs: DynamicBrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self.partitions = PartitionControl(node_id, image)
        self.topics = TopicControl(node_id, configs, image, self.partitions)
        self.configs = ConfigControl(node_id, configs, image)
        self.users = UserControl(image)
        self.acls = AclControl(image)
        self.quotas = QuotaControl(image)
        self.nodes = NodeControl(node_id, image)
        self.producer_ids = ProducerIdControl(node_id, image)
