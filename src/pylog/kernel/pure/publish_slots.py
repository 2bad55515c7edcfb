"""The two slots in which a partition publishes its numbers in turn, as `pylog.storage.published` draws them."""

import struct

from pylog.kernel.format import COUNTER_MAX, SEEN_COUNTER_MAX, SLOT, SLOT_BYTES
from pylog.kernel.pure.crc import crc32c
from pylog.kernel.pure.open_file import Writable

_CRC = struct.Struct("<I")
_FAILED = 1


class Slots:
    """Two slots at `slots_at` in a file, of which `sequence` is in use; a CRC of what is in one goes on from `seed`."""

    __slots__ = ("_packed", "_slots_at", "file", "seed", "sequence")

    def __init__(self, file: Writable, slots_at: int, seed: int) -> None:
        self.file = file
        self.sequence = -1
        """The number of what was shown last; -1 where that is not known."""
        self._slots_at = slots_at
        self.seed = seed
        self._packed = bytearray(SLOT.size + _CRC.size)

    def newest(self, data: bytes) -> tuple[int, tuple[int, ...] | None]:
        """Of what was read of the two slots, the higher sequence whose checksum is right, and the eleven numbers shown
        with it, of which the ninth is a bool; 0 and None if neither is right.
        """
        is_second = data[SLOT_BYTES : SLOT_BYTES + 8][::-1] > data[:8][::-1]
        for at in (SLOT_BYTES, 0) if is_second else (0, SLOT_BYTES):
            body = data[at : at + SLOT.size]
            checksum = data[at + SLOT.size : at + SLOT.size + _CRC.size]
            if any(body) and _CRC.pack(crc32c(body, self.seed)) == checksum:
                sequence, *offsets, flags, entries, crc = SLOT.unpack(body)
                if max(sequence, offsets[0]) <= SEEN_COUNTER_MAX:
                    return sequence, (*offsets, bool(flags & _FAILED), entries, crc)
        return 0, None

    def show(self, numbers: tuple[int, ...]) -> None:
        """Write the eleven numbers of a state into the other slot.

        Raises struct.error where they are not so many, or have no place; and what the file does.
        """
        sequence, packed = self.sequence + 1, self._packed
        if numbers and numbers[0] > COUNTER_MAX:
            raise struct.error(f"no generation is as high as {numbers[0]}")
        SLOT.pack_into(packed, 0, sequence, *numbers)
        _CRC.pack_into(packed, SLOT.size, crc32c(memoryview(packed)[: SLOT.size], self.seed))
        self.file.write(self._slots_at + SLOT_BYTES * (sequence & 1), packed)
        self.sequence = sequence
