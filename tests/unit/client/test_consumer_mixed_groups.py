"""Consumers of both protocols in one group: what somebody sees that moves from the one to the other (KIP-848)."""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import pylog
from pylog import Consumer, Record, TopicPartition

KEYS = [TopicPartition("t", number) for number in range(6)]
RECORDS = 20


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as opened:
        opened.create_topic("t", partitions=len(KEYS))
        fill(opened)
        yield opened


def fill(log: pylog.Log) -> None:
    for partition in log.topic("t"):
        partition.append([Record(b"%d" % i, timestamp=1000 + i) for i in range(RECORDS)])


def member(log: pylog.Log, protocol: str, **config: str) -> Consumer:
    return log.consumer("t", group_id="g", group_protocol=protocol, auto_offset_reset="earliest", **config)


def until(found: list[tuple[int, int]], holds: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll in turn until that holds; what comes is put to what was found."""
    deadline = time.monotonic() + 60
    while not holds():
        for consumer in consumers:
            found += [(record.partition, record.offset) for record in consumer.poll(0)]
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]


def are_shared(*consumers: Consumer) -> Callable[[], bool]:
    def holds() -> bool:
        owned = [consumer.assignment() for consumer in consumers]
        share = len(KEYS) // len(consumers)
        return Counter(key for mine in owned for key in mine) == Counter(KEYS) and {*map(len, owned)} == {share}

    return holds


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("first", ["classic", "consumer"])
@pytest.mark.parametrize("stays", ["classic", "consumer"])
def test_consumers_of_both_protocols_share_and_each_record_comes_once(
    log: pylog.Log, strategy: str, first: str, stays: str
) -> None:
    second = "consumer" if first == "classic" else "classic"
    more = {"classic": {"partition_assignment_strategy": strategy}, "consumer": {}}
    with member(log, first, **more[first]) as one, member(log, second, **more[second]) as two:
        found: list[tuple[int, int]] = []
        until(found, are_shared(one), one)
        until(found, are_shared(one, two), one, two)
        group = log.admin.describe_group("g")
        assert (group.type, sorted(found.upgraded or False for found in group.members)) == ("Consumer", [False, True])
        fill(log)
        until(found, lambda: len(found) == 2 * RECORDS * len(KEYS), one, two)
        left, gone = (one, two) if stays == first else (two, one)
        gone.close()
        until(found, are_shared(left), left)
        assert log.admin.describe_group("g").type == stays.capitalize()
        fill(log)
        until(found, lambda: len(found) == 3 * RECORDS * len(KEYS), left)
    assert Counter(found) == Counter((key.partition, i) for key in KEYS for i in range(3 * RECORDS))
