"""The followers of a leader, each registered by the log directory that it came with. (Kafka: ClusterControlManager)"""

from collections.abc import Callable, Iterable
from uuid import UUID

from pylog.errors import DuplicateBrokerRegistration
from pylog.protocol.messages import NO_ID
from pylog.protocol.metadata_changes import register_node, unregister_node
from pylog.protocol.metadata_image import MetadataImage


class NodeControl:
    """Registers followers."""

    def __init__(self, node_id: int, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image

    def is_known(self, node: int, directory: UUID) -> bool:
        """Whether a follower that comes with this log directory need not be registered; NO_ID says none.

        Raises DuplicateBrokerRegistration: another node with this id has come before.
        """
        known = self._image().nodes.get(node)
        if directory == NO_ID or (known is not None and directory in known.directories):
            return True
        if known is not None:
            raise DuplicateBrokerRegistration(
                f"node {node} came with log directory {', '.join(map(str, known.directories))}, and another node with "
                f"this id has {directory}: give that another node_id. If it takes the place of the first, call "
                f"lead(topic, followers={{{node}}}) again"
            )
        return False

    def register(self, node: int, directory: UUID, incarnation: UUID) -> list[bytes]:
        """The records by which a follower is the node of its id, as long as it has this log directory.

        Raises DuplicateBrokerRegistration.
        """
        if self.is_known(node, directory):
            return []
        return register_node(node, incarnation=incarnation, directories=[directory])

    def unregister(self, nodes: Iterable[int]) -> list[bytes]:
        """The records after which the next follower that comes with one of these ids is taken for the node."""
        registered = self._image().nodes
        known = [registered[node] for node in nodes if node in registered and node != self._node_id]
        return [record for node in known for record in unregister_node(node.id, node.epoch)]
