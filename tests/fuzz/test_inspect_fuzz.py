"""Whatever the bytes are: dump and verify give values, and raise nothing."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pylog.files import MemoryFiles, join
from pylog.inspect import Problem, Totals, dump_segment, verify
from pylog.kernel import Record
from pylog.protocol.batch import encode
from pylog.protocol.compression import Codec

FOLDER = "data/topic-0"
NAMES = (
    "00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
    "00000000000000000000.txnindex", "00000000000000000000.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    "quorum-state",
)  # fmt: skip
ROOT_NAMES = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    ".pylog-published",
)


def sound_log(codec: Codec = Codec.NONE) -> bytes:
    """Three batches."""
    data = b""
    offset = 0
    for number in range(3):
        records = [Record(b"value %d" % i, b"key", 1000 + i, (("h", b"x"), ("n", None))) for i in range(number + 1)]
        batch = encode(records, now_ms=1000, codec=codec)
        batch.stamp(offset, 0)
        data += bytes(batch.data)
        offset += len(records)
    return data


def put(files: MemoryFiles, name: str, data: bytes) -> None:
    files.make_dir(FOLDER)
    files.replace_file(join("data", "meta.properties"), b"version=1\nnode.id=1\n")
    files.replace_file(name, data)


def problems_of(files: MemoryFiles) -> list[Problem]:
    events = list(verify(files, "data"))
    assert isinstance(events[-1], Totals)
    found = [event for event in events if isinstance(event, Problem)]
    assert all(problem.path.startswith("data") and problem.what and problem.what_to_do for problem in found)
    assert events[-1].problems + events[-1].notes == len(found)
    return found


@given(name=st.sampled_from(NAMES), data=st.binary(max_size=400))
def test_any_bytes_in_any_segment_file_are_dumped(name: str, data: bytes) -> None:
    files = MemoryFiles()
    put(files, join(FOLDER, name), data)
    lines = list(dump_segment(files, join(FOLDER, name), records=True))
    assert all("\n" not in str(line) for line in lines)
    problems_of(files)


@given(name=st.sampled_from(ROOT_NAMES), data=st.binary(max_size=600))
def test_any_bytes_in_the_files_of_the_directory_are_verified(name: str, data: bytes) -> None:
    files = MemoryFiles()
    put(files, join(FOLDER, "00000000000000000000.log"), sound_log())
    files.replace_file(join("data", name), data)
    problems_of(files)


@given(
    codec=st.sampled_from(Codec),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=4),
    cut=st.integers(0, 10_000),
    tail=st.binary(max_size=80),
)
def test_a_damaged_log_is_a_problem_and_not_an_exception(
    codec: Codec, flips: list[tuple[int, int]], cut: int, tail: bytes
) -> None:
    sound = sound_log(codec)
    data = bytearray(sound)
    for at, xor in flips:
        data[at % len(data)] ^= xor
    damaged = bytes(data[: cut % (len(data) + 1) or None]) + tail
    files = MemoryFiles()
    path = join(FOLDER, "00000000000000000000.log")
    put(files, path, damaged)
    list(dump_segment(files, path, records=True))
    found = problems_of(files)
    if damaged == sound:
        assert all(problem.harmless for problem in found)


@given(data=st.binary(max_size=300))
def test_senseless_records_behind_a_right_crc_are_a_problem(data: bytes) -> None:
    """The CRC vouches for the bytes, not for whoever wrote them."""
    batch = encode([Record(b"x" * max(1, len(data)))], now_ms=1000)
    raw = bytearray(batch.data)
    raw[61 : 61 + len(data)] = data
    raw = raw[: batch.size]
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    files = MemoryFiles()
    path = join(FOLDER, "00000000000000000000.log")
    put(files, path, bytes(raw))
    list(dump_segment(files, path, records=True))
    problems_of(files)


@pytest.mark.parametrize("depth", [10, 200_000])
def test_json_that_goes_too_deep_is_a_problem(depth: int) -> None:
    files = MemoryFiles()
    path = join(FOLDER, "quorum-state")
    put(files, path, b"[" * depth)
    assert any(isinstance(line, Problem) for line in dump_segment(files, path))
