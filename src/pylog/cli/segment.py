"""`pylog segment dump FILE...`: the content of files of a log directory, in the words of Kafka's dump tool.

Needs no log: the file's name says what it is, so it works on a copy as well. Damage is shown at its place, said on
stderr and makes the exit code 1.
"""

from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from uuid import UUID

import click

from pylog.cli.commands import CommandGroup
from pylog.cli.output import print_line, say
from pylog.cli.params import argument, json_option, option
from pylog.cli.place import LogPlace
from pylog.files import DiskFiles
from pylog.inspect import DumpLine, Problem, RecordEntry, dump_segment
from pylog.runtime.json_lines import json_line, text_or_base64
from pylog.runtime.words import plural

__all__ = ["command"]


command = CommandGroup(
    "segment", on_files=True, short_help="look into segment files", help="Look into the files of a log directory."
)


@command.verb(
    "dump",
    on_files=True,
    short_help="batches, records, index entries, checkpoints",
    examples=(
        "pylog segment dump data/clicks-0/00000000000000000000.log --records",
        "pylog segment dump data/clicks-0/*.index",
        "pylog segment dump --json data/clicks-0/*.log | jq 'select(.type == \"batch\") | .codec'",
    ),
)
@argument("paths", "FILE...", "a file of a log directory, or a copy of one", nargs=-1, required=True, type=click.Path())
@option("--records", "-v", is_flag=True, help="also the records of each batch")
@json_option
def dump(place: LogPlace, paths: tuple[str, ...], records: bool, as_json: bool) -> int:
    """Show the content of .log, .index, .timeindex, .txnindex, .snapshot and checkpoint files, line by line.

    The words are those of kafka-dump-log.sh. Records of __cluster_metadata are decoded.
    """
    place.refuse_bootstrap()
    files = DiskFiles(read_only=True)
    problems = 0
    for path in paths:
        lines = dump_segment(files, path, records=records)
        # The first line is asked for before anything is printed: a file that is not there has no heading.
        first = next(lines, None)
        if not as_json:
            print_line(f"Dumping {path}" if first is not None else f"{path} is empty.")
        for line in () if first is None else chain((first,), lines):
            print_line(json_line(_as_json(path, line)) if as_json else str(line))
            problems += isinstance(line, Problem)
    if problems:
        say(f"{plural(problems, 'problem')} found, each at its place in the output; `pylog verify` says what to do")
    return 1 if problems else 0


def _as_json(path: str, line: DumpLine) -> dict[str, object]:
    kind = type(line).__name__.removesuffix("Entry").lower()
    found: dict[str, object] = {"type": kind, "path": path}
    for field in fields(line):
        found[field.name] = _plain(getattr(line, field.name))
    if isinstance(line, RecordEntry):
        found["headers"] = [[header.key, text_or_base64(header.value)] for header in line.headers]
    if isinstance(line, Problem):
        del found["harmless"]
    return found


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return text_or_base64(value)
    if isinstance(value, UUID):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value
