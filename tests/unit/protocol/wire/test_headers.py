import pytest

from pylog.errors import CorruptBatch
from pylog.protocol.wire.headers import read_call, read_header, response_header

RIGID = bytes.fromhex("0012 0000 00000007 0008") + b"client-1"
FLEXIBLE = bytes.fromhex("0000 000d 00000007 0008") + b"client-1" + b"\0"


def test_a_rigid_header_ends_behind_the_client_id() -> None:
    header = read_header(bytearray(RIGID + b"body"), flexible=False)

    assert header == (18, 0, 7, "client-1", len(RIGID))


def test_a_flexible_header_ends_behind_its_tags() -> None:
    tags = b"\x01\x05\x03abc"

    header = read_header(bytearray(FLEXIBLE[:-1] + tags + b"body"), flexible=True)

    assert header.client_id == "client-1"
    assert header.body_at == len(FLEXIBLE) - 1 + len(tags)


def test_a_client_without_an_id_has_the_empty_one() -> None:
    header = read_header(bytearray(bytes.fromhex("0003 0001 00000001 ffff")), flexible=False)

    assert header.client_id == ""
    assert header.body_at == 10


@pytest.mark.parametrize(
    "data",
    [
        b"",
        RIGID[:9],
        RIGID[:-1],
        bytes.fromhex("0012 0000 00000007 7fff"),
        bytes.fromhex("0012 0000 00000007 0001 ff"),
    ],
)
def test_a_header_that_is_cut_or_not_text_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_header(bytearray(data), flexible=False)


@pytest.mark.parametrize("tags", [b"", b"\x80", b"\x7f\0\0", b"\x01\0\x05ab"])
def test_tags_that_are_cut_or_too_many_are_corrupt(tags: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_header(bytearray(FLEXIBLE[:-1] + tags), flexible=True)


def test_a_call_takes_eight_bytes() -> None:
    assert read_call(bytearray(RIGID[:8])) == (18, 0, 7)
    with pytest.raises(CorruptBatch, match="7 bytes"):
        read_call(bytearray(RIGID[:7]))


def test_only_api_versions_has_no_tags_in_a_flexible_response() -> None:
    assert response_header(0, 7, flexible=True) == bytes.fromhex("00000007 00")
    assert response_header(0, 7, flexible=False) == bytes.fromhex("00000007")
    assert response_header(18, 7, flexible=True) == bytes.fromhex("00000007")
