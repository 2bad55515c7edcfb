"""Transactions of a producer before a real node: what is read, who is fenced, what every call says then."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, errors
from pylog.client.producer import Producer
from pylog.config import ProducerConfig
from pylog.protocol.messages import ProduceResponse
from pylog.protocol.messages.offsets import TxnOffsetCommitRequest
from pylog.protocol.messages.topics import MetadataRequest
from pylog.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from pylog.runtime.clock import SystemClock
from pylog.runtime.future import Future, completed, failed
from support.described import described
from support.messages import end_txn, fetched, init_producer_id, offset_fetch, producer_id_given, txn_ended
from support.patience import HANG_SECONDS
from support.produce import produced

NODE = 1


@pytest.fixture
def log(tmp_path: Path) -> Iterator[pylog.Log]:
    with pylog.open(tmp_path / "log", flush="none") as log:
        log.create_topic("t", partitions=2)
        yield log


def read(log: pylog.Log, isolation: str = "read_committed") -> list[bytes | None]:
    with log.consumer("t", auto_offset_reset="earliest", isolation_level=isolation, consumer_timeout_ms=0) as consumer:
        return sorted((record.value for record in consumer), key=lambda value: value or b"")


def test_committed_records_are_read_and_aborted_ones_are_not(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        for number in range(4):
            producer.begin()
            for partition in range(2):
                producer.send("t", b"%d-%d" % (number, partition), partition=partition)
            if number % 2:
                producer.flush()
                producer.abort()
            else:
                producer.commit()
    assert read(log) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    assert len(read(log, "read_uncommitted")) == 8


def test_a_block_commits_and_one_that_raises_aborts(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        with producer.transaction():
            producer.send("t", b"in")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("t", b"out")
            producer.flush()
            raise ZeroDivisionError
        with producer.transaction() as same:
            assert same is producer
    assert read(log) == [b"in"]


def test_records_not_sent_before_an_abort_fail(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl", linger_ms=60_000) as producer:
        producer.begin()
        future = producer.send("t", b"x")
        producer.abort()
        with pytest.raises(errors.TransactionAborted, match="aborted before it was sent"):
            future.result(0)
        with producer.transaction():
            assert producer.send("t", b"y") is not None
    assert read(log) == [b"y"]


def test_a_close_aborts_the_open_transaction(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        producer.begin()
        producer.send("t", b"x")
        producer.flush()
    with log.producer(transactional_id="etl") as producer, producer.transaction():
        producer.send("t", b"y")
    assert read(log) == [b"y"]


def test_a_producer_that_takes_an_id_fences_the_one_before(log: pylog.Log) -> None:
    elder = log.producer(transactional_id="etl")
    elder.begin()
    elder.send("t", b"elder")
    elder.flush()
    with log.producer(transactional_id="etl", retry_backoff_ms=1) as younger:
        with pytest.raises(errors.ProducerFenced, match="close this producer"):
            elder.commit()
        for call in (elder.begin, elder.commit, elder.abort, lambda: elder.send("t", b"more")):
            with pytest.raises(errors.ProducerFenced):
                call()
        with younger.transaction():
            younger.send("t", b"younger")
        elder.close()
    assert read(log) == [b"younger"]


def test_a_fenced_block_raises_producer_fenced_whatever_it_raised(log: pylog.Log) -> None:
    elder = log.producer(transactional_id="etl", linger_ms=0)
    with pytest.raises(errors.ProducerFenced), elder.transaction():
        elder.send("t", b"before").result(HANG_SECONDS)
        log.producer(transactional_id="etl", retry_backoff_ms=1).close()
        late = elder.send("t", b"late")
        assert isinstance(late.exception(HANG_SECONDS), errors.InvalidProducerEpoch | errors.ProducerFenced)
        late.result()
    assert read(log) == []


def test_a_record_that_fails_leaves_only_to_abort(log: pylog.Log) -> None:
    log.alter_config("t", {"max.message.bytes": 200})
    with log.producer(transactional_id="etl", linger_ms=0) as producer:
        producer.begin()
        good = producer.send("t", b"good", partition=1)
        bad = producer.send("t", b"x" * 300, partition=0)
        assert isinstance(bad.exception(HANG_SECONDS), errors.RecordTooLarge) and good.exception(HANG_SECONDS) is None
        with pytest.raises(errors.TransactionAbortable, match=r"RecordTooLarge.*abort\(\) it"):
            producer.send("t", b"after")
        with pytest.raises(errors.TransactionAbortable):
            producer.commit()
        producer.abort()
        with pytest.raises(errors.TransactionAbortable), producer.transaction():
            producer.send("t", b"again")
            producer.send("t", b"x" * 300)
        with producer.transaction():
            producer.send("t", b"last")
    assert read(log) == [b"last"]


def test_a_record_that_cannot_even_be_sent_leaves_only_to_abort(log: pylog.Log) -> None:
    """Who swallowed the error committed a transaction without that record (KafkaProducer.doSend: abortable)."""
    with log.producer(transactional_id="etl", max_request_size=1000) as producer:
        for topic, value, raises in (
            ("t", b"x" * 2000, errors.RecordTooLarge),
            ("u", b"", errors.UnknownTopicOrPartition),
        ):
            producer.begin()
            producer.send("t", b"good")
            with pytest.raises(raises):
                producer.send(topic, value)
            with pytest.raises(errors.TransactionAbortable):
                producer.commit()
            producer.abort()
        with producer.transaction():
            with pytest.raises(TypeError):
                producer.send("t", "no bytes")  # type: ignore[arg-type]
            producer.send("t", b"last")
    assert read(log) == [b"last"]


def test_nothing_joins_an_open_batch_of_a_transaction_that_can_only_be_aborted(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl", max_request_size=1000, linger_ms=60_000) as producer:
        for failing in (
            lambda: producer.send("t", b"x" * 2000), lambda: producer.send_offsets({TopicPartition("t", 0): 1}, "")
        ):  # fmt: skip
            producer.begin()
            producer.send("t", b"1")
            with pytest.raises(errors.PylogError):
                failing()
            with pytest.raises(errors.TransactionAbortable):
                producer.send("t", b"2")
            producer.abort()
    assert read(log) == []


def test_offsets_of_a_group_without_a_name_are_refused(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        producer.begin()
        with pytest.raises(errors.TransactionAbortable, match="InvalidGroupId"):
            producer.send_offsets({TopicPartition("t", 0): 1}, "")
        producer.abort()


def test_offsets_and_groups_of_another_kind_are_named(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer, producer.transaction():
        for offsets, group in (([(TopicPartition("t", 0), 1)], "g"), ({TopicPartition("t", 0): 1}, None)):
            with pytest.raises(TypeError, match=r"offsets is a dict|group is NoneType"):
                producer.send_offsets(offsets, group)  # type: ignore[arg-type]


def test_a_time_limit_without_end_is_one(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        producer.begin()
        producer.send("t", b"x")
        producer.flush(math.inf)
        producer.commit(math.inf)
    assert read(log) == [b"x"]


def test_offsets_count_with_the_transaction(log: pylog.Log) -> None:
    where = [TopicPartition("t", 0), TopicPartition("t", 1)]
    with log.producer(transactional_id="etl") as producer:
        with producer.transaction():
            producer.send_offsets({where[0]: 5, where[1]: OffsetAndMetadata(7, "note")}, "g")
            producer.send_offsets({}, "g")
        assert committed(log, "g") == {where[0]: (5, ""), where[1]: (7, "note")}
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send_offsets({where[0]: 6}, ConsumerGroupMetadata("g"))
            raise ZeroDivisionError
        assert committed(log, "g")[where[0]] == (5, "")


def test_offsets_of_which_some_were_taken_in_time_are_not_committed(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl", retry_backoff_ms=1) as producer:
        producer.begin()
        with pytest.raises(TimeoutError):
            producer.send_offsets({TopicPartition("t", 0): 3, TopicPartition("nowhere", 0): 1}, "g", timeout=0.05)
        with pytest.raises(errors.TransactionAbortable):
            producer.commit()
        producer.abort()
        assert log.admin.committed("g") == {}
        with producer.transaction():
            producer.send_offsets({TopicPartition("t", 0): 4}, "g")
    assert log.admin.committed("g")[TopicPartition("t", 0)].offset == 4


def test_offsets_of_no_member_any_more_are_refused(log: pylog.Log) -> None:
    with log.producer(transactional_id="etl") as producer:
        producer.begin()
        with pytest.raises(errors.TransactionAbortable):
            producer.send_offsets({TopicPartition("t", 0): 1}, ConsumerGroupMetadata("g", 4, "nobody"))
        producer.abort()
        producer.begin()
        with pytest.raises(TypeError, match="the offset is float, not int"):
            producer.send_offsets({TopicPartition("t", 0): 1.5}, "g")  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="offset -1 is negative"):
            producer.send_offsets({TopicPartition("t", 0): -1}, "g")
        producer.commit()


def committed(log: pylog.Log, group: str) -> dict[TopicPartition, tuple[int, str]]:
    from pylog.protocol.messages import Session

    answer = log._transport.send(log.node_id, offset_fetch(group), Session()).result(HANG_SECONDS)
    return {TopicPartition(part.topic, part.partition): (part.offset, part.metadata) for part in fetched(answer)}


def test_calls_of_transactions_need_one(log: pylog.Log) -> None:
    with log.producer() as producer:
        for call in (producer.begin, producer.commit, producer.abort, lambda: producer.send_offsets({}, "g")):
            with pytest.raises(errors.InvalidTxnState, match="make the producer with transactional_id"):
                call()
    with log.producer(transactional_id="etl") as producer:
        for call in (producer.commit, producer.abort, lambda: producer.send("t", b"x")):
            with pytest.raises(errors.InvalidTxnState, match=r"begin\(\) a transaction first"):
                call()
    for call in (producer.begin, producer.commit, producer.abort):
        with pytest.raises(errors.Closed):
            call()


def test_threads_send_in_one_transaction(log: pylog.Log) -> None:
    def send(producer: Producer, me: int) -> None:
        for number in range(200):
            producer.send("t", b"%d-%03d" % (me, number), partition=number % 2)

    with log.producer(transactional_id="etl", batch_size=500, linger_ms=1) as producer:
        for _ in range(3):
            with producer.transaction():
                threads = [threading.Thread(target=send, args=(producer, me)) for me in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(HANG_SECONDS)
    values = read(log)
    assert len(values) == 1800 and len(set(values)) == 600


def test_a_callback_must_not_end_the_transaction(log: pylog.Log) -> None:
    refused: list[str] = []
    with log.producer(transactional_id="etl") as producer:

        def end(_: object, error: object) -> None:
            for call in (producer.commit, producer.abort, lambda: producer.send_offsets({}, "g")):
                with pytest.raises(RuntimeError) as caught:
                    call()
                refused.append(str(caught.value).split()[0])

        with producer.transaction():
            producer.send("t", b"x", on_delivery=end)
            producer.flush()
    assert refused == ["commit", "abort", "send_offsets"]


# --- before a coordinator that is slow, gone or wrong -----------------------------------------------------------------


class Coordinator:
    """Answers what it was told to, one after the other, and well when there is nothing left."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.heard: list[Any] = []
        self.epoch = -1

    def handle(self, message: Any, session: object) -> Future[Any]:
        if isinstance(message, MetadataRequest):
            return completed(described(["t"], 1, NODE))
        self.heard.append(message)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Future):
            return answer
        if isinstance(answer, errors.NetworkError):
            return failed(answer)
        if isinstance(message, InitProducerIdRequest | EndTxnRequest):
            made = producer_id_given if isinstance(message, InitProducerIdRequest) else txn_ended
            self.epoch += answer is None
            return completed(made(answer, 7, self.epoch))
        if isinstance(message, TxnOffsetCommitRequest):
            return completed(message.results(dict.fromkeys(message.partitions(), answer)))
        return completed(message.with_parts([produced(0, 0, answer)]))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def producer_of(coordinator: Coordinator, **config: Any) -> Producer:
    transport = pylog.MemoryTransport()
    transport.attach(NODE, coordinator.handle)
    given = {"transactional_id": "etl", "retry_backoff_ms": 0, "linger_ms": 0, **config}
    return Producer(transport, NODE, ProducerConfig.from_kafka(given), SystemClock())


