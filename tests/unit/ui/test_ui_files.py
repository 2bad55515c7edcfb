"""The pages of segments, files and batches, and of damage."""

import re
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from threading import Lock

import pytest

import pylog
from pylog.files import DiskFiles
from pylog.inspect import Checked
from pylog.storage.checkpoint import write_damages
from pylog.ui import damage, segments
from pylog.ui.batch_bytes import batch_bytes_max, header_fields
from pylog.ui.pages import Pages
from pylog.ui.source import Source
from support.visitor import Visitor
from unit.ui.conftest import pages_of

LOG = "00000000000000000000.log"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log: topic `t` has two batches of two records, and a transaction."""
    path = tmp_path_factory.mktemp("files") / "data"
    with pylog.open(path, flush="none") as log:
        log.create_topic("t", config={"index.interval.bytes": 1})
        for one in range(2):
            log.topic("t")[0].append(
                [pylog.Record(b"a" * 10, key=b"k%d" % one), pylog.Record(b"b", headers={"h": b"1"})]
            )
        with log.producer(transactional_id="x") as producer, producer.transaction():
            producer.send("t", b"c")
    return path


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(copytree(original, tmp_path / "data"))


@pytest.fixture
def pages(directory: Path) -> Iterator[Visitor]:
    with pylog.open(directory, mode="read") as log:
        yield pages_of(log, can_write=False)


def spoil(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_partition_shows_its_segments_and_files(pages: Visitor, directory: Path) -> None:
    words = pages.get("/topics/t/partitions/0").words
    assert (
        "Segment 0 to" in words and "active" in words and f"{LOG} log" in words and "partition.metadata text" in words
    )
    assert str(directory / "t-0") in words
    assert pages.get("/topics/t/partitions/7").status == 404


def test_a_partition_without_records_has_no_files_yet(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        log.create_topic("t")
        with pylog.open(tmp_path / "data", mode="read") as reader:
            assert "no files yet" in pages_of(reader).get("/topics/t/partitions/0").words


def test_a_log_file_shows_its_batches(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    words = pages.get(f"/topics/t/partitions/0/files/{LOG}").words
    assert "0 0 to 1 2 " in words and "transactional" in words and "control" in words
    monkeypatch.setattr(segments, "LINES", 1)
    first = pages.get(f"/topics/t/partitions/0/files/{LOG}")
    further = re.search(r'rel="next" href="([^"]*)"', first.text)
    assert further is not None
    assert "2 to 3" in pages.get(further[1]).words and "0 to 1" not in pages.get(further[1]).words


def test_batches_are_found_by_offset(pages: Visitor, directory: Path) -> None:
    path = f"/topics/t/partitions/0/files/{LOG}"
    words = pages.get(f"{path}?offset=3").words
    assert "2 to 3" in words and "0 to 1" not in words
    assert "0 to 1" in pages.get(f"{path}?offset=0").words
    index = directory / "t-0" / LOG.replace(".log", ".index")
    for damaged in (b"\xff" * 24, b"\0\0\0\1\x7f\xff\xff\xff"):
        index.write_bytes(damaged)
        assert "0 to 1" in pages.get(f"{path}?offset=3").words
    index.unlink()
    assert "0 to 1" in pages.get(f"{path}?offset=3").words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("00000000000000000000.index", "offset position 3 92 4 184"),
        ("partition.metadata", "topicId"),
        ("leader-epoch-checkpoint", ""),
    ],
)
def test_other_files_show_their_entries(pages: Visitor, name: str, words: str) -> None:
    answer = pages.get(f"/topics/t/partitions/0/files/{name}")
    assert answer.status == 200 and words in answer.words


def test_only_files_that_lie_there_are_shown(pages: Visitor, directory: Path) -> None:
    (directory / "t-0" / "notes.txt").write_text("secret")
    for name in ("..%2Fmeta.properties", "00000000000000000099.log", "notes.txt", "."):
        answer = pages.get(f"/topics/t/partitions/0/files/{name}")
        assert answer.status == 404 and "secret" not in answer.text


def test_a_batch_is_shown_down_to_its_bytes(pages: Visitor, directory: Path) -> None:
    words = pages.get(f"/topics/t/partitions/0/files/{LOG}/batch?position=0").words
    assert "baseOffset 0 00 00 00 00 00 00 00 00 0" in words and "magic 16 02 2" in words and "codec none" in words
    assert "aaaaaaaaaa" in words and "2 records" in words and "k0" in words


@pytest.mark.parametrize("beyond", [0, 1, 2**63 - 1])
def test_a_place_beyond_the_end_of_a_file_is_not_found(pages: Visitor, directory: Path, beyond: int) -> None:
    place = max(beyond, (directory / "t-0" / LOG).stat().st_size)
    index = LOG.replace(".log", ".index")
    for path in (f"{LOG}/batch?position={place}", f"{LOG}?start={place}", f"{index}?start={place}"):
        answer = pages.get(f"/topics/t/partitions/0/files/{path}")
        assert answer.status == 404 and f"{place:,}" in answer.words and "from the start" in answer.words, path


def test_the_bytes_of_a_batch_are_paged(pages: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "HEX_BYTES", 32)
    path = f"/topics/t/partitions/0/files/{LOG}/batch?position=0"
    assert "byte=32#bytes" in pages.get(path).text
    assert "Bytes 32 to 64" in pages.get(f"{path}&byte=32").words


def test_a_damaged_batch_is_shown_and_said(pages: Visitor, directory: Path) -> None:
    spoil(directory / "t-0" / LOG, 70)
    assert "CRC" in pages.get(f"/topics/t/partitions/0/files/{LOG}").words
    assert "the bytes were damaged" in pages.get(f"/topics/t/partitions/0/files/{LOG}/batch?position=0").words
    assert "the bytes were damaged" in pages.get("/topics/t/records").words


def test_a_batch_that_claims_more_bytes_than_there_are_is_said(pages: Visitor, directory: Path) -> None:
    spoil(directory / "t-0" / LOG, 9)
    words = pages.get(f"/topics/t/partitions/0/files/{LOG}/batch?position=0").words
    assert "its header says" in words and "None can be shown" in words


def test_the_header_of_few_bytes_is_shown_as_far_as_it_goes() -> None:
    assert [one.name for one in header_fields(b"\0" * 13)] == ["baseOffset", "batchLength"]
    assert (batch_bytes_max(b"123"), batch_bytes_max(b"\0" * 8 + b"\xff" * 4)) == (3, 12)
    attributes = next(one for one in header_fields(b"\0" * 21 + b"\0\x3f" + b"\xff" * 38) if one.name == "attributes")
    assert attributes.meaning == "codec 7, which is not known, control, transactional, LogAppendTime"


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_log_that_was_closed_says_so_and_a_check_finds_nothing(pages: Visitor) -> None:
    words = pages.get("/damage").words
    assert "No recovery has written down any." in words and "It was closed" in words and "recovery point" in words
    assert "No problems" in pages.post("/check").words
    assert "Check of t" in pages.post("/check", {"topic": "t"}).words


def test_a_log_that_is_open_says_so(tmp_path: Path) -> None:
    with pylog.open(tmp_path / "data") as log:
        assert "was not closed" in pages_of(log).get("/damage").words


def test_known_damage_is_listed(pages: Visitor, directory: Path) -> None:
    write_damages(DiskFiles(), str(directory / "t-0"), {0: [(0, 80, 0, 2)]})
    words = pages.get("/damage").words
    assert "t-0 0 to 2 0 0 80 B" in words


def test_files_of_recovery_that_cannot_be_read_are_said(pages: Visitor, directory: Path) -> None:
    (directory / "t-0" / "pylog-damages").write_text("nonsense")
    (directory / "recovery-point-offset-checkpoint").write_text("nonsense")
    assert "recovery-point-offset-checkpoint" in pages.get("/damage").words


def test_a_check_names_each_problem_its_place_and_its_remedy(pages: Visitor, directory: Path) -> None:
    spoil(directory / "t-0" / LOG, 70)
    words = pages.post("/check").words
    assert str(directory / "t-0" / LOG) in words and "problem" in words and "1 problem and" in words


def test_one_check_runs_at_a_time(pages: Visitor, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    lock = Lock()
    with lock:
        late = damage.Check(DiskFiles(read_only=True), (str(directory),), None, lock)
        assert list(late.events()) == [] and "runs already" in late.failure
    monkeypatch.setattr("pylog.ui.application.Lock", lambda: lock)
    with pylog.open(directory, mode="read") as log:
        busy = pages_of(log)
        with lock:
            assert busy.post("/check").status == 503
        assert busy.post("/check").status == 200


def test_a_check_ends_between_two_problems_when_its_visitor_goes(directory: Path) -> None:
    running = Lock()
    events = iter(damage.Check(DiskFiles(read_only=True), (str(directory),), None, running).events())
    assert isinstance(next(events), Checked) and running.locked()
    events.close()  # type: ignore[attr-defined]
    assert not running.locked()


def test_a_check_without_problems_is_sent_in_parts(directory: Path) -> None:
    with pylog.open(directory, mode="read") as log:
        source = Source("data", log, DiskFiles(read_only=True), (str(directory),))
        check = damage.Check(DiskFiles(read_only=True), (str(directory),), None, Lock())
        parts = Pages(source, "").parts("check.html", {"path": "/check"}, check=check, topic=None)
        while not check._running.locked():
            next(parts)
        assert next(parts).strip() == "" and check._running.locked()
        parts.close()  # type: ignore[attr-defined]
        assert not check._running.locked()


def test_a_disk_that_fails_ends_a_check_and_is_said(directory: Path) -> None:
    check = damage.Check(DiskFiles(read_only=True), (str(directory),), None, Lock())
    check._paths = (str(directory / "none"),)
    assert list(check.events()) == [] and "there is no log directory" in check.failure
