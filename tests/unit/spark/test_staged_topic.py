"""What a driver asks servers for: what tasks have staged, once and in the order of the messages; where topics end."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pylog
from pylog.config import ProducerConfig
from pylog.errors import NotLeaderOrFollower, StorageError
from pylog.spark.sink import reach, staged_topic
from pylog.spark.sink.staged_topic import STAGED_PARTITIONS, STAGED_TOPIC, StagedRecords, TopicStage
from pylog.spark.sink.staging import Staged
from pylog.testing import StandIn

Batches = list[tuple[str, int, bytes]]


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        yield log


def stage(log: pylog.Log, tasks: int, batches: int) -> tuple[list[Staged], Batches]:
    """What tasks have staged that ran at the same time: their messages, and their batches in that order."""
    stages = [TopicStage(log, ProducerConfig(), "query", task) for task in range(tasks)]
    given: list[Batches] = [[] for _ in stages]
    for number in range(batches):
        # Those that began last come first.
        for task in reversed(range(tasks)):
            batch = bytearray(b"%d-%d " % (task, number) * 20)
            stages[task].put(f"t{task}", number, batch)
            given[task].append((f"t{task}", number, bytes(batch)))
    return [one.done(batches) for one in stages], [batch for some in given for batch in some]


def test_mixed_batches_come_in_the_order_of_messages_and_are_read_once(log: pylog.Log) -> None:
    messages, expected = stage(log, STAGED_PARTITIONS * 3, batches=5)
    assert list(StagedRecords(log).batches(messages)) == expected
    metrics = log.metrics()
    assert metrics.total("BytesOutPerSec", topic=STAGED_TOPIC) == metrics.total("Size", topic=STAGED_TOPIC)


@pytest.mark.parametrize("held", [0, 150, 700, 1500])
def test_batches_that_do_not_fit_are_read_again(log: pylog.Log, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(staged_topic, "HELD_BYTES", held)
    messages, expected = stage(log, STAGED_PARTITIONS * 4, batches=6)
    assert list(StagedRecords(log).batches(messages)) == expected


def test_messages_that_are_not_of_the_commit_are_passed_over(log: pylog.Log) -> None:
    messages, expected = stage(log, STAGED_PARTITIONS * 2, batches=2)
    with log.producer() as producer:
        producer.send(STAGED_TOPIC, b"of someone else", partition=0)
    later, behind = stage(log, STAGED_PARTITIONS, batches=1)
    kept = [messages[0], messages[STAGED_PARTITIONS], *later, Staged("query", "", 0, 0, 0)]
    found = list(StagedRecords(log).batches(kept))
    assert found == [batch for batch in expected if batch[0] in ("t0", f"t{STAGED_PARTITIONS}")] + behind


def test_batches_that_are_gone_are_an_error(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_topic, "_PATIENCE_MS", 10)
    messages, _ = stage(log, 1, batches=2)
    more = Staged("query", messages[0].unique, 3, 3, messages[0].size, place=messages[0].place)
    with pytest.raises(StorageError, match="has staged 3, and there is 2 batches now"):
        list(StagedRecords(log).batches([more]))


def test_offsets_are_asked_for_again_until_a_new_topic_has_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_RETRY_INTERVAL_MS", 1)
    at = pylog.TopicPartition("new", 0)
    with StandIn() as kafka, pylog.connect(kafka.bootstrap_servers) as log:
        log.create_topic("new")
        kafka.fail("ListOffsets", NotLeaderOrFollower, times=3)
        assert reach.offsets_of(log, [at], "latest") == {at: 0}
        kafka.fail("ListOffsets", NotLeaderOrFollower, times=None)
        with pytest.raises(NotLeaderOrFollower):
            reach.offsets_of(log, [at], "latest")
