"""When what was appended is synced in the background: `flush="interval"`, and the `flush.ms` of a topic.

An append that finds nothing due sets the time, and wakes the thread that calls `work`; the sync comes then, also where
another thread has synced meanwhile. (Kafka: LogManager.flushDirtyLogs, which looks at all logs every so often.)
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack

from pylog.broker.alarm import Alarm
from pylog.broker.replica_manager import ReplicaManager
from pylog.commitlog.plain_rules import NEVER
from pylog.errors import NotLeaderOrFollower, PylogError
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WHOLE

logger = logging.getLogger("pylog.broker")


class FlushScheduler:
    """The background syncs of one node. `wake` is called when there is a new time at which `work` has to be called. It
    arms `alarm` when it needs to hear of the next append.
    """

    def __init__(
        self, replica_manager: ReplicaManager, clock: Clock, flush: str, interval_ms: int, alarm: Alarm,
        wake: Callable[[], object],
    ) -> None:  # fmt: skip
        self._roles, self._topics = replica_manager.roles, replica_manager.topics
        self._clock = clock
        self._flush = flush
        self._interval_ms = interval_ms
        self._alarm = alarm
        self._wake = wake
        self._all_due: int | None = None
        self._topics_due: dict[TopicPartition, int] = {}

    def note_append(self, partition: Partition) -> None:
        """Something was appended: it is due some day by `flush` or by its topic's config."""
        if self._flush == "sync":
            return
        if self._flush == "interval" and self._all_due is None:
            with WHOLE:
                self._all_due = self._clock.tick_ms() + self._interval_ms
                self._wake()
        if partition.config.flush_ms < NEVER:
            key = TopicPartition(partition.topic, partition.number)
            if key not in self._topics_due:
                with WHOLE:
                    self._topics_due[key] = self._clock.tick_ms() + partition.config.flush_ms
                    self._wake()

    @property
    def due_ms(self) -> int | None:
        """When `work` has something to do (ticks); None where nothing was appended."""
        times = [self._all_due, *self._topics_due.copy().values()]
        return min((due for due in times if due is not None), default=None)

    def work(self, now_ms: int) -> None:
        """Sync what is due. No caller can be told of an error: a partition that must not go on has latched itself."""
        for key in [key for key, due in self._topics_due.copy().items() if due <= now_ms]:
            # First, so that an append from now on is due again.
            del self._topics_due[key]
            role = self._roles.held(*key)
            if role is not None:
                _attempt(_sync, role.partition)
        if self._all_due is not None and self._all_due <= now_ms:
            self._all_due = None
            self._alarm.is_armed = True
            _attempt(self.sync)

    def sync(self) -> None:
        """Make everything appended so far durable. Raises DurabilityUnknown, after it has synced the partitions that
        could be.
        """
        with ExitStack() as syncing:
            for partition in self._topics.partitions:
                if partition.durable_offset < partition.next_offset:
                    syncing.callback(_sync, partition)


def _attempt(sync: Callable[..., None], *arguments: Partition) -> None:
    try:
        sync(*arguments)
    except PylogError as error:
        logger.error("syncing in the background failed: %s", error)


def _sync(partition: Partition) -> None:
    try:
        partition.sync()
    except NotLeaderOrFollower:
        # Deleted or moved meanwhile: nothing is left here to be synced (KAFKA-15391).
        return
    partition.publish()
