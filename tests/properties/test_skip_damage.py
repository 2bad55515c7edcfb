"""A log with one damaged byte: what lies in another batch is read, once and in order, and `skip()` goes past the rest.

The base offset and the leader epoch are left alone: no checksum covers them, so a change may say something else that is
possible.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pylog
from pylog.errors import CorruptBatch
from pylog.protocol.batch import split

T0 = pylog.TopicPartition("t", 0)
LENGTH, MAGIC, CRC, LAST_DELTA, RECORDS = 8, 16, 17, 23, 61

BATCHES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([10, 10, 10, 300])), min_size=8, max_size=40)
PLACES = st.one_of(
    st.sampled_from([*range(LENGTH, 12), MAGIC, CRC, *range(LAST_DELTA, 27)]), st.integers(RECORDS, RECORDS + 40)
)


class Damaged(NamedTuple):
    """A log directory with a damaged batch: the offsets before it, those of it, and those behind it."""

    path: Path
    damage: Callable[[], None]
    lost: range
    end: int

    @property
    def kept(self) -> list[int]:
        return [offset for offset in range(self.end) if offset not in self.lost]


def made(path: Path, interval: int, batches: list[tuple[int, int]]) -> int:
    """Write a log of several segments into `path`; gives where it ends."""
    config = {"index.interval.bytes": interval, "segment.ms": 1}
    with pylog.open(path, flush="none") as log:
        partition = log.create_topic("t", config=config)[0]
        for number, (count, size) in enumerate(batches):
            # Each time that has passed begins a segment.
            partition.append([pylog.Record(b"x" * size, timestamp=10 * (number // 10))] * count)
        return partition.next_offset


def batches_of(path: Path) -> Iterator[tuple[Path, int, int, range]]:
    """Each batch of a log: its file, where it lies, its bytes and its offsets."""
    for file in sorted(path.glob("t-0/*.log")):
        position = 0
        for batch in split(file.read_bytes()):
            yield file, position, batch.size, range(batch.base_offset, batch.next_offset)
            position += batch.size


def damaged(path: Path, end: int, number: int, place: int, change: int, swallowed: int) -> Damaged:
    """A log and what damages it: a changed byte of one batch, or a length that leads behind those that follow it."""
    batches = list(batches_of(path))
    number %= len(batches)
    file, position, size, lost = batches[number]
    following = [one[2] for one in batches[number + 1 :] if one[0] == file][:swallowed]

    def damage() -> None:
        with file.open("r+b") as opened:
            if following:
                opened.seek(position + LENGTH)
                opened.write((size + sum(following) - 12).to_bytes(4, "big"))
            else:
                opened.seek(position + min(place, size - 1))
                byte = opened.read(1)[0]
                opened.seek(-1, 1)
                opened.write(bytes([byte ^ change]))

    return Damaged(path, damage, lost, end)


def given_by(consumer: pylog.Consumer, log: Damaged) -> list[int]:
    """The offsets of all records that a consumer gives, past all that is damaged."""
    found: list[int] = []
    skipped = 0
    for _ in range(1000):
        if consumer.position(T0) == log.end:
            break
        try:
            found += [record.offset for record in consumer.poll(0)]
        except CorruptBatch as error:
            assert error.offset == consumer.position(T0) and error.next_offset is not None, error
            assert log.lost.start <= error.offset < error.next_offset <= log.lost.stop, error
            consumer.skip()
            skipped += 1
    assert 1 <= skipped <= 2, "a last offset that is too low shows with the next one"
    return found


@pytest.mark.parametrize("interval", [0, 4096])
@settings(max_examples=settings.default.max_examples // 3)
@given(
    batches=BATCHES, number=st.integers(0, 40), place=PLACES, change=st.integers(1, 255),
    swallowed=st.sampled_from([0, 0, 1, 2]), mode=st.sampled_from(["own", "read"]), is_open=st.booleans(),
    most=st.sampled_from([1, 1000, 1 << 20]),
)  # fmt: skip
def test_every_intact_batch_is_read_past_damage(
    interval: int, batches: list[tuple[int, int]], number: int, place: int, change: int, swallowed: int, mode: str,
    is_open: bool, most: int,
) -> None:  # fmt: skip
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = damaged(path, made(path, interval, batches), number, place, change, swallowed)
        if not is_open:
            found.damage()
        log = stack.enter_context(pylog.open(path, mode=mode))  # type: ignore[call-overload]
        if is_open:
            found.damage()
        configs = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": most}
        consumer = stack.enter_context(log.consumer(**configs))
        consumer.assign([T0])
        assert given_by(consumer, found) == found.kept
        assert [one.offset for one in log.topic("t").records(on_damage="skip")] == found.kept
