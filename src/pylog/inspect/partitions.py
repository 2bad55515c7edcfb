"""The check of one partition's folder: its segments in order, its promised offsets, and files of no segment."""

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple
from uuid import UUID

from pylog.errors import CorruptBatch, LogNotFound, StorageError
from pylog.files import Files, join
from pylog.inspect.dump import base_offset_of, producer_entries
from pylog.inspect.scan import words
from pylog.inspect.seals import SEAL, check_damages, check_listing, check_seal
from pylog.inspect.segments import Facts, Span, check_segment
from pylog.inspect.texts import problem_of, text_problems
from pylog.inspect.values import Checked, Problem
from pylog.logdirs.log_directory import PUBLISHED, closed_by_kafka
from pylog.logdirs.metadata_snapshots import read_snapshot, snapshot_ids
from pylog.protocol.topic_names import METADATA_TOPIC
from pylog.record import TopicPartition
from pylog.storage.checkpoint import DAMAGES, read_epochs, read_topic_id
from pylog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from pylog.storage.partition_dirs import folder_name
from pylog.storage.producer_state import SNAPSHOT_BYTES_MAX
from pylog.storage.published import Published, PublishedState
from pylog.storage.segment_checksum import NO_TOPIC, Identity
from pylog.storage.segment_files import SWAP
from pylog.storage.segment_list import LISTING

SEGMENT_FILE = re.compile(r"(?P<base>\d{20})(?P<suffix>\.log|\.index|\.timeindex|\.txnindex|\.snapshot|\.pylog-seal)")
LEFT_BEHIND = re.compile(r".*(\.deleted|\.cleaned|\.swap|\.tmp|\.part)")
OWN_FILES = frozenset({"leader-epoch-checkpoint", "partition.metadata", "quorum-state", DAMAGES, LISTING})
RESTORE = "records that were acknowledged are missing: restore the partition from a replica or a backup"

ATTEMPTS = 5
"""The number of looks at a partition whose owner changes files meanwhile."""

Events = Iterator[Problem | Checked]


@dataclass(slots=True)
class Tally:
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    index_entries: int = 0
    problems: int = 0
    notes: int = 0

    def add(self, facts: Facts) -> None:
        self.segments += 1
        self.batches += facts.batches
        self.records += facts.records
        self.size += facts.size
        self.index_entries += facts.index_entries

    def add_all(self, other: "Tally") -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def count(self, event: Problem | Checked) -> None:
        if isinstance(event, Problem):
            if event.harmless:
                self.notes += 1
            else:
                self.problems += 1


@dataclass(slots=True)
class Promises:
    """The offsets that the directory promises for each partition; the log must hold them."""

    offsets: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    published: Published | None = None

    def state(self, topic_id: UUID | None, partition: int) -> PublishedState | None:
        """The last offsets that the owner published. Raises: StorageError (the file is damaged)."""
        if self.published is None or topic_id is None:
            return None
        entry = self.published.find(topic_id, partition)
        return entry.read() if entry is not None else None


class _Facts(NamedTuple):
    """The facts about a partition besides the files of its segments: its identity, its start and its end."""

    identity: Identity
    start: int
    end: int | None
    is_sealed: bool
    """Whether seals count: they do not where another program has had the log since they were written."""


def check_partition(
    files: Files, log_dir: str, partition: TopicPartition, promises: Promises, tally: Tally,
    ids: dict[str, tuple[UUID, str]],
) -> Events:  # fmt: skip
    """Check one partition.

    Where something is wrong, and its owner has changed files meanwhile, the check is repeated: the pieces that it has
    looked at do not fit together then.
    """
    folder = join(log_dir, folder_name(*partition))
    for attempt in range(ATTEMPTS):
        moment, counted, problems, known = _moment(files, folder), Tally(), list[Problem](), dict(ids)
        for event in _partition(files, log_dir, partition, promises, counted, known):
            if isinstance(event, Problem):
                problems.append(event)
            elif attempt == 0:
                yield event
        if all(problem.harmless for problem in problems) or moment == _moment(files, folder):
            break
    ids |= known
    tally.add_all(counted)
    yield from problems


def _moment(files: Files, folder: str) -> tuple[int, list[str]]:
    """A value that changes with every name in a folder that comes, goes or changes."""
    stat = files.stat(folder)
    return stat.mtime_ns if stat is not None else 0, sorted(files.list_dir(folder))


