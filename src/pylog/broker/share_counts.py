"""The numbers of the share groups of a node, for `Log.metrics`. (Kafka: ShareGroupMetrics, SharePartitionMetrics)"""

from collections import Counter
from collections.abc import Callable, Iterable
from uuid import UUID

from pylog.broker.share_partition_host import SharePartitionHost
from pylog.coordinator.share.share_partition import Acknowledgement
from pylog.coordinator.share.states import AcknowledgeType
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.protocol.messages.share import SharedPartition

NAMES = {kind: kind.name.capitalize() for kind in AcknowledgeType if kind is not AcknowledgeType.GAP}


class ShareCounts:
    """Counts since the node was opened: of requests by the number of the topic, of acknowledgements by their type."""

    def __init__(self) -> None:
        self.fetches: Counter[int] = Counter()
        self.failed_fetches: Counter[int] = Counter()
        self.acknowledges: Counter[int] = Counter()
        self.failed_acknowledges: Counter[int] = Counter()
        self._types: Counter[int] = Counter()

    def note_types(self, batches: Iterable[Acknowledgement]) -> None:
        """Count the records of which a member says something."""
        types = self._types
        for first, last, kinds in batches:
            if len(kinds) == 1:
                types[kinds[0]] += last + 1 - first
            else:
                types.update(kinds)

    def note(self, counts: Counter[int], parts: Iterable[SharedPartition]) -> None:
        """Count a request with these partitions: once for each of their topics."""
        for topic in {part.topic for part in parts}:
            counts[topic] += 1

    def measure(self, found: Metrics, name: Callable[[UUID], str | None]) -> None:
        """Add the numbers of now, of topics that are there."""
        for metric, counts in (
            (table.SHARE_FETCH_REQUESTS, self.fetches),
            (table.FAILED_SHARE_FETCH_REQUESTS, self.failed_fetches),
            (table.SHARE_ACKNOWLEDGE_REQUESTS, self.acknowledges),
            (table.FAILED_SHARE_ACKNOWLEDGE_REQUESTS, self.failed_acknowledges),
        ):
            for number, count in counts.copy().items():
                topic = name(UUID(int=number))
                if topic is not None:
                    found.add(metric, count, topic=topic)
        for kind, word in NAMES.items():
            found.add(table.RECORD_ACKNOWLEDGEMENTS, self._types[kind], ackType=word)


def measure_host(found: Metrics, host: SharePartitionHost) -> None:
    """Add the numbers of a share partition."""
    topic, partition = host.name
    tags = {"group": host.group_id, "topic": topic, "partition": partition}
    standing = host.standing()
    found.add(table.ACQUISITION_LOCK_TIMEOUTS, host.timeouts, **tags)
    found.add(table.IN_FLIGHT_MESSAGES, standing.end_offset - standing.start_offset, **tags)
    found.add(table.IN_FLIGHT_BATCHES, standing.batches, **tags)
    found.add(table.ACQUIRED_MESSAGES, standing.acquired, **tags)
    found.add(table.OLDEST_LOCK, standing.oldest_lock_ms or 0, **tags)
    for count, records in standing.deliveries.items():
        found.add(table.DELIVERED_MESSAGES, records, **tags, deliveries=count)
