"""What a reader of committed records is given of a fetch, batch by batch."""

import pytest

from pylog.kernel import Record
from pylog.protocol.batch import Batch, encode
from pylog.protocol.isolation import Isolation, VisibleBatches
from support.partition_log import NOW, marker


def at(offset: int, batch: Batch) -> Batch:
    batch.stamp(offset, 0)
    return batch


def data(offset: int, producer_id: int) -> Batch:
    records = [Record(b"x", timestamp=NOW)]
    return at(
        offset,
        encode(records, now_ms=NOW, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True),
    )


def test_names_are_kafkas() -> None:
    assert Isolation.named("read_committed") is Isolation.READ_COMMITTED
    with pytest.raises(ValueError, match="isolation_level is 'serializable'"):
        Isolation.named("serializable")


def test_aborted_batches_are_left_out_until_their_marker() -> None:
    delivery = VisibleBatches([(7, 2)])
    batches = [
        data(0, 7), data(1, 8), data(2, 7), data(3, 8), at(4, marker(8, commit=False)), data(5, 7),
        at(6, marker(7, commit=False)), data(7, 7),
    ]  # fmt: skip
    assert [delivery.gives(batch) for batch in batches] == [True, True, False, True, False, False, False, True]


def test_a_marker_that_commits_ends_no_abort() -> None:
    delivery = VisibleBatches([(7, 0)])
    assert [delivery.gives(batch) for batch in (data(0, 7), at(1, marker(7, commit=True)), data(2, 7))] == [False] * 3
