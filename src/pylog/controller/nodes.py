"""The followers of a leader, each registered by its id and log directory. (Kafka: ClusterControlManager)"""

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
        """True where a follower is registered with this log directory, and where it names none (NO_ID).

        Raises DuplicateBrokerRegistration: its id is registered with another log directory.
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
        """The records that register a follower with this log directory. Raises DuplicateBrokerRegistration."""
        if self.is_known(node, directory):
            return []
        return register_node(node, incarnation=incarnation, directories=[directory])

    def unregister(self, nodes: Iterable[int]) -> list[bytes]:
        """The records that remove the registrations of followers: the next one with such an id is registered."""
        registered = self._image().nodes
        known = [registered[node] for node in nodes if node in registered and node != self._node_id]
        return [record for node in known for record in unregister_node(node.id, node.epoch)]
