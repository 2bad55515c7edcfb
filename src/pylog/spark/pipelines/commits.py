"""The contents of an archive, or of a table, commit by commit.

    <folder>/_commits/0000000001.json    what was committed, and how far it went
    <folder>/_staged/<run>/<unique>.parquet    files of a commit that is under way
    <archive>/day=2024-05-01/0000000001-00000-00.parquet    commit, task, file
    <table>/part-00003.parquet    the rows of the keys of one part

A commit is there when its JSON is, which is made whole, and never in the place of another one. Files are moved behind
it, and the next run moves what a killed one has left. So every file of an archive is part of a commit, and belongs to
one alone; a file of a table takes the place of that of an earlier commit. Spark, pyarrow and DuckDB pass over names
that begin with `_`, so both are tables to them.

A run stages in a folder of its own, and removes that alone. What a killed run has staged and not committed goes a week
later. Two runs at once do not meet: the second one to commit a number has an error. A file of the last commit that is
neither staged nor in its place is an error, too.

    {"version": 1, "archive": "<uuid>", "read": "clicks", "offsets": {"clicks": {"0": 500}, "#topicIds": {...}},
     "partitions": {"clicks": 1}, "run": "<uuid>",
     "pieces": [{"records": 500,
                 "files": [{"name": "day=.../....parquet", "staged": "<unique>.parquet", "size": 4242}]}]}

A piece of an archive is what one task has read: its files together have the ranges of that task, each record once.
Pieces, and commits, are in the order of offsets. The commit of a table has "table" in place of "archive", and a piece
for each part: how many rows it has, and its file where the commit has written it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pylog.errors import StorageError
from pylog.spark.folder import Folder
from pylog.spark.sink.plan import BatchPlan
from pylog.spark.sink.staging import LEFT_MS
from pylog.spark.stream_offsets import StreamOffsets

_FOLDER: Final = "_commits"
STAGED: Final = "_staged"
ARCHIVE: Final = "archive"
TABLE: Final = "table"
_NAMES: Final = {
    ARCHIVE: re.compile(r"day=-?\d{4,6}-\d\d-\d\d/\d+-\d+-\d+\.parquet"),
    TABLE: re.compile(r"part-\d{5}\.parquet"),
}
_HEX: Final = re.compile(r"[0-9a-f]{32}(\.parquet)?")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file; `name` is its place in the folder, `staged` its name while it was staged."""

    name: str
    staged: str
    size: int


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows that one task has archived, or one part of a table."""

    records: int
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit. `offsets`: where the next one begins."""

    number: int
    id: str
    """Of the archive or table."""
    read: str
    run: str
    offsets: StreamOffsets
    partitions: Mapping[str, int]
    """How many each topic had."""
    pieces: tuple[Piece, ...]

    @property
    def records(self) -> int:
        """The number of its records."""
        return sum(piece.records for piece in self.pieces)

    @property
    def files(self) -> list[DataFile]:
        """All its files."""
        return [file for piece in self.pieces for file in piece.files]

    def staged(self, file: DataFile) -> str:
        """Where one of its files is until it is in its place."""
        return f"{STAGED}/{self.run}/{file.staged}"


