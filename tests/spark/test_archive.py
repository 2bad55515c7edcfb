"""The jobs `archive` and `restore`, checked against pandas and the log they came from."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pandas
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pylog
from pylog import Record
from pylog.errors import OffsetOutOfRange, StorageError
from pylog.spark.folder import Folder
from pylog.spark.pipelines.archive import Archived, archive
from pylog.spark.pipelines.restore import Restored, restore

DAY_MS = 86_400_000
FIRST_MS = 1_714_521_600_000  # 2024-05-01 UTC


def append(log: pylog.Log, first: int, end: int) -> None:
    """Records of two partitions, whose days are mixed; some have no value, some no key, some headers."""
    for number in range(first, end):
        record = Record(
            None if number % 10 == 3 else b"v%d" % number,
            None if number % 10 == 4 else b"k%d" % (number % 7),
            timestamp=FIRST_MS + number % 3 * DAY_MS + number,
            headers=[("h", b"1"), ("n", None)] if number % 5 == 0 else [],
        )
        log.topic("clicks")[number % 2].append([record])


def facts(log: pylog.Log, topic: str = "clicks") -> list[tuple[object, ...]]:
    """What a restore has to bring back, in the order of offsets."""
    return [
        (partition.partition, record.key, record.value, record.timestamp, tuple(record.headers))
        for partition in log.topic(topic)
        for record in partition.records(isolation_level="read_committed")
    ]


def offsets(spark: SparkSession, path: Path) -> list[tuple[int, int]]:
    """What a reader that knows nothing of commits finds."""
    rows = spark.read.parquet(str(path)).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def test_archive_goes_on_and_restore_brings_all_back(spark: SparkSession, tmp_path: Path) -> None:
    path, lake = tmp_path / "data", tmp_path / "lake"
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks", partitions=2)
        append(log, 0, 300)
        done = archive(spark, path, "clicks", str(lake))
        assert (done.records, done.commits) == (300, 1)
        assert archive(spark, path, "clicks", str(lake)) == Archived(records=0, files=0, size=0, commits=0)
        append(log, 300, 400)
        assert archive(spark, path, "clicks", str(lake)).records == 100
        expected = log.topic("clicks").to_pandas()
        wanted = facts(log)
    found = pandas.read_parquet(lake)
    # The folder of a record is the day of its timestamp, and each record is there once.
    assert (found["timestamp"].dt.strftime("%Y-%m-%d") == found["day"].astype(str)).all()
    found = found.sort_values(["partition", "offset"], ignore_index=True)
    for column in ("key", "value", "partition", "offset"):
        assert found[column].tolist() == expected[column].tolist()
    assert (found["timestamp"] == expected["timestamp"]).all()
    assert not (lake / "_staged").exists() or not list((lake / "_staged").iterdir())

    with pylog.open(tmp_path / "new", flush="none"):
        pass
    assert restore(spark, tmp_path / "new", str(lake)) == Restored(records=400, commits=2)
    assert restore(spark, tmp_path / "new", str(lake)) == Restored(records=0, commits=0)
    with pylog.open(tmp_path / "new") as log:
        assert facts(log) == wanted
        # A restore through the owner of the directory, and under another name.
        assert restore(spark, tmp_path / "new", str(lake), topic="again").records == 400
        assert facts(log, "again") == wanted
        with pytest.raises(ValueError, match="topic 'full' has records"):
            log.create_topic("full", partitions=2)[0].append([Record(b"1")])
            restore(spark, tmp_path / "new", str(lake), topic="full")


def test_killed_archive_leaves_no_record_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lake = tmp_path / "data", tmp_path / "lake"
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks", partitions=2)
        append(log, 0, 40)
    every = [(number, offset) for number in range(2) for offset in range(20)]
    # The tasks are done, and the run ends before the commit is there: it removes what is its own.
    (lake / "_commits" / "0000000001.json").mkdir(parents=True)
    left = lake / "_staged" / ("a" * 32) / "of-another-run.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    with pytest.raises(StorageError, match="another run has committed meanwhile"):
        archive(spark, path, "clicks", str(lake))
    assert list((lake / "_staged").glob("*/*.parquet")) == [left]
    (lake / "_commits" / "0000000001.json").rmdir()
    # It is there, and the driver ends before a file is in its place.
    (lake / "day=2024-05-02").touch()
    with pytest.raises(OSError, match="day=2024-05-02"):
        archive(spark, path, "clicks", str(lake))
    (lake / "day=2024-05-02").unlink()
    assert archive(spark, path, "clicks", str(lake)).records == 0
    assert offsets(spark, lake) == every
    assert left.exists()


def test_a_run_beside_another_takes_nothing_from_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run begins and commits when the first one has staged its files."""
    path, lake = tmp_path / "data", tmp_path / "lake"
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks", partitions=2)
        append(log, 0, 40)
    create = Folder.create

    def beside(self: Folder, name: str, data: bytes) -> None:
        monkeypatch.setattr(Folder, "create", create)
        assert archive(spark, path, "clicks", str(lake)).records == 40
        create(self, name, data)

    monkeypatch.setattr(Folder, "create", beside)
    with pytest.raises(StorageError, match="another run has committed meanwhile"):
        archive(spark, path, "clicks", str(lake))
    assert offsets(spark, lake) == [(number, offset) for number in range(2) for offset in range(20)]
    assert not list((lake / "_staged").iterdir())
    assert archive(spark, path, "clicks", str(lake)).records == 0
    # A file of the last commit that somebody has removed is told by each run.
    gone = next(lake.glob("day=*/*.parquet"))
    gone.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(StorageError, match=rf"{gone.name} of commit 1 is neither there.*put back what was removed"):
            archive(spark, path, "clicks", str(lake))
    (tmp_path / "away").rename(gone)
    assert archive(spark, path, "clicks", str(lake)).records == 0


