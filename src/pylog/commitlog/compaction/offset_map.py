"""Key -> newest offset, for any number of keys in bounded memory.

Keys are known by a hash of 128 bits (`kernel.KeyTable`), so two keys with the same hash would be taken for one: with
2**32 keys the chance is 2**-65. At nine tenths of the slots the map is full, and the pass that fills it ends there; the
next one goes on. (Kafka: SkimpyOffsetMap. Kafka hashes with MD5; the hash is in memory only.)
"""

from pylog.kernel import KeyTable, RecordSpans

SLOT_BYTES = 24
LOAD_FACTOR = 0.9
_SLOTS_PER_KEY = 1.5


class KeyMap:
    """The newest offset of each key put so far.

    `buffer_bytes` bounds its memory; where no more than `keys_max` different keys can come, it takes no more than those
    need. `latest_offset` is up to where the log has been looked at: the caller moves it on over records without a key.
    Raises ValueError for a buffer without room for one key.
    """

    def __init__(self, buffer_bytes: int, *, keys_max: int | None = None, load_factor: float = LOAD_FACTOR) -> None:
        slots = buffer_bytes // SLOT_BYTES
        self.capacity = int(slots * load_factor)
        """How many keys it takes."""
        if self.capacity < 1:
            raise ValueError(
                f"{buffer_bytes} bytes have no room for a key, so cleaning would never come to an end: "
                f"log.cleaner.dedupe.buffer.size must be {2 * SLOT_BYTES} at least"
            )
        if keys_max is not None and keys_max < self.capacity:
            slots = min(slots, int(keys_max * _SLOTS_PER_KEY) + 2)
        self.slots = slots
        self.latest_offset = -1
        self._table = KeyTable(slots, min(self.capacity, slots - 1))

    def __len__(self) -> int:
        """The number of different keys."""
        return len(self._table)

    @property
    def is_full(self) -> bool:
        """Whether `put` refuses."""
        return len(self._table) >= self.capacity

    @property
    def fill(self) -> float:
        """The used part of the capacity, 0 to 1."""
        return len(self._table) / self.capacity

    def put(self, records: RecordSpans, first_offset: int = 0) -> bool:
        """Note the offsets of `records` that have a key, from `first_offset` on, in the order they come.

        False as soon as the map is full when a record comes, which then is not noted; `latest_offset` is that of the
        last one that was.
        """
        fits, latest = self._table.put(records, first_offset)
        if latest >= 0:
            self.latest_offset = latest
        return fits

    def judge(self, records: RecordSpans) -> bytes:
        """Judge each record, a byte of `Judgement` a record."""
        return self._table.judge(records, self.latest_offset)