def _partition(
    files: Files,
    log_dir: str,
    partition: TopicPartition,
    promises: Promises,
    tally: Tally,
    ids: dict[str, tuple[UUID, str]],
) -> Events:
    folder = join(log_dir, folder_name(*partition))
    topic_id = yield from _topic_id(files, folder, partition.topic, ids)
    state = later = None
    names = files.list_dir(folder)
    try:
        state = promises.state(topic_id, partition.partition)
        names = files.list_dir(folder)
        # The start is read again: the owner moves it up first and removes segments then.
        later = promises.state(topic_id, partition.partition)
    except StorageError as error:
        yield problem_of(join(log_dir, PUBLISHED), error)
    suffixes = _segments(names)
    # Between its steps a compaction leaves holes, which the next open fills with the files of this name.
    is_swapping = any(name.endswith(SWAP) for name in names)
    yield from _strangers(folder, names, suffixes, is_swapping=is_swapping)
    tally.partitions += 1
    bases = sorted(base for base, has in suffixes.items() if ".log" in has)
    said = _Facts(
        Identity(topic_id or NO_TOPIC, partition.partition),
        later.start_offset if later is not None else promises.offsets[START_OFFSETS].get(partition, 0),
        state.next_offset if state is not None else None,
        not is_swapping and not closed_by_kafka(files, log_dir),
    )
    end, epoch, is_whole = yield from _check_segments(files, folder, said, suffixes, bases, tally)
    yield from _snapshots(files, folder, suffixes)
    if partition.topic == METADATA_TOPIC:
        yield from _metadata_snapshots(files, folder)
    yield from check_listing(files, log_dir, folder, names)
    yield from check_damages(files, folder)
    yield from _epochs(files, folder, end, epoch if said.start < end else -1)
    if bases:
        yield from _kept(log_dir, folder, partition, promises, state, end, is_whole)
        if later is not None and later.start_offset < bases[0] and not is_swapping:
            what = f"the log should start at {later.start_offset}, and its first segment starts at {bases[0]}"
            yield Problem(folder, None, later.start_offset, what, RESTORE)


def _check_segments(
    files: Files, folder: str, said: _Facts, suffixes: dict[int, set[str]], bases: list[int], tally: Tally
) -> Generator[Problem | Checked, None, tuple[int, int, bool]]:
    """Check the segments in order.

    Returns where the log ends, its last leader epoch, and whether all of it could be read.
    """
    end, epoch = (bases[0] if bases else 0), -1
    is_whole = True
    for number, base in enumerate(bases):
        is_last = number + 1 == len(bases)
        span = Span(folder, base, max(base, end), None if is_last else bases[number + 1], said.end)
        if base > end:
            what = f"no segment has the offsets {end} to {base - 1}"
            advice = "compaction leaves such gaps; otherwise a file is missing: restore it"
            yield Problem(span.path(".log"), None, end, what, advice, harmless=True)
        try:
            facts = yield from check_segment(files, span, frozenset(suffixes[base]), epoch)
        except LogNotFound:
            continue
        except StorageError as error:
            # The disk failed, not the bytes: the other files may still be readable.
            yield problem_of(span.path(".log"), error)
            is_whole = False
            continue
        if SEAL in suffixes[base] and said.is_sealed:
            yield from check_seal(files, span, said.identity, start=said.start, is_whole=facts.damaged_from is None)
        tally.add(facts)
        end, epoch = facts.next_offset, facts.leader_epoch
        is_whole = is_whole and facts.damaged_from is None
    return end, epoch, is_whole


def _segments(names: list[str]) -> dict[int, set[str]]:
    """Base offset -> the suffixes of the files that are there, or about to get their names."""
    found: dict[int, set[str]] = {}
    for name in names:
        if match := SEGMENT_FILE.fullmatch(name.removesuffix(SWAP)):
            found.setdefault(int(match["base"]), set()).add(match["suffix"])
    return found


def _topic_id(
    files: Files, folder: str, topic: str, ids: dict[str, tuple[UUID, str]]
) -> Generator[Problem, None, UUID | None]:
    path = join(folder, "partition.metadata")
    if files.stat(path) is None:
        what = "it is missing, so the partition has no topic id"
        yield Problem(path, None, None, what, "opening the log gives it one", harmless=True)
        return None
    problems = list(text_problems(files, path))
    yield from problems
    topic_id = None if problems else read_topic_id(files, folder)
    if topic_id is None:
        return None
    known, elsewhere = ids.setdefault(topic, (topic_id, path))
    if known != topic_id:
        what = f"its topic id {topic_id} is not {known}, as in {elsewhere}"
        yield Problem(
            path, None, None, what, "one of the two folders belongs to a deleted topic of the same name: move it away"
        )
    return topic_id


