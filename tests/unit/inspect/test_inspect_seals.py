"""What verify and dump say of the files that pylog puts beside Kafka's."""

import shutil
from pathlib import Path

import pytest

import pylog
from pylog.files import SMALL_BYTES_MAX, DiskFiles
from pylog.inspect import CheckpointEntry, Problem, SealEntry, dump_segment, verify
from pylog.inspect.seals import check_seal
from pylog.inspect.segments import Span
from pylog.storage.checkpoint import write_damages
from pylog.storage.segment_checksum import Identity

FILES = DiskFiles()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of one sealed segment."""
    with pylog.open(tmp_path) as log:
        log.create_topic("t", config={"index.interval.bytes": 10})
        for number in range(5):
            log.topic("t")[0].append([pylog.Record(b"%d" % number * 50)])
    return tmp_path / "t-0"


def found(folder: Path, *, harmless: bool = False) -> list[str]:
    problems = [one for one in verify(FILES, str(folder.parent)) if isinstance(one, Problem)]
    return [f"{Path(one.path).name}: {one.what}" for one in problems if one.harmless == harmless]


def change(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def name(suffix: str) -> str:
    return f"{0:020d}{suffix}"


def test_a_seal_that_fits_is_no_problem(folder: Path) -> None:
    assert found(folder) == found(folder, harmless=True) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_differs_from_its_seal_is_a_problem(folder: Path, suffix: str) -> None:
    change(folder / name(suffix), 5)
    assert f"{name(suffix)}: it has changed since its segment was sealed" in found(folder)


def test_a_sealed_log_cut_between_batches_is_a_problem(folder: Path) -> None:
    first = next(iter(dump_segment(FILES, str(folder / name(".log")))))
    size = getattr(first, "size", 0)
    with (folder / name(".log")).open("r+b") as file:
        file.truncate(size)
    assert f"{name('.log')}: it was cut: {size} bytes are left of {5 * size}" in found(folder)


def test_a_log_longer_than_its_seal_is_no_fault_of_the_seal(folder: Path) -> None:
    with (folder / name(".log")).open("ab") as file:
        file.write(b"more")
    assert not any("sealed" in line or "was cut" in line for line in found(folder))
    assert found(folder) + found(folder, harmless=True) != []


def test_a_segment_of_another_program_is_not_compared_with_the_seal(folder: Path) -> None:
    """Kafka's cleaner knows nothing of seals."""
    path = folder / name(".log")
    path.write_bytes(path.read_bytes()[:118])
    (folder / name(".index")).write_bytes(b"")
    assert not any("sealed" in line or "was cut" in line for line in found(folder))
    assert any("it speaks of another .log" in line for line in found(folder, harmless=True))


def test_a_seal_that_the_owner_removes_meanwhile_does_not_count(folder: Path) -> None:
    class Overtaken(DiskFiles):
        """The owner removes the seal, and writes, just when the index is to be read."""

        def read_file(self, path: str, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
            if path.endswith(".index"):
                (folder / name(".pylog-seal")).unlink(missing_ok=True)
                change(folder / name(".index"), 5)
            return super().read_file(path, bytes_max)

    span = Span(str(folder), 0, 0, None, None)
    whose = Identity(partition=0)
    assert [*check_seal(Overtaken(), span, whose, start=0, is_whole=True)] == []


def test_a_damaged_seal_is_ignored(folder: Path) -> None:
    change(folder / name(".pylog-seal"), 20)
    assert found(folder) == []
    assert found(folder, harmless=True) == [f"{name('.pylog-seal')}: it is damaged, and is ignored"]
    (line,) = dump_segment(FILES, str(folder / name(".pylog-seal")))
    assert isinstance(line, Problem)


def test_the_dump_of_a_seal_shows_sizes_and_crcs(folder: Path) -> None:
    (line,) = dump_segment(FILES, str(folder / name(".pylog-seal")))
    assert isinstance(line, SealEntry)
    size = (folder / name(".log")).stat().st_size
    assert line.log == (size, 0)
    said = f"partition: 0 baseOffset: 0 nextOffset: {line.next_offset} logSize: {size} indexSize: 32 indexCrc: "
    assert str(line).startswith(f"topicId: {line.topic_id} {said}")
    assert "txnindex" not in str(line)


def test_a_segment_lost_since_the_close_is_a_problem(folder: Path) -> None:
    with pylog.open(folder.parent) as log:
        log.broker.partition("t", 0).roll(0)
        log.topic("t")[0].append([pylog.Record(b"x")])
    for path in folder.glob(name("*")):
        path.unlink()
    assert f"{name('.log')}: it was there when the log was closed, and is missing" in found(folder)
    (folder.parent / ".kafka_cleanshutdown").unlink()
    assert not any("was closed" in line for line in found(folder))


def test_a_damaged_listing_is_ignored(folder: Path) -> None:
    change(folder / "pylog-listing", 20)
    assert found(folder) == []
    assert found(folder, harmless=True) == ["pylog-listing: it is damaged, and is ignored"]


def test_a_missing_partition_folder_is_a_problem(folder: Path) -> None:
    shutil.rmtree(folder)
    assert found(folder) == [
        "t-0: recovery-point-offset-checkpoint says that it had everything below offset 5, and it is missing"
    ]


def test_quarantined_offsets_are_problems(folder: Path) -> None:
    write_damages(FILES, str(folder), {0: [(100, 100, 3, 5), (200, 250, 7, 8)]})
    assert found(folder) == ["pylog-damages: nothing is left of the offsets 3 to 4, which were durable"]
    first, second = dump_segment(FILES, str(folder / "pylog-damages"))
    assert isinstance(first, CheckpointEntry) and isinstance(second, CheckpointEntry)
    assert str(second) == "baseOffset: 0 position: 200 bytes: 50 offset: 7 nextOffset: 8"


def test_a_list_of_damages_that_cannot_be_read_is_a_problem(folder: Path) -> None:
    (folder / "pylog-damages").write_text("0\n1\nnonsense\n")
    assert any(line.startswith("pylog-damages: line 3") for line in found(folder)), found(folder)
