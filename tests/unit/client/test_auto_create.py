"""`allow.auto.create.topics` in process: a topic is made where its client and its node want that."""

import logging
from collections.abc import Iterator

import pytest

import pylog
from pylog import TopicPartition
from pylog.errors import InvalidTopic, KafkaStorage, UnknownTopicOrPartition


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:", config={"num.partitions": 3}) as log:
        yield log


def test_a_producer_makes_no_topic_by_default(log: pylog.Log) -> None:
    with log.producer() as producer, pytest.raises(UnknownTopicOrPartition):
        producer.send("t", b"x")
    assert log.topics() == []


def test_a_producer_makes_the_topic_of_its_first_record_where_it_may(log: pylog.Log) -> None:
    with log.producer(allow_auto_create_topics=True) as producer:
        producer.send("t", b"x", partition=2).result()
    assert len(log.topic("t")) == 3


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_consumer_makes_the_topics_that_it_subscribes_to(
    log: pylog.Log, group_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with log.consumer("t", "u", group_id=group_id, allow_auto_create_topics=True) as consumer:
        consumer.poll(timeout_ms=100)
        assert len(consumer.assignment()) == 6
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_consumer_makes_the_topics_of_partitions_that_it_is_assigned(log: pylog.Log) -> None:
    with log.consumer(allow_auto_create_topics=True) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(UnknownTopicOrPartition, match="it has 3, from 0 on"):
            consumer.assign([TopicPartition("t", 3)])
    assert log.topics() == ["t"]


def test_a_pattern_makes_nothing(log: pylog.Log) -> None:
    with log.consumer(allow_auto_create_topics=True) as consumer:
        consumer.subscribe(pattern="t|u")
        assert (consumer.poll(), log.topics()) == ([], [])


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_topic_of_a_pattern_that_is_deleted_stays_so(log: pylog.Log, group_id: str | None) -> None:
    log.create_topic("t")
    with log.consumer(group_id=group_id, allow_auto_create_topics=True, metadata_max_age_ms=1) as consumer:
        consumer.subscribe("u")
        consumer.subscribe(pattern="t+")
        consumer.poll(timeout_ms=100)
        log.delete_topic("t")
        for _ in range(5):
            consumer.poll(timeout_ms=20)
        assert log.topics() == ["u"]
        consumer.assign([TopicPartition("v", 0)])
    assert log.topics() == ["u", "v"]


def test_a_node_that_makes_no_topics_has_the_last_word() -> None:
    with (
        pylog.open(":memory:", config={"auto.create.topics.enable": False}) as log,
        log.producer(allow_auto_create_topics=True) as producer,
        pytest.raises(UnknownTopicOrPartition),
    ):
        producer.send("t", b"x")


@pytest.mark.parametrize(("name", "error"), [("no such name", InvalidTopic), ("__share_group_state", None)])
def test_what_cannot_be_made_is_an_error(log: pylog.Log, name: str, error: type[Exception] | None) -> None:
    with log.producer(allow_auto_create_topics=True) as producer:
        with pytest.raises(error or UnknownTopicOrPartition):
            producer.send(name, b"x")
        producer.send("t", b"x").result()
    assert log.topics(internal=True) == ["t"]


def test_a_topic_that_cannot_be_stored_says_why(log: pylog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise KafkaStorage("the disk is full")

    monkeypatch.setattr(log.broker.node.changes, "create_topic", full)
    with log.producer(allow_auto_create_topics=True) as producer, pytest.raises(KafkaStorage, match="is full"):
        producer.send("t", b"x")


def test_a_topic_that_another_client_makes_meanwhile_is_as_good(
    log: pylog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = log.broker.node.changes
    create = changes.create_topic

    def late(*given: object) -> None:
        create(*given)
        create(*given)

    monkeypatch.setattr(changes, "create_topic", late)
    with log.producer(allow_auto_create_topics=True) as producer:
        assert producer.send("t", b"x").result().offset == 0
