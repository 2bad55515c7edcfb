"""Random histories of a stream: Spark's KafkaSourceStressSuite and the stress test of KafkaDontFailOnDataLossSuite."""

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="SPARK TESTS SKIPPED: pip install pyspark pandas pyarrow")

import pylog
from pylog import TopicPartition
from support.stream_query import Query, append

STEPS = 60
LIMITS = {"maxOffsetsPerTrigger": "7", "minPartitions": "3"}


class History:
    """Appends numbers here and there, and keeps which of them are still in the log."""

    def __init__(self, log: pylog.Log, seed: int) -> None:
        self.log = log
        self.draw = random.Random(seed)
        self.next = 0
        self.lost: set[int] = set()
        self._in: dict[str, list[int]] = {}
        self.add_topic()

    def add_topic(self) -> None:
        name = f"t-{len(self._in)}"
        self.log.create_topic(name, self.draw.randint(1, 2))
        self._in[name] = []

    def add_partition(self) -> None:
        name = self.draw.choice(self.log.topics())
        self.log.create_partitions(name, len(self.log.topic(name)) + 1)

    def append(self) -> None:
        name = self.draw.choice(self.log.topics())
        values = list(range(self.next, self.next + self.draw.randint(1, 12)))
        self.next = values[-1] + 1
        append(self.log, name, *values, partition=self.draw.randrange(len(self.log.topic(name))))
        self._in[name] += values

    def make_again(self) -> None:
        name = self.draw.choice(self.log.topics())
        self.lost |= set(self._in[name])
        self._in[name] = []
        self.log.delete_topic(name)
        self.log.create_topic(name, self.draw.randint(1, 2))

    def trim(self) -> None:
        name = self.draw.choice(self.log.topics())
        partition = self.draw.choice(list(self.log.topic(name)))
        offset = self.draw.randint(partition.start_offset, partition.high_watermark)
        self.lost |= {int(record.value or b"") for record in partition.records(end=offset)}
        self.log.delete_records({TopicPartition(name, partition.partition): offset})


def fail_in_a_batch(query: Query) -> None:
    """A run whose batch is planned, and not read. The next run does the same one."""
    query.plan()
    query.restart()


@pytest.mark.parametrize("seed", range(4))
def test_each_record_comes_once_while_topics_and_partitions_are_added(tmp_path: Path, seed: int) -> None:
    with pylog.open(tmp_path / "data", flush="none") as log:
        history = History(log, seed)
        query = Query(log, subscribePattern="t-.*", **LIMITS)
        steps = [history.append] * 4 + [query.trigger] * 3 + [query.restart, lambda: fail_in_a_batch(query)]
        for _ in range(STEPS):
            history.draw.choice([*steps, history.add_topic, history.add_partition])()
        query.run()
        assert sorted(value for batch in query.batches for value in batch) == list(range(history.next))


@pytest.mark.parametrize("seed", range(4))
def test_no_record_comes_twice_while_topics_and_records_are_deleted(tmp_path: Path, seed: int) -> None:
    with pylog.open(tmp_path / "data", flush="none") as log:
        history = History(log, seed)
        query = Query(log, subscribePattern="t-.*", failOnDataLoss="false", **LIMITS)
        steps = [history.append] * 4 + [query.trigger] * 3 + [query.restart, lambda: fail_in_a_batch(query)]
        for _ in range(STEPS):
            history.draw.choice([*steps, history.make_again, history.trim, history.add_partition])()
        query.run()
        found = sorted(value for batch in query.batches for value in batch)
        assert found == sorted(set(found))
        assert set(range(history.next)) - history.lost <= set(found), "what is in the log was read"
