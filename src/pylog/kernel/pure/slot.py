"""A slot of published offsets, which `pylog.published` draws: numbers, and a CRC of them."""

import struct

from crc32c import crc32c

NUMBERS = struct.Struct("<QQqqqqqqqIII")
CRC = struct.Struct("<I")
SLOT_BYTES = NUMBERS.size + CRC.size


def pack_slot(slot: bytearray, key_crc: int, sequence: int, numbers: tuple[int, ...]) -> None:
    """Put a sequence number and the eleven of a state into a slot, and a CRC that goes on from `key_crc`.

    Raises struct.error where they are not so many, or have no place.
    """
    NUMBERS.pack_into(slot, 0, sequence, *numbers)
    CRC.pack_into(slot, NUMBERS.size, crc32c(memoryview(slot)[: NUMBERS.size], key_crc))
