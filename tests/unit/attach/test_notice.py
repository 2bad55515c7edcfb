import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.attach.notice import FORMAT, Notice, places_of, read_notice, unusual
from pylog.config import NodeConfig
from pylog.errors import StorageError, UnsupportedFormat
from pylog.files import DiskFiles, MemoryFiles

NOTICE = Notice(
    pid=4711, socket=".socket", obstacle="", node_id=3, flush="none", paths=("/srv/a", "/srv/b"),
    places=((1, 2), (1, 3)), config=unusual(NodeConfig(num_partitions=7)),
)  # fmt: skip


def read(content: bytes) -> Notice | None:
    return read_notice(MemoryFiles(tree={"log": None, "log/.lock": content}), "log")


def test_a_notice_is_read_as_it_was_written() -> None:
    assert read(b"4711\n" + NOTICE.text().encode() + b"\n") == NOTICE


def test_a_lock_without_a_notice_says_nothing() -> None:
    assert read(b"4711\npylog\n") is None
    assert read(b"4711\n") is None
    assert read(b"") is None
    assert read_notice(MemoryFiles(tree={"log": None}), "log") is None


def test_a_cut_notice_says_nothing() -> None:
    whole = b"4711\n" + NOTICE.text().encode() + b"\n"
    assert [length for length in range(len(whole) - 1) if read(whole[:length]) is not None] == []


def test_a_notice_of_a_newer_version_is_refused() -> None:
    said = {**json.loads(NOTICE.text()), "format": FORMAT + 1}
    with pytest.raises(UnsupportedFormat, match=f"by format {FORMAT + 1}.*same version"):
        read(b"4711\n" + json.dumps(said).encode())


@pytest.mark.parametrize(
    "wrong",
    [
        {"socket": 1}, {"flush": None}, {"node_id": True}, {"paths": []}, {"paths": [1, 2]}, {"paths": "/srv"},
        {"places": []}, {"places": [[1, 2], [3]]}, {"places": [[1, 2], ["a", 3]]}, {"config": []},
        {"config": {"num.partitions": 7}}, {"config": {"num.partitions": "many"}}, {"config": {"no.such.config": "1"}},
        {"format": "1"}, {"format": None}, {"socket": "\ud800"}, {"flush": "never"}, {"node_id": -1},
        {"node_id": 1 << 31},
    ],
)  # fmt: skip
def test_a_notice_with_a_wrong_field_says_nothing(wrong: dict[str, object]) -> None:
    assert read(b"4711\n" + json.dumps({**json.loads(NOTICE.text()), **wrong}).encode()) is None


def test_a_notice_of_a_pid_that_is_none_says_nothing() -> None:
    assert read(b"1" * 5000 + b"\n" + NOTICE.text().encode()) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_notice_or_none(content: bytes) -> None:
    assert read(content) is None


def test_a_notice_that_is_far_too_large_is_refused() -> None:
    with pytest.raises(StorageError, match=r"has .* bytes"):
        read(b"1\n" + b" " * (2 << 20))


def test_a_directory_is_known_by_any_of_its_paths(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    os.symlink(tmp_path / "log", tmp_path / "link")
    first, second, missing = places_of([str(tmp_path / "log"), str(tmp_path / "link"), str(tmp_path / "missing")])
    assert first == second != missing == (0, 0)


def test_a_notice_is_found_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text(f"1\n{NOTICE.text()}\n")
    found = read_notice(DiskFiles(read_only=True), str(tmp_path))
    assert found is not None and found.pid == 1 and "process 1, the owner of /srv/a" in found.who
