"""Dump and verify on small directories made by hand: what each kind of damage is called."""

import struct
from uuid import UUID

import pytest

from pylog.errors import LogNotFound, UnknownTopicOrPartition, UnsupportedFormat
from pylog.files import MemoryFiles, join
from pylog.inspect import (
    BatchEntry,
    Checked,
    OffsetEntry,
    Problem,
    RecordEntry,
    TimeEntry,
    Totals,
    dump_segment,
    log_bytes,
    verify,
)
from pylog.kernel import Record
from pylog.protocol.batch import Batch, encode
from pylog.protocol.compression import Codec
from pylog.record import TopicPartition
from pylog.storage.checkpoint import write_epochs, write_offsets, write_topic_id
from pylog.storage.published import Published, PublishedState

TOPIC_ID = UUID("c0ffee00-0000-4000-8000-000000000001")
FOLDER = "data/clicks-0"
T0 = 1_700_000_000_000


def name(base: int, suffix: str) -> str:
    return join(FOLDER, f"{base:020d}{suffix}")


def batch(base: int, count: int, *, epoch: int = 0, at: int = T0, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(b"value %d" % i, b"key", at + base + i, (("trace", b"1"),)) for i in range(count)]
    made: Batch = encode(records, now_ms=T0, codec=codec)
    made.stamp(base, epoch)
    return bytes(made.data)


class Directory:
    """A sound log directory:

    clicks-0 with a sealed segment [0, 5) of two batches, and an active one [5, 9) of two.
    """

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_dir(FOLDER)
        self.put("data/meta.properties", b"version=1\nnode.id=1\n")
        write_topic_id(self.files, FOLDER, TOPIC_ID)
        write_epochs(self.files, join(FOLDER, "leader-epoch-checkpoint"), [(0, 0)])
        first = batch(0, 2)
        self.put(name(0, ".log"), first + batch(2, 3))
        self.put(name(0, ".index"), struct.pack(">ii", 4, len(first)))
        self.put(name(0, ".timeindex"), struct.pack(">qi", T0 + 4, 4))
        self.put(name(5, ".log"), batch(5, 2) + batch(7, 2))
        self.put(name(5, ".index"), b"")
        self.put(name(5, ".timeindex"), b"")

    def put(self, path: str, data: bytes) -> None:
        self.files.replace_file(path, data)

    def flip(self, path: str, at: int) -> None:
        data = bytearray(self.files.read_file(path))
        data[at] ^= 1
        self.put(path, bytes(data))

    def publish(self, state: PublishedState) -> None:
        published = Published(self.files, "data/.pylog-published", writable=True)
        published.entry(TOPIC_ID, 0).publish(state)
        published.close()

    def notes(self) -> list[Problem]:
        return [event for event in verify(self.files, "data") if isinstance(event, Problem) and event.harmless]

    def problems(self) -> list[Problem]:
        return [event for event in verify(self.files, "data") if isinstance(event, Problem) and not event.harmless]

    def problem(self) -> Problem:
        (one,) = self.problems()
        return one


@pytest.fixture
def directory() -> Directory:
    return Directory()


def totals(directory: Directory) -> Totals:
    *_, last = verify(directory.files, "data")
    assert isinstance(last, Totals)
    return last


# --- verify ---------------------------------------------------------------------------------------------------------


def test_a_sound_directory_has_no_problem(directory: Directory) -> None:
    events = list(verify(directory.files, "data"))
    assert [event for event in events if isinstance(event, Problem)] == []
    sizes = [event.size for event in events if isinstance(event, Checked)]
    assert sum(sizes) == log_bytes(directory.files, "data")
    assert totals(directory) == Totals(
        partitions=1, segments=2, batches=4, records=9, size=sum(sizes), index_entries=2, problems=0, notes=0
    )


def test_progress_is_reported_within_a_large_file(directory: Directory) -> None:
    made = encode([Record(bytes(600_000), b"key", T0 + 5)], now_ms=T0, codec=Codec.NONE)
    large = []
    for offset in range(5, 10):
        made.stamp(offset, 0)
        large.append(bytes(made.data))
    directory.put(name(5, ".log"), b"".join(large))
    pieces = [event for event in verify(directory.files, "data") if isinstance(event, Checked)]
    assert [piece.records for piece in pieces if piece.path == name(5, ".log")] == [2, 2, 1]
    assert sum(piece.size for piece in pieces) == log_bytes(directory.files, "data")
    assert sum(piece.records for piece in pieces) == totals(directory).records


