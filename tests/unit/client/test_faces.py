"""The faces of a producer and a consumer: what a session shows of them, and which names they have."""

import pickle
from collections.abc import Iterator

import pytest

import pylog

OF_PRODUCERS = (
    "abort begin close commit config flush partitions_for send send_batch send_many send_offsets transaction".split()
)
OF_CONSUMERS = """
    assign assignment beginning_offsets close commit commit_async committed config end_offsets enforce_rebalance
    get_watermark_offsets group_metadata incremental_assign incremental_unassign lag offsets_for_times
    partitions_for_topic pause paused poll position resume seek seek_to_beginning seek_to_end skip store_offsets
    subscribe subscription topics unsubscribe wakeup
""".split()


@pytest.fixture
def log() -> Iterator[pylog.Log]:
    with pylog.open(":memory:") as log:
        log.create_topic("t", partitions=6)
        yield log


def public(of: object) -> list[str]:
    return [name for name in dir(of) if not name.startswith("_")]


def test_a_producer_and_a_consumer_have_the_names_of_users_alone(log: pylog.Log) -> None:
    with log.producer() as producer, log.consumer(group_id="g") as consumer:
        assert public(producer) == OF_PRODUCERS
        assert public(consumer) == OF_CONSUMERS


def test_a_producer_shows_its_name_its_log_and_its_end(log: pylog.Log) -> None:
    with log.producer() as plain, log.producer(transactional_id="etl") as named:
        assert repr(plain) == f"<Producer of {log}>" == "<Producer of <Log :memory: node 1, own>>"
        assert repr(named) == f"<Producer 'etl' of {log}>"
    assert repr(plain) == f"<Producer of {log}, closed>"


def test_a_consumer_shows_its_group_its_log_and_what_it_reads(log: pylog.Log) -> None:
    with log.consumer() as alone, log.consumer("t", group_id="billing") as member:
        assert repr(alone) == f"<Consumer of {log} reads nothing>"
        alone.assign([pylog.TopicPartition("t", number) for number in (1, 0)])
        assert repr(alone) == f"<Consumer of {log} reads t-0, t-1>"
        while not member.assignment():
            member.poll(timeout_ms=10)
        assert repr(member) == f"<Consumer of group 'billing' of {log} reads t-0, t-1, t-2, t-3 and 2 more>"
    assert repr(member) == f"<Consumer of group 'billing' of {log}, closed>"


def test_an_admin_shows_its_log(log: pylog.Log) -> None:
    assert repr(log.admin) == f"<Admin of {log}>"


def test_clients_and_records_take_types_in_brackets_at_run_time() -> None:
    assert pylog.Producer[str, int] and pylog.Consumer[str, int]
    assert pylog.ConsumerRecord[str, int].__origin__ is pylog.ConsumerRecord


def test_a_deserialized_record_is_pickled() -> None:
    record = pylog.DeserializedRecord("t", 0, 1, 2, 0, "key", {"a": 1}, (), 0)
    assert pickle.loads(pickle.dumps(record)) == record


def test_what_belongs_to_a_process_says_how_it_is_made_in_another(log: pylog.Log) -> None:
    """Pickling said "cannot pickle '_thread.RLock' object"."""
    with log.producer() as producer, log.consumer("t") as consumer, log.serve("127.0.0.1:0") as server:
        ways: list[tuple[object, str]] = [
            (log, "by pylog.open"), (producer, "by log.producer"), (consumer, "by log.consumer"),
            (log.admin, "as log.admin"), (server, "by pylog.connect"),
        ]  # fmt: skip
        for one, way in ways:
            with pytest.raises(TypeError, match=f"belongs to its process, and is not pickled: .* there, {way}"):
                pickle.dumps(one)
    topic = log.topic("t")
    for view in (topic, topic[0], topic.select()):
        with pytest.raises(TypeError, match="is not pickled: give the name, and open or connect to the log there"):
            pickle.dumps(view)


def test_the_next_record_of_a_consumer(log: pylog.Log) -> None:
    """`next(consumer)` was a TypeError, and loops worked."""
    log.topic("t")[0].append([pylog.Record(b"%d" % number) for number in range(3)])
    with log.consumer("t", auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer:
        assert [next(consumer).value for _ in range(2)] == [b"0", b"1"]
        assert consumer.position(pylog.TopicPartition("t", 0)) == 2
        assert [record.value for record in consumer] == [b"2"]
        with pytest.raises(StopIteration):
            next(consumer)