BUSY = errors.ConcurrentTransactions("an end is under way")


def test_the_coordinator_is_asked_until_it_answers(coordinator: Coordinator) -> None:
    coordinator.answers = [BUSY, errors.NetworkError("gone"), None]
    producer = producer_of(coordinator, transaction_timeout_ms=77)
    assert coordinator.heard == [init_producer_id("etl", 77)] * 3
    producer.begin()
    producer.send("t", b"x").result(HANG_SECONDS)
    coordinator.answers = [BUSY, BUSY]
    producer.commit()
    assert coordinator.heard[4:] == [end_txn("etl", 7, 0, True)] * 3
    producer.begin()
    coordinator.answers = [BUSY, errors.NetworkError("gone"), None]
    producer.send_offsets({TopicPartition("t", 0): 5}, "g")
    (topic,) = TxnOffsetCommitRequest.offsets({TopicPartition("t", 0): OffsetAndMetadata(5)})
    assert [(one.producer_epoch, one.topics) for one in coordinator.heard[7:]] == [(1, [topic])] * 3
    coordinator.answers = [errors.NetworkError("gone")]
    producer.abort()
    assert coordinator.heard[10:] == [end_txn("etl", 7, 1, False)] * 2
    producer.close()


def test_no_coordinator_in_time_is_an_error_that_says_so(coordinator: Coordinator) -> None:
    coordinator.answers = [BUSY] * 10
    with pytest.raises(errors.RequestTimedOut, match=r"be initialised in time: ConcurrentTransactions.*max_block_ms"):
        producer_of(coordinator, max_block_ms=20, retry_backoff_ms=15)
    coordinator.answers = [Future()]
    with pytest.raises(errors.RequestTimedOut, match="coordinator of 'etl' has not answered"):
        producer_of(coordinator, max_block_ms=1)
    coordinator.answers = [errors.InvalidTxnTimeout("too long")]
    with pytest.raises(errors.InvalidTxnTimeout, match=r"^too long$"):
        producer_of(coordinator)


