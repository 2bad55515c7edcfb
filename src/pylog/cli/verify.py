"""`pylog verify`: read a whole log directory, and name each fault, its place and its remedy.

Only reads, and works beside an owner, on a copy, and on a read-only disk. One line for each problem on stdout, the
totals on stderr; exit code 1 if something is wrong. What is harmless (leftovers, reserved space, an append under way)
shows with --notes.
"""

import argparse

from pylog.cli.arguments import Parser, add_directory, examples, log_path
from pylog.cli.meter import Meter
from pylog.cli.output import json_line, plural, print_line, say, size_text
from pylog.errors import UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.inspect import Problem, Totals, log_bytes, verify
from pylog.opening import open_lazily

__all__ = ["add"]


def add(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Add `verify`."""
    parser = commands.add_parser(
        "verify",
        help="check every byte and report each fault with its place",
        description=(
            "Check every batch, record, index entry and checkpoint of a log, and report each fault with its place.\n"
            "Changes nothing. Exit code 1 if there are problems."
        ),
        epilog=examples(("pylog verify --log data", "pylog verify --topic clicks", "pylog verify --json | jq .path")),
    )
    parser.add_argument("--topic", metavar="TOPIC", help="the partitions of this topic alone (default: everything)")
    parser.add_argument("--notes", action="store_true", help="also report unusual but harmless findings")
    parser.add_argument("--json", action="store_true", help="one JSON object a line: the problems, then the totals")
    add_directory(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run `verify`."""
    path = log_path(args)
    files = DiskFiles(read_only=True)
    size = records = 0
    totals: Totals | None = None
    try:
        total = log_bytes(files, path, topic=args.topic)
    except UnknownTopicOrPartition:
        if not _is_empty(path, args.topic):
            raise
        say(f"topic {args.topic} has no records and no files yet: there is nothing to check")
        return 0
    with Meter("verifying", total) as meter:
        for event in verify(files, path, topic=args.topic):
            if isinstance(event, Problem):
                if args.notes or not event.harmless:
                    print_line(json_line(_as_json(event)) if args.json else _words(event))
            elif isinstance(event, Totals):
                totals = event
            else:
                size += event.size
                records += event.records
                meter.update(size, records)
    assert totals is not None
    if args.json:
        print_line(json_line(_totals_json(totals)))
    else:
        _say_totals(totals, args.notes)
    return 1 if totals.problems else 0


def _is_empty(path: str, topic: str) -> bool:
    """Whether the log has a topic of this name whose partitions never had a record: they get folders with the first."""
    with open_lazily(path, mode="read") as log:
        return topic in log.topics(internal=True) and all(view.next_offset == 0 for view in log.topic(topic))


def _words(problem: Problem) -> str:
    return f"note: {problem}" if problem.harmless else str(problem)


def _as_json(problem: Problem) -> dict[str, object]:
    return {
        "type": "note" if problem.harmless else "problem",
        "path": problem.path, "position": problem.position, "offset": problem.offset,
        "what": problem.what, "what_to_do": problem.what_to_do,
    }  # fmt: skip


def _totals_json(totals: Totals) -> dict[str, object]:
    return {
        "type": "totals", "partitions": totals.partitions, "segments": totals.segments, "batches": totals.batches,
        "records": totals.records, "size": totals.size, "index_entries": totals.index_entries,
        "problems": totals.problems, "notes": totals.notes,
    }  # fmt: skip


def _say_totals(totals: Totals, showed_notes: bool) -> None:
    read = ", ".join((
        plural(totals.partitions, "partition"), plural(totals.segments, "segment"), plural(totals.batches, "batch"),
        plural(totals.records, "record"), plural(totals.index_entries, "index entry"), size_text(totals.size),
    ))  # fmt: skip
    notes = f" ({plural(totals.notes, 'note')}: see --notes)" if totals.notes and not showed_notes else ""
    found = plural(totals.problems, "problem") if totals.problems else "no problems"
    say(f"checked {read}: {found}{notes}")
