"""What a check says of segments and indexes that cannot be, and of files that go, or fail, while it runs."""

import errno
import struct
from collections.abc import Callable
from itertools import count
from uuid import UUID

import pytest
from crc32c import crc32c

from pylog.errors import StorageError, UnknownTopicOrPartition
from pylog.files import SMALL_BYTES_MAX, File, Files, MemoryFiles
from pylog.inspect import AbortedEntry, Checked, OffsetEntry, Problem, TimeEntry, Totals, log_bytes, verify
from pylog.kernel import Record
from pylog.logdirs.log_directories import Directories
from pylog.logdirs.metadata_log import MetadataLog
from pylog.protocol.batch import encode
from pylog.protocol.metadata_changes import create_topic
from pylog.record import TopicPartition
from pylog.storage.checkpoint import write_epochs, write_offsets, write_topic_id
from pylog.storage.published import ENTRY_BYTES, Published, PublishedState
from pylog.storage.segment_checksum import NOBODY, NOT_YET, Mark, Seal, write_seal
from support.partition_log import InterruptingFiles
from tests.support.faults import FaultFiles

NOW = 1_700_000_000_000
FOLDER = "data/t-0"
TOPIC_ID = UUID(int=7)


def batch(base: int, count: int = 1, *, epoch: int = 0) -> bytes:
    records = [Record(b"v", b"k", NOW + base + number) for number in range(count)]
    return bytes(encode(records, now_ms=NOW, base_offset=base, leader_epoch=epoch).data)


def changed(data: bytes, position: int, value: bytes) -> bytes:
    """With other bytes at a position of a batch, and the CRC that belongs to them."""
    body = bytearray(data)
    body[position : position + len(value)] = value
    body[17:21] = crc32c(bytes(body[21:])).to_bytes(4, "big")
    return bytes(body)