def test_a_path_that_is_no_log_directory_raises(directory: Directory) -> None:
    directory.files.make_dir("empty")
    for path, words in (("nowhere", "nowhere"), ("data/meta.properties", "file"), ("empty", "no log directory")):
        with pytest.raises(LogNotFound, match=words):
            list(verify(directory.files, path))
        with pytest.raises(LogNotFound, match=words):
            log_bytes(directory.files, path)


def test_verify_of_one_topic_reads_it_alone(directory: Directory) -> None:
    directory.files.make_dir("data/other-0")
    directory.put("data/other-0/00000000000000000000.log", b"\1" * 100)
    assert [event for event in verify(directory.files, "data", topic="clicks") if isinstance(event, Problem)] == []
    assert len([event for event in verify(directory.files, "data", topic="other") if isinstance(event, Problem)]) > 0
    with pytest.raises(UnknownTopicOrPartition, match="there are: clicks, other"):
        list(verify(directory.files, "data", topic="click"))


def test_a_flipped_bit_is_named_and_the_rest_is_checked(directory: Directory) -> None:
    at = len(batch(0, 2))
    directory.flip(name(0, ".log"), at + 70)
    problem = directory.problem()
    assert (problem.path, problem.position, problem.offset) == (name(0, ".log"), at, 2)
    assert "CRC" in problem.what or "crc" in problem.what
    assert "restore" in problem.what_to_do
    assert totals(directory).batches == 3, "the batches behind the damage count"


def test_a_torn_tail_of_the_last_segment_is_a_problem(directory: Directory) -> None:
    whole = directory.files.read_file(name(5, ".log"))
    directory.put(name(5, ".log"), whole[:-10])
    problem = directory.problem()
    assert (problem.position, problem.offset) == (len(batch(5, 2)), 7)
    assert "cut off" in problem.what
    assert "next open" in problem.what_to_do


@pytest.mark.parametrize("left", [1, 11, 12, 60])
def test_a_few_bytes_of_a_batch_are_a_problem(directory: Directory, left: int) -> None:
    whole = directory.files.read_file(name(5, ".log"))
    directory.put(name(5, ".log"), whole + batch(9, 1)[:left])
    problem = directory.problem()
    assert (problem.position, problem.offset) == (len(whole), 9)


def test_an_append_under_way_is_a_note(directory: Directory) -> None:
    whole = directory.files.read_file(name(5, ".log"))
    directory.put(name(5, ".log"), whole + batch(9, 1)[:40])
    directory.publish(PublishedState(next_offset=9, high_watermark=9, durable_offset=9))
    assert directory.problems() == []
    assert [(note.position, note.offset) for note in directory.notes()] == [(len(whole), 9)]


def test_a_tail_of_zeros_is_a_problem(directory: Directory) -> None:
    whole = directory.files.read_file(name(5, ".log"))
    directory.put(name(5, ".log"), whole + bytes(500))
    problem = directory.problem()
    assert problem.position == len(whole)
    assert "500 zero bytes" in problem.what


def test_a_log_shorter_than_its_promise_is_a_problem(directory: Directory) -> None:
    directory.publish(PublishedState(next_offset=12, high_watermark=12, durable_offset=11))
    write_offsets(directory.files, "data/recovery-point-offset-checkpoint", {TopicPartition("clicks", 0): 10})
    published, recovery = directory.problems()
    assert "11 durable" in published.what and published.path == FOLDER and published.offset == 9
    assert recovery.path == "data/recovery-point-offset-checkpoint" and "below 10" in recovery.what


def test_a_lost_first_segment_is_a_problem(directory: Directory) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        directory.files.remove(name(0, suffix))
    assert directory.problems() == [], "nobody said that it was there"
    directory.publish(PublishedState(start_offset=0, next_offset=9, high_watermark=9))
    assert "should start at 0" in directory.problem().what


