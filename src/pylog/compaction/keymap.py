"""Key -> newest offset, for any number of keys in bounded memory.

    slot (24 bytes of one array)    offset + 1 u64 (0: the slot is free) | hash of the key, two u64

Keys are known by their 128-bit hash alone, so two keys with the same hash would be taken for one: with 2**32 keys the
chance is 2**-65. Open addressing: the first probes jump by the other half of the hash, the later ones step, so that
every slot is met. At nine tenths of the slots the map is full, and the pass that fills it ends there; the next one goes
on. (Kafka: SkimpyOffsetMap. Kafka hashes with MD5; the hash is in memory only.)
"""

from array import array
from collections.abc import Iterable, Sequence

import mmh3

from pylog.kernel import RecordSpan

SLOT_BYTES = 24
LOAD_FACTOR = 0.9
_JUMP_SHIFT = 8  # eight jumps, then steps
_SLOTS_PER_KEY = 1.5

_hash = mmh3.mmh3_x64_128_utupledigest


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
        self._table = array("Q", bytes(SLOT_BYTES)) * slots
        self._count = 0

    def __len__(self) -> int:
        """The number of different keys."""
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether `put` refuses."""
        return self._count >= self.capacity

    @property
    def fill(self) -> float:
        """How much of the capacity is used, 0 to 1."""
        return self._count / self.capacity

    def put(self, records: Iterable[RecordSpan], first_offset: int = 0) -> bool:
        """Note the offsets of `records` that have a key, from `first_offset` on, in the order they come.

        False as soon as the map is full when a record comes, which then is not noted; `latest_offset` is that of the
        last one that was.
        """
        table, slots, size = self._table, self.slots, len(self._table)
        room = self.capacity - self._count
        for offset, key, _, _, _, _ in records:
            if key is None or offset < first_offset:
                continue
            if room <= 0:
                self._count = self.capacity - room
                return False
            a, b = _hash(key)
            at, jump = a % slots * 3, b
            while table[at]:
                if table[at + 1] == a and table[at + 2] == b:
                    break
                at = (at + 3 + 3 * jump) % size
                jump >>= _JUMP_SHIFT
            else:
                table[at + 1], table[at + 2] = a, b
                room -= 1
            table[at] = offset + 1
            self.latest_offset = offset
        self._count = self.capacity - room
        return True

    def newest(self, records: Sequence[RecordSpan]) -> list[int]:
        """The newest offset of each record's key; -1 where the key was never put, and for a record without one."""
        table, slots, size = self._table, self.slots, len(self._table)
        found: list[int] = []
        append = found.append
        for _, key, _, _, _, _ in records:
            if key is None:
                append(-1)
                continue
            a, b = _hash(key)
            at, jump = a % slots * 3, b
            while table[at]:
                if table[at + 1] == a and table[at + 2] == b:
                    break
                at = (at + 3 + 3 * jump) % size
                jump >>= _JUMP_SHIFT
            append(table[at] - 1)
        return found
