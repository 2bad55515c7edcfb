"""Text files of a log directory: Kafka's bytes, and a name and a line for whatever is wrong."""

import uuid

import pytest

from pylog.errors import LogNotFound, StorageError, UnsupportedFormat
from pylog.files import MemoryFiles
from pylog.record import TopicPartition
from pylog.storage.checkpoint import (
    read_damages,
    read_epochs,
    read_offsets,
    read_properties,
    read_topic_id,
    write_damages,
    write_epochs,
    write_offsets,
    write_properties,
    write_topic_id,
)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir("d")
    return files


def test_offset_checkpoints_come_back(files: MemoryFiles) -> None:
    offsets = {TopicPartition("clicks", 10): 7, TopicPartition("a-b.c_d", 0): 2**63 - 1}
    write_offsets(files, "d/c", offsets)
    assert files.read_file("d/c") == b"0\n2\nclicks 10 7\na-b.c_d 0 9223372036854775807\n"
    assert read_offsets(files, "d/c") == offsets
    write_offsets(files, "d/c", {})
    assert files.read_file("d/c") == b"0\n0\n"
    assert read_offsets(files, "d/c") == {}


def test_leader_epoch_checkpoints_come_back(files: MemoryFiles) -> None:
    write_epochs(files, "d/c", [(0, 0), (5, 1042)])
    assert files.read_file("d/c") == b"0\n2\n0 0\n5 1042\n"
    assert read_epochs(files, "d/c") == [(0, 0), (5, 1042)]


def test_an_empty_file_has_no_entries(files: MemoryFiles) -> None:
    files.replace_file("d/c", b"")
    assert read_offsets(files, "d/c") == {}
    assert read_epochs(files, "d/c") == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"x\n", 1), (b"\n0\n", 1), (b"0\n", 2), (b"0\nmany\n", 2), (b"0\n2\nt 0 1\n", 2), (b"0\n0\nt 0 1\n", 2),
        (b"0\n1\nt 0\n", 3), (b"0\n1\nt 0 1 2\n", 3), (b"0\n1\nt  0 1\n", 3), (b"0\n1\nt x 1\n", 3),
        (b"0\n1\nt 0 1_0\n", 3), (b"0\n1\nt 0 9223372036854775808\n", 3), (b"0\n1\nt 2147483648 1\n", 3),
        (b"0\n1\nt 0 \xd9\xa1\n", 3), (b"0\n2\nt 0 1\nt 0 2\n", 4), (b"0\n2\nt 0 1\n\xff 0 2\n", 4),
        (b"0\n2\nt 0 1\n\n", 4), (b"0\n1\n \n", 3),
    ],
)  # fmt: skip
def test_damaged_offsets_name_the_line(files: MemoryFiles, content: bytes, line: int) -> None:
    files.replace_file("d/c", content)
    with pytest.raises(StorageError, match=rf"d/c, line {line}: "):
        read_offsets(files, "d/c")


@pytest.mark.parametrize("content", [b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n2\n0 0\n-1 5\n"])
def test_leader_epochs_that_do_not_rise_are_refused(files: MemoryFiles, content: bytes) -> None:
    files.replace_file("d/c", content)
    with pytest.raises(StorageError, match=r"d/c, line 4: "):
        read_epochs(files, "d/c")


def test_a_newer_version(files: MemoryFiles) -> None:
    files.replace_file("d/c", b"1\n0\n")
    with pytest.raises(UnsupportedFormat, match=r"d/c: version 1"):
        read_offsets(files, "d/c")
    files.replace_file("d/partition.metadata", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(UnsupportedFormat, match=r"partition.metadata: version 1"):
        read_topic_id(files, "d")


def test_a_missing_checkpoint_is_not_found(files: MemoryFiles) -> None:
    with pytest.raises(LogNotFound, match="d/c"):
        read_offsets(files, "d/c")
    assert read_topic_id(files, "d") is None


def test_the_topic_id_of_a_folder_comes_back(files: MemoryFiles) -> None:
    topic_id = uuid.UUID(int=1)
    write_topic_id(files, "d", topic_id)
    assert files.read_file("d/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert read_topic_id(files, "d") == topic_id
    with pytest.raises(ValueError, match="zero"):
        write_topic_id(files, "d", uuid.UUID(int=0))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1), (b"version: x\n", 1), (b"version: 0", 2), (b"version: 0\ntopic: x", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2), (b"version: 0\ntopic_id: short", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAA!AAAAQ", 2), (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\nx", 2),
        (b"version: 0\ntopic_id: \xc3\xa9AAAAAAAAAAAAAAAAAAAAQ", 2),
    ],
)  # fmt: skip
def test_damaged_topic_ids(files: MemoryFiles, content: bytes, line: int) -> None:
    files.replace_file("d/partition.metadata", content)
    with pytest.raises(StorageError, match=rf"partition.metadata, line {line}: "):
        read_topic_id(files, "d")


def test_properties_round_trip(files: MemoryFiles) -> None:
    properties = {"node.id": "1", "a key": " x = y:z#!\\ ", "empty": "", "tab\there": "line\nend\r\f", "ü": "€"}
    write_properties(files, "d/p", properties)
    assert read_properties(files, "d/p") == properties
    write_properties(files, "d/p", {"node.id": "1", "cluster.id": "uUCo_-mQ"})
    assert files.read_file("d/p") == b"node.id=1\ncluster.id=uUCo_-mQ\n"


def test_properties_as_java_reads_them(files: MemoryFiles) -> None:
    comments = b"#\n#Sat Nov 21\n ! note\n\n"
    files.replace_file(
        "d/p", comments + b" a = 1 \nb:2\nc 3\nd\ne=a\\\n   b\\\n#c\n\\u0066\\=x=\\u00e9\\q\r\ng=1\ng=2\nh=end\\"
    )
    assert read_properties(files, "d/p") == {
        "a": "1 ", "b": "2", "c": "3", "d": "", "e": "ab#c", "f=x": "éq", "g": "2", "h": "end\\",
    }  # fmt: skip
    files.replace_file("d/p", b"a=1\nb=\\u12\n")
    with pytest.raises(StorageError, match=r"d/p, line 2: "):
        read_properties(files, "d/p")


@pytest.mark.parametrize("line", ["5 10 5 6 7", "0 0 5 7 6", "8 0 5 6 7", "0 -1 5 6 7"])
def test_damages_that_cannot_be_are_refused(line: str) -> None:
    files = MemoryFiles()
    files.make_dir("t-0")
    write_damages(files, "t-0", {0: [(0, 5, 6, 7)]})
    assert read_damages(files, "t-0") == {0: [(0, 5, 6, 7)]}
    files.replace_file("t-0/pylog-damages", f"0\n1\n{line}\n".encode())
    with pytest.raises(StorageError, match="t-0/pylog-damages, line 3"):
        read_damages(files, "t-0")
