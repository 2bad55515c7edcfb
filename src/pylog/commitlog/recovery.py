"""The recovery of a partition when it is opened, up to the end of its log: after an unclean stop its files are read
on from where they are known to be good.

    [ below the durable offset, and every segment )[ the last segment, at or beyond it      ]
      that another one follows
      damage: kept as it is and stepped over;        whole batches stay, a torn tail is cut
      CorruptBatch for a reader of what was in it

pylog makes a segment durable before another one follows it (`LocalLog.roll`), whatever was promised. So a bad batch in
it is damage, and so is a hole between its last batch and the next segment (`_look_for_a_hole`). Kafka does not:
in a log that pylog has not published, a segment without a seal may be torn, and is cut with all that follows it, as
Kafka does.

Indexes are rebuilt from the segment that holds the recovery point on, and where one is missing; leader epochs that the
checkpoint has missed are noted; the producers' state is read from its snapshots and brought up to the end of the log.
No other thread sees the partition yet, so no lock is taken. (Kafka: LogLoader, ProducerStateManager.)
"""

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from pylog.commitlog.local_log import LocalLog
from pylog.commitlog.producer_replay import ProducerReplay
from pylog.errors import StorageError
from pylog.record import TopicPartition
from pylog.segment import Segment
from pylog.storage.file_ranges import DamagedRange, Fault, Window
from pylog.storage.leader_epochs import LeaderEpochs
from pylog.storage.producer_state import Producers
from pylog.storage.segment_list import Listing
from pylog.storage.transaction_index import AbortedTxn

logger = logging.getLogger("pylog.commitlog")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The entries of the log directory's checkpoints for a partition, from when it was last open."""

    start_offset: int = 0
    recovery_point: int = 0
    """Everything below was fsynced, indexes too: recovery begins here."""
    durable_offset: int = 0
    """Everything below was promised: where it cannot be read it is damaged, and never cut."""
    high_watermark: int = 0
    clean: bool = True
    failed: bool = False
    """Whether it was latched: the system may call written, and show, what the disk has not."""
    published: bool = False
    """Whether pylog has published these offsets, and no other program has changed the log since: a first segment behind
    the start was lost then, and after a clean stop every file that the listing has and the folder has not.
    """


@dataclass(frozen=True, slots=True)
class Recovered:
    """A torn tail that opening a partition cut off: nothing in it was known to be durable."""

    topic: str
    partition: int
    path: str
    position: int
    offset: int
    bytes_cut: int
    reason: str
    is_one_write: bool = False
    """True where the tail is the beginning of one write: a killed process leaves that, and no caller had an answer."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A part of the log that was durable and cannot be read any more: kept as it is, and stepped over."""

    topic: str
    partition: int
    path: str
    position: int
    bytes_lost: int
    offset: int
    next_offset: int
    reason: str


