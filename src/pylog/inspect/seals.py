"""The checks of pylog's files beside Kafka's: the seal of a segment, and the lists of segments and of damage.

    <base>.pylog-seal    sizes and CRCs of the segment's other files when it was sealed     (storage/segment_checksum)
    pylog-listing        the segments when the log was closed                               (storage/segment_list)
    pylog-damages        the damage that recovery has found, and steps over                 (storage/checkpoint)

All are compared with the files as they are. An owner removes a seal before it writes, so a seal that has gone meanwhile
says nothing.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pylog.errors import StorageError
from pylog.files import Files, join
from pylog.inspect.segments import RESTORE, Span
from pylog.inspect.texts import said
from pylog.inspect.values import Problem
from pylog.logdirs.log_directory import closed_by_pylog
from pylog.storage.checkpoint import DAMAGES, read_damages
from pylog.storage.segment_checksum import (
    CHANGED,
    INDEXES,
    NOT_YET,
    SEAL,
    Identity,
    Seal,
    mark,
    mark_of_log,
    read_seal,
)  # fmt: skip
from pylog.storage.segment_list import LISTING, listed, parse_listing

__all__ = ["SEAL", "check_damages", "check_listing", "check_seal"]

MISSING = "restore it from a replica or a backup, or let `pylog repair` give it up"
REBUILT = "it is not used; `pylog repair` writes it again from the log"


def check_seal(files: Files, span: Span, identity: Identity, *, start: int, is_whole: bool) -> Iterator[Problem]:
    """Check that the files of a segment are still those of its seal, and that the seal is of the partition `identity`.

    `start`: where the log starts; `is_whole`: the batches are good, each in itself.
    """
    path = span.path(SEAL)
    seal, log = read_seal(files, path), files.stat(span.path(".log"))
    if seal is None or seal.base_offset != span.base_offset:
        what, advice = "it is damaged, and is ignored", "nothing is lost by it"
        yield Problem(path, None, None, what, advice, harmless=True)
        return
    if log is None:
        return
    found = [*_log_problems(files, span, seal, log.size, identity, start=start, is_whole=is_whole)]
    for suffix, sealed in zip(INDEXES, seal.indexes, strict=True):
        if mark(files, span.path(suffix)) != sealed:
            what = "it has changed since its segment was sealed"
            found.append(Problem(span.path(suffix), None, None, what, REBUILT))
    # The seal is read again: an owner that writes removes it first.
    if read_seal(files, path) != seal:
        return
    if log.size != seal.log.size and mark(files, span.path(".index")) != seal.index:
        what = "it speaks of another .log and another .index: these are an older copy, or another program's work"
        yield Problem(path, None, None, what, "do nothing, if the topic is compacted, and Kafka had it", harmless=True)
        return
    yield from found


def _log_problems(
    files: Files, span: Span, seal: Seal, size: int, identity: Identity, *, start: int, is_whole: bool
) -> Iterator[Problem]:
    path = span.path(".log")
    if seal.identity.contradicts(identity):
        topic_id, partition = seal.identity
        what = f"it was sealed as a segment of partition {partition} of topic id {topic_id}"
        yield Problem(path, None, None, what, f"put it back where it belongs, or remove {span.path(SEAL)}")
    if size < seal.log.size:
        what = f"it was cut: {size} bytes are left of {seal.log.size}"
        yield Problem(path, size, None, what, RESTORE)
    elif size == seal.log.size:
        if span.end is not None and max(seal.next_offset, start) < span.end:
            what = f"the segment that began at offset {seal.next_offset} is missing: the next one begins at {span.end}"
            yield Problem(path, size, seal.next_offset, what, MISSING)
        if is_whole and seal.read_ms != NOT_YET and mark_of_log(files, path) != seal.log:
            when = datetime.fromtimestamp(seal.read_ms / 1000, UTC)
            what = f"every batch is good in itself, but the file has changed since {when:%Y-%m-%d}: {CHANGED}"
            yield Problem(path, None, None, what, RESTORE)


def check_listing(files: Files, log_dir: str, folder: str, names: Sequence[str]) -> Iterator[Problem]:
    """Check that all segments of a clean close are there, where that close was the last event."""
    if LISTING not in names or not closed_by_pylog(files, log_dir):
        return
    known = parse_listing(files.read_file(join(folder, LISTING)))
    if known is None:
        what, advice = "it is damaged, and is ignored", "nothing is lost by it"
        yield Problem(join(folder, LISTING), None, None, what, advice, harmless=True)
        return
    there = {*listed(names).logs}
    for base in known[1].logs:
        if base not in there and closed_by_pylog(files, log_dir):
            what = "it was there when the log was closed, and is missing"
            yield Problem(join(folder, f"{base:020d}.log"), None, base, what, RESTORE)


def check_damages(files: Files, folder: str) -> Iterator[Problem]:
    """The offsets that are quarantined. Damage whose bytes are still there is a problem that shows itself."""
    path = join(folder, DAMAGES)
    try:
        damages = read_damages(files, folder)
    except StorageError as error:
        what, advice = said(error, path)
        yield Problem(path, None, None, what, advice or "restore it from a backup")
        return
    for base, parts in damages.items():
        log = join(folder, f"{base:020d}.log")
        for position, end, offset, following in parts:
            if position == end:
                what = f"nothing is left of the offsets {offset} to {following - 1}, which were durable"
                yield Problem(path, None, offset, what, "restore them; or `pylog repair` gives them up")
            else:
                what = f"offsets {offset} to {following - 1} are quarantined ({end - position} bytes)"
                yield Problem(
                    log, position, offset, what, "restore them; or `pylog repair` gives them up", harmless=True
                )
