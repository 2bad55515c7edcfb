"""Both kernels find the same batches on a walk from header to header, in a good file and in a damaged one."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from pylog import logfile
from pylog.batch import encode
from pylog.errors import CorruptBatch
from pylog.files import MemoryFiles
from pylog.kernel import HeaderWalk, Record, pure
from pylog.logfile import LogFile
from pylog.slices import Wanted

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

FIELDS = (6, 7, 7, 10, 11, 12, 14, 15, 16, 23, 26)
"""Bytes of base offset, length, leader epoch, magic and last offset delta: what a walk goes by."""


@given(
    batches=BATCHES, offset=st.integers(0, 120), max_bytes=st.integers(0, 9000), upto=st.integers(0, 200),
    written=st.integers(0, 200), window=st.sampled_from([3000, 1 << 20]),
    damage=st.none() | st.tuples(st.integers(1, 40), st.sampled_from(FIELDS), st.sampled_from([1, 2, 4, 16, 128])),
)  # fmt: skip
def test_reading(
    batches: list[tuple[int, int, int, int]], offset: int, max_bytes: int, upto: int, written: int, window: int,
    damage: tuple[int, int, int] | None,
) -> None:  # fmt: skip
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
    files.replace_file("00000000000000000100.log", bytes(content))
    wanted = Wanted(min(BASE + offset, end - 1), BASE + upto, end, max_bytes, BASE + written)

    def read(walk: type[HeaderWalk]) -> object:
        with patch.object(logfile, "HeaderWalk", walk):
            log = LogFile(files, "00000000000000000100.log", BASE)
            try:
                found = log.read(wanted, 0, expected=BASE, window=window)
            except CorruptBatch as error:
                return str(error)
        return found if found is None else (bytes(found.data), found.position, found.next_offset)

    assert read(HeaderWalk) == read(pure.HeaderWalk)
