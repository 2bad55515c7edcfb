"""What a seal says of a segment's files, and when it says nothing."""

import os
import resource
import struct
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c

from pylog.errors import DiskFull
from pylog.files import DiskFiles, MemoryFiles
from pylog.storage.segment_checksum import (
    NOBODY,
    NOT_YET,
    Identity,
    Mark,
    Seal,
    SealFile,
    mark,
    mark_of_log,
    read_seal,
    write_seal,
)

WHOSE = Identity(UUID(int=7), 3)
SEAL = Seal(WHOSE, 5, 12, Mark(1000, 9), 1_700_000_000_000, Mark(16, 1), Mark(24, 2), Mark(-1, 0))
EMPTY = Seal(NOBODY, 6, 6, Mark(0, 0), NOT_YET, Mark(0, 0), Mark(0, 0), Mark(0, 0))


def sealed() -> bytearray:
    files = MemoryFiles()
    write_seal(files, "seal", SEAL)
    return bytearray(files.read_file("seal"))


def read(content: bytes) -> Seal | None:
    files = MemoryFiles()
    files.replace_file("seal", content)
    return read_seal(files, "seal")


def signed(body: bytes) -> bytes:
    return body + struct.pack("<I", crc32c(body))


def test_a_seal_is_read_back_and_replaced_by_a_second_one() -> None:
    files = MemoryFiles()
    assert read_seal(files, "seal") is None
    write_seal(files, "seal", SEAL).close()
    assert read_seal(files, "seal") == SEAL
    write_seal(files, "seal", EMPTY).close()
    assert read_seal(files, "seal") == EMPTY


def test_a_mark_is_of_the_present_bytes() -> None:
    files = MemoryFiles()
    assert mark(files, "index") == Mark(-1, 0)
    files.replace_file("index", b"abc")
    assert mark(files, "index") == mark_of_log(files, "index") == Mark(3, crc32c(b"abc"))


@pytest.mark.parametrize("bit", range(0, 8 * 108, 31))
def test_a_flipped_bit_says_nothing(bit: int) -> None:
    content = sealed()
    content[bit // 8] ^= 1 << bit % 8
    assert read(bytes(content)) is None


def test_half_a_seal_says_nothing() -> None:
    content = bytes(sealed())
    assert read(content) == SEAL
    assert [read(content[:size]) for size in range(len(content))] == [None] * len(content)


@pytest.mark.parametrize(("position", "value"), [(0, b"QYLOGSEA"), (8, b"\x01\0\0\0")])
def test_a_seal_of_another_version_is_ignored(position: int, value: bytes) -> None:
    body = sealed()[:-4]
    body[position : position + len(value)] = value
    assert read(signed(bytes(body))) is None


@pytest.mark.parametrize(("base_offset", "said"), [(5, SEAL), (6, None)])
def test_the_seal_of_another_base_offset_says_nothing(base_offset: int, said: Seal | None) -> None:
    files = MemoryFiles()
    files.replace_file("6.pylog-seal", bytes(sealed()))
    seal = SealFile(files, lambda suffix: f"6{suffix}", WHOSE, base_offset, is_new=False)
    assert seal.read(1000, is_rewritten=False) == seal.known() == said
    assert not seal.is_anothers()


@pytest.mark.parametrize("room", [0, 50])
def test_a_seal_that_cannot_be_written_keeps_no_descriptor(tmp_path: Path, room: int) -> None:
    files, before = DiskFiles(), len(os.listdir("/dev/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(DiskFull):
            write_seal(files, str(tmp_path / "seal"), SEAL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(os.listdir("/dev/fd")) == before
