"""Reading a segment in which headers alone do not tell what lies there: what is lost is named, and nothing else is."""

import pytest

from pylog.config import TopicConfig
from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import Record, walk
from pylog.protocol.batch import encode
from pylog.segment import Segment
from pylog.storage.damage_search import DamageSearch, FoundDamage
from pylog.storage.file_ranges import DamagedRange
from pylog.storage.segment_reader import OFFSET_MAX

COUNT, END = 3, 18


def batch(offset: int, epoch: int = 0) -> bytearray:
    return bytearray(encode([Record(b"x")] * COUNT, now_ms=1, base_offset=offset, leader_epoch=epoch).data)


SIZE = len(batch(0))


def segment(*batches: bytearray, damages: tuple[DamagedRange, ...] = ()) -> Segment:
    files = MemoryFiles()
    made = Segment(files, "", 0, TopicConfig(), active=True, create=True)
    for one in batches:
        spans, _, _ = walk(bytes(batch(0)), check_crc=False)
        made.append(bytes(one), spans)
    made.log.damages = damages
    return made


def six() -> list[bytearray]:
    return [batch(offset) for offset in range(0, END, COUNT)]


def read(made: Segment, offset: int, *, upto: int = END, end: int = END, max_bytes: int = 1 << 20) -> tuple[int, int]:
    """The first offset that is given, and the one behind the last."""
    found = made.reader.read(offset, max_bytes, upto=upto, end=end, written=END)
    assert found is not None
    return int.from_bytes(found.data[:8], "big"), found.next_offset


def lost(made: Segment, offset: int, end: int = END) -> tuple[int, int | None, int | None]:
    with pytest.raises(CorruptBatch) as caught:
        made.reader.read(offset, 1 << 20, upto=END, end=end, written=END)
    return caught.value.offset or 0, caught.value.next_offset, caught.value.position


@pytest.mark.parametrize("length", [1 << 20, 3 * SIZE - 12, 2 * SIZE - 12, 50, 12, 0])
@pytest.mark.parametrize("end", [END, OFFSET_MAX])
def test_a_length_that_is_wrong_costs_its_own_batch(length: int, end: int) -> None:
    batches = six()
    batches[2][8:12] = length.to_bytes(4, "big")
    made = segment(*batches)
    if length not in (2 * SIZE - 12, 3 * SIZE - 12, 50):
        assert read(made, 0, end=end) == (0, 6)
        assert lost(made, 6, end) == (6, 9, 2 * SIZE)
        assert lost(made, 8, end) == (8, 9, 2 * SIZE)
    assert read(made, 9, end=end, upto=14) == (9, 15)
    assert read(made, 10, end=end, max_bytes=1) == (9, 12)
    assert read(made, 12, end=end) == (12, 18)


def test_a_last_batch_that_is_damaged_ends_with_the_segment() -> None:
    batches = six()
    batches[5][8:12] = (1 << 20).to_bytes(4, "big")
    assert lost(segment(*batches), 15) == (15, 18, 5 * SIZE)
    assert lost(segment(*batches), 15, OFFSET_MAX) == (15, 18, 5 * SIZE)
    assert segment(*batches).reader.read(15, 1, upto=15, end=END, written=END) is None


def test_a_gap_behind_a_good_batch_is_one() -> None:
    made = segment(batch(0), batch(3), batch(12), batch(15))
    assert read(made, 7) == (12, 18)
    assert made.reader.read(7, 1000, upto=9, end=END, written=END) is None
    made = segment(batch(0), batch(3))
    assert made.reader.read(7, 1000, upto=END, end=END, written=END) is None


def test_two_damaged_batches_are_two_losses() -> None:
    batches = six()
    batches[1][8:12] = (1 << 20).to_bytes(4, "big")
    batches[3][-1] ^= 1
    made = segment(*batches)
    assert [read(made, 0), lost(made, 3)[:2], read(made, 6), read(made, 12)] == [(0, 3), (3, 6), (6, 9), (12, 18)]
    assert lost(made, 9)[:2] == (9, 12)


def test_what_was_found_damaged_before_stays_so() -> None:
    batches = six()
    known = DamagedRange(3 * SIZE, 4 * SIZE, 9, 12)
    batches[1][8:12] = (1 << 20).to_bytes(4, "big")
    made = segment(*batches, damages=(known,))
    assert lost(made, 10)[:2] == (9, 12)
    assert lost(made, 3)[:2] == (3, 6)


def test_a_leader_epoch_that_sinks_costs_the_one_that_stands_out() -> None:
    batches = six()
    batches[2][12:16] = (7).to_bytes(4, "big")
    made = segment(*batches)
    assert [read(made, 0), lost(made, 6)[:2], read(made, 9)] == [(0, 6), (6, 9), (9, 18)]


def test_a_file_that_was_cut_has_lost_its_end() -> None:
    made = segment(*six()[:4])
    made.log.sealed_bytes = lambda: 6 * SIZE
    assert lost(made, 12) == (12, 18, 4 * SIZE)
    parts = list(DamageSearch(made.log, END).parts(0, 0, 100))
    assert [part for part in parts if isinstance(part, FoundDamage)] == [parts[-1]]
