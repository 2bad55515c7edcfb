# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.fast_append`, with what that leaves out: an append that needs no decision, in one step.

The step goes from a batch to its bytes in the file, and to what others may see. It takes the partition's lock, looks at
`AppendState`, at the `Tail` of the active segment, and at its `OpenFile`, and begins nothing that is not plain.
`commitlog/append` is the general way, whose result is the same.

A step that shows what it appends runs no Python code from the first byte to the last one that is published: no signal's
handler runs in between. A refusal of the system goes to `latch`, which is Python.
"""

from libc.stdint cimport int32_t, int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pylog.kernel.compiled.header cimport BatchHeader
from pylog.kernel.compiled.open_file cimport OpenFile
from pylog.kernel.compiled.publish_slots cimport NUMBERS, Slots
from pylog.kernel.compiled.stream cimport HEADER, LAST_OFFSET
from pylog.kernel.compiled.tail cimport Appended, PlainRules, Tail, appended
from pylog.kernel.compiled.tail_write cimport has_room_for_entry, is_ready, write, write_run

from pylog.kernel.format import CONTROL_BIT, TRANSACTIONAL_BIT

cdef enum:
    NO_EPOCH = -1
    KNOWN_EPOCH = 0  # in what is known of a producer
    KNOWN_COORDINATOR = 1
    KNOWN_TXN = 3
    KNOWN_BATCHES = 4
    LAST_SEQUENCE = 1  # in what is known of a batch
    BATCHES_KEPT = 5
    SEQUENCE_MAX = 0x7fffffff
    TIME_CLASSES = 28  # as in the twin
    NS_OF_US = 1000

    MARKER_EPOCH_AT = HEADER + 12  # behind `COMMITS`
    MARKER_BYTES = MARKER_EPOCH_AT + 5

cdef int32_t TRANSACTIONAL = TRANSACTIONAL_BIT
cdef int32_t CONTROL = CONTROL_BIT
cdef int32_t MARKED = TRANSACTIONAL_BIT | CONTROL_BIT
# The record of a marker has 16 bytes: attributes, time and offset 0, a key of 4 (version 0, type 1), a value of 6
# (version 0, the epoch of the coordinator), no headers.
cdef bytes COMMITS = b"\x20\0\0\0\x08\0\0\0\x01\x0c\0\0"


cdef class AppendState:
    """See the twin."""

    def __cinit__(self):
        self.rules = PlainRules()
        self.owed = []
        self.sync_counts = [0] * TIME_CLASSES
        self.producer_entries, self.open_verifications = {}, {}
        self.ongoing, self.unreplicated = {}, {}
        self.latest_epoch = self.first_unstable_offset = -1

    @property
    def last_stable_offset(self):
        """See the twin."""
        return self.stable_end()

    cdef int64_t stable_end(self) noexcept:
        if self.first_unstable_offset < 0:
            return self.high_watermark
        return min(self.high_watermark, max(self.first_unstable_offset, self.start_offset))

    @property
    def data_end(self):
        """See the twin."""
        return 0 if self.tail is None else self.tail.next_offset

    @property
    def written_end(self):
        """See the twin."""
        return min(self.next_offset, self.data_end)

    @property
    def data_end_max(self):
        """See the twin."""
        return self.next_offset if self.tail is None else max(self.next_offset, self.tail.next_offset)

    def numbers(self):
        """See the twin."""
        cdef Tail tail = self.tail
        return (
            self.generation, self.start_offset, self.next_offset, self.high_watermark, self.stable_end(),
            self.durable_offset, 0 if tail is None else tail.next_offset, 0 if tail is None else tail.base_offset,
            self.failure is not None, self.aborted_entries, self.aborted_crc,
        )

    def publish(self):
        """See the twin."""
        if self.entry is not None:
            self.entry.publish(self.numbers())

    cpdef note_append(self, BatchHeader batch):
        """See the twin."""
        self.count(batch)

    cdef void count(self, BatchHeader batch) noexcept:
        self.appends += 1
        self.records_appended += batch.last_offset_delta + 1
        self.bytes_appended += batch.size

    cpdef note_sync(self, int64_t ns):
        """See the twin."""
        cdef int64_t us = ns // NS_OF_US
        cdef Py_ssize_t index = 0
        while us > 0 and index < TIME_CLASSES - 1:
            us >>= 1
            index += 1
        self.sync_counts[index] += 1
        self.sync_ns += ns

    def fast_append(
        self, BatchHeader batch not None, int32_t epoch, int64_t now_ms, bint at_once=False, guard=None,
        bint is_coordinator=False
    ):
        """See the twin."""
        if not (self.lets_in(batch, now_ms) or (is_coordinator and self.lets_marker_in(batch, now_ms))):
            return None
        self.lock.acquire()
        try:
            return self.append_locked(batch, epoch, at_once, guard)
        finally:
            self.lock.release()

    cdef bint lets_in(self, BatchHeader batch, int64_t now_ms) except -1:
        """Whether a batch may be one to append as it is, as far as that can be told without the lock."""
        return not self.rules.makes_room and self.rules.lets_in(batch, now_ms)

    cdef bint lets_marker_in(self, BatchHeader batch, int64_t now_ms) except -1:
        """The same of the marker of a commit, as `encode_marker` makes it. An abort goes into an index, too."""
        return (
            batch.attributes == MARKED and batch.trusted and batch.size == MARKER_BYTES <= self.rules.bytes_max
            and not self.rules.makes_room and batch.max_timestamp - now_ms <= self.rules.after_max_ms
            and batch.data[HEADER:MARKER_EPOCH_AT] == COMMITS
        )

    cdef bint is_next(self, BatchHeader batch, guard) except -1:
        """Whether the log expects this batch of its producer next (the twin: `Producers.plan`).

        The first batch of a transaction needs the `guard`, and comes behind the marker of the last transaction.
        """
        cdef int64_t last_sequence
        known = self.producer_entries.get(batch.producer_id)
        if known is None:
            return False
        if batch.attributes & CONTROL:
            return self.ends(batch, known)
        # ProducerEntry and BatchMetadata are tuples: (epoch, coordinator epoch, last timestamp, first offset of the
        # transaction, batches), (first sequence, last sequence, first offset, last offset, timestamp).
        batches = <tuple?>(known[KNOWN_BATCHES])
        if known[KNOWN_EPOCH] != batch.producer_epoch:
            return False
        verification = self.open_verifications.get(batch.producer_id)
        if verification is not None:
            return (
                verification is guard and batch.attributes & TRANSACTIONAL and known[KNOWN_TXN] is None
                and len(batches) == 0 and batch.base_sequence == 0 <= verification.lowest_sequence
            )
        if len(batches) == 0 or (known[KNOWN_TXN] is not None) != (batch.attributes & TRANSACTIONAL != 0):
            return False
        last_sequence = batches[len(batches) - 1][LAST_SEQUENCE]
        return last_sequence >= 0 and batch.base_sequence == (last_sequence + 1) & SEQUENCE_MAX

    cdef bint ends(self, BatchHeader batch, known) except -1:
        """Whether the producer of a marker has a transaction open, and its epoch is lower than the marker's."""
        return (
            known[KNOWN_TXN] is not None and known[KNOWN_EPOCH] < batch.producer_epoch
            and batch.producer_id not in self.open_verifications and known[KNOWN_COORDINATOR] <= coordinator_of(batch)
        )

    cdef int note_producer(self, BatchHeader batch) except -1:
        """Note a producer's batch that was written: the twin of `Producers.apply`."""
        cdef int64_t last_sequence = (<int64_t>batch.base_sequence + batch.last_offset_delta) & SEQUENCE_MAX
        known = self.producer_entries[batch.producer_id]
        first = known[KNOWN_TXN]
        if batch.attributes & CONTROL:
            self.producer_entries[batch.producer_id] = tuple.__new__(type(known), (
                batch.producer_epoch, coordinator_of(batch), batch.max_timestamp, None, (),
            ))
            del self.ongoing[first]
            self.unreplicated[first] = batch.last_offset
            self.pass_markers()
            return 0
        batches = <tuple?>(known[KNOWN_BATCHES])
        added = tuple.__new__(self.batch_metadata, (
            batch.base_sequence, last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp,
        ))
        kept = batches[max(<Py_ssize_t>len(batches) - BATCHES_KEPT + 1, 0):]
        if first is None and batch.attributes & TRANSACTIONAL:
            first = batch.base_offset
            self.ongoing[first] = batch.producer_id
            del self.open_verifications[batch.producer_id]
            if self.first_unstable_offset < 0:
                self.first_unstable_offset = batch.base_offset
        self.producer_entries[batch.producer_id] = tuple.__new__(type(known), (
            known[KNOWN_EPOCH], known[KNOWN_COORDINATOR], batch.max_timestamp, first, (*kept, added),
        ))
        return 0

    cdef bint append_at_once(self, list batches, list answers, int32_t epoch, bint waits) except -1:
        """Append batches, make them durable, and show them, without any Python code; of those that are None nothing is
        left, and one in a tuple is not plain. False where that takes more, or followers are to be told, or, unless it
        `waits`, a lock that another thread holds: `append_rest` goes on from there.
        """
        self.append_runs(batches, answers, epoch, waits)
        return (
            len(answers) == len(batches) and not self.rules.has_followers
            and self.is_synced(end_of(answers), epoch, waits)
        )

    cdef int append_rest(self, list batches, list answers, int32_t epoch, ordinarily, tell, role) except -1:
        """The same in Python, in a `whole` block. What is not plain is for `ordinarily(role, batch)`, which appends it;
        the answers are what that gives or raises. `tell(role)` lets followers have what is appended.
        """
        while len(answers) < len(batches):
            answers.append(answer_of(ordinarily, role, batches[len(answers)]))
            self.append_runs(batches, answers, epoch, True)
        if self.rules.has_followers and end_of(answers) >= 0:
            tell(role)
        if not self.is_synced(end_of(answers), epoch, True):
            self.latch.sync()
        return 0

    cdef int append_runs(self, list batches, list answers, int32_t epoch, bint waits) except -1:
        """Append those that have no answer yet, up to the first that is not plain."""
        while len(answers) < len(batches):
            entry = batches[len(answers)]
            if entry is None:
                answers.append(None)
                continue
            if type(entry) is tuple:
                break
            if not self.lock.acquire(waits):
                break
            try:
                if self.append_run(batches, len(answers), answers, epoch) == 0:
                    break
            finally:
                self.lock.release()
        return 0

    cdef Py_ssize_t append_run(self, list batches, Py_ssize_t at, list answers, int32_t epoch) except -1:
        """Append as many as go in one write, from batches[at] on; gives how many."""
        cdef Tail tail = self.tail
        cdef BatchHeader batch = batches[at]
        cdef list run = []
        cdef int64_t size = 0, first = self.next_offset, end = self.next_offset, unindexed
        file = None if tail is None else tail.log.opened
        if not self.takes(file, batch, epoch, True, None):
            return 0
        unindexed = 0 if tail.wants_entry() else tail.unindexed_bytes
        while (
            batch is not None and (not run or self.joins(run, batch)) and end <= LAST_OFFSET - batch.last_offset_delta
            and tail.takes(size + batch.size, end + batch.last_offset_delta, batch.max_timestamp)
        ):
            batch.stamp(end, epoch)
            run.append(batch)
            size += batch.size
            unindexed += batch.size
            end += batch.last_offset_delta + 1
            if at + len(run) == len(batches) or unindexed > tail.index_interval_bytes:
                break
            entry = batches[at + len(run)]
            if type(entry) is tuple:
                break
            batch = entry
        try:
            write_run(tail, file, run)
            self.next_offset = tail.next_offset
            for batch in run:
                if batch.producer_id >= 0:
                    self.note_producer(batch)
                self.count(batch)
                answers.append(appended(first, first + batch.last_offset_delta + 1, batch.append_time()))
                first += batch.last_offset_delta + 1
        except BaseException as error:
            try:
                self.latch.interrupted(error)
            except BaseException as answer:
                answers += [answer] * len(run)
        return len(run)

    cdef bint joins(self, list run, BatchHeader batch) except -1:
        """Whether a batch may be written with others: a numbered one must not follow another one of its producer."""
        cdef BatchHeader other
        if batch.producer_id < 0:
            return True
        for other in run:
            if other.producer_id == batch.producer_id:
                return False
        return self.is_next(batch, None)

    def fast_sync(self, int64_t upto):
        """See the twin."""
        return self.is_synced(upto, NO_EPOCH, True)

    cdef bint is_synced(self, int64_t end, int32_t epoch, bint waits) except -1:
        """Make what lies below `end` durable, where that is one sync of the active segment's file; and show it, where
        `epoch` is not over and that needs no decision. Unless one `waits`, only where no other thread has the locks.
        """
        cdef int64_t cuts = self.cuts, began, target = 0
        cdef bint is_plain
        cdef Tail tail
        if end < 0:
            return True
        if not self.syncing.acquire(waits):
            return False
        try:
            if not self.lock.acquire(waits):
                return False
            try:
                is_plain = self.can_sync()
                tail = self.tail
                if is_plain:
                    target = min(self.next_offset, tail.next_offset)
                    end = min(end, target)
                    file, cuts = tail.log.opened, self.cuts
            finally:
                self.lock.release()
            if not is_plain:
                return False
            if end > self.durable_offset:
                began = now_ns()
                try:
                    (<OpenFile>file).sync()
                    self.note_sync(now_ns() - began)
                except BaseException as error:
                    self.latch.not_synced(error)
                    return False
            else:
                # Another thread's sync, which was waited for, was for this one, too.
                target = end
            if not self.lock.acquire(waits):
                return False
            try:
                if self.failure is not None:
                    # It may be of this file, and the system tells it once.
                    return False
                if cuts == self.cuts:
                    self.durable_offset = max(self.durable_offset, target)
                    if (
                        self.rules.is_short and not self.rules.has_followers
                        and epoch == self.latest_epoch and end > self.high_watermark
                        and self.can_show()
                    ):
                        self.high_watermark = end
                        self.show_or_latch()
            finally:
                self.lock.release()
        finally:
            self.syncing.release()
        return True

    cdef bint can_sync(self) except -1:
        """Whether a sync of the active segment's file makes everything durable."""
        cdef Tail tail = self.tail
        return (
            tail is not None and not self.is_closed and self.failure is None and isinstance(tail.log.opened, OpenFile)
            and self.durable_offset >= tail.base_offset and not self.owed
            and self.name_changes == self.synced_name_changes and self.aborted_entries == 0
        )

    cdef Appended append_locked(self, BatchHeader batch, int32_t epoch, bint at_once, guard):
        cdef Tail tail = self.tail
        cdef int64_t base_offset = self.next_offset
        # One that is on its way in a thread when a role changes is shown by the rules of now.
        cdef bint is_shown = self.rules.is_shown
        file = None if tail is None else tail.log.opened
        if not self.takes(file, batch, epoch, at_once, guard) or (is_shown and not self.can_show()):
            return None
        batch.stamp(base_offset, epoch)
        try:
            write(tail, file, batch)
            self.next_offset = tail.next_offset
            if batch.producer_id >= 0:
                self.note_producer(batch)
            self.count(batch)
        except BaseException as error:
            self.latch.interrupted(error)
        if is_shown:
            self.high_watermark = self.next_offset
            self.show_or_latch()
        return appended(base_offset, self.next_offset, batch.append_time())

    cdef bint takes(self, file, BatchHeader batch, int32_t epoch, bint at_once, guard) except -1:
        """Whether the active segment, with this file, takes a batch, now."""
        cdef Tail tail = self.tail
        cdef int64_t last_offset
        if self.next_offset > LAST_OFFSET - batch.last_offset_delta:
            return False
        last_offset = self.next_offset + batch.last_offset_delta
        return (
            tail is not None and not self.is_closed and self.failure is None
            and self.rules.is_led and epoch == self.latest_epoch and self.next_offset >= self.latest_epoch_start
            and tail.takes(batch.size, last_offset, batch.max_timestamp) and is_ready(file, at_once)
            and (not tail.wants_entry() or has_room_for_entry(tail, batch, last_offset, file.size()))
            and (batch.producer_id < 0 or self.is_next(batch, guard))
        )

    def fast_advance(self, int64_t offset):
        """See the twin."""
        self.lock.acquire()
        try:
            offset = min(offset, self.next_offset)
            if offset <= self.high_watermark:
                return False
            if not self.can_show():
                return None
            self.high_watermark = offset
            self.show_or_latch()
            return True
        finally:
            self.lock.release()

    cdef bint can_show(self) except -1:
        """Whether `show` can do all that a new high watermark asks for. (A failure, or files to open, need Python.)"""
        if self.failure is not None:
            return False
        return self.entry is None or (
            self.tail is not None and self.entry.sequence >= 0 and is_ready(self.entry.file, True)
        )

    cdef int show_or_latch(self) except -1:
        """Publish what is done. Where that fails it stays done, so a full disk is not what is raised."""
        try:
            self.show()
        except BaseException as error:
            self.latch.give_up(error)
        return 0

    cdef int show(self) except -1:
        """Forget transactions that have ended below the high watermark, and publish the numbers. See `can_show`."""
        cdef int64_t numbers[NUMBERS]
        if self.first_unstable_offset >= 0:
            self.pass_markers()
        if self.entry is None:
            return 0
        numbers[:] = [
            self.generation, self.start_offset, self.next_offset, self.high_watermark, self.stable_end(),
            self.durable_offset, self.tail.next_offset, self.tail.base_offset, 0, self.aborted_entries,
            self.aborted_crc,
        ]
        return self.entry.show_these(numbers)

    cdef int pass_markers(self) except -1:
        """Forget the transactions whose markers the high watermark has passed: the twin of `Producers.advance`."""
        cdef int64_t first, unstable = -1
        # No dicts, which keep the order of their items: they are asked as objects.
        for first, marker in list(self.unreplicated.items()) if self.unreplicated else ():
            if marker < self.high_watermark:
                del self.unreplicated[first]
            elif unstable < 0 or first < unstable:
                unstable = first
        # They rise: the first one is the least.
        for first in self.ongoing:
            if unstable < 0 or first < unstable:
                unstable = first
            break
        self.first_unstable_offset = unstable
        return 0


cdef object answer_of(ordinarily, role, batch):
    try:
        return ordinarily(role, batch)
    except BaseException as error:
        return error


cdef int64_t coordinator_of(BatchHeader marker) except -2:
    """The epoch of the coordinator in a marker that `lets_marker_in` lets in."""
    return int.from_bytes(marker.data[MARKER_EPOCH_AT:MARKER_BYTES - 1], "big", signed=True)


cdef int64_t end_of(list answers) except -2:
    """Where the last batch ends that was appended; -1: none was."""
    cdef int64_t end = -1
    for answer in answers:
        if isinstance(answer, Appended):
            end = max(end, (<Appended>answer).next_offset)
    return end


cdef int64_t now_ns() noexcept nogil:
    """A clock that only rises, for how long something took."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec
