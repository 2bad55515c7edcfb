"""Codecs: the frames that Kafka writes, the frames that others write, and bombs."""

import gzip
import random
import struct
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from pylog.errors import CorruptBatch, InvalidConfig
from pylog.protocol.codecs import PIECES
from pylog.protocol.compression import Codec, compress, decompress, packer, pieces, whole_records

DATA = b"".join(b"flight %d to nowhere " % number for number in range(20_000))
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
each_codec = pytest.mark.parametrize("codec", PACKED, ids=lambda codec: codec.name.lower())


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["nothing", "a byte", "much"])
def test_every_codec_decompresses_its_own_output(codec, data):
    for form in (bytes, bytearray, memoryview):
        packed = compress(codec, form(data))
        assert isinstance(packed, bytes)
        assert decompress(codec, form(packed)) == data


@pytest.mark.parametrize(
    ("codec", "levels", "wrong"),
    [
        (Codec.GZIP, (-1, 1, 9), (0, 10, -2)),
        (Codec.LZ4, (1, 8, 9, 12, 17), (0, 18)),
        (Codec.ZSTD, (-131072, -1, 0, 3, 19), (-131073, 23)),
    ],
)
def test_levels_of_each_codec_are_taken_or_refused(codec, levels, wrong):
    for level in levels:
        assert decompress(codec, compress(codec, DATA[:5000], level)) == DATA[:5000]
    for level in wrong:
        with pytest.raises(ValueError, match=str(level)):
            compress(codec, b"", level)


def test_codecs_have_kafkas_names():
    assert [Codec.parse(codec.name.lower()) for codec in Codec] == list(Codec)
    with pytest.raises(InvalidConfig, match="brotli"):
        Codec.parse("brotli")


def test_lz4_is_framed_as_kafkas_reader_demands():
    assert compress(Codec.LZ4, DATA)[:7].hex() == "04224d18604082"
    stored = compress(Codec.LZ4, b"no gain")
    assert stored == bytes.fromhex("04224d18604082") + struct.pack("<I", 7 | 1 << 31) + b"no gain" + bytes(4)


def test_snappy_is_framed_by_xerial():
    packed = compress(Codec.SNAPPY, DATA)
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    (size,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == DATA[: 32 << 10]


def test_zstd_frames_state_no_size():
    assert zstandard.get_frame_parameters(compress(Codec.ZSTD, DATA)).content_size == zstandard.CONTENTSIZE_UNKNOWN


SNAPPY = compress(Codec.SNAPPY, b"hello ")
SKIPPED = struct.pack("<II", 0x184D2A5F, 3) + b"any"
NOISE = random.Random(5).randbytes(600_000)
READ_TOO = {
    "gzip members": (Codec.GZIP, gzip.compress(b"hello ") + gzip.compress(b"you"), b"hello you"),
    "bytes behind a gzip member": (Codec.GZIP, gzip.compress(b"hello") + b"tail", b"hello"),
    "a raw snappy block": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"hello")), b"hello"),
    "xerial streams": (Codec.SNAPPY, SNAPPY + SNAPPY, b"hello hello "),
    "another xerial version": (Codec.SNAPPY, SNAPPY[:8] + struct.pack(">ii", 2, 2) + SNAPPY[16:], b"hello "),
    "bytes behind lz4's end mark": (Codec.LZ4, compress(Codec.LZ4, b"hello") + b"tail", b"hello"),
    "lz4 with checksums and content size": (
        Codec.LZ4, lz4.frame.compress(DATA, block_linked=False, block_checksum=True, content_checksum=True), DATA,
    ),
    "large lz4 blocks": (Codec.LZ4, lz4.frame.compress(DATA, block_linked=False, block_size=7), DATA),
    "zstd frames": (Codec.ZSTD, zstandard.compress(b"hello ") + compress(Codec.ZSTD, b"you"), b"hello you"),
    "zstd with content size": (Codec.ZSTD, zstandard.compress(DATA), DATA),
    "zstd with a small content": (Codec.ZSTD, zstandard.compress(b"x"), b"x"),
    "zstd with a checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(DATA), DATA),
    "zstd frames that are passed over": (Codec.ZSTD, SKIPPED + compress(Codec.ZSTD, b"hello") + SKIPPED, b"hello"),
    "empty zstd frames": (Codec.ZSTD, compress(Codec.ZSTD, b"") * 3, b""),
    "empty gzip members": (Codec.GZIP, gzip.compress(b"") * 3 + gzip.compress(b"hello"), b"hello"),
    "empty snappy blocks": (Codec.SNAPPY, SNAPPY[:16] + b"\0\0\0\1\0" * 3 + SNAPPY[16:], b"hello "),
}  # fmt: skip


@pytest.mark.parametrize("what", READ_TOO)
def test_payloads_of_other_writers_are_read(what):
    codec, packed, data = READ_TOO[what]
    assert decompress(codec, packed) == data


REFUSED = {
    "no zstd frame": (Codec.ZSTD, b"text that is long enough"),
    "the end of a zstd frame that is passed over": (Codec.ZSTD, compress(Codec.ZSTD, b"hello") + SKIPPED[:-1]),
    "a wrong zstd checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(b"")[:-1] + b"x"),
    "a reserved kind of zstd block": (Codec.ZSTD, compress(Codec.ZSTD, b"")[:-3] + b"\7\0\0"),
    "a zstd frame without a last block": (Codec.ZSTD, compress(Codec.ZSTD, b"")[:-3]),
    "a damaged lz4 block": (Codec.LZ4, compress(Codec.LZ4, bytes(1000))[:12] + bytes(20)),
    "linked lz4 blocks": (Codec.LZ4, lz4.frame.compress(DATA, block_linked=True, block_size=4)),
    "an lz4 frame of another version": (Codec.LZ4, b"\x04\x22\x4d\x18\xa0\x40\x82" + bytes(4)),
    "an lz4 dictionary": (Codec.LZ4, b"\x04\x22\x4d\x18\x61\x40\x82" + bytes(8)),
    "an lz4 block descriptor that is reserved": (Codec.LZ4, b"\x04\x22\x4d\x18\x60\x41\x82" + bytes(4)),
    "no lz4 frame": (Codec.LZ4, b"text"),
    "bytes behind a zstd frame": (Codec.ZSTD, compress(Codec.ZSTD, b"hello") + b"tail"),
    "a negative snappy block": (Codec.SNAPPY, SNAPPY[:16] + struct.pack(">i", -1)),
    "a snappy block beyond the end": (Codec.SNAPPY, SNAPPY[:16] + struct.pack(">i", 100) + SNAPPY[20:]),
    "a snappy block that claims more than a batch has": (Codec.SNAPPY, b"\xff\xff\xff\xff\x7f" + bytes(20)),
    "a snappy block that claims too much": (Codec.SNAPPY, b"\xff\xff\xff\x7f" + bytes(20)),
    "a damaged gzip trailer": (Codec.GZIP, gzip.compress(b"hello")[:-8] + bytes(8)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_payloads_that_kafka_refuses_are_refused(what):
    codec, packed = REFUSED[what]
    with pytest.raises(CorruptBatch, match=codec.name.lower()):
        decompress(codec, packed)


@each_codec
@pytest.mark.parametrize("left", [0, 1, 10, 30, -1])
def test_a_payload_that_ends_early_is_refused(codec, left):
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, DATA[:3000])[:left])


@each_codec
def test_a_payload_beyond_the_limit_is_refused(codec):
    packed = compress(codec, DATA)
    assert decompress(codec, packed, limit=len(DATA)) == DATA
    with pytest.raises(CorruptBatch, match="grows beyond"):
        decompress(codec, packed, limit=len(DATA) - 1)


# Kafka's clients have no limit to how well a record may be compressed, so what holds records is read however it grows.


def records_of(*sizes):
    """Records of zeros, as they lie in a stream: the length, zigzag and varint, then so many bytes."""
    stream = bytearray()
    for size in sizes:
        left = size << 1
        while left > 0x7F:
            stream.append(left & 0x7F | 0x80)
            left >>= 7
        stream.append(left)
        stream += bytes(size)
    return bytes(stream)


@each_codec
def test_records_are_read_however_far_they_grow(codec):
    data = records_of(3 << 20, 6, 64, 70_000, 2 << 20)
    packed = compress(codec, data)
    assert decompress(codec, packed, limit=1000, count=5) == data


@each_codec
@pytest.mark.parametrize(
    ("data", "count"),
    [
        (bytes(3 << 20), 3 << 20),
        (records_of(3 << 20, 7), 1),
        (records_of(3 << 20, 7), 3),
        (records_of(3 << 20, 7)[:-1], 2),
        (records_of(3 << 20) + b"\x80\x01", 2),
        (records_of(3 << 20) + b"\xff" * 6, 2),
        (records_of(3 << 20) + b"\x01" + bytes(9), 2),
    ],
    ids=["zeros", "one too many", "one too few", "cut", "half a length", "a long length", "a negative length"],
)
def test_a_bomb_that_is_not_records_is_refused(codec, data, count):
    with pytest.raises(CorruptBatch, match="its records"):
        decompress(codec, compress(codec, data), limit=1000, count=count)


def test_a_bomb_that_claims_one_huge_record_is_measured_before_it_is_held():
    pack = zstandard.ZstdCompressor(level=3).compressobj()
    length = (2**31 - 1) << 1
    claim = bytes([length >> shift & 0x7F | (0x80 if shift < 28 else 0) for shift in range(0, 35, 7)])
    packed = pack.compress(claim) + b"".join([pack.compress(bytes(1 << 20)) for _ in range(512)]) + pack.flush()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="ends inside"):
            decompress(Codec.ZSTD, packed, limit=1000, count=1)
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()


def test_no_stream_is_larger_than_a_batch_could_be():
    frame = compress(Codec.ZSTD, records_of(16 << 20))
    with pytest.raises(CorruptBatch, match="grows beyond 2147483647 bytes"):
        decompress(Codec.ZSTD, frame * 128, count=128)


