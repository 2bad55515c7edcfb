# cython: language_level=3, boundscheck=False, wraparound=False
"""The twin of `pure.tail`."""

from libc.stdint cimport int32_t, int64_t

from pylog.kernel.compiled.header cimport BatchHeader

from pylog.kernel.format import CODEC_MASK, TRANSACTIONAL_BIT

cdef int64_t RELATIVE_OFFSET_MAX = 0x7fffffff
cdef int32_t NOT_TRANSACTIONAL = ~TRANSACTIONAL_BIT
cdef int32_t CODECS = CODEC_MASK


cdef class PlainRules:
    """See the twin."""

    def __init__(
        self, *, int64_t bytes_max=-1, int64_t after_max_ms=0, bint makes_room=False, bint is_led=True,
        bint is_short=False, bint has_followers=False, bint is_shown=False, bint is_noted=False, bint may_block=True
    ):
        self.bytes_max, self.after_max_ms, self.makes_room = bytes_max, after_max_ms, makes_room
        self.is_led, self.is_short, self.has_followers = is_led, is_short, has_followers
        self.is_shown, self.is_noted, self.may_block = is_shown, is_noted, may_block

    cdef tuple fields(self):
        return (
            self.bytes_max, self.after_max_ms, self.makes_room, self.is_led, self.is_short,
            self.has_followers, self.is_shown, self.is_noted, self.may_block,
        )

    def __eq__(self, other):
        return self.fields() == (<PlainRules>other).fields() if isinstance(other, PlainRules) else NotImplemented

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return (
            f"PlainRules(bytes_max={self.bytes_max}, after_max_ms={self.after_max_ms}, makes_room={self.makes_room}, "
            f"is_led={self.is_led}, is_short={self.is_short}, has_followers={self.has_followers}, "
            f"is_shown={self.is_shown}, is_noted={self.is_noted}, may_block={self.may_block})"
        )

    def admits(self, BatchHeader batch not None, int64_t now_ms):
        """See the twin."""
        return self.lets_in(batch, now_ms)

    cdef bint lets_in(self, BatchHeader batch, int64_t now_ms) noexcept:
        cdef int64_t now = max(now_ms, 0)
        return (
            batch.trusted
            and batch.attributes & NOT_TRANSACTIONAL <= CODECS
            and (batch.producer_id < 0 or batch.base_sequence >= 0)
            and batch.size <= self.bytes_max
            and (batch.max_timestamp <= now or batch.max_timestamp - now <= self.after_max_ms)
        )


cdef class Appended:
    """The result of an append: records have offsets [base_offset, next_offset). Never changed."""

    def __init__(self, int64_t base_offset, int64_t next_offset, log_append_time=None, bint duplicate=False):
        self.base_offset, self.next_offset = base_offset, next_offset
        self.log_append_time, self.duplicate = log_append_time, duplicate

    cdef tuple fields(self):
        return self.base_offset, self.next_offset, self.log_append_time, self.duplicate

    def __eq__(self, other):
        return self.fields() == (<Appended>other).fields() if isinstance(other, Appended) else NotImplemented

    __hash__ = None

    def __reduce__(self):
        return Appended, self.fields()

    def __repr__(self):
        return (
            f"Appended(base_offset={self.base_offset}, next_offset={self.next_offset}, "
            f"log_append_time={self.log_append_time}, duplicate={self.duplicate})"
        )


cdef Appended appended(int64_t base_offset, int64_t next_offset, log_append_time):
    cdef Appended made = Appended.__new__(Appended)
    made.base_offset, made.next_offset, made.log_append_time = base_offset, next_offset, log_append_time
    return made


cdef class Tail:
    """The end of a segment that is written: what an append is measured against, and what it changes."""

    def __init__(self, int64_t base_offset, int64_t index_interval_bytes):
        self.base_offset = self.next_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = self.newest_in_room = -1
        self.first_max_timestamp = -2
        self.index_interval_bytes = index_interval_bytes
        self.unindexed_bytes = self.room = 0

    cpdef bint takes(self, int64_t size, int64_t last_offset, int64_t max_timestamp) noexcept:
        """Whether an append of `size` bytes fits for certain: nothing has to be asked, or done before."""
        return (
            size <= self.room
            and max_timestamp <= self.newest_in_room
            and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    def takes_batch(self, BatchHeader batch not None):
        """The same for a batch that has its offsets."""
        return self.takes(batch.size, batch.last_offset, batch.max_timestamp)

    def put(self, file, BatchHeader batch not None):
        """Write a batch that has its offsets behind what is in the file, and note it. Raises what the file does."""
        cdef int64_t position = file.size()
        file.write(position, batch.data)
        if self.note(batch, position):
            self.offset_index.add(batch.last_offset, position)
            self.time_index.maybe_add(self.max_timestamp, self.max_timestamp_offset)
            if self.offset_index.is_full or self.time_index.is_full:
                self.room = 0

    cdef bint wants_entry(self) noexcept:
        """Whether the next batch is to have an index entry."""
        return self.unindexed_bytes > self.index_interval_bytes

    cdef bint note(self, BatchHeader batch, int64_t position) noexcept:
        """Note a batch that was written; gives whether it is to have an index entry."""
        cdef bint has_entry = self.wants_entry()
        self.room -= batch.size
        if position == 0:
            self.first_max_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
        self.unindexed_bytes = batch.size if has_entry else self.unindexed_bytes + batch.size
        self.next_offset = batch.last_offset + 1
        return has_entry
