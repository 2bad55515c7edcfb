"""The cutting of the input of `pylog produce` into pieces, each of which is a record: lines, what a delimiter ends, or
all.

A `Cut` gives each piece and how many bytes of the input it took. No piece is longer than `longest` bytes: memory stays
bounded, and a longer one raises RecordTooLarge.
"""

from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Any, BinaryIO, NamedTuple, cast

from pylog.errors import RecordTooLarge
from pylog.runtime.words import size_text

__all__ = ["LINES", "WHOLE", "Cut", "TableError", "delimited"]

CHUNK = 1 << 16
Pieces = Iterator[tuple[Any, int]]


class Cut(NamedTuple):
    """A way to cut. `noun`: a piece, for messages."""

    noun: str
    pieces: Callable[[BinaryIO, int], Pieces]


class TableError(ValueError):
    """The columns of a table make no records, whatever is in its rows."""


def delimited(delimiter: bytes) -> Cut:
    """Cut behind each delimiter; it belongs to no piece."""
    if delimiter == b"\n":
        return LINES

    def pieces(stream: BinaryIO, longest: int) -> Pieces:
        # What has come is read, without waiting for a whole chunk.
        reader, rest = cast(BufferedReader, stream), b""
        while chunk := reader.read1(CHUNK):
            *whole, rest = (rest + chunk).split(delimiter)
            for piece in whole:
                yield _held(piece, longest), len(piece) + len(delimiter)
            if len(rest) >= longest + len(delimiter):
                _held(rest, longest)
        if rest:
            yield _held(rest, longest), len(rest)

    return Cut("record", pieces)


def _lines(stream: BinaryIO, longest: int) -> Pieces:
    while line := stream.readline(longest + 1):
        yield _held(line.removesuffix(b"\n"), longest), len(line)


def _whole(stream: BinaryIO, longest: int) -> Pieces:
    data = stream.read(longest + 1)
    yield _held(data, longest), len(data)


def _held(piece: bytes, longest: int) -> bytes:
    if len(piece) > longest:
        raise RecordTooLarge(f"it is longer than {size_text(longest)}, the most a record may have")
    return piece


LINES = Cut("line", _lines)
WHOLE = Cut("record", _whole)