class Commits:
    """The commits of an archive or a table."""

    def __init__(self, folder: Folder, kind: str) -> None:
        """`kind`: ARCHIVE or TABLE."""
        self._folder = folder
        self._kind = kind

    @property
    def kind(self) -> str:
        """The kind of the folder, for errors."""
        return f"{'an' if self._kind == ARCHIVE else 'a'} {self._kind}"

    def numbers(self) -> list[int]:
        """The numbers of the commits: 1, 2, 3... Raises StorageError where one is missing."""
        names = [name for name in self._folder.names(_FOLDER) if name.endswith(".json")]
        expected = [_file_name(number) for number in range(1, len(names) + 1)]
        if names != expected:
            wrong = next((name for name in expected if name not in names), names[-1])
            raise StorageError(
                f"{self._folder.at(_FOLDER)}: commits are numbered without a gap, and {wrong} does not fit: put back "
                "what was removed or renamed, or take a new folder"
            )
        return list(range(1, len(names) + 1))

    def load(self, number: int) -> Commit:
        """One commit. Raises StorageError where it cannot be read."""
        name = f"{_FOLDER}/{_file_name(number)}"
        try:
            return _parsed(number, self._kind, json.loads(self._folder.read(name)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(
                f"{self._folder.at(name)} is not a commit of {self.kind} that can be read ({error!r}): put back what "
                "it was, or take a new folder; a newer pylog may have written it"
            ) from error

    def plan(self, number: int) -> BatchPlan:
        """The plan that tells this commit from another one of its number. Raises OSError."""
        return BatchPlan.of(self._folder.read(f"{_FOLDER}/{_file_name(number)}"))

    def last(self) -> Commit | None:
        """The last commit; None where nothing was committed yet."""
        numbers = self.numbers()
        return self.load(numbers[-1]) if numbers else None

    def add(self, commit: Commit) -> None:
        """Commit. Raises StorageError where another run has committed meanwhile, or what was staged is not there;
        OSError.
        """
        if len(self.numbers()) != commit.number - 1:
            raise self._another()
        there = self._staged(commit)
        for file in commit.files:
            if file.staged not in there:
                raise StorageError(
                    f"{self._folder}: {commit.staged(file)} was staged and is not there, so nothing of it was "
                    "committed: driver and executors have to see one folder"
                )
        try:
            text = json.dumps(_as_json(commit, self._kind)).encode()
            self._folder.create(f"{_FOLDER}/{_file_name(commit.number)}", text)
        except FileExistsError:
            raise self._another() from None
        self.settle(commit)

    def settle(self, commit: Commit) -> None:
        """Move the files of a commit to their places, as far as that was not done.

        Raises StorageError where a file is neither staged nor in its place, and no later commit is there; OSError.
        """
        there = self._staged(commit)
        for file in commit.files:
            if not (file.staged in there and self._move(commit, file)) and self._folder.size(file.name) != file.size:
                # A later commit may have put another file there, and has found this one settled.
                if self.numbers()[-1] > commit.number:
                    return
                raise StorageError(
                    f"{self._folder.at(file.name)} of commit {commit.number} is neither there, with its {file.size} "
                    f"bytes, nor staged as {commit.staged(file)}: put back what was removed, or take a new folder"
                )

    @contextmanager
    def run(self) -> Iterator[str]:
        """The name of one run, for what it stages. That is removed when it ends, unless its last commit needs it."""
        run = uuid4().hex
        try:
            yield run
        finally:
            last = self.last()
            needed = {file.staged for file in last.files} if last is not None and last.run == run else set()
            if not needed & set(self._folder.names(f"{STAGED}/{run}")):
                self._folder.remove(f"{STAGED}/{run}")

    def remove_left(self, now_ms: int) -> None:
        """Remove what runs have staged that wrote their last file a week ago: they were killed. Raises OSError."""
        for run in self._folder.folders(STAGED):
            changed_ns = self._folder.changed_ns(f"{STAGED}/{run}")
            if changed_ns is not None and changed_ns < (now_ms - LEFT_MS) * 1_000_000:
                self._folder.remove(f"{STAGED}/{run}")

    def _move(self, commit: Commit, file: DataFile) -> bool:
        """Move a staged file to its place. False where another run has just done so."""
        try:
            self._folder.move(commit.staged(file), file.name)
        except FileNotFoundError:
            return False
        return True

    def _another(self) -> StorageError:
        return StorageError(
            f"{self._folder}: another run has committed meanwhile, so nothing of this one was: let one run at a time "
            "write to a folder, and run it again"
        )

    def _staged(self, commit: Commit) -> set[str]:
        return set(self._folder.names(f"{STAGED}/{commit.run}"))


def _file_name(number: int) -> str:
    return f"{number:010}.json"


def _as_json(commit: Commit, kind: str) -> dict[str, object]:
    pieces = [
        {
            "records": piece.records,
            "files": [{"name": file.name, "staged": file.staged, "size": file.size} for file in piece.files],
        }
        for piece in commit.pieces
    ]
    return {
        "version": _VERSION, kind: commit.id, "read": commit.read, "offsets": commit.offsets.to_json(),
        "partitions": dict(commit.partitions), "run": commit.run, "pieces": pieces,
    }  # fmt: skip


def _parsed(number: int, kind: str, fields: Mapping[str, Any]) -> Commit:
    if fields["version"] != _VERSION:
        raise ValueError(f"version {fields['version']} is unknown")
    return Commit(
        number=number,
        id=_matching(_HEX, fields[kind]),
        read=str(fields["read"]),
        run=_matching(_HEX, fields["run"]),
        offsets=StreamOffsets.from_json(fields["offsets"]),
        partitions={str(topic): int(count) for topic, count in fields["partitions"].items()},
        pieces=tuple(Piece(int(piece["records"]), _files(piece["files"], _NAMES[kind])) for piece in fields["pieces"]),
    )


def _files(found: Sequence[Mapping[str, Any]], names: re.Pattern[str]) -> tuple[DataFile, ...]:
    # The names come from a file, and are joined to the folder: none may lead out of it.
    return tuple(
        DataFile(_matching(names, file["name"]), _matching(_HEX, file["staged"]), int(file["size"])) for file in found
    )


def _matching(pattern: re.Pattern[str], text: object) -> str:
    if not isinstance(text, str) or pattern.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no name that a commit has")
    return text