def spoiled(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def name(base: int, suffix: str) -> str:
    return f"{FOLDER}/{base:020d}{suffix}"


class Directory:
    """t-0 with a sealed segment [0, 5) of five batches, and an active one that begins at 5."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_dir(FOLDER)
        self.put("data/meta.properties", b"version=1\nnode.id=1\n")
        write_topic_id(self.files, FOLDER, TOPIC_ID)
        write_epochs(self.files, f"{FOLDER}/leader-epoch-checkpoint", [(0, 0)])
        self.put(name(0, ".log"), b"".join(batch(offset) for offset in range(5)))
        self.put(name(0, ".index"), b"")
        self.put(name(0, ".timeindex"), struct.pack(">qi", NOW + 4, 4))
        self.active(batch(5))

    def put(self, path: str, data: bytes) -> None:
        self.files.replace_file(path, data)

    def active(self, *parts: bytes) -> None:
        self.put(name(5, ".log"), b"".join(parts))
        for suffix in (".index", ".timeindex"):
            self.put(name(5, suffix), b"")

    def publish(self, state: PublishedState) -> None:
        published = Published(self.files, "data/.pylog-published", writable=True)
        published.entry(TOPIC_ID, 0).publish(state)
        published.close()

    def found(self, files: Files | None = None, *, harmless: bool = False) -> list[Problem]:
        events = verify(files if files is not None else self.files, "data")
        return [event for event in events if isinstance(event, Problem) and event.harmless is harmless]

    def problem(self) -> Problem:
        (one,) = self.found()
        return one


@pytest.fixture
def directory() -> Directory:
    made = Directory()
    assert made.found() == made.found(harmless=True) == []
    return made


# --- batches that cannot be -------------------------------------------------------------------------------------------


def test_an_offset_too_large_for_an_index_is_a_problem(directory: Directory) -> None:
    directory.active(batch(5), batch(5 + 2**31))
    assert "is more than 2^31 - 1 above the segment's base 5" in directory.problem().what


def test_records_that_cannot_be_decoded_are_a_problem(directory: Directory) -> None:
    directory.active(batch(5), changed(batch(6), 61, b"\x7f"))
    problem = directory.problem()
    assert problem.offset == 6 and "its records cannot be decoded" in problem.what


def test_a_largest_timestamp_without_a_record_is_a_problem(directory: Directory) -> None:
    directory.active(changed(batch(5), 35, struct.pack(">q", NOW + 9)))
    assert f"newest record has timestamp {NOW + 5}, and its header says {NOW + 9}" in directory.problem().what


def test_records_from_before_1970_have_no_largest_timestamp(directory: Directory) -> None:
    old = bytearray(changed(batch(5), 27, struct.pack(">q", -9)))
    directory.active(changed(old, 35, struct.pack(">q", -1)))
    assert directory.found() == []


def test_records_that_contradict_their_header_are_a_problem(directory: Directory) -> None:
    further = bytearray(batch(5))
    further[further.index(b"\x02k\x02v") - 1] = 2
    fewer = changed(batch(5, 3), 57, struct.pack(">i", 2))
    for lying in (changed(bytes(further), 0, b""), fewer):
        directory.active(lying)
        problem = directory.problem()
        assert problem.offset == 5 and "its records cannot be decoded" in problem.what


def test_a_batch_without_records_is_no_problem(directory: Directory) -> None:
    empty = batch(5)[:61]
    empty = changed(empty, 8, struct.pack(">i", 49))
    empty = changed(empty, 57, struct.pack(">i", 0))
    directory.active(empty, batch(6))
    assert directory.found() == []


def test_indexes_are_checked_up_to_the_first_damage(directory: Directory) -> None:
    size = len(batch(0))
    directory.put(name(0, ".log"), batch(0) + spoiled(batch(1)) + batch(2) + spoiled(batch(3)) + batch(4))
    directory.put(name(0, ".index"), struct.pack(">iiii", 1, 5, 4, 4 * size))
    problems = directory.found()
    assert [problem.offset for problem in problems] == [1, 3, 1]
    assert "no batch of the log ends with offset 1" in problems[2].what


def test_a_torn_tail_below_what_was_acknowledged_is_a_loss(directory: Directory) -> None:
    directory.active(batch(5), batch(6)[:40])
    directory.publish(PublishedState(next_offset=7, durable_offset=6))
    problem = directory.problem()
    assert problem.what.startswith("the last batch is cut off: 40 of") and "restore it" in problem.what_to_do
    directory.publish(PublishedState(next_offset=6, durable_offset=6))
    assert directory.found() == []


def test_an_older_batch_does_not_change_the_newest_timestamp(directory: Directory) -> None:
    older = changed(batch(6), 27, struct.pack(">qq", NOW, NOW))
    directory.active(batch(5), older)
    directory.put(name(5, ".timeindex"), struct.pack(">qi", NOW + 5, 0))
    assert directory.found() == []


# --- indexes ----------------------------------------------------------------------------------------------------------


def test_a_time_index_that_goes_back_is_a_problem(directory: Directory) -> None:
    directory.put(name(0, ".timeindex"), struct.pack(">qiqi", NOW + 4, 4, NOW + 3, 3))
    assert f"entry 1: timestamp {NOW + 3}, relative offset 3 do not follow" in directory.problem().what


def aborted(*entries: tuple[int, int, int, int, int]) -> bytes:
    return b"".join(struct.pack(">hqqqq", *entry) for entry in entries)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(1, 5, 0, 2, 0)], "entry 0: version 1, and only 0 is known"),
        ([(0, 5, 0, 2, 0), (0, 6, 0, 2, 0)], "entry 1: last offset 2 does not follow 2"),
        ([(0, 5, 0, 9, 0)], "entry 0: last offset 9 is not in this segment"),
        ([(0, 5, 3, 2, 0)], "entry 0: the transaction starts at 3, behind its end 2"),
    ],
)
def test_impossible_transactions_are_problems(directory: Directory, entries: list[tuple[int, ...]], words: str) -> None:
    directory.put(name(0, ".txnindex"), aborted((0, 5, 0, 2, 0)))
    assert directory.found() == []
    directory.put(name(0, ".txnindex"), aborted(*entries))  # type: ignore[arg-type]
    assert words in directory.problem().what


def test_room_for_an_entry_of_a_transaction_index_is_no_problem(directory: Directory) -> None:
    directory.put(name(0, ".txnindex"), aborted((0, 5, 0, 2, 0)) + bytes(34))
    assert directory.found() == []


def test_half_an_entry_of_a_transaction_index_is_a_note(directory: Directory) -> None:
    directory.put(name(0, ".txnindex"), aborted((0, 5, 0, 2, 0)) + b"half")
    (note,) = directory.found(harmless=True)
    assert (note.position, note.what) == (34, "4 bytes at the end are too few for an entry")


def test_entries_are_shown_in_a_line_each() -> None:
    assert str(OffsetEntry(5, 7)) == "offset: 5 position: 7"
    assert str(TimeEntry(5, 7)) == "timestamp: 5 offset: 7"
    assert str(AbortedEntry(0, 1, 2, 3, 4)).startswith("version: 0 producerId: 1")


# --- the folder and its checkpoints -----------------------------------------------------------------------------------


def test_missing_and_late_epochs_are_problems(directory: Directory) -> None:
    directory.active(batch(5, epoch=3))
    assert "its last epoch is 0, and the log has batches of epoch 3" in directory.problem().what
    directory.files.remove(f"{FOLDER}/leader-epoch-checkpoint")
    assert "it is missing, and the log has leader epochs up to 3" in directory.problem().what


def test_a_producer_snapshot_that_cannot_be_read_is_a_problem(directory: Directory) -> None:
    directory.put(name(5, ".snapshot"), b"?")
    (problem,) = directory.found(harmless=True)
    assert problem.path == name(5, ".snapshot") and problem.what_to_do.startswith("an older one is read")
    assert directory.found() == []


def test_files_that_are_not_of_a_log_are_a_note(directory: Directory) -> None:
    directory.files.make_dir("data/photos")
    directory.put("data/t-1.tmp", b"")
    directory.files.remove("data/meta.properties")
    assert [(note.path, note.what.partition(" ")[0]) for note in directory.found(harmless=True)] == [
        ("data/photos", "its"), ("data/t-1.tmp", "it"), ("data/meta.properties", "it"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "foreign", ["x y", "notes-007", "t-\u0663", "t-4294967296", "t-100000", "-0", "..-0", "notes-delete", "t-0.swap"]
)
def test_a_foreign_folder_is_a_note_and_hides_no_damage(directory: Directory, foreign: str) -> None:
    directory.files.make_dir(f"data/{foreign}")
    directory.put(name(0, ".log"), b"".join(batch(offset) for offset in range(4)) + spoiled(batch(4)))
    assert [problem.path for problem in directory.found()] == [name(0, ".log")]
    (note,) = directory.found(harmless=True)
    assert note.path == f"data/{foreign}" and "is skipped" in note.what_to_do
    assert log_bytes(directory.files, "data") == 6 * len(batch(0))


def test_a_folder_that_cannot_be_listed_is_told_and_the_others_are_checked(directory: Directory) -> None:
    directory.files.make_dir("data/a-0")
    directory.put(name(0, ".log"), b"".join(batch(offset) for offset in range(4)) + spoiled(batch(4)))

    def refuse() -> None:
        raise StorageError("data/a-0: permission denied")

    # The first two listings are of the directory itself.
    files = InterruptingFiles(directory.files)
    files.begin(3, ("list_dir",), refuse)
    problems = directory.found(files)  # type: ignore[arg-type]
    assert [problem.path for problem in problems] == ["data/a-0", name(0, ".log")]


def test_all_directories_of_a_log_are_checked_as_one(directory: Directory) -> None:
    def told(topic: str | None = None) -> tuple[list[str], Totals]:
        *events, totals = verify(directory.files, "data", "more", topic=topic)
        assert isinstance(totals, Totals)
        return [e.path for e in events if isinstance(e, Problem) and not e.harmless], totals

    directory.files.make_dir("more/u-3")
    directory.put("more/meta.properties", b"version=1\nnode.id=1\n")
    write_topic_id(directory.files, "more/u-3", UUID(int=8))
    directory.put(f"more/u-3/{0:020d}.log", spoiled(batch(0)))
    paths, totals = told()
    assert paths == [f"more/u-3/{0:020d}.log"] and (totals.partitions, totals.problems) == (2, 1)
    assert told("u")[1].partitions == told("t")[1].partitions == 1
    assert log_bytes(directory.files, "data", "more", topic="u") == len(batch(0))
    with pytest.raises(UnknownTopicOrPartition, match="data, more: topic 'v' has no partition here; there are: t, u"):
        told("v")
    directory.files.make_dir("more/t-0")
    write_topic_id(directory.files, "more/t-0", UUID(int=9))
    assert told("t")[0] == ["more/t-0/partition.metadata", "more/t-0"]


def test_a_damaged_published_slot_is_a_problem(directory: Directory) -> None:
    directory.publish(PublishedState(next_offset=6, durable_offset=6))
    directory.publish(PublishedState(next_offset=6, durable_offset=6))
    file = directory.files.open("data/.pylog-published")
    file.write(ENTRY_BYTES + 100, b"\xff" * (ENTRY_BYTES - 100))
    (problem,) = directory.found()
    assert problem.path == "data/.pylog-published"


def test_a_checkpoint_that_promises_more_is_a_problem(directory: Directory) -> None:
    write_offsets(directory.files, "data/replication-offset-checkpoint", {TopicPartition("t", 0): 9})
    assert "ends at offset 6, and this says that everything below 9 is replicated" in directory.problem().what


# --- what happens meanwhile -------------------------------------------------------------------------------------------


class Vanishing(InterruptingFiles):
    """Files of which one is gone when it is opened or read, though it was listed."""

    def __init__(self, inner: Files, path: str) -> None:
        super().__init__(inner)
        self.path = path

    def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
        self._take(path)
        return self.inner.open(path, create=create, kept=kept)

    def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        self._take(path)
        return self.inner.read_file(path, bytes_max)

    def _take(self, path: str) -> None:
        if path == self.path and self.inner.stat(path) is not None:
            self.inner.remove(path)


@pytest.mark.parametrize("suffix", [".log", ".index", ".snapshot"])
def test_a_file_that_retention_removes_meanwhile_is_passed_over(directory: Directory, suffix: str) -> None:
    directory.put(name(0, ".snapshot"), b"not looked at any more")
    files = Vanishing(directory.files, name(0, suffix))
    events = list(verify(files, "data"))  # type: ignore[arg-type]
    checked = [event.path for event in events if isinstance(event, Checked)]
    assert name(5, ".log") in checked
    assert (name(0, ".log") in checked) is (suffix == ".snapshot")
    assert not [event for event in events if isinstance(event, Problem) and event.path == files.path]


def test_a_partition_that_its_owner_changes_is_checked_again(directory: Directory) -> None:
    """A compaction, say: an index of the time before, and a log of the time after."""
    good = directory.files.read_file(name(0, ".timeindex"))
    directory.put(name(0, ".timeindex"), struct.pack(">qi", NOW + 3, 4))
    assert directory.problem().path == name(0, ".timeindex")

    class Compacted(InterruptingFiles):
        def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
            if path == name(0, ".log"):
                directory.put(name(0, ".timeindex"), good)
                directory.put(f"{FOLDER}/00000000000000000003.snapshot", b"")
            return super().open(path, create=create, kept=kept)

    assert directory.found(Compacted(directory.files)) == []  # type: ignore[arg-type]


def test_an_owner_that_never_rests_cannot_hide_a_problem(directory: Directory) -> None:
    directory.put(name(0, ".timeindex"), struct.pack(">qi", NOW + 3, 4))
    numbers = count()

    class Restless(InterruptingFiles):
        def open(self, path: str, *, create: bool = False, kept: bool = False) -> File:
            directory.put(f"{FOLDER}/{next(numbers):020d}.snapshot", b"")
            return super().open(path, create=create, kept=kept)

    (problem,) = directory.found(Restless(directory.files))  # type: ignore[arg-type]
    assert problem.path == name(0, ".timeindex")


def test_files_of_an_interrupted_compaction_are_no_problem(directory: Directory) -> None:
    state = PublishedState(2, 0, 6, 6, 6, 6, 6, 5, False, 0, 0)
    directory.publish(state)
    for suffix in (".log", ".timeindex"):
        directory.files.rename(name(0, suffix), name(0, suffix) + ".swap")
    assert directory.found() == []
    directory.files.rename(name(0, ".log.swap"), name(0, ".log"))
    assert directory.found() == []


def test_a_topic_that_is_deleted_meanwhile_is_passed_over(directory: Directory) -> None:
    files = InterruptingFiles(directory.files)
    files.begin(3, ("list_dir",), lambda: directory.files.rename(FOLDER, "data/away-delete"))
    *_, totals = verify(files, "data")  # type: ignore[arg-type]
    assert totals.partitions == totals.problems == 0  # type: ignore[union-attr]


def failing(directory: Directory, call: str) -> tuple[FaultFiles, Callable[[], list[Problem]]]:
    files = FaultFiles(directory.files, error=errno.EIO)
    directory.found(files)
    (at, *_) = [number for number, site in enumerate(files.sites, 1) if site.endswith(call)]
    broken = FaultFiles(directory.files, at, error=errno.EIO)
    return broken, lambda: directory.found(broken)


def test_a_disk_that_fails_under_one_segment_is_told_and_the_others_are_checked(directory: Directory) -> None:
    files, look = failing(directory, " read")
    (problem,) = look()
    assert files.failed and problem.path == name(0, ".log")
    assert problem.what.startswith("cannot read") and "kernel's log" in problem.what_to_do


def test_a_disk_that_fails_under_a_listing_ends_the_check(directory: Directory) -> None:
    _, look = failing(directory, " list_dir")
    with pytest.raises(StorageError, match="cannot list dir data"):
        look()


def test_a_seal_whose_log_goes_meanwhile_is_ignored(directory: Directory) -> None:
    seal = Seal(NOBODY, 0, 5, Mark(5 * len(batch(0)), 0), NOT_YET, Mark(0, 0), Mark(12, 0), Mark(-1, 0))
    write_seal(directory.files, name(0, ".pylog-seal"), seal).close()
    assert [problem.path for problem in directory.found()] == [name(0, ".timeindex")]
    inner = directory.files

    class Gone(Vanishing):
        def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
            if path.endswith(".pylog-seal"):
                inner.remove(name(0, ".log"))
            return inner.read_file(path, bytes_max)

    assert directory.found(Gone(inner, "")) == []  # type: ignore[arg-type]


def test_a_damaged_metadata_snapshot_is_a_problem() -> None:
    files = MemoryFiles()
    for name in "ab":
        metadata_log = MetadataLog(Directories(files, ["data"], None), lambda: NOW, 1)
        replicas = {0: [(1, metadata_log.directory.directory_id)]}
        metadata_log.commit(create_topic(name, UUID(int=ord(name)), replicas, leader=1))
        metadata_log.close()
        metadata_log.directories.release()
    folder = "data/__cluster_metadata-0"
    paths = [f"{folder}/{name}" for name in files.list_dir(folder) if name.endswith(".checkpoint")]
    assert not [event for event in verify(files, "data") if isinstance(event, Problem) and event.path in paths]
    files.replace_file(paths[1], spoiled(files.read_file(paths[1])))
    found = [event for event in verify(files, "data") if isinstance(event, Problem) and event.path in paths]
    assert [(problem.path, problem.harmless) for problem in found] == [(paths[1], False)]
    assert "the CRC does not match" in found[0].what and "the one before it" in found[0].what_to_do
    watched = FaultFiles(files)
    list(verify(watched, "data"))
    opens = [at for at, site in enumerate(watched.sites, 1) if site.startswith("pylog.logdirs.metadata_snapshots")]
    gone = FaultFiles(files, opens[-2], error=errno.ENOENT)
    assert [event for event in verify(gone, "data") if isinstance(event, Problem) and event.path in paths] == []
