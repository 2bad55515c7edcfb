"""`pylog segment dump FILE...`: the content of files of a log directory, in the words of Kafka's dump tool.

Needs no log: the file's name says what it is, so it works on a copy as well. Damage is shown at its place, said on
stderr and makes the exit code 1.
"""

import argparse
from collections.abc import Mapping
from dataclasses import fields
from itertools import chain

from pylog.cli.arguments import Parser, add_directory, examples, refuse_bootstrap
from pylog.cli.output import json_line, plural, print_line, say, text_or_base64
from pylog.files import DiskFiles
from pylog.inspect import DumpLine, Problem, RecordEntry, dump_segment

__all__ = ["add"]


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `segment dump`."""
    group = commands.add_parser(
        "segment", help="look into segment files", description="Look into the files of a log directory."
    )
    add_directory(group)
    verbs = group.add_subparsers(title="commands", dest="verb", metavar="COMMAND", required=True)
    parser = verbs.add_parser(
        "dump",
        help="batches, records, index entries, checkpoints",
        description=(
            "Show the content of .log, .index, .timeindex, .txnindex, .snapshot and checkpoint files, line by line,\n"
            "as kafka-dump-log.sh does. Records of __cluster_metadata are decoded."
        ),
        epilog=examples((
            "pylog segment dump data/clicks-0/00000000000000000000.log --records",
            "pylog segment dump data/clicks-0/*.index",
            "pylog segment dump --json data/clicks-0/*.log | jq 'select(.type == \"batch\") | .codec'",
        )),
    )  # fmt: skip
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file of a log directory, or a copy of one")
    parser.add_argument("--records", "-v", action="store_true", help="also the records of each batch")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    add_directory(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run `segment dump`."""
    refuse_bootstrap(args)
    files = DiskFiles(read_only=True)
    problems = 0
    for path in args.files:
        lines = dump_segment(files, path, records=args.records)
        # The first line is asked for before anything is printed: a file that is not there has no heading.
        first = next(lines, None)
        if not args.json:
            print_line(f"Dumping {path}" if first is not None else f"{path} is empty.")
        for line in () if first is None else chain((first,), lines):
            print_line(json_line(_as_json(path, line)) if args.json else str(line))
            problems += isinstance(line, Problem)
    if problems:
        say(f"{plural(problems, 'problem')} found, each at its place in the output; `pylog verify` says what to do")
    return 1 if problems else 0


def _as_json(path: str, line: DumpLine) -> dict[str, object]:
    kind = type(line).__name__.removesuffix("Entry").lower()
    found: dict[str, object] = {"type": kind, "file": path}
    for field in fields(line):
        found[field.name] = _plain(getattr(line, field.name))
    if isinstance(line, RecordEntry):
        found["headers"] = [[header.key, text_or_base64(header.value)] for header in line.headers]
    if isinstance(line, Problem):
        del found["path"], found["harmless"]
    return found


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return text_or_base64(value)
    return dict(value) if isinstance(value, Mapping) else value
