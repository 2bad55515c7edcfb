"""The small text files of a log directory and of a partition: read strictly, replaced atomically.

    *-offset-checkpoint         "0\n" count "\n" then a line "topic partition offset" each
    leader-epoch-checkpoint     "0\n" count "\n" then a line "epoch startOffset" each, both columns rising
    pylog-damages               "0\n" count "\n" then a line "base position end offset nextOffset" each: what cannot be
                                read any more in a partition's files (ours; Kafka ignores it)
    partition.metadata          "version: 0\ntopic_id: " 22 characters of URL-safe base64, no newline at the end
    meta.properties             Java properties: "key=value" lines, comments with "#" or "!"

Source: Kafka's CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, Properties.

Invariants: a file is replaced by a rename after its content was fsynced, so it is always one that somebody wrote whole;
whatever does not parse raises a StorageError that names the file and the line. An empty file has no entries.
"""

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn

from pylog.errors import LogNotFound, StorageError, UnsupportedFormat
from pylog.files import SMALL_BYTES_MAX, Files, join
from pylog.record import TopicPartition

PARTITION_METADATA = "partition.metadata"
DAMAGES = "pylog-damages"

FEW_BYTES_MAX = 64 << 10
"""What no file is larger than that says a few things of one directory: `meta.properties`, `partition.metadata`."""