def test_restore_goes_on_behind_what_it_has_committed(spark: SparkSession, tmp_path: Path) -> None:
    path, lake, new = tmp_path / "data", tmp_path / "lake", tmp_path / "new"
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks", partitions=2)
        for part in range(2):
            append(log, part * 20, part * 20 + 20)
            archive(spark, path, "clicks", str(lake))
        wanted = facts(log)
    with pylog.open(new, flush="none"):
        pass
    lost = next(lake.glob("day=*/0000000002-*.parquet"))
    lost.rename(tmp_path / "away")
    with pytest.raises(PySparkException, match=lost.name):
        restore(spark, new, str(lake))
    (tmp_path / "away").rename(lost)
    assert restore(spark, new, str(lake)) == Restored(records=20, commits=1)
    with pylog.open(new) as log:
        assert facts(log) == wanted


def test_restore_of_an_archive_that_was_put_back_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path, lake, new, backup = tmp_path / "data", tmp_path / "lake", tmp_path / "new", tmp_path / "backup"
    with pylog.open(path, flush="none") as log, pylog.open(new, flush="none") as target:
        log.create_topic("clicks", partitions=2)
        append(log, 0, 20)
        archive(spark, path, "clicks", str(lake))
        shutil.copytree(lake, backup)
        append(log, 20, 40)
        archive(spark, path, "clicks", str(lake))
        restore(spark, new, str(lake))
        # The numbers come again, with other records.
        with pytest.raises(StorageError, match=r"commit 2 of this archive, and that is not here"):
            restore(spark, new, str(backup))
        append(log, 40, 60)
        archive(spark, path, "clicks", str(backup))
        with pytest.raises(StorageError, match=r"another one has its number.*Put back the archive"):
            restore(spark, new, str(backup))
        assert restore(spark, new, str(backup), topic="again").records == 60
        assert facts(target, "again") == facts(log)


def test_archive_says_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    path, lake = tmp_path / "data", tmp_path / "lake"
    with pylog.open(path, flush="none") as log:
        log.create_topic("clicks", partitions=2)
        log.create_topic("other")
        append(log, 0, 40)
        with pytest.raises(ValueError, match="nothing was archived yet"):
            restore(spark, path, str(lake))
        with pytest.raises(ValueError, match=r"compression is one of zstd, .*got 'zip'"):
            archive(spark, path, "clicks", str(lake), compression="zip")
        archive(spark, path, "clicks", str(lake))
        with pytest.raises(ValueError, match="an archive of clicks, not of other"):
            archive(spark, path, "other", str(lake))
        append(log, 40, 80)
        log.delete_records({pylog.TopicPartition("clicks", 0): 30})
        with pytest.raises(PySparkException, match="set failOnDataLoss"):
            archive(spark, path, "clicks", str(lake))
        assert archive(spark, path, "clicks", str(lake), fail_on_data_loss=False).records == 30
        log.delete_topic("clicks")
        log.create_topic("clicks", partitions=2)
        with pytest.raises(OffsetOutOfRange, match="topic clicks was deleted and made again"):
            archive(spark, path, "clicks", str(lake))
    commit = lake / "_commits" / "0000000002.json"
    commit.write_text(commit.read_text().replace("day=2024-05-01/", "day=2024-05-01/../../"))
    with pytest.raises(StorageError, match=r"0000000002\.json is not a commit of an archive"):
        archive(spark, path, "clicks", str(lake))
