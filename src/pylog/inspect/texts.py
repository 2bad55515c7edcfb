"""The small text files of a log directory as lines of a dump, and as problems where they do not parse.

    leader-epoch-checkpoint               0, count, then `epoch startOffset` a line
    *-offset-checkpoint                   0, count, then `topic partition offset` a line
    partition.metadata                    version: 0, topic_id: <base64 uuid>
    meta.properties                       Java properties
    quorum-state                          JSON
    pylog-damages                         0, count, then `base position end offset nextOffset` a line

Kafka is strict with them (a wrong count is an I/O error at start), and so is this file: a text that does not parse is a
problem that names the file and, in its words, the line. An empty checkpoint has no entries.
"""

import base64
import json
from collections.abc import Iterator

from pylog.errors import LogNotFound, PylogError
from pylog.files import Files
from pylog.inspect.scan import words
from pylog.inspect.values import CheckpointEntry, DumpLine, Problem
from pylog.storage.checkpoint import DAMAGES, read_damages, read_epochs, read_offsets, read_properties, read_topic_id

__all__ = ["problem_of", "said", "text_lines", "text_problems"]

ADVICE = {
    "leader-epoch-checkpoint": "delete it: the next open builds it again from the log",
    "partition.metadata": "restore it: only the topic id tells this from an older topic of the same name",
    "meta.properties": "restore it: it says which node and cluster the directory belongs to",
    "quorum-state": "delete it: on a single node the next open writes it again",
    "recovery-point-offset-checkpoint": "delete it: the next open then checks all of the log instead of its end",
}


def text_lines(files: Files, path: str) -> Iterator[DumpLine]:
    """The entries of a text file, or one Problem. Raises: LogNotFound, StorageError (the disk)."""
    directory, _, name = path.rpartition("/")
    if files.stat(path) is None:
        raise LogNotFound(f"{path}: there is no such file")
    try:
        yield from _entries(files, directory, path, name)
    except (PylogError, ValueError, RecursionError) as error:
        # RecursionError: JSON that opens a hundred thousand brackets.
        if files.stat(path) is None:
            raise
        what, advice = said(error, path)
        yield Problem(path, None, None, what, ADVICE.get(name, advice) or "restore it, or delete it")


def text_problems(files: Files, path: str) -> Iterator[Problem]:
    """The problem of a text file that does not parse. Raises as `text_lines` does."""
    for line in text_lines(files, path):
        if isinstance(line, Problem):
            yield line


def problem_of(path: str, error: PylogError) -> Problem:
    """The problem for an error."""
    what, advice = said(error, path)
    return Problem(path, None, None, what, advice or "restore it from a replica or a backup")


def said(error: BaseException, path: str) -> tuple[str, str]:
    """An error's message in two: the fault, without the path that it names first, and the advice."""
    text = words(error).removeprefix(f"{path}, ").removeprefix(f"{path}: ")
    what, stop, advice = text.partition(". ")
    if not stop:
        what, stop, advice = text.rpartition(": ")
    return (what, advice[:1].lower() + advice[1:]) if stop else (text, "")


def _entries(files: Files, directory: str, path: str, name: str) -> Iterator[CheckpointEntry]:
    if name == "leader-epoch-checkpoint":
        for epoch, start in read_epochs(files, path):
            yield CheckpointEntry({"epoch": epoch, "startOffset": start})
    elif name == "partition.metadata":
        topic_id = read_topic_id(files, directory)
        if topic_id is not None:
            yield CheckpointEntry({"topicId": base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()})
    elif name == DAMAGES:
        for base, parts in read_damages(files, directory).items():
            for position, end, offset, following in parts:
                where = {"baseOffset": base, "position": position, "bytes": end - position}
                yield CheckpointEntry({**where, "offset": offset, "nextOffset": following})
    elif name == "meta.properties":
        yield CheckpointEntry(dict(read_properties(files, path)))
    elif name == "quorum-state":
        yield CheckpointEntry(_flat(json.loads(files.read_file(path))))
    else:
        for partition, offset in read_offsets(files, path).items():
            yield CheckpointEntry({"topic": partition.topic, "partition": partition.partition, "offset": offset})


def _flat(value: object) -> dict[str, str | int]:
    if not isinstance(value, dict):
        raise ValueError("it is JSON, but no object")
    return {str(k): v if isinstance(v, int | str) else json.dumps(v) for k, v in value.items()}
