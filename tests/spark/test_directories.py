"""A log of several directories: all of them are read and written, and a part is refused."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import pylog
from pylog import Record, errors
from pylog.spark.options.write import parse_write
from pylog.spark.pipelines.archive import archive
from pylog.spark.pipelines.cdc import cdc
from pylog.spark.pipelines.compact import compact
from pylog.spark.pipelines.mirror import mirror
from pylog.spark.pipelines.restore import restore
from pylog.spark.sink.commit import Write, commit
from pylog.spark.sink.staging import Staged
from pylog.spark.versions import HAS_LIMITS
from support.command_line import Run, run

__all__ = ["run"]

PARTITIONS = 4
ALL = "open the log with all of its directories"
FIRST = "whose first directory is missing"


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """A log in two directories, with half of the partitions of each topic in either."""
    found = [str(tmp_path / "disk one" / "a"), str(tmp_path / "b")]
    with pylog.open(found, flush="none") as log:
        for name in ("in", "out"):
            log.create_topic(name, PARTITIONS)
    send(found, 0, 40)
    with pylog.open(found, mode="read") as log:
        assert {Path(part.path).parent for part in log.topic("in")} == {*map(Path, found)}
    return found


def send(paths: Sequence[str], first: int, end: int) -> None:
    with pylog.open(paths, flush="none") as log:
        for number in range(first, end):
            log.topic("in")[number % PARTITIONS].append([Record(b"%d" % number, b"k%d" % number, timestamp=number)])


def values(paths: Sequence[str], topic: str = "out") -> list[int]:
    with pylog.open(paths, mode="read") as log:
        found = [part.records(isolation_level="read_committed") for part in log.topic(topic)]
        return sorted(int(record.value or b"") for records in found for record in records)


def several(paths: Sequence[str]) -> dict[str, str]:
    return {"paths": json.dumps(list(paths))}


def stream(spark: SparkSession, place: dict[str, str], tmp_path: Path) -> DataFrame:
    state = {} if HAS_LIMITS else {"stateLocation": str(tmp_path / "state")}
    return spark.readStream.format("pylog").options(**{"subscribe": "in", **state, **place}).load()


def write(frame: DataFrame, place: dict[str, str], tmp_path: Path) -> None:
    writer = frame.select("key", "value").writeStream.format("pylog").options(topic="out", **place)
    writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()


def test_a_batch_reads_and_writes_all_directories(spark: SparkSession, paths: list[str]) -> None:
    frame = spark.read.format("pylog").option("subscribe", "in").load(paths)
    assert sorted((row.partition, int(row.value)) for row in frame.collect()) == sorted(
        (number % PARTITIONS, number) for number in range(40)
    )
    assert spark.read.format("pylog").option("subscribe", "in").load(paths[::-1]).count() == 40
    writer = frame.select("value", "partition").write.format("pylog").mode("append")
    writer.options(topic="out", **several(paths)).save()
    assert values(paths) == list(range(40))
    # Each row with its own topic: the tasks look at the topics.
    writer = frame.selectExpr("value", "'out' AS topic").write.format("pylog").mode("append")
    writer.options(**several(paths)).save()
    assert values(paths) == sorted([*range(40)] * 2)


def test_a_stream_over_all_directories_is_exactly_once(spark: SparkSession, paths: list[str], tmp_path: Path) -> None:
    place = several(paths)
    frame = stream(spark, place, tmp_path)
    write(frame, place, tmp_path)
    send(paths, 40, 60)
    with pylog.open(paths):
        # Through the process that owns the directories.
        write(frame, place, tmp_path)
    assert values(paths) == list(range(60))
    # As a kill behind the sink's commit leaves it.
    (tmp_path / "cp" / "commits" / "1").unlink()
    (tmp_path / "cp" / "commits" / ".1.crc").unlink(missing_ok=True)
    send(paths, 60, 70)
    for _ in range(1 if HAS_LIMITS else 2):
        # An older Spark ends behind the batch that it runs again.
        write(frame, place, tmp_path)
    assert values(paths) == list(range(70))
    assert not list(Path(paths[0], ".pylog-staged").iterdir())
    assert not Path(paths[1], ".pylog-staged").exists()


def test_a_stream_goes_on_where_the_log_gets_a_directory(spark: SparkSession, paths: list[str], tmp_path: Path) -> None:
    state = {"stateLocation": str(tmp_path / "state")}
    write(stream(spark, several(paths) | state, tmp_path), several(paths), tmp_path)
    paths = [*paths, str(tmp_path / "c")]
    with pylog.open(paths, flush="none") as log:
        log.create_partitions("in", PARTITIONS + 2)
        for number in (40, 41):
            log.topic("in")[PARTITIONS + number - 40].append([Record(b"%d" % number)])
    write(stream(spark, several(paths) | state, tmp_path), several(paths), tmp_path)
    assert values(paths) == list(range(42))


def test_a_batch_of_one_of_several_directories_is_refused(spark: SparkSession, paths: list[str]) -> None:
    reader = spark.read.format("pylog").option("subscribe", "in")
    with pytest.raises(PySparkException, match=ALL):
        reader.load(paths[0]).collect()
    with pytest.raises(AnalysisException, match=FIRST):
        reader.load(paths[1])
    frame = spark.createDataFrame([("1", "out")], "value string, topic string")

    def save(**options: str) -> None:
        frame.write.format("pylog").mode("append").options(**options).save()

    for options in ({"path": paths[1]}, several(paths[::-1])):
        with pytest.raises(PySparkException, match=FIRST):
            save(**options)
    # A task looks at the topics of its rows; the planner looks at that of the option.
    for options in ({}, {"topic": "out"}):
        with pytest.raises(PySparkException, match=rf"out-\d is in none of {paths[0]}, but .* with id .* {ALL}"):
            save(path=paths[0], **options)
    # What was refused is nowhere, and the whole log is written as before.
    assert values(paths) == []


def test_a_stream_of_one_of_several_directories_is_refused(
    spark: SparkSession, paths: list[str], tmp_path: Path
) -> None:
    with pytest.raises(StreamingQueryException, match=ALL) as refused:
        write(stream(spark, {"path": paths[0]}, tmp_path), several(paths), tmp_path)
    assert "UnboundLocalError" not in str(refused.value)
    with pytest.raises(AnalysisException, match=FIRST):
        stream(spark, {"path": paths[1]}, tmp_path)
    for part in paths:
        with pytest.raises(StreamingQueryException, match=f"{ALL}|{FIRST}"):
            write(stream(spark, several(paths), tmp_path / "again"), {"path": part}, tmp_path / part[-1])
    assert values(paths) == []


def test_a_transaction_of_one_of_several_directories_is_refused(paths: list[str]) -> None:
    """It waited a minute for a coordinator in the other directory, where the topic itself was in the one named."""
    with (
        pylog.open(paths, flush="none") as log,
        log.producer(transactional_id="x") as producer,
        producer.transaction(),
    ):
        producer.send("out", b"0")
    outcomes = []
    for number in range(8):
        options = parse_write({"path": paths[0], "topic": "out", "kafka.max.block.ms": "3600000"})
        asked = Write(options=options, id=f"{number}", batch=None, replaces=True)
        try:
            commit(asked, [Staged(f"{number}", "", 0, 0, 0)])
        except errors.KafkaStorage as error:
            outcomes.append(str(error))
    assert any("__transaction_state-" in outcome and ALL in outcome for outcome in outcomes)


def test_jobs_take_all_directories(spark: SparkSession, paths: list[str], tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    assert archive(spark, paths, "in", lake).records == 40
    assert restore(spark, paths, lake, topic="again").records == 40
    assert values(paths, "again") == list(range(40))
    assert cdc(spark, paths, "in", str(tmp_path / "table"), parts=2).rows == 40
    assert compact(spark, paths, "in", "last").records == 40
    with pytest.raises(ValueError, match="'in' is read and written"):
        compact(spark, paths, "in", "in", to_log=paths[0])
    with pytest.raises(PySparkException, match=ALL):
        compact(spark, paths[0], "in", "last", to_log=paths)
    for job in (archive, cdc):
        with pytest.raises(errors.KafkaStorage, match=ALL):
            job(spark, paths[0], "in", str(tmp_path / job.__name__))
    if HAS_LIMITS:
        copy = [str(tmp_path / "copy"), str(tmp_path / "copy two")]
        assert mirror(spark, paths, "in", copy, checkpoint=str(tmp_path / "mirrored")).records == 40
        assert values(copy, "in") == list(range(40))


def test_the_command_names_directories_with_commas(
    spark: SparkSession, run: Run, paths: list[str], tmp_path: Path
) -> None:
    words = ("pipeline", "run", "compact", "--topic", "in", "--to", "last", "--json", "--log", ",".join(paths))
    assert run(*words).lines == ['{"job":"compact","records":40}']
    copy = [str(tmp_path / "c"), str(tmp_path / "d")]
    assert run(*words, "--to-log", ",".join(copy)).lines == ['{"job":"compact","records":40}']
    assert values(copy, "last") == list(range(40))
