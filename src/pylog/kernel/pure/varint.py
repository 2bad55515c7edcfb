"""Zigzag varints: those of small numbers are in a table; the callers read most of them without a call."""

from pylog.errors import CorruptBatch

# The varints of 0..8191, one or two bytes each, and the length of so many bytes together with their length.
VARINTS = [bytes((n << 1,)) for n in range(64)] + [bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 8192)]
SIZED = [n + 1 for n in range(64)] + [n + 2 for n in range(64, 8192)]
NULL = b"\x01"
NONE = b"\x00"
TWO_BYTES_MAX = 0x3FFF


def varint(value: int) -> bytes:
    """A zigzag varint of any width."""
    if 0 <= value < 8192:
        return VARINTS[value]
    value = value << 1 if value >= 0 else ~(value << 1)
    if 0x4000 <= value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if 1 << 21 <= value < 1 << 28:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_long(data: bytes, at: int, most: int) -> tuple[int, int]:
    """A varint of 3 to `most` bytes, still zigzag, and its end; bits beyond its 32 or 64 are dropped."""
    byte = data[at + 2]
    value = data[at] & 0x7F | (data[at + 1] & 0x7F) << 7 | (byte & 0x7F) << 14
    if byte < 0x80:
        return value, at + 3
    byte = data[at + 3]
    value |= (byte & 0x7F) << 21
    if byte < 0x80:
        return value, at + 4
    shift = 28
    for byte in data[at + 4 : at + most]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (0xFFFFFFFF if most == 5 else 0xFFFFFFFFFFFFFFFF), at + shift // 7
    if shift < 7 * most:
        raise IndexError
    raise CorruptBatch(f"a varint has more than {most} bytes")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to five bytes, still zigzag, and its end. Raises IndexError, CorruptBatch."""
    n = data[at]
    if n < 0x80:
        return n, at + 1
    n = n & 0x7F | data[at + 1] << 7
    return (n, at + 2) if n <= TWO_BYTES_MAX else read_long(data, at, 5)