_VERSION = "0"
_NUMBER = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)
_INT32 = 2**31
_INT64 = 2**63
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_REBUILD = "Remove the file to have it rebuilt by recovery, or restore it from a backup"


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets of an offset checkpoint, in its order. Raises: LogNotFound, UnsupportedFormat, StorageError."""
    offsets: dict[TopicPartition, int] = {}

    def entry(fields: list[str], number: int) -> None:
        topic, partition, offset = fields
        key = TopicPartition(topic, _number(partition, _INT32, path, number))
        if key in offsets:
            _refuse(path, number, f"{topic} {partition} is there twice")
        offsets[key] = _number(offset, _INT64, path, number)

    _read_checkpoint(files, path, 3, entry)
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint, durably."""
    _write_checkpoint(files, path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs of a leader epoch checkpoint, both rising. Raises like `read_offsets`."""
    epochs: list[tuple[int, int]] = []

    def entry(fields: list[str], number: int) -> None:
        epoch, start = _number(fields[0], _INT32, path, number), _number(fields[1], _INT64, path, number)
        if epoch < 0 or start < 0:
            _refuse(path, number, f"epoch {epoch} at offset {start} is negative")
        before = epochs[-1] if epochs else (-1, -1)
        if epoch <= before[0] or start <= before[1]:
            _refuse(path, number, f"epoch {epoch} at offset {start} does not follow epoch {before[0]} at {before[1]}")
        epochs.append((epoch, start))

    _read_checkpoint(files, path, 2, entry)
    return epochs


def write_epochs(files: Files, path: str, epochs: Iterable[tuple[int, int]]) -> None:
    """Replace a leader epoch checkpoint, durably."""
    _write_checkpoint(files, path, [f"{epoch} {start}" for epoch, start in epochs])


def read_damages(files: Files, directory: str) -> dict[int, list[tuple[int, int, int, int]]]:
    """The damaged parts of a partition's files by base offset: (position, end, offset, next offset) each, rising."""
    path = join(directory, DAMAGES)
    damages: dict[int, list[tuple[int, int, int, int]]] = {}

    def entry(fields: list[str], number: int) -> None:
        base, position, end, offset, following = (_number(field, _INT64, path, number) for field in fields)
        if not (0 <= base <= offset <= following and 0 <= position <= end):
            _refuse(path, number, "these numbers cannot be")
        damages.setdefault(base, []).append((position, end, offset, following))

    if files.stat(path) is not None:
        _read_checkpoint(files, path, 5, entry)
    return damages


def write_damages(files: Files, directory: str, damages: Mapping[int, Iterable[tuple[int, int, int, int]]]) -> None:
    """Replace the list of damaged parts, durably."""
    lines = [" ".join(map(str, (base, *damage))) for base, parts in sorted(damages.items()) for damage in parts]
    _write_checkpoint(files, join(directory, DAMAGES), lines)


def read_topic_id(files: Files, directory: str) -> uuid.UUID | None:
    """The topic id in a partition's folder; None where there is no `partition.metadata` (a log of an old Kafka).

    Raises: UnsupportedFormat, StorageError (also for the zero id, which names no topic).
    """
    path = join(directory, PARTITION_METADATA)
    try:
        lines = _lines(files, path, FEW_BYTES_MAX)
    except LogNotFound:
        return None
    fields = [line.partition(": ")[::2] for line in lines]
    if not fields or fields[0][0] != "version" or _NUMBER.match(fields[0][1]) is None:
        _refuse(path, 1, "there is no version")
    if fields[0][1] != _VERSION:
        raise UnsupportedFormat(_newer(path, fields[0][1]))
    if len(fields) != 2 or fields[1][0] != "topic_id":
        _refuse(path, 2, "there is no topic_id, or something behind it")
    text = fields[1][1]
    try:
        topic_id = uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        _refuse(path, 2, f"topic_id {text!r} is not a uuid in 22 characters of base64")
    if topic_id.int == 0:
        _refuse(path, 2, "the topic_id is zero")
    return topic_id


def write_topic_id(files: Files, directory: str, topic_id: uuid.UUID) -> None:
    """Write `partition.metadata`, durably. The zero id is a ValueError."""
    if topic_id.int == 0:
        raise ValueError("the zero uuid names no topic")
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    files.replace_file(join(directory, PARTITION_METADATA), f"version: {_VERSION}\ntopic_id: {text}".encode())


def read_properties(files: Files, path: str) -> dict[str, str]:
    """A Java properties file: comments, `=`, `:` or blanks, escapes, continued lines (java.util.Properties)."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(_lines(files, path, FEW_BYTES_MAX)):
        key, value = _split_property(line)
        properties[_unescape(key, path, number)] = _unescape(value, path, number)
    return properties


def write_properties(files: Files, path: str, properties: Mapping[str, str]) -> None:
    """Replace a Java properties file, durably, in the mapping's order and without comments."""
    lines = [f"{_escape(key, ' ')}={_escape(value, '')}\n" for key, value in properties.items()]
    files.replace_file(path, "".join(lines).encode())


def _read_checkpoint(files: Files, path: str, width: int, entry: Callable[[list[str], int], None]) -> None:
    lines = _lines(files, path)
    if not lines:
        return
    if _NUMBER.match(lines[0]) is None:
        _refuse(path, 1, f"{lines[0]!r} is not a version")
    if lines[0] != _VERSION:
        raise UnsupportedFormat(_newer(path, lines[0]))
    if len(lines) < 2:
        _refuse(path, 2, "the number of entries is missing")
    expected = _number(lines[1], _INT32, path, 2)
    for number, line in enumerate(lines[2:], 3):
        fields = line.split(" ")
        if len(fields) != width or "" in fields:
            _refuse(path, number, f"{line!r} does not have {width} fields")
        entry(fields, number)
    if len(lines) - 2 != expected:
        _refuse(path, 2, f"{expected} entries are announced and {len(lines) - 2} are there")


def _write_checkpoint(files: Files, path: str, lines: list[str]) -> None:
    files.replace_file(path, "".join(f"{line}\n" for line in [_VERSION, str(len(lines)), *lines]).encode())


def _lines(files: Files, path: str, bytes_max: int = SMALL_BYTES_MAX) -> list[str]:
    data = files.read_file(path, bytes_max)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _refuse(path, data.count(b"\n", 0, error.start) + 1, "it is not UTF-8")
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _number(text: str, limit: int, path: str, number: int) -> int:
    if _NUMBER.match(text) is None or not -limit <= int(text) < limit:
        _refuse(path, number, f"{text!r} is not a number of {limit.bit_length()} bits")
    return int(text)


def _refuse(path: str, number: int, what: str) -> NoReturn:
    raise StorageError(f"{path}, line {number}: {what}. {_REBUILD}")


def _newer(path: str, version: str) -> str:
    return f"{path}: version {version} is not one that this pylog knows (0): open it with the version that wrote it"


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines of a properties file with their numbers: comments left out, lines that end in a backslash joined."""
    pending = ""
    for number, line in enumerate(lines, 1):
        line = line.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        pending = ""
        if (len(line) - len(line.rstrip("\\"))) % 2 and number < len(lines):
            pending = line[:-1]
        else:
            yield number, line


def _split_property(line: str) -> tuple[str, str]:
    """Key and value, still escaped: the key ends at the first unescaped `=`, `:` or blank."""
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)\Z", line, re.DOTALL)
    return (match[1], match[2]) if match is not None else (line, "")


def _unescape(text: str, path: str, number: int) -> str:
    def one(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "u":
            if len(escape) != 5:
                _refuse(path, number, r"a \u escape has fewer than four hexadecimal digits")
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def _escape(text: str, also: str) -> str:
    escaped = re.sub(r"[\\=:#!]", r"\\\g<0>", text)
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, "\\" + letter)
    if also:
        return escaped.replace(also, "\\" + also)
    return "\\" + escaped if escaped.startswith(" ") else escaped