def bomb(codec, size=1 << 30):
    block = bytes(1 << 20)
    if codec is Codec.GZIP:
        pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    else:
        pack = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join([pack.compress(block) for _ in range(size >> 20)]) + pack.flush()


def test_a_bomb_is_an_error_and_takes_little_memory():
    packed = bomb(Codec.ZSTD)
    assert len(packed) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="grows beyond"):
            decompress(Codec.ZSTD, packed)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_refused():
    with pytest.raises(CorruptBatch, match="grows beyond"):
        decompress(Codec.GZIP, bomb(Codec.GZIP, 64 << 20), limit=8 << 20)


@each_codec
@pytest.mark.parametrize("sizes", [[], [0], [5000], [5000, 1, 0, 90_000, 32 << 10, 7]])
def test_a_stream_compressed_in_parts_comes_back(codec, sizes):
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    pack = packer(codec)
    packed = b"".join([*map(bytes, map(pack.compress, parts)), bytes(pack.flush())])
    assert b"".join(pieces(codec, packed)) == b"".join(parts)


def cost(codec, packed, most):
    """The processor time that reading a payload takes in pieces of `most` bytes."""
    before = time.process_time()
    assert max((len(piece) for piece in PIECES[codec](memoryview(packed), most)), default=0) <= most
    return time.process_time() - before


def grows(codec, few, many, most=1 << 18):
    """How many times as long `many` takes as `few`, each measured when the machine was quietest, a few times."""
    least = [min(cost(codec, few, most) for _ in range(5))]
    for _ in range(4):
        least.append(cost(codec, many, most))
        yield min(least[1:]) / least[0]


LINEAR = {
    "zstd frames that are passed over": (Codec.ZSTD, struct.pack("<II", 0x184D2A50, 0), 4000),
    "empty gzip members": (Codec.GZIP, gzip.compress(b""), 1000),
}


@pytest.mark.parametrize("what", LINEAR)
def test_many_parts_of_a_payload_are_read_in_linear_time(what):
    codec, part, count = LINEAR[what]
    # Linear work takes 64 times as long, quadratic work 200 times and more.
    assert any(times < 150 for times in grows(codec, part * count, part * count * 64))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_the_input_that_is_left_is_not_copied_for_each_piece(codec):
    few, many = (compress(codec, NOISE[:300_000] * times, 1) for times in (1, 16))
    # Linear work takes 16 times as long, quadratic work 150 times.
    assert any(times < 64 for times in grows(codec, few, many, 4000))


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [1, 1000, 65_536, 262_144, 400_000, 600_000])
def test_what_does_not_shrink_comes_back_in_pieces_of_any_size(codec, size):
    assert b"".join(pieces(codec, compress(codec, NOISE[:size]))) == NOISE[:size]


@each_codec
def test_no_piece_is_large(codec):
    data = b"".join(bytes([n % 5]) * 90_000 for n in range(30))
    sizes = [len(piece) for piece in pieces(codec, compress(codec, data))]
    assert sum(sizes) == len(data) and max(sizes) <= 1 << 18


def test_a_snappy_block_is_as_large_as_it_may_be():
    packed = cramjam.snappy.compress_raw(bytes(100_000))
    assert len(b"".join(pieces(Codec.SNAPPY, bytes(packed), 100_000))) == 100_000
    with pytest.raises(CorruptBatch, match="grows beyond 99999"):
        list(pieces(Codec.SNAPPY, bytes(packed), 99_999))


def record_of(size):
    """A record of `size` bytes behind its length: zeros, as the cutting does not look into it."""
    length, n = bytearray(), size << 1
    while n > 0x7F:
        length.append(n & 0x7F | 0x80)
        n >>= 7
    length.append(n)
    return bytes(length) + bytes(size)


CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sizes", [
    [6], [6, 7, 63, 64, 8191, 8192], [3 << 20], [100, 3 << 20, 100], [1 << 20] * 5, [(1 << 20) - 3, 2 << 20, 6],
    [10] * 1000, [],
])  # fmt: skip
def test_a_stream_is_cut_between_records(codec, sizes):
    stream = b"".join(map(record_of, sizes))
    parts = list(whole_records(codec, compress(codec, stream), 3 << 20))
    assert b"".join(part for part, _ in parts) == stream
    assert sum(count for _, count in parts) == len(sizes)
    assert all(count for _, count in parts)


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_that_is_too_large_is_refused_before_it_is_held(codec):
    packed = compress(codec, record_of(6) + record_of(30 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match=r"a record has 31457280 bytes .* and 1048576 are allowed"):
            list(whole_records(codec, packed, 1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stream", [record_of(100)[:-1], record_of(3 << 20)[:-1], b"\xff", b"\x0a" + bytes(5), b"\x01"])
def test_a_stream_that_ends_inside_a_record_is_damaged(codec, stream):
    with pytest.raises(CorruptBatch, match="payload is damaged: it"):
        list(whole_records(codec, compress(codec, record_of(50) + stream), 3 << 20))
