"""Records become batches: by size, by time, by flushing; in order within each partition."""

from typing import Any

from pylog.client.accumulator import Accumulator
from pylog.kernel import HEADER_BYTES, OpenBatch, decode_records
from pylog.kernel.values import BatchScope
from pylog.record import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def size_of(*values: bytes) -> int:
    """How many bytes these records take in a batch."""
    batch = OpenBatch(1 << 20)
    for value in values:
        batch.add(value, None, 1)
    return batch.size - HEADER_BYTES


def add(accumulator: Accumulator, key: TopicPartition, value: bytes, tick_ms: int = 0) -> tuple[Any, bool]:
    return accumulator.add(key, value, None, 1, (), tick_ms)


def fill(accumulator: Accumulator, key: TopicPartition, *values: bytes, tick_ms: int = 0) -> list[bool]:
    return [add(accumulator, key, value, tick_ms)[1] for value in values]


def taken(accumulator: Accumulator, key: TopicPartition) -> list[list[bytes | None]]:
    batches = []
    while (batch := accumulator.take(key)) is not None:
        stream, count, base, _ = batch.close()
        records = decode_records(stream[HEADER_BYTES:], count, 0, base, None, BatchScope("t", 0, 0, 0))
        batches.append([record.value for record in records])
        accumulator.release(batch)
    return batches


def test_a_batch_is_ready_when_the_next_record_does_not_fit() -> None:
    size = size_of(b"x" * 100)
    accumulator = Accumulator(batch_size=HEADER_BYTES + 3 * size - 1, linger_ms=10)
    assert fill(accumulator, A, *[b"x" * 100] * 5) == [False, False, True, False, True]
    assert [len(batch) for batch in taken(accumulator, A)] == [2, 2]
    assert accumulator.next_due_ms == 10


def test_a_batch_is_filled_to_its_last_byte() -> None:
    size = size_of(b"x" * 100)
    accumulator = Accumulator(batch_size=HEADER_BYTES + 3 * size, linger_ms=10)
    assert fill(accumulator, A, *[b"x" * 100] * 4) == [False, False, False, True]
    assert [len(batch) for batch in taken(accumulator, A)] == [3]


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    accumulator = Accumulator(batch_size=100, linger_ms=10)
    assert fill(accumulator, A, b"a", b"x" * 500, b"b") == [False, True, True]
    accumulator.close_due()
    assert taken(accumulator, A) == [[b"a"], [b"x" * 500], [b"b"]]


def test_without_linger_a_batch_is_ready_at_once_and_open_until_it_is_taken() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0)
    assert fill(accumulator, A, b"a") == [True]
    assert fill(accumulator, B, b"d") == [True]
    assert fill(accumulator, A, b"b", b"c") == [False, False]
    assert accumulator.take(A, closed=True) is None and accumulator.ready(A) == 1
    first = accumulator.take(A)
    assert first is not None and accumulator.take(A) is None
    assert accumulator.next_due_ms is None
    assert first.close()[1] == 3 and accumulator.unanswered > {first}
    assert fill(accumulator, A, b"e") == [True]
    accumulator.release(first)
    assert taken(accumulator, A) == [[b"e"]]


def test_without_linger_a_full_batch_is_followed_by_the_next() -> None:
    accumulator = Accumulator(batch_size=HEADER_BYTES + 2 * size_of(b"x" * 100), linger_ms=0)
    assert fill(accumulator, A, *[b"x" * 100] * 5) == [True, False, True, False, True]
    assert accumulator.ready(A) == 3
    assert accumulator.close_due() == [A]
    assert [len(batch) for batch in taken(accumulator, A)] == [2, 2, 1]
    assert accumulator.bytes_waiting == 0 and not accumulator.unanswered


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


def test_bytes_are_counted_exactly_and_until_they_are_answered() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    fill(accumulator, A, b"x" * 100, b"y" * 100)
    waiting = accumulator.bytes_waiting
    assert waiting == size_of(b"x" * 100, b"y" * 100)
    assert not accumulator.unanswered
    accumulator.close_due()
    batch = accumulator.take(A)
    assert batch is not None and accumulator.bytes_waiting == waiting and accumulator.unanswered == {batch}
    assert len(batch.close()[0]) == HEADER_BYTES + waiting
    accumulator.release(batch)
    assert accumulator.bytes_waiting == 0 and accumulator.take(A) is None and not accumulator.unanswered


def test_futures_are_numbered_within_their_batch() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    futures = [add(accumulator, A, b"x")[0] for _ in range(3)]
    accumulator.close_due()
    batch = accumulator.take(A)
    assert batch is not None
    batch.delivery.complete(100)
    assert [future.result(0).offset for future in futures] == [100, 101, 102]


def test_a_route_has_the_open_batch_of_each_partition_there_is() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=10)
    route = accumulator.route("t", 1)
    fill(accumulator, A, b"a")
    fill(accumulator, B, b"b")
    assert [batch is not None and batch.key for batch in route.batches] == [A]
    assert accumulator.route("t", 3) is route
    assert [batch and batch.key for batch in route.batches] == [A, B, None]
    assert accumulator.route("t", 1).batches[0] is not None
    accumulator.close_due()
    assert accumulator.route("t", 2).batches == [None, None]
    assert taken(accumulator, B) == [[b"b"]]


def test_keyless_records_stick_to_a_partition_after_hidden_routes() -> None:
    """Every transaction hides them at its end, and each small one went to a partition of its own."""
    accumulator = Accumulator(batch_size=1000, linger_ms=0)
    chosen = set()
    for _ in range(50):
        chosen.add(accumulator.route("t", 100).sticky.partition(100))
        accumulator.hide()
    assert len(chosen) == 1