def test_an_end_that_was_not_answered_is_asked_for_again(coordinator: Coordinator) -> None:
    producer = producer_of(coordinator)
    producer.begin()
    producer.send("t", b"x").result(HANG_SECONDS)
    coordinator.answers = [Future()]
    with pytest.raises(TimeoutError, match="could not end the transaction in time"):
        producer.commit(timeout=0.01)
    with pytest.raises(errors.InvalidTxnState, match=r"commit\(\) again to hear how it went"):
        producer.abort()
    producer.commit()
    assert coordinator.heard[2:] == [end_txn("etl", 7, 0, True)] * 2
    producer.begin()
    producer.close()


def test_a_close_without_its_coordinator_leaves_the_transaction_to_it(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    producer = producer_of(coordinator)
    producer.begin()
    producer.send("t", b"x").result(HANG_SECONDS)
    coordinator.answers = [Future()]
    producer.close(timeout=0.01)
    assert "its coordinator will do that" in caplog.text


def test_records_behind_a_failed_batch_fail_with_the_transaction(coordinator: Coordinator) -> None:
    producer = producer_of(coordinator, linger_ms=60_000, batch_size=100)
    producer.begin()
    answer: Future[ProduceResponse] = Future()
    coordinator.answers = [answer]
    first = producer.send("t", b"x" * 80)
    waiting = [producer.send("t", b"y" * 80) for _ in range(3)]
    answer.set_result(coordinator.heard[-1].refused(errors.InvalidRecord("no")))
    assert {type(future.exception(HANG_SECONDS)) for future in [first, *waiting]} == {errors.InvalidRecord}
    producer.abort()
    with producer.transaction():
        producer.send("t", b"z")
    assert [one.producer_epoch for one in coordinator.heard if isinstance(one, EndTxnRequest)] == [0, 1]
    producer.close()


@pytest.mark.parametrize("flush", ["sync", "interval", "none"])
def test_a_commit_that_has_returned_can_be_read(tmp_path: Path, flush: Any) -> None:
    with pylog.open(tmp_path / "log", flush=flush) as log:
        log.create_topic("t", partitions=3)
        with (
            log.producer(transactional_id="tx") as producer,
            log.consumer("t", isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
        ):
            for number in range(20):
                with producer.transaction():
                    producer.send("t", b"%d" % number, partition=number % 3)
                    producer.send_offsets({pylog.TopicPartition("t", 0): number}, "g")
                # All of it is there at once: nothing is waited for.
                read = [record.value for _ in range(3) for record in consumer.poll(timeout_ms=0)]
                assert read == [b"%d" % number]
                assert log.admin.committed("g")[pylog.TopicPartition("t", 0)].offset == number
