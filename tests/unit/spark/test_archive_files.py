"""What an archive promises of its files, without Spark's processes."""

import os
from dataclasses import replace
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
from pylog.spark.sink.staging import LEFT_MS
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


def test_a_file_that_is_neither_staged_nor_in_its_place_is_an_error_each_time(tmp_path: Path) -> None:
    folder, commits = Folder(str(tmp_path)), Commits(Folder(str(tmp_path)), ARCHIVE)
    file = staged()
    made = commit(file)
    folder.write(made.staged(file), b"x")
    commits.add(made)
    commits.settle(made)
    for damage in ("", "another size"):
        (tmp_path / file.name).write_text(damage) if damage else (tmp_path / file.name).unlink()
        for _ in range(2):
            with pytest.raises(StorageError, match=rf"{file.name} of commit 1 is neither there, .* nor staged as"):
                commits.settle(made)
    # What a later commit, which has found this one whole, has put into its place is not its own.
    later = staged("2024-05-02")
    following = replace(commit(later), number=2)
    folder.write(following.staged(later), b"x")
    commits.add(following)
    commits.settle(made)


def test_of_two_runs_that_commit_one_number_one_has_an_error(tmp_path: Path) -> None:
    """And what both have staged goes with their own end alone."""
    folder, commits = Folder(str(tmp_path)), Commits(Folder(str(tmp_path)), ARCHIVE)
    file = staged()
    with pytest.raises(StorageError, match="another run has committed meanwhile"), commits.run() as slow:
        with commits.run() as quick:
            for run in (slow, quick):
                folder.write(f"{STAGED}/{run}/{file.staged}", b"x")
            commits.add(replace(commit(file), run=quick))
        assert folder.folders(STAGED) == [slow]
        commits.add(replace(commit(file), run=slow))
    assert folder.folders(STAGED) == [] and folder.has(file.name)
    last = commits.last()
    assert last is not None and last.run == quick


def test_a_commit_never_takes_the_place_of_another(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.create("_commits/1.json", b"one")
    with pytest.raises(FileExistsError):
        folder.create("_commits/1.json", b"two")
    assert folder.read("_commits/1.json") == b"one" and folder.names("_commits") == ["1.json"]
    # A file system in memory has no links, as stores behind a URI.
    store = Folder("mock://somewhere")
    store.create("_commits/1.json", b"one")
    with pytest.raises(FileExistsError, match=r"1\.json is there"):
        store.create("_commits/1.json", b"two")
    assert store.read("_commits/1.json") == b"one" and store.names("_commits") == ["1.json"]


def test_a_run_that_ends_in_an_error_keeps_what_its_last_commit_needs(tmp_path: Path) -> None:
    folder, commits = Folder(str(tmp_path)), Commits(Folder(str(tmp_path)), ARCHIVE)
    file = staged()
    (tmp_path / "day=2024-05-01").write_text("in the way")
    with pytest.raises(OSError, match="day=2024-05-01"), commits.run() as run:
        folder.write(f"{STAGED}/{run}/{file.staged}", b"x")
        commits.add(replace(commit(file), run=run))
    assert folder.folders(STAGED) == [run]
    (tmp_path / "day=2024-05-01").unlink()
    last = commits.last()
    assert last is not None
    commits.settle(last)
    assert folder.has(file.name)


def test_what_a_killed_run_has_staged_goes_a_week_later(tmp_path: Path) -> None:
    folder, commits = Folder(str(tmp_path)), Commits(Folder(str(tmp_path)), ARCHIVE)
    folder.write(f"{STAGED}/killed/one.parquet", b"x")
    folder.write(f"{STAGED}/lives/one.parquet", b"x")
    os.utime(tmp_path / STAGED / "killed" / "one.parquet", (0, 1_000))
    commits.remove_left(1_000_000 + LEFT_MS)
    assert folder.folders(STAGED) == ["killed", "lives"]
    commits.remove_left(1_000_001 + LEFT_MS)
    assert folder.folders(STAGED) == ["lives"]


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
