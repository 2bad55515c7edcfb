"""The numbers of a node for `Log.metrics`: what its parts count, and what they know already, read when it is asked for.

Nothing is opened for it: a partition counts, and so does the coordinator of a group, once it was used.
"""

from collections import Counter
from dataclasses import dataclass

from pylog.broker.coordinator_router import CoordinatorRouter
from pylog.broker.housekeeping import Housekeeping
from pylog.broker.produce import ProduceHandler
from pylog.broker.purgatory import Purgatory
from pylog.broker.reads import Reads
from pylog.broker.replica_manager import ReplicaManager
from pylog.broker.share_fetch import ShareFetches
from pylog.metrics import table
from pylog.metrics.snapshot import Metrics
from pylog.partition import Partition
from pylog.replica import Leader

BY_STATE = {"consumer": table.CONSUMER_GROUP_COUNT, "share": table.SHARE_GROUP_COUNT}


@dataclass(frozen=True, slots=True)
class Measures:
    """The parts of a node that count."""

    node: ReplicaManager
    produce: ProduceHandler
    reads: Reads
    purgatory: Purgatory
    coordinators: CoordinatorRouter
    housekeeping: Housekeeping
    share_fetches: ShareFetches

    def measure(self, found: Metrics) -> None:
        """Add the numbers of now."""
        self._topics(found)
        self._replicas(found)
        self._cleaning(found)
        self._groups(found)
        self.share_fetches.measure(found)
        produces, fetches, share_fetches = self.purgatory.sizes
        found.add(table.PURGATORY_SIZE, produces, delayedOperation="Produce")
        found.add(table.PURGATORY_SIZE, fetches, delayedOperation="Fetch")
        found.add(table.PURGATORY_SIZE, share_fetches, delayedOperation="ShareFetch")
        found.add(table.OFFLINE_LOG_DIRECTORIES, len(self.node.directories.failures))

    def _topics(self, found: Metrics) -> None:
        found.add(table.LOG_FLUSHES, self.node.topics.flushes)
        for partition in self.node.topics.partitions:
            topic, state = partition.topic, partition.state
            found.add(table.MESSAGES_IN, state.records_appended, topic=topic)
            found.add(table.BYTES_IN, state.bytes_appended, topic=topic)
            found.add(table.PRODUCE_REQUESTS, state.appends, topic=topic)
            found.add(table.FAILED_PRODUCE_REQUESTS, 0, topic=topic)
            found.add(table.REPLICATION_BYTES_IN, partition.bytes_followed, topic=topic)
            _log(found, partition)
        for topic, failures in list(self.produce.failures.items()):
            found.add(table.PRODUCE_REQUESTS, failures, topic=topic)
            found.add(table.FAILED_PRODUCE_REQUESTS, failures, topic=topic)
        for topic, counts in list(self.reads.counts.items()):
            found.add(table.FETCH_REQUESTS, counts.fetches, topic=topic)
            found.add(table.FAILED_FETCH_REQUESTS, counts.failures, topic=topic)
            found.add(table.BYTES_OUT, counts.bytes_out, topic=topic)
            found.add(table.REPLICATION_BYTES_OUT, counts.bytes_replicated, topic=topic)

    def _replicas(self, found: Metrics) -> None:
        leaders = under_replicated = under_min_isr = 0
        roles = self.node.roles.taken
        for role in roles:
            partition = role.partition
            key = {"topic": partition.topic, "partition": partition.number}
            if isinstance(role, Leader):
                replicas, in_sync = 1 + len(role.followers), 1 + len(role.isr)
                leaders += 1
                under_replicated += in_sync < replicas
                under_min_isr += role.is_under_min_isr
                found.add(table.REPLICAS_COUNT, replicas, **key)
                found.add(table.IN_SYNC_REPLICAS_COUNT, in_sync, **key)
            elif role.leader_high_watermark >= 0:
                found.add(table.FOLLOWER_LAG, max(0, role.leader_high_watermark - partition.next_offset), **key)
        found.add(table.PARTITION_COUNT, len(roles))
        found.add(table.LEADER_COUNT, leaders)
        found.add(table.UNDER_REPLICATED, under_replicated)
        found.add(table.UNDER_MIN_ISR, under_min_isr)

    def _cleaning(self, found: Metrics) -> None:
        housekeeping = self.housekeeping
        found.add(table.CLEAN_TIMES, housekeeping.clean_times.histogram)
        failed = [state for state in list(housekeeping.cleanings.values()) if state.error is not None]
        found.add(table.UNCLEANABLE_PARTITIONS, len(failed))
        found.add(table.CLEAN_SECONDS, housekeeping.last_clean_seconds)
        last = housekeeping.last_cleaned
        found.add(table.RECOPY_PERCENT, 0 if last is None else 100 * last.bytes_kept / max(last.bytes_read, 1))
        found.add(table.BUFFER_UTILIZATION_PERCENT, 0 if last is None else 100 * last.map_fill)

    def _groups(self, found: Metrics) -> None:
        protocols, states = Counter({"classic": 0, "consumer": 0, "share": 0}), Counter[tuple[str, str]]()
        commits = classic = consumer = 0
        for census in self.coordinators.census():
            commits += census.offset_commits
            classic += census.classic_rebalances
            consumer += census.consumer_rebalances
            for group, committed in census.groups:
                protocols[group.group_type] += 1
                states[group.group_type, group.group_state.lower()] += 1
                for key, at in committed.items():
                    role = self.node.roles.held(*key)
                    if role is not None:
                        behind = max(0, role.partition.high_watermark - at.offset)
                        tags = {"consumergroup": group.group_id, "topic": key.topic, "partition": key.partition}
                        found.add(table.GROUP_OFFSET, at.offset, **tags)
                        found.add(table.GROUP_LAG, behind, **tags)
        for protocol, count in protocols.items():
            found.add(table.GROUP_COUNT, count, protocol=protocol)
        for (kind, state), count in states.items():
            if kind in BY_STATE:
                found.add(BY_STATE[kind], count, state=state)
        found.add(table.OFFSET_COMMITS, commits)
        found.add(table.CLASSIC_REBALANCES, classic)
        found.add(table.CONSUMER_REBALANCES, consumer)


def _log(found: Metrics, partition: Partition) -> None:
    key = {"topic": partition.topic, "partition": partition.number}
    found.add(table.LOG_SIZE, partition.size, **key)
    found.add(table.NUM_LOG_SEGMENTS, partition.segment_count, **key)
    found.add(table.LOG_START_OFFSET, partition.start_offset, **key)
    found.add(table.LOG_END_OFFSET, partition.next_offset, **key)
    found.add(table.LAST_STABLE_OFFSET_LAG, partition.high_watermark - partition.last_stable_offset, **key)
