"""`pylog repair`: give up what cannot be read, after showing it, and with a copy kept.

Owns the directory. Opening the log does what every opening does: a torn tail is cut, missing indexes and snapshots are
made again, damage is quarantined. Then every byte is read, and what cannot be is shown; that and nothing else is
dropped when it is agreed to. A partition that cannot be opened, because its metadata cannot be read, ends it: nothing
is dropped anywhere.
"""

import click

from pylog.cli import commands
from pylog.cli import completion as complete
from pylog.cli.arguments import topic_partition
from pylog.cli.output import Column, agreed, print_line, print_table, say
from pylog.cli.params import argument, json_option, option, yes_option
from pylog.cli.place import LogPlace
from pylog.commitlog.recovery import Quarantined
from pylog.files import DiskFiles
from pylog.log import open_lazily
from pylog.logdirs.damage import Findings
from pylog.logdirs.foreign import require_log
from pylog.runtime.json_lines import json_line
from pylog.runtime.words import count_text, plural, size_text
from pylog.storage.segment_checksum import CHANGED

__all__ = ["command"]

COLUMNS = (
    Column("PARTITION"), Column("OFFSETS"), Column("FILE"), Column("POSITION", is_number=True),
    Column("BYTES", is_number=True), Column("REASON"),
)  # fmt: skip


@commands.command(
    "repair",
    on_files=True,
    short_help="give up what cannot be read, keeping a copy",
    examples=("pylog repair --dry-run", "pylog repair clicks:0", "pylog repair --yes --keep /backup/kept"),
)
@argument(
    "what", "[TOPIC[:PARTITION]]", "this alone (default: everything)", required=False, type=topic_partition,
    shell_complete=complete.topics,
)  # fmt: skip
@option("--dry-run", "-n", is_flag=True, help="show what would be dropped, and leave it")
@yes_option
@option("--keep", metavar="PATH", type=click.Path(), help="where copies go (default: the log's path with -repaired)")
@json_option
def command(
    place: LogPlace,
    what: tuple[str, int | None] | None,
    dry_run: bool,
    is_agreed: bool,
    keep: str | None,
    as_json: bool,
) -> int:
    """Read every byte of a log, show what cannot be read, and drop it after a confirmation.

    Reading steps over the gap then. The files as they were are kept beside the log directory.
    """
    paths = place.paths
    for path in paths:
        # Opening it would make one.
        require_log(DiskFiles(read_only=True), path)
    with open_lazily(paths, mode="own") as log:
        findings = log.find_damage(*(what or ()))
        _show(findings, as_json=as_json)
        lost = _facts(findings.damages)
        if dry_run:
            say(f"would drop {lost}" if findings.damages else "would drop nothing")
            return 0
        if findings.damages and not is_agreed and not agreed(f"dropping {lost}", f"Drop {lost}", "yes"):
            return 1
        kept = log.repair(findings, keep_in=keep)
    for key, folder in sorted(kept.items()):
        line = {"type": "kept", "topic": key.topic, "partition": key.partition, "path": folder}
        text = f"{key.topic}-{key.partition}: dropped what could not be read; the files as they were are in {folder}"
        print_line(json_line(line) if as_json else text)
    if not findings.damages:
        say("nothing had to be dropped")
    return 0


def _show(findings: Findings, *, as_json: bool) -> None:
    if as_json:
        for damage in findings.damages:
            print_line(json_line(_as_json(damage)))
        for key, path in findings.indexes:
            line = {"type": "index", "topic": key.topic, "partition": key.partition, "path": path}
            print_line(json_line(line))
        for key, path in findings.changed:
            line = {"type": "changed", "topic": key.topic, "partition": key.partition, "path": path}
            print_line(json_line(line))
        return
    if findings.damages:
        print_table(COLUMNS, [_row(damage) for damage in findings.damages])
    for key, path in findings.indexes:
        print_line(f"{key.topic}-{key.partition}: indexes that cannot be believed, to be rewritten: {path}")
    for key, path in findings.changed:
        what = f"it is not what it was when it was read before: {CHANGED}; restore it from a replica or a backup"
        print_line(f"{key.topic}-{key.partition}: {path}: {what}")


def _row(damage: Quarantined) -> tuple[str, ...]:
    last = damage.next_offset - 1
    offsets = f"{count_text(damage.offset)} to {count_text(last)}" if last >= damage.offset else "none"
    return (
        f"{damage.topic}-{damage.partition}", offsets, damage.path, count_text(damage.position),
        count_text(damage.bytes_lost), damage.reason,
    )  # fmt: skip


def _as_json(damage: Quarantined) -> dict[str, object]:
    return {
        "type": "damage", "topic": damage.topic, "partition": damage.partition, "offset": damage.offset,
        "next_offset": damage.next_offset, "path": damage.path, "position": damage.position,
        "bytes": damage.bytes_lost, "reason": damage.reason,
    }  # fmt: skip


def _facts(damages: tuple[Quarantined, ...]) -> str:
    offsets = sum(damage.next_offset - damage.offset for damage in damages)
    size = sum(damage.bytes_lost for damage in damages)
    files = len({damage.path for damage in damages})
    return f"{plural(offsets, 'offset')} in {size_text(size)} of {plural(files, 'file')}"