def test_a_failed_partition_is_a_problem(directory: Directory) -> None:
    directory.publish(PublishedState(next_offset=9, high_watermark=9, durable_offset=5, failed=True))
    assert "failed" in directory.problem().what


def test_a_damaged_published_file_is_a_problem(directory: Directory) -> None:
    directory.put("data/.pylog-published", b"x" * 512)
    assert directory.problem().path == "data/.pylog-published"


def test_offsets_that_go_back_or_overlap_are_problems(directory: Directory) -> None:
    directory.put(name(5, ".log"), batch(5, 2) + batch(6, 2))
    assert "go back" in directory.problem().what
    directory.put(name(5, ".log"), batch(5, 4))
    directory.put(name(0, ".log"), batch(0, 2) + batch(2, 4))
    found = directory.problems()
    (overlap,) = [one for one in found if "ends at offset 5, in the segment that starts at 5" in one.what]
    assert (overlap.path, overlap.position, overlap.offset) == (name(0, ".log"), len(batch(0, 2)), 2)


def test_a_leader_epoch_that_falls_is_a_problem(directory: Directory) -> None:
    directory.put(name(5, ".log"), batch(5, 2, epoch=3) + batch(7, 2, epoch=2))
    whats = {problem.what for problem in directory.problems()}
    assert any("leader epoch 2" in what for what in whats)
    assert any("last epoch is 0" in what for what in whats)


def test_an_epoch_behind_the_end_is_a_problem(directory: Directory) -> None:
    write_epochs(directory.files, join(FOLDER, "leader-epoch-checkpoint"), [(0, 0), (1, 40)])
    assert "behind the end" in directory.problem().what


def test_index_entries_that_point_beside_a_batch_are_problems(directory: Directory) -> None:
    at = len(batch(0, 2))
    for entry, words in (((4, at + 1), f"says position {at + 1}"), ((3, at), "no batch of the log ends with offset 3")):
        directory.put(name(0, ".index"), struct.pack(">ii", *entry))
        problem = directory.problem()
        assert problem.path == name(0, ".index") and problem.position == 0
        assert words in problem.what
    directory.put(name(0, ".index"), struct.pack(">iiii", 4, at, 1, 0))
    problem = directory.problem()
    assert problem.position == 8 and "does not follow" in problem.what


def test_wrong_time_index_entries_are_problems(directory: Directory) -> None:
    directory.put(name(0, ".timeindex"), struct.pack(">qi", T0 + 1, 4))
    assert "largest timestamp" in directory.problem().what
    directory.put(name(0, ".timeindex"), struct.pack(">qi", T0 + 1, 1))
    assert "pass over" in directory.problem().what, "the entry is right, and the closing one is missing"
    directory.put(name(0, ".timeindex"), b"")
    assert "pass over" in directory.problem().what


def test_reserved_space_is_a_note_in_the_active_segment_alone(directory: Directory) -> None:
    directory.put(name(5, ".index"), bytes(80))
    directory.put(name(5, ".timeindex"), bytes(120))
    assert directory.problems() == []
    assert [note.what[:3] for note in directory.notes()] == ["80 ", "120"]
    directory.put(name(0, ".index"), directory.files.read_file(name(0, ".index")) + bytes(80))
    assert directory.problem().position == 8


def test_missing_and_extra_files_are_problems(directory: Directory) -> None:
    directory.put(name(99, ".index"), b"")
    directory.put(name(7, ".log.deleted"), b"")
    directory.put(join(FOLDER, "notes.txt"), b"hello")
    directory.files.make_dir("data/lost+found")
    assert directory.problem().path == name(99, ".index")
    assert {note.path for note in directory.notes()} == {
        name(7, ".log.deleted"), join(FOLDER, "notes.txt"), "data/lost+found",
    }  # fmt: skip
    directory.files.remove(name(99, ".index"))
    directory.files.remove(name(0, ".timeindex"))
    assert "no time index" in directory.problem().what


def test_a_gap_is_a_note(directory: Directory) -> None:
    directory.put(name(5, ".log"), batch(6, 2))
    assert directory.problems() == []
    directory.files.rename(name(5, ".log"), name(6, ".log"))
    for suffix in (".index", ".timeindex"):
        directory.files.remove(name(5, suffix))
    assert [note.offset for note in directory.notes() if "no segment has" in note.what] == [5]


