"""`pylog verify`: read all directories of a log, and name each fault, its place and its remedy.

Only reads, and works beside an owner, on a copy, and on a read-only disk. One line for each problem on stdout, the
totals on stderr; exit code 1 if something is wrong. What is harmless (leftovers, reserved space, an append under way)
shows with --notes.
"""

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.meter import Meter
from pylog.cli.output import print_line, say
from pylog.cli.params import json_option, option
from pylog.cli.place import LogPlace
from pylog.errors import UnknownTopicOrPartition
from pylog.files import DiskFiles
from pylog.inspect import Problem, Totals, log_bytes, verify
from pylog.log import open_lazily
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import plural, size_text

__all__ = ["command"]


@commands.command(
    "verify",
    on_files=True,
    short_help="check every byte and report each fault with its place",
    examples=("pylog verify --log data", "pylog verify --topic clicks", "pylog verify --json | jq .path"),
)
@option(
    "--topic", metavar="TOPIC", help="the partitions of this topic alone (default: everything)",
    shell_complete=complete.topics,
)  # fmt: skip
@option("--notes", is_flag=True, help="also report unusual but harmless findings")
@json_option
def command(place: LogPlace, topic: str | None, notes: bool, as_json: bool) -> int:
    """Check every batch, record, index entry and checkpoint of a log, and report each fault with its place.

    Changes nothing. Exit code 1 if there are problems.
    """
    paths = place.paths
    files = DiskFiles(read_only=True)
    size = records = 0
    totals: Totals | None = None
    try:
        total = log_bytes(files, *paths, topic=topic)
    except UnknownTopicOrPartition:
        if topic is None or not _is_empty(paths, topic):
            raise
        say(f"topic {topic} has no records and no files yet: there is nothing to check")
        return 0
    with Meter("verifying", total) as meter:
        for event in verify(files, *paths, topic=topic):
            if isinstance(event, Problem):
                if notes or not event.harmless:
                    print_line(json_line(_as_json(event)) if as_json else _words(event))
            elif isinstance(event, Totals):
                totals = event
            else:
                size += event.size
                records += event.records
                meter.update(size, records)
    assert totals is not None
    if as_json:
        print_line(json_line(_totals_json(totals)))
    else:
        _say_totals(totals, notes)
    return 1 if totals.problems else 0


def _is_empty(paths: list[str], topic: str) -> bool:
    """Whether the log has a topic of this name whose partitions never had a record: they get folders with the first."""
    with open_lazily(paths, mode="read") as log:
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
        "records": totals.records, "bytes": totals.size, "index_entries": totals.index_entries,
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
