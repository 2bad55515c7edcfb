"""Hashes of keys: Kafka's partitioner's, and a table of the newest offset of each key.

    slot (24 bytes of one array)    offset + 1 u64 (0: the slot is free) | hash of the key, two u64

The table has of a key its 128-bit hash (MurmurHash3 x64) alone. Open addressing: the first probes jump by the other
half of the hash, the later ones step, so that every slot is met; at least one slot has to stay free for that.
"""

import struct
from array import array

import mmh3

from pylog.kernel.pure.filter import RecordSpans
from pylog.kernel.values import Judgement

SLOT_BYTES = 24
_JUMP_SHIFT = 8  # eight jumps, then steps

_hash = mmh3.mmh3_x64_128_utupledigest


class KeyTable:
    """The newest offset of each of up to `capacity` keys, in `slots` slots. Not for two threads at once.

    Raises ValueError unless 0 <= capacity < slots.
    """

    def __init__(self, slots: int, capacity: int) -> None:
        if not 0 <= capacity < slots:
            raise ValueError(f"{capacity} keys in {slots} slots: one has to stay free")
        self.capacity = capacity
        self._slots = slots
        self._table = array("Q", bytes(SLOT_BYTES)) * slots
        self._count = 0

    def __len__(self) -> int:
        """The number of different keys."""
        return self._count

    def put(self, spans: RecordSpans, first_offset: int = 0) -> tuple[bool, int]:
        """Note the offsets of the records that have a key, from `first_offset` on, in the order they come.

        Returns whether all were noted, and the offset of the last one that was (-1: none). At `capacity` keys the next
        record ends it, whatever its key. Offsets below 0 cannot be.
        """
        table, slots, size = self._table, self._slots, len(self._table)
        latest = -1
        for offset, key, _, _, _, _ in spans:
            if key is None or offset < first_offset:
                continue
            if self._count >= self.capacity:
                return False, latest
            a, b = _hash(key)
            at, jump = a % slots * 3, b
            while table[at]:
                if table[at + 1] == a and table[at + 2] == b:
                    break
                at = (at + 3 + 3 * jump) % size
                jump >>= _JUMP_SHIFT
            else:
                table[at + 1], table[at + 2] = a, b
                self._count += 1
            table[at] = offset + 1
            latest = offset
        return True, latest

    def judge(self, spans: RecordSpans, seen: int) -> bytes:
        """The judgement of each record, a byte of `Judgement`; the table was filled up to the offset `seen`."""
        table, slots, size = self._table, self._slots, len(self._table)
        found = bytearray()
        for offset, key, has_value, _, _, _ in spans:
            if offset > seen:
                found.append(Judgement.UNSEEN)
                continue
            if key is None:
                found.append(Judgement.WITHOUT_KEY)
                continue
            a, b = _hash(key)
            at, jump = a % slots * 3, b
            while table[at]:
                if table[at + 1] == a and table[at + 2] == b:
                    break
                at = (at + 3 + 3 * jump) % size
                jump >>= _JUMP_SHIFT
            if offset + 1 < table[at]:
                found.append(Judgement.SUPERSEDED)
            else:
                found.append(Judgement.NEWEST if has_value else Judgement.NEWEST_TOMBSTONE)
        return bytes(found)


def murmur2(data: bytes) -> int:
    """The 32-bit hash by which Kafka's clients choose a partition, signed (Utils.murmur2)."""
    size = len(data)
    h = 0x9747B28C ^ size
    if size > 3:
        for k in struct.unpack_from(f"<{size >> 2}I", data):
            k = k * 0x5BD1E995 & 0xFFFFFFFF
            h = (h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    if size & 3:
        h = (h ^ int.from_bytes(data[size & ~3 :], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h
