"""Records become batches: by size, by time, by flushing; in order within each partition."""

from pylog.accumulator import Accumulator, Row, record_size
from pylog.record import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def row(value: bytes) -> Row:
    return (value, None, 1, ())


def fill(accumulator: Accumulator, key: TopicPartition, *values: bytes, tick_ms: int = 0) -> list[bool]:
    return [accumulator.add(key, row(value), record_size(row(value)), tick_ms)[1] for value in values]


def taken(accumulator: Accumulator, key: TopicPartition) -> list[list[bytes | None]]:
    batches = []
    while (batch := accumulator.take(key)) is not None:
        batches.append([value for value, *_ in batch.rows])
        accumulator.release(batch)
    return batches


def test_a_batch_is_ready_when_the_next_record_does_not_fit() -> None:
    size = record_size(row(b"x" * 100))
    accumulator = Accumulator(batch_size=61 + 3 * size - 1, linger_ms=10)
    assert fill(accumulator, A, *[b"x" * 100] * 5) == [False, False, True, False, True]
    assert [len(batch) for batch in taken(accumulator, A)] == [2, 2]
    assert accumulator.next_due_ms == 10


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    accumulator = Accumulator(batch_size=100, linger_ms=10)
    assert fill(accumulator, A, b"a", b"x" * 500, b"b") == [False, True, False]
    accumulator.close_due()
    assert taken(accumulator, A) == [[b"a"], [b"x" * 500], [b"b"]]


def test_without_linger_every_record_is_ready() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0)
    assert fill(accumulator, A, b"a", b"b") == [True, True]
    assert taken(accumulator, A) == [[b"a"], [b"b"]]
    assert accumulator.next_due_ms is None


def test_batches_fall_due_in_the_order_in_which_they_were_opened() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    fill(accumulator, A, b"a", tick_ms=0)
    fill(accumulator, B, b"b", tick_ms=4)
    fill(accumulator, A, b"c", tick_ms=9)
    assert accumulator.next_due_ms == 10
    assert accumulator.close_due(9) == []
    assert accumulator.close_due(10) == [A]
    assert accumulator.next_due_ms == 14
    assert set(accumulator.close_due()) == {A, B}
    assert taken(accumulator, A) == [[b"a", b"c"]] and taken(accumulator, B) == [[b"b"]]


def test_bytes_are_counted_until_they_are_answered() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    fill(accumulator, A, b"x" * 100, b"y" * 100)
    waiting = accumulator.bytes_waiting
    assert waiting == 2 * record_size(row(b"x" * 100))
    accumulator.close_due()
    batch = accumulator.take(A)
    assert batch is not None and accumulator.bytes_waiting == waiting
    accumulator.release(batch)
    assert accumulator.bytes_waiting == 0 and accumulator.take(A) is None


def test_futures_are_numbered_within_their_batch() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    futures = [accumulator.add(A, row(b"x"), 30, 0)[0] for _ in range(3)]
    accumulator.close_due()
    batch = accumulator.take(A)
    assert batch is not None
    batch.delivery.complete(100)
    assert [future.result(0).offset for future in futures] == [100, 101, 102]