def _strangers(folder: str, names: list[str], suffixes: dict[int, set[str]], *, is_swapping: bool) -> Iterator[Problem]:
    for name in sorted(names):
        path = join(folder, name)
        if name in OWN_FILES or name.endswith(".checkpoint"):
            continue
        if LEFT_BEHIND.fullmatch(name):
            what, advice = (
                "it was left behind by a crash, or waits for removal",
                "the next open for writing removes it",
            )
            yield Problem(path, None, None, what, advice, harmless=True)
        elif SEGMENT_FILE.fullmatch(name) is None:
            yield Problem(path, None, None, "it is no file of a log", "it is not looked at", harmless=True)
        elif not name.endswith((".log", ".snapshot")) and ".log" not in suffixes[base_offset_of(name) or 0]:
            what = "it is an index without its .log"
            advice = "restore the .log if it was lost, or delete this file"
            yield Problem(path, None, None, what, advice, harmless=is_swapping)


def _snapshots(files: Files, folder: str, suffixes: dict[int, set[str]]) -> Iterator[Problem]:
    for base in sorted(base for base, has in suffixes.items() if ".snapshot" in has):
        path = join(folder, f"{base:020d}.snapshot")
        try:
            producer_entries(files.read_file(path, SNAPSHOT_BYTES_MAX))
        except LogNotFound:
            continue
        except StorageError as error:
            advice = "an older one is read in its place, and the log replayed from there"
            yield Problem(path, None, None, words(error), advice, harmless=True)


def _metadata_snapshots(files: Files, folder: str) -> Iterator[Problem]:
    for snapshot in snapshot_ids(files, folder):
        path = join(folder, snapshot.name)
        try:
            read_snapshot(files, folder, snapshot)
        except LogNotFound:
            continue
        except StorageError as error:
            at = error.position if isinstance(error, CorruptBatch) else None
            advice = "the one before it, and the log from there on, stand in for it: restore it if there is none"
            yield Problem(path, at, None, words(error), advice)


def _epochs(files: Files, folder: str, end: int, epoch: int) -> Iterator[Problem]:
    path = join(folder, "leader-epoch-checkpoint")
    if files.stat(path) is None:
        if epoch > 0:
            what = f"it is missing, and the log has leader epochs up to {epoch}"
            yield Problem(path, None, None, what, "followers cannot truncate by epoch until the log is recovered")
        return
    problems = list(text_problems(files, path))
    yield from problems
    if problems:
        return
    before = (read_epochs(files, path) or [(-1, 0)])[-1]
    if before[0] < epoch:
        what = f"its last epoch is {before[0]}, and the log has batches of epoch {epoch}"
        yield Problem(path, None, None, what, "delete it: recovery builds it again from the log")
    elif before[1] > end:
        what = f"epoch {before[0]} starts at {before[1]}, behind the end of the log at {end}"
        yield Problem(path, None, before[1], what, "records are missing at the end of the log: restore them")


def _kept(
    log_dir: str,
    folder: str,
    partition: TopicPartition,
    promises: Promises,
    state: PublishedState | None,
    end: int,
    is_whole: bool,
) -> Iterator[Problem]:
    """Check that the log holds the promised offsets.

    Damage that was found explains a short log, so it is reported once.
    """
    if is_whole and state is not None and state.durable_offset > end:
        what = f"the owner had made everything below offset {state.durable_offset} durable, and the log ends at {end}"
        yield Problem(folder, None, end, what, RESTORE)
    for name, meaning in (
        (RECOVERY_POINTS, "is durable"), (START_OFFSETS, "was deleted on request"), (HIGH_WATERMARKS, "is replicated"),
    ):  # fmt: skip
        offset = promises.offsets[name].get(partition, 0)
        if is_whole and offset > end:
            what = f"{folder} ends at offset {end}, and this says that everything below {offset} {meaning}"
            yield Problem(join(log_dir, name), None, offset, what, RESTORE)
    if state is not None and state.failed:
        what = "a write or a sync failed while the last owner had it open, and it takes no more appends"
        yield Problem(
            folder, None, state.durable_offset, what, "look at the disk, then close the log and open it again"
        )
