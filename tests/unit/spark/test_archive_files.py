"""What an archive promises of its files, without Spark's processes."""

from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pyarrow as pa

from pylog.errors import StorageError
from pylog.spark.folder import Folder
from pylog.spark.pipelines.commits import ARCHIVE, STAGED, Commit, Commits, DataFile, Piece
from pylog.spark.pipelines.days import by_day
from pylog.spark.pipelines.topics import check_apart
from pylog.spark.stream_offsets import StreamOffsets

DAY_US = 86_400_000_000


def commit(*files: DataFile) -> Commit:
    return Commit(
        number=1, id=uuid4().hex, read="clicks", run=uuid4().hex, offsets=StreamOffsets({}, {}), partitions={},
        pieces=(Piece(len(files), files),),
    )  # fmt: skip


def staged(name: str = "2024-05-01") -> DataFile:
    return DataFile(f"day={name}/0000000001-00000-00.parquet", f"{uuid4().hex}.parquet", 1)


def test_a_commit_whose_staged_file_is_missing_is_refused(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    there, missing = staged("2024-05-01"), staged("2024-05-02")
    made = commit(there, missing)
    folder.write(made.staged(there), b"x")

    with pytest.raises(StorageError, match=f"{missing.staged} was staged and is not there"):
        Commits(folder, ARCHIVE).add(made)

    assert Commits(folder, ARCHIVE).last() is None
    assert folder.has(made.staged(there)) and not folder.has(there.name)


def test_a_look_at_the_last_commit_moves_and_removes_nothing(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    file = staged()
    made = commit(file)
    folder.write(made.staged(file), b"x")
    Commits(folder, ARCHIVE).add(made)
    folder.write(f"{STAGED}/{made.run}/of-the-next-commit.parquet", b"y")

    last = Commits(folder, ARCHIVE).last()

    assert last is not None and last.files == [file] and folder.has(file.name)
    assert folder.names(f"{STAGED}/{made.run}") == ["of-the-next-commit.parquet"]


def test_records_are_cut_by_day_in_their_order_also_beyond_the_year_9999() -> None:
    times = [DAY_US, 0, DAY_US + 1, 50_000 * 365 * DAY_US, 1]
    batch = pa.record_batch({"timestamp": pa.array(times, pa.timestamp("us", tz="UTC")), "n": list(range(5))})

    found = {day: records.column("n").to_pylist() for day, records in by_day(batch)}

    assert found.pop("1970-01-01") == [1, 4] and found.pop("1970-01-02") == [0, 2]
    ((far, numbers),) = found.items()
    assert numbers == [3] and len(far.partition("-")[0]) >= 5


def test_a_topic_that_is_read_and_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'b' is read and written"):
        check_apart(str(tmp_path), "a, b", None, ["b"])
    check_apart(str(tmp_path), "a, b", None, ["c"])
    check_apart(str(tmp_path), "a, b", str(tmp_path / "other"), ["b"])