class Recovery:
    """Brings the indexes, epochs and producers of one partition to the end of its log. (LogLoader.recoverLog)"""

    def __init__(
        self, local: LocalLog, key: TopicPartition, epochs: LeaderEpochs, producers: Producers,
        checkpoint: Checkpoint, now_ms: int,
    ) -> None:  # fmt: skip
        self.local = local
        self.segments = local.segments
        self.key = key
        self.epochs = epochs
        self.producers = producers
        self.checkpoint = checkpoint
        self.start_offset = checkpoint.start_offset
        self.promised = checkpoint.durable_offset
        self.now_ms = now_ms
        self.torn: Recovered | None = None
        self.quarantined: list[Quarantined] = []
        self._has_rebuilt = False
        """A segment was read again. The snapshot of its end may match no base offset, where a gap follows."""

    @cached_property
    def _scratch(self) -> ProducerReplay:
        """Producers of the segments that are read again; most openings read none."""
        return ProducerReplay(Producers(self.producers.name, expiration_ms=self.producers.expiration_ms))

    def run(self, listing: Listing) -> int:
        """Open what is on disk, which `listing` says; gives where the log ends."""
        segments = self.segments
        for base, following in listing.gone:
            self._lose(self.local.fill(base, following), base, following)
        self._refuse_a_stranger(segments.active)
        lost = min(segments.start, self.promised)
        if self.checkpoint.published and self.start_offset < lost:
            self._lose(self.local.fill(self.start_offset, lost), self.start_offset, lost)
        if self.checkpoint.failed:
            # They may be what the disk has not, as all that was written since the last sync.
            self.local.snapshots.drop_above(self.promised)
        segments.active.created_ms = segments.active.modified_ms()
        known_good = max(self.checkpoint.recovery_point, self.start_offset)
        first = self._first_to_read(listing, known_good)
        active = segments.active
        if first == len(segments):
            if active.on_disk.sealed is None:
                active.activate()
            first -= active.load() is not None
        self._from(first)
        is_known = self.checkpoint.published or self.promised > 0
        if self.checkpoint.clean and is_known and segments.active.next_offset > self.promised:
            # It was closed at `promised`: a header says what is not so, or the close has. The batches tell which.
            self._doubt()
            self._from(segments.index_of(known_good))
        end = self._reached
        if self.checkpoint.clean and is_known and end < self.promised:
            # By headers alone: a damaged length may have led past good batches to the end of the file.
            self._from(len(segments) - 1)
            end = self._reached
        if end < self.promised:
            self._missing(end)
            end = self.promised
        self.start_offset = max(self.start_offset, segments.start)
        if self._has_rebuilt or not listing.in_order:
            self.local.snapshots.drop_strays(segments.bases)
        self.finish(end)
        self.local.write_damages()
        self._add_known()
        return end

    @property
    def _reached(self) -> int:
        """The offset behind the last batch that is there, or behind the damage that follows it."""
        active = self.segments.active
        return max([active.next_offset, *(damage.next_offset for damage in active.log.damages)])

    def _first_to_read(self, listing: Listing, known_good: int) -> int:
        """The place of the first segment from which on all is read again. Before it, single indexes are rebuilt."""
        segments = self.segments
        first = len(segments) if self.checkpoint.clean else segments.index_of(known_good)
        for index in self.local.lacking_an_index(listing, first):
            if index < min(first, len(segments) - 1):
                self._one(index)
            else:
                first = min(first, index)
        for index in self.local.lacking_times(listing):
            if index < first:
                self._rebuild_times(index)
        return first

    def _doubt(self) -> None:
        """The log was not closed as it seems: it is recovered, as after a crash."""
        logger.warning(
            "%s-%d goes on behind offset %d, where it was closed: it is recovered",
            *self.key,
            self.promised,
            extra={**self.key._asdict(), "offset": self.promised},
        )
        self.checkpoint = replace(self.checkpoint, clean=False)

    def _refuse_a_stranger(self, active: Segment) -> None:
        """After a clean close no segment begins behind the end, or appends would go into it below its base offset;
        unless it follows the one before it, so that the close is what was not so.
        """
        if not (self.checkpoint.clean and self.checkpoint.published) or active.base_offset <= self.promised:
            return
        for segment, following in pairwise(self.segments.from_offset(self.promised)):
            ends = [window.spans[-1].last_offset + 1 for window in segment.scan(check_crc=False) if window.spans]
            if following.base_offset != max(ends, default=segment.base_offset):
                raise StorageError(
                    f"{active.path} begins behind the end of the log, which was closed at offset {self.promised}: it "
                    "is not part of it. Move it away, and open the log again; unless the files beside the partitions "
                    "(.pylog-published, the checkpoints) are older copies: then remove .pylog-published"
                )
        self._doubt()

    def _add_known(self) -> None:
        """Add the damaged ranges that an earlier opening has found."""
        new = {(one.path, one.position, one.offset) for one in self.quarantined}
        for path, damage in self.local.damages():
            if (path, damage.position, damage.offset) not in new:
                self._note(path, damage, "found damaged by an earlier opening")

    def _note(self, path: str, damage: DamagedRange, reason: str) -> None:
        lost = damage.end - damage.position
        self.quarantined.append(
            Quarantined(*self.key, path, damage.position, lost, damage.offset, damage.next_offset, reason)
        )

    def _from(self, index: int) -> None:
        """Read everything from the segment at `index` on, CRCs included, and index it again."""
        while index < len(self.segments):
            segment = self.segments[index]
            sealed_end, sealed_size = segment.on_disk.sealed_end, segment.log.sealed_bytes()
            end = self.segments.end_of(index, self.promised)
            is_followed = index + 1 < len(self.segments)
            is_durable = is_followed and (self.checkpoint.published or segment.on_disk.sealed is not None)
            fault = self._rebuilt(segment, end, is_durable=is_durable)
            index += 1
            if fault is not None:
                self._cut(index, fault)
            if index == len(self.segments):
                return
            self._look_for_a_hole(segment, sealed_size, end)
            segment.seal(end if sealed_end is None else sealed_end)
            if sealed_end is not None and sealed_end < end and end > self.start_offset:
                self._lose(self.local.fill(sealed_end, end), sealed_end, end)
                index += 1

    def _one(self, index: int) -> None:
        """Rebuild the indexes of one sealed segment that lacks one of them, or has one that cannot be."""
        segment, end = self.segments[index], self.segments.end_of(index, self.promised)
        logger.warning(
            "%s-%d: the indexes of %s are rebuilt",
            *self.key,
            segment.path,
            extra={**self.key._asdict(), "path": segment.path},
        )
        sealed_end, sealed_size = segment.on_disk.sealed_end, segment.log.sealed_bytes()
        segment.on_disk.hide_index()
        self._rebuilt(segment, end, is_durable=True)
        self._look_for_a_hole(segment, sealed_size, end)
        segment.on_disk.show_index()
        segment.seal(end if sealed_end is None else sealed_end)

    def _look_for_a_hole(self, segment: Segment, sealed_size: int, end: int) -> None:
        """Note what is gone of a segment that was cut between two batches, and that another one follows at `end`.

        It is whole where it is as large as its seal says (0: there is no seal), whatever the gap. Else it has to reach
        the next segment, unless compaction may have taken its last batches away. Below the start of the log nothing is
        missed: a crash may leave any of the segments that were dropped.
        """
        known = max([segment.next_offset, self.start_offset, *(one.next_offset for one in segment.log.damages)])
        is_sparse = "compact" in segment.config.cleanup_policy
        if known < end and (segment.size < sealed_size or (segment.size != sealed_size and not is_sparse)):
            self._lose(segment, known, end)

    def _rebuild_times(self, index: int) -> None:
        """Rebuild the time index of one segment, which nothing else depends on. (Kafka leaves it empty.)"""
        segment = self.segments[index]
        sealed_end = segment.on_disk.sealed_end
        logger.warning(
            "%s-%d: the time index of %s is rebuilt",
            *self.key,
            segment.path,
            extra={**self.key._asdict(), "path": segment.path},
        )
        segment.on_disk.hide_index()
        segment.activate(rebuilding=True)
        for _ in segment.recover(with_transactions=False):
            pass
        segment.on_disk.show_index()
        if index < len(self.segments) - 1:
            segment.seal(self.segments.bases[index + 1] if sealed_end is None else sealed_end)

    def _rebuilt(self, segment: Segment, end: int, *, is_durable: bool) -> Fault | None:
        """Read one segment; gives the fault behind which nothing was promised, unless all of it `is_durable`."""
        self._has_rebuilt = True
        segment.activate(rebuilding=True)
        known = list(segment.aborted)
        while True:
            # Kafka takes up each segment from a snapshot, which gives no producer that has expired.
            self._scratch.producers.expire(self.now_ms)
            self._bring(self._scratch, segment.base_offset)
            fault, overlaps = None, False
            for window in segment.recover():
                overlaps = segment is not self.segments.active and _ends_beyond(window, end)
                if overlaps:
                    # What it says of epochs and producers is not so.
                    break
                fault = window.fault
                self._follow(segment, window)
            if overlaps or (fault is None and self._skips_what_was_promised(segment)):
                self._misplaced(segment, end)
                continue
            if fault is None or not (is_durable or fault.offset < self.promised):
                self._keep_aborted(segment, known)
                segment.aborted.trim()
                self.local.snapshot(self._scratch.producers, self._scratch.end_offset)
                return fault
            self._quarantine(segment, fault, end)

    def _keep_aborted(self, segment: Segment, known: list[AbortedTxn]) -> None:
        """Where markers of aborted transactions are damaged, the records before them stay aborted."""
        lost = [txn for txn in known if txn.last_offset < self.promised and segment.lacks(txn.last_offset)]
        if lost:
            kept = sorted([*segment.aborted, *lost], key=lambda txn: txn.last_offset)
            segment.aborted.reset()
            for txn in kept:
                segment.aborted.append(txn)

    def _follow(self, segment: Segment, window: Window) -> None:
        for epoch, start in window.spans.epochs(self.epochs.latest):
            self.epochs.assign(epoch, start)
        for txn in self._scratch.follow(window):
            segment.aborted.append(txn)

    def _quarantine(self, segment: Segment, fault: Fault, end: int) -> None:
        """Keep a damaged part as it is, and step over it from now on."""
        position, following = segment.log.resume_after(fault) or (segment.size, end)
        damage = DamagedRange(fault.position, position, fault.offset, following)
        segment.log.damages = tuple(sorted((*segment.log.damages, damage)))
        self._report(fault.path, damage, fault.reason)

    def _report(self, path: str, damage: DamagedRange, reason: str) -> None:
        self._note(path, damage, reason)
        logger.error(
            "%s-%d: offsets %d up to %d were durable and are damaged (%s, position %d, %d bytes: %s); nothing was cut, "
            "the rest stays readable. `pylog repair` gives them up",
            *self.key, damage.offset, damage.next_offset, path, damage.position, damage.end - damage.position,
            reason, extra={**self.key._asdict(), "offset": damage.offset, "path": path, "position": damage.position},
        )  # fmt: skip

    def _skips_what_was_promised(self, segment: Segment) -> bool:
        """Whether no batch of the last segment ends where the durable offset is, and a later one follows.

        A batch did end there. In other segments compaction may have taken it away.
        """
        if segment is not self.segments.active or not segment.base_offset < self.promised < segment.next_offset:
            return False
        return segment.reader.boundary(self.promised)[1] < self.promised

    def _misplaced(self, segment: Segment, end: int) -> None:
        """Quarantine a segment from a batch on that is whole, and says that it lies beyond the segment's end: in the
        next one, or behind the end of the log. (Kafka gives its records to readers, beside those of the next segment.)
        """
        following = segment.base_offset
        for window in segment.scan(check_crc=False):  # pragma: no branch (one of its batches ends there)
            for span in window.spans:
                if span.last_offset >= end:
                    position = window.position + span.position
                    damage = DamagedRange(position, segment.size, following, end)
                    segment.log.damages = (*segment.log.damages, damage)
                    self._report(segment.path, damage, f"a batch header says offset {span.base_offset}")
                    return
                following = span.last_offset + 1

    def _missing(self, offset: int) -> None:
        """The log ends at `offset`, below what was durable: what is missing is damage of no bytes."""
        self._lose(self.segments.active, offset, self.promised)

    def _lose(self, segment: Segment, offset: int, end: int) -> None:
        damage = DamagedRange(segment.size, segment.size, offset, end)
        segment.log.damages = (*segment.log.damages, damage)
        self._report(segment.path, damage, "the file was cut or replaced")

    def _cut(self, count: int, fault: Fault) -> None:
        """Cut a torn tail: the rest of a segment from `fault` on, and all segments but the first `count`."""
        torn = self.segments[count - 1]
        removed = torn.size - fault.position
        is_one_write = count == len(self.segments) and torn.log.ends_within_a_write(fault)
        torn.log.truncate(fault.position)
        for segment in reversed(self.segments.keep(count)):
            removed += segment.size
            segment.remove()
        logger.warning(
            "%s-%d: cut a torn tail of %d bytes at %s, position %d, offset %d: %s",
            *self.key, removed, fault.path, fault.position, fault.offset, fault.reason,
            extra={**self.key._asdict(), "offset": fault.offset, "path": fault.path, "position": fault.position},
        )  # fmt: skip
        self.torn = Recovered(*self.key, fault.path, fault.position, fault.offset, removed, fault.reason, is_one_write)

    # --- producers -------------------------------------------------------------------------------------------------

    def _bring(self, replay: ProducerReplay, offset: int) -> None:
        """Bring producers to `offset`: from the newest good snapshot below it, and the log after that, with snapshots
        where the next open may want to begin.

        A replay that has been beyond, and found no producer, does not read the log. (Kafka:
        UnifiedLog.rebuildProducerState)
        """
        knows_none = replay.end_offset >= offset and replay.producers.is_empty
        replay.restore(self.local.snapshots, self.start_offset, offset, self.now_ms)
        if knows_none:
            replay.end_offset = offset
        snapshots_at = self.segments.bases[-2:]
        for segment in self.segments.from_offset(replay.end_offset):
            replay.reach(segment.base_offset)
            if replay.end_offset >= offset:
                break
            if segment.base_offset in snapshots_at:
                self.local.snapshot(replay.producers, replay.end_offset)
            replay.go_through(segment, offset)
        replay.end_offset = offset
        self.local.snapshot(replay.producers, offset)

    def finish(self, end: int, *, known: int = -1) -> None:
        """Bring the producers to the end of the log. They have known it up to `known`.

        A log that was closed cleanly and has no snapshot has no producers. (UnifiedLog.rebuildProducerState)
        """
        if self.checkpoint.clean and not self.local.snapshots.offsets:
            for offset in (*self.segments.bases[-2:], end):
                self.local.snapshot(self.producers, offset)
            return
        self._bring(ProducerReplay(self.producers, known), end)


def _ends_beyond(window: Window, end: int) -> bool:
    return bool(window.spans) and window.spans[-1].last_offset >= end
