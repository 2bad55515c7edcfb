"""Both kernels find the same batches on a walk from header to header, in a good file and in a damaged one; and what
follows on the last read is what a search finds.
"""

from collections.abc import Callable
from contextlib import suppress
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import HeaderWalk, Record, pure, read_following
from pylog.protocol.batch import encode
from pylog.storage import log_file
from pylog.storage.file_ranges import WantedBatches
from pylog.storage.log_file import LogFile

BASE = 100

BATCHES = st.lists(
    st.tuples(
        st.integers(0, 60),  # bytes of the value
        st.integers(1, 3),  # records
        st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1, 5]),  # offsets that compaction has taken away before it
        st.sampled_from([*[0] * 40, 1]),  # newer its leader epoch is than the last one's
    ),
    min_size=20,
    max_size=80,
)

PATH = "00000000000000000100.log"
FIELDS = (6, 7, 7, 10, 11, 12, 14, 15, 16, 23, 26)
"""Bytes of base offset, length, leader epoch, magic and last offset delta: what a walk goes by."""

DAMAGE = st.none() | st.tuples(st.integers(1, 40), st.sampled_from(FIELDS), st.sampled_from([1, 2, 4, 16, 128]))


def be64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def stored(batches: list[tuple[int, int, int, int]], damage: tuple[int, int, int] | None) -> tuple[MemoryFiles, int]:
    """A file of these batches, and where it ends; `damage` changes a byte of one header."""
    content, starts, end, epoch = bytearray(), [], BASE, 0
    for size, count, gap, newer in batches:
        end, epoch = end + gap, epoch + newer
        starts.append(len(content))
        rows = [Record(b"x" * size, timestamp=5)] * count
        content += encode(rows, now_ms=5, base_offset=end, leader_epoch=epoch).data
        end += count
    if damage is not None and damage[0] < len(starts):
        content[starts[damage[0]] + damage[1]] ^= damage[2]
    files = MemoryFiles()
    files.replace_file(PATH, bytes(content))
    return files, end


@given(
    batches=BATCHES, offset=st.integers(0, 120), max_bytes=st.integers(0, 9000), upto=st.integers(0, 200),
    written=st.integers(0, 200), window=st.sampled_from([3000, 1 << 20]),
    damage=DAMAGE,
)  # fmt: skip
def test_reading_finds_the_same_extent_in_both_kernels(
    batches: list[tuple[int, int, int, int]], offset: int, max_bytes: int, upto: int, written: int, window: int,
    damage: tuple[int, int, int] | None,
) -> None:  # fmt: skip
    files, end = stored(batches, damage)
    wanted = WantedBatches(min(BASE + offset, end - 1), BASE + upto, end, max_bytes, BASE + written)

    def read(walk: type[HeaderWalk]) -> object:
        with patch.object(log_file, "HeaderWalk", walk):
            log = LogFile(files, PATH, BASE)
            try:
                found = log.read(wanted, 0, expected=BASE, window=window, cuts=0)
            except CorruptBatch as error:
                return str(error)
        return found if found is None else (bytes(found.data), found.position, found.next_offset)

    assert read(HeaderWalk) == read(pure.HeaderWalk)


@given(
    batches=BATCHES, first=st.integers(0, 120), most=st.integers(0, 4000),
    max_bytes=st.sampled_from([300, 1000, 3000, 1 << 20]), seen=st.sampled_from([*[0] * 9, -3, -30]),
    is_cut=st.sampled_from([*[False] * 9, True]), more=st.sampled_from([None, 0, 50, 100, 1000, 1000]), damage=DAMAGE,
)  # fmt: skip
def test_reading_on_finds_the_same_extent_in_both_kernels(
    batches: list[tuple[int, int, int, int]], first: int, most: int, max_bytes: int, seen: int, is_cut: bool,
    more: int | None, damage: tuple[int, int, int] | None,
) -> None:  # fmt: skip
    files, end = stored(batches, damage)
    log = LogFile(files, PATH, BASE)
    with suppress(CorruptBatch):
        log.read(
            WantedBatches(min(BASE + first, end - 1), end, end, most, end), 0, expected=BASE, window=1 << 20, cuts=0
        )
    before = log.following
    offset, position, upto = before[0], before[1], end + seen
    left = log.size() - position
    log.cuts += is_cut

    def followed(read: Callable[..., tuple[memoryview, str, int, int] | None]) -> object:
        log.following = before
        window = None if more is None else lambda _, most: most + more
        found = read(log, offset, max_bytes, upto, end, end, window)
        return None if found is None else (bytes(found[0]), *found[1:], log.following)

    found = followed(read_following)
    assert found == followed(pure.read_following)
    if found is not None:
        # It needs no search, and finds the same.
        slow = log.read(
            WantedBatches(offset, upto, end, max_bytes, end), position, expected=offset, window=max_bytes, cuts=log.cuts
        )
        assert slow is not None
        assert found == (bytes(slow.data), slow.path, slow.position, slow.next_offset, log.following)
        assert left <= max_bytes or more is not None
    elif before[0] >= 0 and not is_cut and damage is None and seen == 0 and log.file.read(position, 8) == be64(offset):
        assert not 0 < left <= max_bytes
