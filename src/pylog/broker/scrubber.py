"""The background reading of everything that is sealed, so that bits that have rotted are known while a copy is left.

Each segment is read once in `scrub.interval.ms`, at no more than `scrub.io.max.bytes.per.second`: batches,
CRCs, offsets, epochs and indexes (`damage.look`), and the file as a whole. Where nothing is wrong its seal says from
then on what the bytes are, and when they were read; so the next reading sees what no batch's own CRC covers, and a
restart begins where the last one was. What is wrong is logged, and kept in `findings`; nothing is changed by it.
(reliability: R5. Kafka reads nothing in the background.)
"""

import logging
import threading
from contextlib import suppress

from pylog.broker.log_cleaner import Throttle
from pylog.broker.replica_manager import ReplicaManager
from pylog.config import NodeConfig
from pylog.errors import LogNotFound, PylogError
from pylog.logdirs.damage import Findings, look
from pylog.partition import Partition
from pylog.record import TopicPartition
from pylog.runtime.clock import Clock
from pylog.runtime.signals import WholeLock, pause
from pylog.runtime.worker import Worker
from pylog.segment import Segment
from pylog.storage.segment_checksum import CHANGED

logger = logging.getLogger("pylog.broker")

LOOK_EVERY_MS = 600_000
"""How often is asked which segments are due: one that is new is read that soon."""


class _StoppedError(PylogError):
    """The log is being closed."""


class Scrubber:
    """Reads the sealed segments of one node's partitions. Thread-safe."""

    def __init__(self, node: ReplicaManager, config: NodeConfig, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._interval_ms = config.scrub_interval_ms
        self._throttle = Throttle(config.scrub_io_max_bytes_per_second)
        self._found: dict[tuple[TopicPartition, int], tuple[Partition, Segment, Findings]] = {}
        self._stopped = threading.Event()
        self._scrubbing = WholeLock()
        self._due: int | None = None
        self._worker = Worker("pylog-scrubber", clock, lambda: self._due, self._work)

    @property
    def findings(self) -> Findings:
        """The findings in segments that are still part of the log, as of their last read."""
        places = sorted(self._found.items())
        return sum((one[2] for (key, _), one in places if self._is_there(key, *one[:2])), Findings())

    def _is_there(self, key: TopicPartition, partition: Partition, segment: Segment) -> bool:
        role = self._node.roles.held(*key)
        return role is not None and role.partition is partition and partition.sealed.has(segment)

    def start(self) -> None:
        """There may be something to read from now on."""
        if self._interval_ms >= 0 and self._due is None:
            self._due = self._clock.tick_ms() + LOOK_EVERY_MS
            if not self._worker.wake():
                self._due = None

    def _work(self) -> None:
        self.scrub()
        self._due = self._clock.tick_ms() + LOOK_EVERY_MS

    def scrub(self, *, everything: bool = False) -> Findings:
        """Read what is due, or `everything` that is sealed; gives what is wrong, with that of earlier readings."""
        with self._scrubbing:
            for partition in self._node.kept():
                key = TopicPartition(partition.topic, partition.number)
                for segment, _ in partition.segments[:-1]:
                    if self._stopped.is_set():
                        return self.findings
                    if not partition.failed and (everything or self._is_due(segment)):
                        self._scrub(key, partition, segment)
            self._found = {place: found for place, found in self._found.items() if self._is_there(place[0], *found[:2])}
            return self.findings

    def _is_due(self, segment: Segment) -> bool:
        with suppress(LogNotFound):
            sealed = segment.on_disk.sealed
            return sealed is None or self._clock.wall_ms() >= sealed.read_ms + self._interval_ms
        return False

    def _scrub(self, key: TopicPartition, partition: Partition, segment: Segment) -> None:
        """Read one segment. What fails is of this one alone."""
        try:
            findings, log = look(partition, segment, self._pause)
            if not findings:
                partition.sealed.note_read(segment, log, self._clock.wall_ms())
        except PylogError as error:
            if self._is_there(key, partition, segment) and not self._stopped.is_set():
                logger.error(
                    "%s-%d: %s could not be read through: %s",
                    *key,
                    segment.path,
                    error,
                    extra={**key._asdict(), "path": segment.path},
                )
            return
        place = (key, segment.base_offset)
        before = self._found.pop(place, None)
        if findings and self._is_there(key, partition, segment):
            self._found[place] = (partition, segment, findings)
            if before is None or before[-1] != findings:
                logger.error("%s-%d: %s", *key, said(findings), extra={**key._asdict(), "path": segment.path})

    def _pause(self, size: int) -> None:
        wait_ms = self._throttle.wait_ms(size, self._clock.tick_ms())
        if pause(self._stopped, max(wait_ms, 0) / 1000):
            raise _StoppedError

    def close(self) -> None:
        """Stop, in the middle of a file too."""
        self._stopped.set()
        self._worker.close()


def said(findings: Findings) -> str:
    """The findings in words."""
    parts = [
        f"offsets {one.offset} to {one.next_offset - 1} are damaged ({one.path}, position {one.position}, "
        f"{one.bytes_lost} bytes: {one.reason})"
        for one in findings.damages
    ]
    parts += [f"the indexes of {path} cannot be believed" for _, path in findings.indexes]
    parts += [f"{path} is not what it was when it was read before: {CHANGED}" for _, path in findings.changed]
    return f"{'; '.join(parts)}. `pylog repair` shows what can be done; better restore it from a replica or a backup"
