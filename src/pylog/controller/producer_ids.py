"""Blocks of producer ids. (Kafka: ProducerIdControlManager)"""

from collections.abc import Callable

from pylog.controller.slots import ID_SLOT, ID_SLOTS, next_slot
from pylog.protocol.metadata_changes import allocate_producer_ids
from pylog.protocol.metadata_image import MetadataImage

BLOCK = 1000
"""The number of producer ids that a node takes at once (Kafka: ProducerIdsBlock)."""


class ProducerIdControl:
    """Gives producer ids: each once."""

    def __init__(self, node_id: int, image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._image = image

    def allocate(self) -> tuple[list[bytes], range]:
        """The records, and the ids that they give to this node."""
        first = self._image().next_producer_id
        return self._until(first + BLOCK), range(first, first + BLOCK)

    def reserve(self, upto: int) -> list[bytes]:
        """The records after which no id below `upto` is given: some of them are in use."""
        return self._until(upto) if self._image().next_producer_id < upto else []

    def take_over(self, seen: int) -> tuple[list[bytes], int]:
        """The records after which this node gives ids that no other one gives, and the first of these ids.

        Another node has led, and has given ids that are in use, up to `seen` in the logs.
        """
        first = next_slot(max(self._image().next_producer_id, seen), self._node_id, ID_SLOTS, ID_SLOT)
        return self._until(first), first

    def _until(self, next_id: int) -> list[bytes]:
        registered = self._image().nodes.get(self._node_id)
        return allocate_producer_ids(self._node_id, registered.epoch if registered is not None else 0, next_id)