def test_text_files_that_do_not_parse_are_problems(directory: Directory) -> None:
    directory.put(join(FOLDER, "leader-epoch-checkpoint"), b"0\n2\n0 0\n")
    problem = directory.problem()
    assert problem.path.endswith("leader-epoch-checkpoint") and problem.what.startswith("line 2")
    directory.put(join(FOLDER, "leader-epoch-checkpoint"), b"0\n1\n0 0\n")
    directory.put(join(FOLDER, "partition.metadata"), b"version: 0\ntopic_id: nonsense")
    assert directory.problem().what.startswith("line 2")


def test_two_partitions_with_different_topic_ids_are_a_problem(directory: Directory) -> None:
    directory.files.make_dir("data/clicks-1")
    write_topic_id(directory.files, "data/clicks-1", UUID(int=7))
    assert "topic id" in directory.problem().what


# --- dump -----------------------------------------------------------------------------------------------------------


def test_dump_of_a_log_shows_its_batches_and_records(directory: Directory) -> None:
    lines = list(dump_segment(directory.files, name(0, ".log")))
    assert [(line.base_offset, line.last_offset, line.position) for line in lines if isinstance(line, BatchEntry)] == [
        (0, 1, 0), (2, 4, len(batch(0, 2))),
    ]  # fmt: skip
    lines = list(dump_segment(directory.files, name(0, ".log"), records=True))
    records = [line for line in lines if isinstance(line, RecordEntry)]
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert str(records[1]) == (
        f"| offset: 1 CreateTime: {T0 + 1} keySize: 3 valueSize: 7 sequence: -1"
        " headerKeys: [trace] key: key payload: value 1"
    )
    assert " compresscodec: none crc: " in str(lines[0])


def test_dump_goes_on_behind_a_flipped_bit(directory: Directory) -> None:
    directory.flip(name(0, ".log"), 70)
    first, problem, second = dump_segment(directory.files, name(0, ".log"))
    assert isinstance(first, BatchEntry) and not first.is_valid and "isvalid: false" in str(first)
    assert isinstance(problem, Problem) and problem.position == 0
    assert isinstance(second, BatchEntry) and second.is_valid


def test_dump_of_indexes_shows_their_entries(directory: Directory) -> None:
    assert list(dump_segment(directory.files, name(0, ".index"))) == [OffsetEntry(4, len(batch(0, 2)))]
    assert list(dump_segment(directory.files, name(0, ".timeindex"))) == [TimeEntry(T0 + 4, 4)]
    assert list(dump_segment(directory.files, name(5, ".index"))) == []
    directory.put(name(5, ".index"), struct.pack(">iiii", 1, 300, 2, 256) + bytes(80))
    assert [str(line) for line in dump_segment(directory.files, name(5, ".index"))] == [
        "offset: 6 position: 300", "offset: 7 position: 256",
    ]  # fmt: skip
    directory.put(name(5, ".index"), struct.pack(">iib", 1, 300, 7))
    *_, last = dump_segment(directory.files, name(5, ".index"))
    assert isinstance(last, Problem) and last.position == 8


def test_dump_of_text_files_shows_their_lines(directory: Directory) -> None:
    assert [str(line) for line in dump_segment(directory.files, join(FOLDER, "leader-epoch-checkpoint"))] == [
        "epoch: 0 startOffset: 0"
    ]
    (line,) = dump_segment(directory.files, "data/meta.properties")
    assert str(line) == "version: 1 node.id: 1"


def test_dump_of_other_names_is_refused(directory: Directory) -> None:
    directory.put("data/notes.txt", b"hello")
    with pytest.raises(UnsupportedFormat, match=r"notes\.txt"):
        dump_segment(directory.files, "data/notes.txt")
    with pytest.raises(LogNotFound):
        list(dump_segment(directory.files, name(77, ".log")))


def test_text_stays_on_its_line() -> None:
    record = RecordEntry(0, "CreateTime", T0, -1, (), b"a\nb", "näme\x00".encode() + b"\xff")
    assert str(record).endswith(r"key: a\nb payload: näme\x00\xff")
